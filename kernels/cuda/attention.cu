/* attention.cu - multi-head attention of one tile of queries a block, and its gradient of one tile
 * of queries or of keys. Of sequences that differ in length there are blocks for the longest; those
 * behind the end of a shorter one leave at once.
 *
 * A block goes through all tiles of the other side in their order, so sums have a fixed order and
 * no part of the softmax leaves the chip (Dao et al. 2022). Forward keeps the largest score and the
 * sum of exponentials of each query so far, and corrects what it has when a larger one comes.
 * Backward has lse, and makes the softmax twice: blocks of queries add up dq, and leave the inner
 * product of dy and y of each query in `inner`; after them blocks of keys add up dk and dv. Nothing
 * is added in memory.
 *
 * 16 x 16 threads stand on a tile of scores: a thread has rows ty + 16 r and columns tx + 16 c of
 * it, and of tiles [EDGE,D] the same rows and D / 16 columns. Rows of scores are made and read by
 * the same half of a warp. All is computed in f32.
 *
 * Also what cuDNN's plans read besides: where sequences lie, and masks. */
#include "kernels/cuda/attention.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/drop.h"

constexpr int SIDE = 16, ATTENTION_THREADS = SIDE * SIDE, REST_ROWS = 16;
constexpr unsigned ALL = 0xffffffffu;

/* For heads of up to D channels. */
template <int D> struct Tiles {
    static constexpr int EDGE = D > 64 ? 16 : 32, OWN = EDGE / SIDE, COLUMNS = D / SIDE,
                         SPAN = COLUMNS < 4 ? COLUMNS : 4, STRIDE = D + 4;
};

template <int D> struct __align__(16) Tile
{
    float at[Tiles<D>::EDGE][Tiles<D>::STRIDE]; /* so that 16 rows at a column lie in all banks */
};
template <int D> struct Scores {
    float at[Tiles<D>::EDGE][Tiles<D>::EDGE + 1];
};

struct HeadPlace { /* of a block */
    int n, head, first, length;
    int64_t row, lse, lse_step; /* the sequence's first of all tensors, and of lse */
};

template <int D> static __device__ __forceinline__ HeadPlace head_place(const AttentionPass &p)
{
    const int tiles = (p.length + Tiles<D>::EDGE - 1) / Tiles<D>::EDGE,
              sequence = (int)blockIdx.x / tiles;
    HeadPlace h;
    h.n = sequence / p.heads;
    h.head = sequence % p.heads;
    h.first = (int)blockIdx.x % tiles * Tiles<D>::EDGE;
    h.length = p.starts ? p.starts[h.n + 1] - p.starts[h.n] : p.length;
    h.row = p.starts ? p.starts[h.n] : (int64_t)h.n * p.length;
    h.lse = p.starts ? h.row * p.heads + h.head : (int64_t)sequence * p.positions;
    h.lse_step = p.starts ? p.heads : 1;
    return h;
}

/* Column j of a thread's in a tile [EDGE,D]. */
template <int D> static __device__ __forceinline__ int own_column(int tx, int j)
{
    constexpr int SPAN = Tiles<D>::SPAN;
    return j / SPAN * SPAN * SIDE + tx * SPAN + j % SPAN;
}

/* Positions from first on; zero behind the last, and past the head's width. */
template <typename T, int D>
static __device__ __forceinline__ void load_tile(Tile<D> *tile, const AttentionPass &p,
                                                 const void *from, int cp, int channel,
                                                 const HeadPlace &h, int first)
{
    constexpr int V = vector_channels<T>, VECTORS = D / V;
    const T *at = static_cast<const T *>(from) + h.row * cp + channel;
    for (int i = (int)threadIdx.x; i < Tiles<D>::EDGE * VECTORS; i += ATTENTION_THREADS) {
        const int row = i / VECTORS, column = i % VECTORS * V;
        uint4 raw = make_uint4(0, 0, 0, 0);
        if (first + row < h.length && column < p.width)
            raw = vector_load(
                reinterpret_cast<const uint4 *>(at + (int64_t)(first + row) * cp + column));
        vector_widen<T>(raw, &tile->at[row][column]);
    }
}

/* out[r][c] = the inner product of row ty + 16 r of a and row tx + 16 c of b */
template <int D>
static __device__ __forceinline__ void inner_products(float (*out)[Tiles<D>::OWN], const Tile<D> &a,
                                                      const Tile<D> &b, int tx, int ty)
{
    constexpr int OWN = Tiles<D>::OWN;
#pragma unroll
    for (int i = 0; i < OWN * OWN; i++) out[i / OWN][i % OWN] = 0.0f;
#pragma unroll 2
    for (int k = 0; k < D; k += 4)
#pragma unroll
        for (int i = 0; i < OWN * OWN; i++)
#pragma unroll
            for (int v = 0; v < 4; v++)
                out[i / OWN][i % OWN] =
                    fmaf(a.at[ty + i / OWN * SIDE][k + v], b.at[tx + i % OWN * SIDE][k + v],
                         out[i / OWN][i % OWN]);
}

/* sums[r][j] += row ty + 16 r of scores times column j of the thread's in b */
template <int D>
static __device__ __forceinline__ void add_products(float (*sums)[Tiles<D>::COLUMNS],
                                                    const Scores<D> &scores, const Tile<D> &b,
                                                    int tx, int ty)
{
#pragma unroll 2
    for (int k = 0; k < Tiles<D>::EDGE; k++)
#pragma unroll
        for (int r = 0; r < Tiles<D>::OWN; r++) {
            const float s = scores.at[ty + r * SIDE][k];
#pragma unroll
            for (int j = 0; j < Tiles<D>::COLUMNS; j++)
                sums[r][j] = fmaf(s, b.at[k][own_column<D>(tx, j)], sums[r][j]);
        }
}

template <typename T, int D>
static __device__ __forceinline__ void store_rows(const AttentionPass &p, void *to, int cp,
                                                  int channel, const HeadPlace &h,
                                                  const float (*rows)[Tiles<D>::COLUMNS],
                                                  float factor, int tx, int ty)
{
    T *at = static_cast<T *>(to) + h.row * cp + channel;
#pragma unroll
    for (int r = 0; r < Tiles<D>::OWN; r++)
#pragma unroll
        for (int j = 0; j < Tiles<D>::COLUMNS; j++) {
            const int position = h.first + ty + r * SIDE, column = own_column<D>(tx, j);
            if (position < h.length && column < p.width)
                vector_store_element(at + (int64_t)position * cp + column, rows[r][j] * factor);
        }
}

static __device__ __forceinline__ int part_channel(const AttentionPass &p, int part, int head)
{
    return (part * p.heads + head) * p.width;
}

static __device__ __forceinline__ float sum_of_row(float v)
{
#pragma unroll
    for (int o = SIDE / 2; o > 0; o >>= 1) v += __shfl_xor_sync(ALL, v, o);
    return v;
}

/* ---- dropout ---- */

static __device__ __forceinline__ DropAddress address_now(DropAddress d, const float *scalars)
{
    if (!scalars) return d;
    d.step = drop_word((double)scalars[SCALAR_STEP_LOW], (double)scalars[SCALAR_STEP_HIGH]);
    d.first_place =
        drop_word((double)scalars[SCALAR_PLACE_LOW], (double)scalars[SCALAR_PLACE_HIGH]);
    return d;
}

/* Of key 0 of a query; four keys are drawn at once. */
static __device__ __forceinline__ uint32_t first_draw(const AttentionPass &p, int head, int query)
{
    const uint32_t blocks = (uint32_t)(p.length + 3) / 4;
    return ((uint32_t)head * (uint32_t)p.length + (uint32_t)query) * blocks;
}

static __device__ __forceinline__ float kept(const AttentionPass &p, const DropAddress &d,
                                             const HeadPlace &h, int query, int key)
{
    if (!p.scalars) return 1.0f;
    float factors[4];
    drop_factors(&d, h.n, first_draw(p, h.head, query) + (uint32_t)key / 4, factors);
    return key % 4 < 2 ? (key % 4 ? factors[1] : factors[0])
                       : (key % 4 == 3 ? factors[3] : factors[2]);
}

/* ---- forward ---- */

template <int OWN, int COLUMNS> struct Softmax { /* of a thread's rows, so far */
    float most[OWN], sum[OWN], y[OWN][COLUMNS];
};

/* Takes a tile of scores, of keys from first on, and leaves its exponentials, dropped. */
template <int D>
static __device__ __forceinline__ void take_scores(const AttentionPass &p, const DropAddress &drop,
                                                   const HeadPlace &h, int first,
                                                   const float (*raw)[Tiles<D>::OWN],
                                                   Scores<D> *scores,
                                                   Softmax<Tiles<D>::OWN, Tiles<D>::COLUMNS> *s,
                                                   int tx, int ty)
{
    constexpr int OWN = Tiles<D>::OWN;
#pragma unroll
    for (int r = 0; r < OWN; r++) {
        float most = s->most[r], e[OWN], sum = 0.0f;
#pragma unroll
        for (int c = 0; c < OWN; c++) {
            e[c] = first + tx + c * SIDE < h.length ? raw[r][c] * p.scale : -INFINITY;
            most = e[c] > most ? e[c] : most;
        }
#pragma unroll
        for (int o = SIDE / 2; o > 0; o >>= 1) {
            const float other = __shfl_xor_sync(ALL, most, o);
            most = other > most ? other : most;
        }
        const float correction = expf(s->most[r] - most);
#pragma unroll
        for (int c = 0; c < OWN; c++) {
            const int query = h.first + ty + r * SIDE, key = first + tx + c * SIDE;
            e[c] = expf(e[c] - most);
            sum += e[c];
            scores->at[ty + r * SIDE][tx + c * SIDE] = e[c] * kept(p, drop, h, query, key);
        }
        s->sum[r] = s->sum[r] * correction + sum_of_row(sum);
        s->most[r] = most;
#pragma unroll
        for (int j = 0; j < Tiles<D>::COLUMNS; j++) s->y[r][j] *= correction;
    }
}

template <typename T, int D>
static __global__ void __launch_bounds__(ATTENTION_THREADS, 2)
    attention_kernel(const AttentionPass p, const DropAddress address)
{
    constexpr int EDGE = Tiles<D>::EDGE, OWN = Tiles<D>::OWN, COLUMNS = Tiles<D>::COLUMNS;
    __shared__ Tile<D> q, k, v;
    __shared__ Scores<D> scores;
    const int tx = (int)threadIdx.x % SIDE, ty = (int)threadIdx.x / SIDE;
    const HeadPlace h = head_place<D>(p);
    const DropAddress drop = address_now(address, p.scalars);
    if (h.first >= h.length) return; /* the whole block */
    Softmax<OWN, COLUMNS> s = {};
#pragma unroll
    for (int r = 0; r < OWN; r++) s.most[r] = -INFINITY;
    load_tile<T, D>(&q, p, p.qkv, p.qkv_cp, part_channel(p, 0, h.head), h, h.first);
    for (int first = 0; first < h.length; first += EDGE) {
        float raw[OWN][OWN];
        load_tile<T, D>(&k, p, p.qkv, p.qkv_cp, part_channel(p, 1, h.head), h, first);
        load_tile<T, D>(&v, p, p.qkv, p.qkv_cp, part_channel(p, 2, h.head), h, first);
        __syncthreads();
        inner_products<D>(raw, q, k, tx, ty);
        take_scores<D>(p, drop, h, first, raw, &scores, &s, tx, ty);
        __syncwarp();
        add_products<D>(s.y, scores, v, tx, ty);
        __syncthreads(); /* before the next tile overwrites this one */
    }
#pragma unroll
    for (int r = 0; r < OWN; r++) {
        const int query = h.first + ty + r * SIDE;
        const float inverse = 1.0f / s.sum[r];
        if (p.lse && tx == 0 && query < h.length)
            p.lse[h.lse + query * h.lse_step] = s.most[r] + logf(s.sum[r]);
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) s.y[r][j] *= inverse;
    }
    store_rows<T, D>(p, p.y, p.y_cp, h.head * p.width, h, s.y, 1.0f, tx, ty);
}

/* ---- backward ---- */

/* inner of the block's queries, from the tiles of dy and y. */
template <int D>
static __device__ __forceinline__ void write_inner(const HeadPlace &h, const Tile<D> &dy,
                                                   const Tile<D> &y, float *to, int tx, int ty)
{
#pragma unroll
    for (int r = 0; r < Tiles<D>::OWN; r++) {
        const int row = ty + r * SIDE;
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < Tiles<D>::COLUMNS; j++) {
            const int column = own_column<D>(tx, j);
            sum = fmaf(dy.at[row][column], y.at[row][column], sum);
        }
        sum = sum_of_row(sum);
        if (tx == 0 && h.first + row < h.length) to[(h.first + row) * h.lse_step] = sum;
    }
}

/* What the block's rows are: queries, whose dq is made, or keys, whose dk and dv are. a1, a2: q, dy
 * of the rows, or k, v; b1, b2: k, v of the columns, or q, dy. */
template <typename T, int D, bool KEYS>
static __global__ void __launch_bounds__(ATTENTION_THREADS, 2)
    attention_bwd_kernel(const AttentionPass p, const DropAddress address)
{
    constexpr int EDGE = Tiles<D>::EDGE, OWN = Tiles<D>::OWN, COLUMNS = Tiles<D>::COLUMNS;
    __shared__ Tile<D> a1, a2, b1, b2;
    __shared__ Scores<D> kept_scores, slopes;
    const int tx = (int)threadIdx.x % SIDE, ty = (int)threadIdx.x / SIDE;
    const HeadPlace h = head_place<D>(p);
    const DropAddress drop = address_now(address, p.scalars);
    const int q = part_channel(p, 0, h.head), k = part_channel(p, 1, h.head),
              v = part_channel(p, 2, h.head), y = h.head * p.width;
    if (h.first >= h.length) return; /* the whole block */
    const void *second = KEYS ? p.qkv : p.dy, *other = KEYS ? p.dy : p.qkv;
    float d1[OWN][COLUMNS] = {}, d2[OWN][COLUMNS] = {};
    load_tile<T, D>(&a1, p, p.qkv, p.qkv_cp, KEYS ? k : q, h, h.first);
    load_tile<T, D>(&a2, p, second, KEYS ? p.qkv_cp : p.y_cp, KEYS ? v : y, h, h.first);
    if (!KEYS) {
        load_tile<T, D>(&b1, p, p.made, p.y_cp, y, h, h.first);
        __syncthreads();
        write_inner<D>(h, a2, b1, p.inner + h.lse, tx, ty);
        __syncthreads(); /* what tx == 0 wrote is read below, and b1 overwritten */
    }
    for (int first = 0; first < h.length; first += EDGE) {
        float s[OWN][OWN], dp[OWN][OWN];
        load_tile<T, D>(&b1, p, p.qkv, p.qkv_cp, KEYS ? q : k, h, first);
        load_tile<T, D>(&b2, p, other, KEYS ? p.y_cp : p.qkv_cp, KEYS ? y : v, h, first);
        __syncthreads();
        inner_products<D>(s, a1, b1, tx, ty);
        inner_products<D>(dp, a2, b2, tx, ty);
#pragma unroll
        for (int i = 0; i < OWN * OWN; i++) {
            const int row = ty + i / OWN * SIDE, column = tx + i % OWN * SIDE,
                      query = KEYS ? first + column : h.first + row,
                      key = KEYS ? h.first + row : first + column;
            float e = 0.0f, slope = 0.0f;
            if (query < h.length && key < h.length) {
                const float f = kept(p, drop, h, query, key);
                const int64_t at = h.lse + query * h.lse_step;
                e = expf(s[i / OWN][i % OWN] * p.scale - p.lse[at]);
                slope = e * (dp[i / OWN][i % OWN] * f - p.inner[at]);
                e *= f;
            }
            slopes.at[row][column] = slope;
            if (KEYS) kept_scores.at[row][column] = e;
        }
        __syncwarp();
        add_products<D>(d1, slopes, b1, tx, ty);
        if (KEYS) add_products<D>(d2, kept_scores, b2, tx, ty);
        __syncthreads(); /* before the next tiles overwrite these */
    }
    store_rows<T, D>(p, p.dqkv, p.qkv_cp, KEYS ? k : q, h, d1, p.scale, tx, ty);
    if (KEYS) store_rows<T, D>(p, p.dqkv, p.qkv_cp, v, h, d2, 1.0f, tx, ty);
}

/* ---- behind the last sequence ---- */

template <typename T>
static __global__ void __launch_bounds__(ATTENTION_THREADS) zero_rest_kernel(const AttentionPass p)
{
    const int end = p.starts[p.n], width = p.dqkv ? p.qkv_cp : p.y_cp;
    T *const to = static_cast<T *>(p.dqkv ? p.dqkv : p.y);
    for (int row = end + (int)blockIdx.x; row < p.positions; row += (int)gridDim.x) {
        for (int i = (int)threadIdx.x; i < width; i += ATTENTION_THREADS)
            vector_store_element(to + (int64_t)row * width + i, 0.0f);
        for (int i = (int)threadIdx.x; !p.dqkv && p.lse && i < p.heads; i += ATTENTION_THREADS)
            p.lse[(int64_t)row * p.heads + i] = 0.0f;
    }
}

/* ---- what cuDNN reads besides ---- */

/* Before 9.25 cuDNN is not made for sequences without positions (cudnn-frontend's issue 943). In
 * the place of one it gets another of the batch once more, which writes the same numbers twice. */
static __device__ __forceinline__ int stand_in(const AttentionPass &p, int n)
{
    int other = n;
    while (other > 0 && p.starts[other + 1] == p.starts[other]) other--;
    while (other < p.n - 1 && p.starts[other + 1] == p.starts[other]) other++;
    return other;
}

static __device__ __forceinline__ int length_of(const AttentionPass &p, int n)
{
    return p.starts ? p.starts[n + 1] - p.starts[n] : p.length;
}

/* Where there are no positions at all, the one that is nobody's is each sequence's. */
static __global__ void __launch_bounds__(ATTENTION_THREADS)
    places_kernel(const AttentionPass p, const AttentionExtra e)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), part = i / e.places_row,
              n = i % e.places_row, width = p.heads * p.width;
    if (part >= e.parts || n > e.n) return;
    const int sequence = part * e.n + n, other = n < e.n ? stand_in(p, sequence) : sequence,
              start = p.starts[other];
    int32_t *to = e.places + (int64_t)part * 4 * e.places_row + n;
    if (n < e.n) to[0] = max(length_of(p, other), 1);
    to[e.places_row] = start * 3 * width;
    to[2 * e.places_row] = start * width;
    to[3 * e.places_row] = start * p.heads;
}

/* A thread has eight keys of a query. Nothing is drawn behind the end of a sequence, where cuDNN
 * has no weights. */
template <typename T>
static __global__ void __launch_bounds__(ATTENTION_THREADS)
    mask_kernel(const AttentionPass p, const AttentionExtra e, const DropAddress address, int part)
{
    constexpr int KEYS = 8;
    const int vectors = e.mask_row / KEYS;
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, row = i / vectors;
    const int key = (int)(i % vectors) * KEYS, query = (int)(row % p.length),
              head = (int)(row / p.length % p.heads);
    const int64_t n = row / p.length / p.heads;
    if (n >= e.n) return;
    const int own = part * e.n + (int)n, sequence = p.starts ? stand_in(p, own) : own,
              length = length_of(p, sequence);
    const DropAddress drop = address_now(address, p.scalars);
    float factors[KEYS] = {};
    for (int k = 0; k < KEYS; k += 4)
        if (query < length && key + k < length)
            drop_factors(&drop, sequence, first_draw(p, head, query) + (uint32_t)(key + k) / 4,
                         factors + k);
    T *to = static_cast<T *>(e.mask) + i * KEYS;
#pragma unroll
    for (int k = 0; k < KEYS; k++)
        vector_store_element(to + k, factors[k] > 0.0f && key + k < length ? 1.0f : 0.0f);
}

/* ---- launches ---- */

template <int D> static unsigned tile_blocks(const AttentionPass *p)
{
    const int64_t tiles = (p->length + Tiles<D>::EDGE - 1) / Tiles<D>::EDGE;
    return launch_blocks((int64_t)p->n * p->heads * tiles, 1);
}

template <typename T, int D>
static cudaError_t launch_width(const AttentionPass *p, const DropAddress *d, cudaStream_t stream)
{
    if (!p->dqkv)
        return CUDA_LAUNCH((attention_kernel<T, D>), tile_blocks<D>(p), ATTENTION_THREADS, stream,
                           *p, *d);
    const cudaError_t error = CUDA_LAUNCH((attention_bwd_kernel<T, D, false>), tile_blocks<D>(p),
                                          ATTENTION_THREADS, stream, *p, *d);
    if (error != cudaSuccess) return error;
    return CUDA_LAUNCH((attention_bwd_kernel<T, D, true>), tile_blocks<D>(p), ATTENTION_THREADS,
                       stream, *p, *d);
}

template <typename T> static cudaError_t launch_rest(const AttentionPass *p, cudaStream_t stream)
{
    return CUDA_LAUNCH(zero_rest_kernel<T>, launch_blocks(p->positions, REST_ROWS),
                       ATTENTION_THREADS, stream, *p);
}

template <typename T>
static cudaError_t launch(const AttentionPass *p, const DropAddress *d, cudaStream_t stream)
{
    const cudaError_t error = p->starts ? launch_rest<T>(p, stream) : cudaSuccess;
    if (error != cudaSuccess) return error;
    return p->width <= 32   ? launch_width<T, 32>(p, d, stream)
           : p->width <= 64 ? launch_width<T, 64>(p, d, stream)
                            : launch_width<T, 128>(p, d, stream);
}

cudaError_t cuda_launch_attention(const AttentionPass *p, cudaStream_t stream)
{
    const DropAddress d = drop_address(&p->drop, 0, 0);
    return LAUNCH_BY_TYPE(p->dtype, launch, p, &d, stream);
}

cudaError_t cuda_launch_attention_places(const AttentionPass *p, const AttentionExtra *e,
                                         cudaStream_t stream)
{
    return CUDA_LAUNCH(places_kernel,
                       launch_blocks((int64_t)e->parts * e->places_row, ATTENTION_THREADS),
                       ATTENTION_THREADS, stream, *p, *e);
}

cudaError_t cuda_launch_attention_rest(const AttentionPass *p, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(p->dtype, launch_rest, p, stream);
}

template <typename T>
static cudaError_t launch_mask(const AttentionPass *p, const AttentionExtra *e,
                               const DropAddress *d, int part, cudaStream_t stream)
{
    const int64_t vectors = (int64_t)e->n * p->heads * p->length * (e->mask_row / 8);
    return CUDA_LAUNCH(mask_kernel<T>, launch_blocks(vectors, ATTENTION_THREADS), ATTENTION_THREADS,
                       stream, *p, *e, *d, part);
}

cudaError_t cuda_launch_attention_mask(const AttentionPass *p, const AttentionExtra *e, int part,
                                       cudaStream_t stream)
{
    const DropAddress d = drop_address(&p->drop, 0, 0);
    return LAUNCH_BY_TYPE(p->dtype, launch_mask, p, e, &d, part, stream);
}
