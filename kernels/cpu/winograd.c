/* winograd.c - which convolutions are Winograd's, in which memory, and how threads share them.
 *
 * Forward and dx: the threads transform the weights together, then each computes its own blocks of
 * tiles from start to end. dw, and layers with few tiles per thread: all threads work on one block
 * at a time; each transforms some of its channels, then computes some of the products. */
#include "kernels/cpu/winograd.h"
#include <omp.h>

enum {
    GRAIN = 8, /* channels, also with blocks of 16: the choice is the same on every CPU */
    MIN_CHANNELS = 24,
    MIN_TILES = 64,
    EVALUATED_IMAGES = 4,  /* an evaluation is decided as if its batch had this many */
    CHANNELS_PER_TILE = 8, /* with more, transforming the weights takes too long */
    PAD = 16 * 5           /* floats; spreads a tile's 36 values over the sets of a cache */
};
/* Size of a block of tiles: of one thread, and of one that all threads share. */
static const int64_t block_bytes = 1 << 20, shared_bytes = 16 << 20;

/* What run() finds at address[]: for dx FROM is dy, for dw BY is dy. SCRATCH has the transformed
 * weights, or their gradient, and behind them blocks of tiles. */
enum { FROM, BY, TO, SCRATCH, BIAS, COUNT };

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

bool cpu_winograd_takes(const CpuBackend *b, const ConvProblem *p)
{
    const ConvGeometry *g = p->geometry;
    const int64_t k = g->w[0], c = g->w[1], most = k > c ? k : c, least = k > c ? c : k;
    const int64_t images = p->evaluates ? EVALUATED_IMAGES : g->y[0],
                  tiles =
                      images * ceil_div(g->y[2], WINOGRAD_OUT) * ceil_div(g->y[3], WINOGRAD_OUT);
    if (b->winograd == CPU_USE_NONE || g->w_rank != 4 || k % GRAIN || c % GRAIN ||
        p->x->type != DTYPE_F32 || p->x->block != b->block || p->y->block != b->block)
        return false;
    for (int axis = 0; axis < 2; axis++)
        if (g->w[2 + axis] != 3 || g->stride[axis] != 1 || g->pad_before[axis] != 1 ||
            g->pad_after[axis] != 1)
            return false;
    return b->winograd == CPU_USE_EVERY ||
           (least >= MIN_CHANNELS && g->y[2] > WINOGRAD_OUT && g->y[3] > WINOGRAD_OUT &&
            tiles >= MIN_TILES && tiles >= most / CHANNELS_PER_TILE);
}

Status cpu_winograd_weights(CpuBackend *b, const ConvGeometry *g, const Layout **out)
{
    return cpu_layout_make(b, out, DTYPE_F32, 4, g->w,
                           b->block == 8 ? dnnl_OIhw8i8o : dnnl_OIhw16i16o);
}

/* Tiles per block. For dw this sets the order of sums, so it must not depend on the number of
 * threads. There a block is about twice the size of the gradient. The first block's sums are stored
 * in the gradient, those of the others are added to it. */
static int64_t block_of(const CpuWinograd *w, int threads)
{
    const int64_t rows = w->loops->rows,
                  tile = WINOGRAD_POINTS * (w->c + w->k) * (int64_t)sizeof(float);
    const bool sums = w->direction == CONV_BWD_WEIGHTS;
    const int64_t fit = (w->shared ? shared_bytes : block_bytes) / tile,
                  enough = sums ? 2 * w->c * w->k / (w->c + w->k) : fit,
                  most = enough < fit ? enough : fit,
                  share = w->shared ? w->tiles : ceil_div(w->tiles, threads);
    int64_t block = most > 2 * rows ? most : 2 * rows;
    block = ceil_div(share, ceil_div(share, block)); /* blocks of nearly equal size */
    return ceil_div(block, rows) * rows;
}

static int64_t floats_of_u(const CpuWinograd *w)
{
    return WINOGRAD_POINTS * w->u_step;
}

static int64_t floats_of_block(const CpuWinograd *w) /* of x or y */
{
    return WINOGRAD_POINTS * w->tile_step;
}

static CpuWinograd plan(const CpuBackend *b, const ConvProblem *p)
{
    const ConvGeometry *g = p->geometry;
    const bool back = p->direction == CONV_BWD_DATA, sums = p->direction == CONV_BWD_WEIGHTS;
    const int64_t c = ceil_div(g->w[1], b->block) * b->block,
                  k = ceil_div(g->w[0], b->block) * b->block;
    CpuWinograd w = { .n = g->y[0],
                      .h = g->y[2],
                      .w = g->y[3],
                      .c = c,
                      .k = k,
                      .filters = g->w[0],
                      .read = back ? k : c,
                      .made = back ? c : k,
                      .lanes = b->block,
                      .down = ceil_div(g->y[2], WINOGRAD_OUT),
                      .across = ceil_div(g->y[3], WINOGRAD_OUT),
                      .loops = b->block == 8 ? &winograd_loops_8 : &winograd_loops_16,
                      .direction = p->direction,
                      .add = p->epilogue && p->epilogue->add,
                      .act = p->epilogue ? p->epilogue->act : ACT_NONE };
    const int64_t pair = 2 * b->block, most = w.c > w.k ? w.c : w.k;
    w.tiles = w.n * w.down * w.across;
    w.shared = sums || w.tiles < 2 * w.loops->rows * b->threads;
    w.block = block_of(&w, b->threads);
    w.u_step = (sums ? w.c * w.k : ceil_div(w.made, pair) * pair * w.read) + PAD;
    w.tile_step = most * w.block + PAD;
    return w;
}

static int64_t tiles_from(const CpuWinograd *w, int64_t first)
{
    return w->tiles - first < w->block ? w->tiles - first : w->block;
}

typedef struct Share { /* one thread's part of each: the first, and one past the last */
    int64_t weights[2], read[2], made[2], points[2];
} Share;

static Share share_of(const CpuWinograd *w)
{
    const int me = omp_get_thread_num(), all = omp_get_num_threads();
    Share s;
    cpu_share(ceil_div(w->made, 2 * w->lanes), me, all, &s.weights[0], &s.weights[1]);
    cpu_share(w->read / w->lanes, me, all, &s.read[0], &s.read[1]);
    cpu_share(w->made / w->lanes, me, all, &s.made[0], &s.made[1]);
    cpu_share(WINOGRAD_POINTS, me, all, &s.points[0], &s.points[1]);
    return s;
}

static void convolve(const CpuWinograd *w, void *const *address, const float *bias, int threads)
{
    float *u = address[SCRATCH];
#pragma omp parallel num_threads(threads)
    {
        const Share s = share_of(w);
        float *tiles = u + floats_of_u(w) +
                       (w->shared ? 0 : 2 * floats_of_block(w) * omp_get_thread_num()),
              *sums = tiles + floats_of_block(w);
        w->loops->read_weights(w, address[BY], u, s.weights[0], s.weights[1]);
#pragma omp barrier
        if (w->shared) {
            for (int64_t first = 0; first < w->tiles; first += w->block) {
                const int64_t count = tiles_from(w, first);
                w->loops->read_tiles(w, address[FROM], w->read, tiles, first, count, s.read[0],
                                     s.read[1], true);
#pragma omp barrier
                w->loops->convolve(w, tiles, u, sums, count, s.points[0], s.points[1]);
#pragma omp barrier
                w->loops->write_tiles(w, sums, bias, address[TO], first, count, s.made[0],
                                      s.made[1]);
            }
        } else {
#pragma omp for schedule(static)
            for (int64_t first = 0; first < w->tiles; first += w->block) {
                const int64_t count = tiles_from(w, first);
                w->loops->read_tiles(w, address[FROM], w->read, tiles, first, count, 0,
                                     w->read / w->lanes, true);
                w->loops->convolve(w, tiles, u, sums, count, 0, WINOGRAD_POINTS);
                w->loops->write_tiles(w, sums, bias, address[TO], first, count, 0,
                                      w->made / w->lanes);
            }
        }
    }
}

/* Part `me` of `all` parts of the products over a block of tiles. Threads divide the 36 points, and
 * when there are many threads the channels of each point too. */
static void correlate(const CpuWinograd *w, const float *x, const float *dy, float *u,
                      int64_t count, bool add, int me, int all)
{
    const int64_t least = w->c % 16 ? 8 : 16, slices = all > WINOGRAD_POINTS / 4 ? w->c / least : 1;
    int64_t from, to;
    cpu_share(WINOGRAD_POINTS * slices, me, all, &from, &to);
    for (int64_t i = from; i < to; i++) {
        const int64_t point = i / slices, slice = i % slices, wide = w->c / slices;
        float *sums = u + point * w->u_step;
        w->loops->correlate(w, x + point * w->tile_step, dy + point * w->tile_step, sums, count,
                            slice * wide, (slice + 1) * wide, add);
    }
}

static void sum_over_tiles(const CpuWinograd *w, void *const *address, int threads)
{
    float *u = address[SCRATCH], *x = u + floats_of_u(w), *dy = x + floats_of_block(w);
#pragma omp parallel num_threads(threads)
    {
        const int me = omp_get_thread_num(), all = omp_get_num_threads();
        const int64_t cb = w->c / w->lanes, kb = w->k / w->lanes;
        int64_t from, to, k[2];
        cpu_share(cb + kb, me, all, &from, &to); /* blocks of x, and behind them those of dy */
        cpu_share(kb, me, all, &k[0], &k[1]);
        for (int64_t first = 0; first < w->tiles; first += w->block) {
            const int64_t count = tiles_from(w, first);
            if (from < cb)
                w->loops->read_tiles(w, address[FROM], w->c, x, first, count, from,
                                     to < cb ? to : cb, true);
            if (to > cb)
                w->loops->read_tiles(w, address[BY], w->k, dy, first, count,
                                     from > cb ? from - cb : 0, to - cb, false);
#pragma omp barrier
            correlate(w, x, dy, u, count, first > 0, me, all);
#pragma omp barrier
        }
        w->loops->write_weights(w, u, address[TO], k[0], k[1]);
    }
}

static Status run(const void *cookie, void *const *address, int threads)
{
    const CpuWinograd *w = cookie;
    if (w->direction == CONV_BWD_WEIGHTS) sum_over_tiles(w, address, threads);
    else convolve(w, address, NULL, threads);
    return OK;
}

static Status run_with_bias(const void *cookie, void *const *address, int threads)
{
    convolve(cookie, address, address[BIAS], threads);
    return OK;
}

Status cpu_winograd_add(CpuBackend *b, CpuSteps *s, CpuWinograd *out, const ConvProblem *p,
                        const CpuOperand xwy[3], const CpuOperand *bias)
{
    static const int order[CONV_DIRECTION_COUNT][3] = { [CONV_FORWARD] = { 0, 1, 2 },
                                                        [CONV_BWD_DATA] = { 2, 1, 0 },
                                                        [CONV_BWD_WEIGHTS] = { 0, 2, 1 } };
    const int *roles = order[p->direction];
    const Layout *scratch;
    const CpuWinograd w = *out = plan(b, p);
    const int pairs = w.shared ? 1 : b->threads;
    const int64_t floats = floats_of_u(&w) + 2 * pairs * floats_of_block(&w);
    TRY(cpu_layout_plain(b, &scratch, 1, &floats));
    CpuOperand operands[COUNT] = { [FROM] = xwy[roles[0]],
                                   [BY] = xwy[roles[1]],
                                   [TO] = xwy[roles[2]],
                                   [SCRATCH] = cpu_steps_operand_workspace(s, scratch) };
    if (bias) operands[BIAS] = *bias;
    cpu_steps_add_call(s, bias ? run_with_bias : run, out, bias ? COUNT : COUNT - 1, operands);
    return OK;
}
