/* embed.cu - y = words[ids] + positions (+ segments) by vectors of a place, and the gradients. A
 * row of a table is summed by one block, in an order that the batch decides: of the words by runs
 * of equal ids, which the block at the first place of a run adds up. */
#include "kernels/cuda/embed.h"
#include "kernels/cuda/vector.cuh"

/* A block of sums: neighbouring vectors, and rows of them at a time. */
constexpr int EMBED_LANES = 32, EMBED_GROUPS = 8, EMBED_THREADS = EMBED_LANES * EMBED_GROUPS;

template <typename T>
static __global__ void __launch_bounds__(EMBED_THREADS)
    embed_kernel(const EmbedPass p, const float *words, const float *positions,
                 const float *segments, uint4 *y)
{
    constexpr int V = vector_channels<T>;
    const int64_t i = (int64_t)blockIdx.x * EMBED_THREADS + threadIdx.x, place = i / p.vectors,
                  first = i % p.vectors * V;
    float out[V] = {}, more[V];
    if (place >= p.places) return;
    const int64_t id = p.ids[place];
    if (id >= 0) {
        vector_load_values<V>(out, words + id * p.cp, first);
        vector_load_values<V>(more, positions + (p.where[2 * place + 1] + p.offset) * p.cp, first);
#pragma unroll
        for (int c = 0; c < V; c++) out[c] += more[c];
        if (segments) {
            vector_load_values<V>(more, segments + p.segment_ids[place] * p.cp, first);
#pragma unroll
            for (int c = 0; c < V; c++) out[c] += more[c];
        }
    }
    y[i] = vector_narrow<T>(out);
}

/* ---- gradients ---- */

/* Where a thread stands in a block of sums. */
struct EmbedThread {
    int lane, group;
    int64_t vector;
    bool inside; /* the row */
};

static __device__ __forceinline__ EmbedThread embed_thread(const EmbedPass &p)
{
    EmbedThread t;
    t.lane = (int)threadIdx.x % EMBED_LANES;
    t.group = (int)threadIdx.x / EMBED_LANES;
    t.vector = (int64_t)blockIdx.y * EMBED_LANES + t.lane;
    t.inside = t.vector < p.vectors;
    return t;
}

template <typename T>
static __device__ __forceinline__ void add_vector(float *sums, const uint4 *dy, const EmbedPass &p,
                                                  const EmbedThread &t, int64_t place)
{
    const uint4 raw = vector_load(dy + place * p.vectors + t.vector);
#pragma unroll
    for (int c = 0; c < vector_channels<T>; c++) sums[c] += vector_get<T>(raw, c);
}

/* The groups' sums are added up in their order and stored by the first group. Every thread of the
 * block must come here. */
template <int V>
static __device__ __forceinline__ void store_sums(float (*shared)[EMBED_THREADS], const float *sums,
                                                  const EmbedThread &t, float *row, bool adds)
{
#pragma unroll
    for (int c = 0; c < V; c++) shared[c][threadIdx.x] = sums[c];
    __syncthreads();
    if (t.group || !t.inside) return;
#pragma unroll
    for (int c = 0; c < V; c++) {
        float sum = 0;
#pragma unroll
        for (int g = 0; g < EMBED_GROUPS; g++) sum += shared[c][g * EMBED_LANES + t.lane];
        float *to = row + t.vector * V + c;
        *to = adds ? *to + sum : sum;
    }
}

static __device__ __forceinline__ int id_at(const EmbedPass &p, int64_t i)
{
    return p.ids[p.order[i]];
}

/* Behind the last place of the order that has the id of place i: mostly the next one. */
static __device__ __forceinline__ int64_t end_of_run(const EmbedPass &p, int64_t i, int id)
{
    int64_t last = i, end = p.places;
    if (i + 1 < end && id_at(p, i + 1) != id) return i + 1;
    while (end - last > 1) {
        const int64_t middle = (last + end) / 2;
        if (id_at(p, middle) == id) last = middle;
        else end = middle;
    }
    return end;
}

template <typename T>
static __global__ void __launch_bounds__(EMBED_THREADS)
    embed_words_kernel(const EmbedPass p, const uint4 *dy, float *dwords, bool adds)
{
    constexpr int V = vector_channels<T>;
    __shared__ float shared[V][EMBED_THREADS];
    const EmbedThread t = embed_thread(p);
    const int64_t first = blockIdx.x;
    const int id = id_at(p, first);
    float sums[V] = {};
    if (id < 0 || (first > 0 && id_at(p, first - 1) == id)) return; /* the whole block */
    const int64_t end = end_of_run(p, first, id);
#pragma unroll 4
    for (int64_t i = first + t.group; i < end; i += EMBED_GROUPS)
        if (t.inside) add_vector<T>(sums, dy, p, t, p.order[i]);
    store_sums<V>(shared, sums, t, dwords + (int64_t)id * p.cp, adds);
}

/* A block for each row of the table; a row that no sequence reaches gets zero. */
template <typename T>
static __global__ void __launch_bounds__(EMBED_THREADS)
    embed_positions_kernel(const EmbedPass p, const uint4 *dy, float *dpositions)
{
    constexpr int V = vector_channels<T>;
    __shared__ float shared[V][EMBED_THREADS];
    const EmbedThread t = embed_thread(p);
    const int64_t row = blockIdx.x, position = row - p.offset;
    float sums[V] = {};
#pragma unroll 4
    for (int64_t n = t.group; n < p.sequences; n += EMBED_GROUPS) {
        const int64_t place = p.starts[n] + position;
        if (t.inside && position >= 0 && place < p.starts[n + 1])
            add_vector<T>(sums, dy, p, t, place);
    }
    store_sums<V>(shared, sums, t, dpositions + row * p.cp, p.adds);
}

/* A block for each part of the places and each row of the table. */
template <typename T>
static __global__ void __launch_bounds__(EMBED_THREADS)
    embed_segments_kernel(const EmbedPass p, const uint4 *dy, float *partials)
{
    constexpr int V = vector_channels<T>;
    __shared__ float shared[V][EMBED_THREADS];
    const EmbedThread t = embed_thread(p);
    const int64_t part = blockIdx.x / p.segment_rows, row = blockIdx.x % p.segment_rows;
    float sums[V] = {};
#pragma unroll 4
    for (int i = t.group; i < EMBED_PART_PLACES; i += EMBED_GROUPS) {
        const int64_t place = part * EMBED_PART_PLACES + i;
        if (t.inside && place < p.places && p.segment_ids[place] == row)
            add_vector<T>(sums, dy, p, t, place);
    }
    store_sums<V>(shared, sums, t, partials + (int64_t)blockIdx.x * p.cp, false);
}

/* ---- launchers ---- */

static dim3 embed_blocks(const EmbedPass *p, int64_t rows)
{
    return dim3(launch_blocks(rows, 1), launch_blocks(p->vectors, EMBED_LANES));
}

template <typename T>
static cudaError_t launch_embed(const EmbedPass *p, const float *words, const float *positions,
                                const float *segments, void *y, cudaStream_t stream)
{
    return CUDA_LAUNCH(embed_kernel<T>, launch_blocks(p->places * p->vectors, EMBED_THREADS),
                       EMBED_THREADS, stream, *p, words, positions, segments,
                       static_cast<uint4 *>(y));
}

template <typename T>
static cudaError_t launch_bwd(const EmbedPass *p, const void *from, const EmbedSums *to,
                              cudaStream_t stream)
{
    const uint4 *dy = static_cast<const uint4 *>(from);
    const int64_t parts = launch_blocks(p->places, EMBED_PART_PLACES);
    cudaError_t error = cudaSuccess;
    if (to->words)
        error = CUDA_LAUNCH(embed_words_kernel<T>, embed_blocks(p, p->places), EMBED_THREADS,
                            stream, *p, dy, to->words, to->adds_words);
    if (error == cudaSuccess)
        error = CUDA_LAUNCH(embed_positions_kernel<T>, embed_blocks(p, p->position_rows),
                            EMBED_THREADS, stream, *p, dy, to->positions);
    if (error == cudaSuccess && to->segments)
        error = CUDA_LAUNCH(embed_segments_kernel<T>, embed_blocks(p, parts * p->segment_rows),
                            EMBED_THREADS, stream, *p, dy, to->segments);
    return error;
}

cudaError_t cuda_launch_embed(const EmbedPass *p, const float *words, const float *positions,
                              const float *segments, void *y, cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(p->dtype, launch_embed, p, words, positions, segments, y, stream);
}

cudaError_t cuda_launch_embed_bwd(const EmbedPass *p, const void *dy, const EmbedSums *to,
                                  cudaStream_t stream)
{
    return LAUNCH_BY_TYPE(p->dtype, launch_bwd, p, dy, to, stream);
}
