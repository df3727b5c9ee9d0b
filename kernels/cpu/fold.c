/* fold.c - bn(w x) = (scale w) x + shift with scale = gamma / sqrt(var + eps) and shift = beta -
 * mean scale, both computed in double.
 *
 * Weights are walked tile by tile as they lie, so one loop serves all of oneDNN's layouts: which
 * channel an element belongs to follows from the tile's cell and from its place in the tile, of
 * which there is a table. */
#include "kernels/cpu/fold.h"
#include "kernels/cpu/dnnl.h"
#include <math.h>
#include <string.h>

enum { DIM_GROUP, DIM_FILTER, DIM_CHANNEL, DIM_HEIGHT, DIM_WIDTH, DIM_COUNT };

/* As if there were always groups. */
static void add_group(CompatTiles *t)
{
    memmove(&t->cells[1], &t->cells[0], (size_t)t->rank * sizeof t->cells[0]);
    memmove(&t->strides[1], &t->strides[0], (size_t)t->rank * sizeof t->strides[0]);
    t->cells[DIM_GROUP] = 1;
    t->strides[DIM_GROUP] = 0;
    for (int i = 0; i < t->blocks; i++) t->block_of[i]++;
    t->rank++;
}

/* Where element e lies in its tile, along each dimension. */
static void place_in_tile(const CompatTiles *t, int64_t e, int64_t *place)
{
    int64_t step[DIM_COUNT];
    for (int d = 0; d < DIM_COUNT; d++) {
        place[d] = 0;
        step[d] = 1;
    }
    for (int i = t->blocks - 1; i >= 0; i--) {
        const int64_t d = t->block_of[i], size = t->block_size[i];
        place[d] += e % size * step[d];
        step[d] *= size;
        e /= size;
    }
}

Status cpu_fold_prepare(CpuFold *out, const Layout *weights, float eps)
{
    *out = (CpuFold){ .eps = eps, .groups = 1, .group_block = 1, .filter_block = 1, .tile = 1 };
    CompatTiles *t = &out->tiles;
    TRY_DNNL(dnnl_compat_desc_tiles(&weights->desc, t));
    if (t->rank < DIM_COUNT) add_group(t);
    ASSERT(t->rank == DIM_COUNT);
    if (weights->rank == DIM_COUNT) out->groups = weights->dims[DIM_GROUP];
    out->filters = weights->dims[weights->rank - 4];
    for (int i = 0; i < t->blocks; i++) {
        out->tile *= t->block_size[i];
        if (t->block_of[i] == DIM_GROUP) out->group_block *= t->block_size[i];
        if (t->block_of[i] == DIM_FILTER) out->filter_block *= t->block_size[i];
    }
    if (out->tile > FOLD_MAX_TILE)
        return fail(ERR_INTERNAL, "weights are in tiles of %lld elements", (long long)out->tile);
    for (int64_t e = 0; e < out->tile; e++) {
        int64_t place[DIM_COUNT];
        place_in_tile(t, e, place);
        out->group_of[e] = (int16_t)place[DIM_GROUP];
        out->filter_of[e] = (int16_t)place[DIM_FILTER];
    }
    return OK;
}

static void find_vectors(const CpuFold *f, void *const *address)
{
    /* A smaller one does nothing but make denormal numbers, which take many times as long to
     * multiply. */
    const double least_scale = 1e-30;
    const float *gamma = address[FOLD_GAMMA], *beta = address[FOLD_BETA],
                *mean = address[FOLD_MEAN], *var = address[FOLD_VAR];
    float *scale = address[FOLD_SCALE], *shift = address[FOLD_SHIFT];
    for (int64_t c = 0; c < f->groups * f->filters; c++) {
        double s = (double)gamma[c] / sqrt((double)var[c] + (double)f->eps);
        if (fabs(s) < least_scale) s = 0;
        scale[c] = (float)s;
        shift[c] = (float)((double)beta[c] - (double)mean[c] * s);
    }
}

/* The factor of each element of the tiles of a cell; 0 for those past the last channel. */
static void spread_scale(const CpuFold *f, const float *scale, int64_t group_cell,
                         int64_t filter_cell, float *by)
{
    for (int64_t e = 0; e < f->tile; e++) {
        const int64_t group = group_cell * f->group_block + f->group_of[e],
                      filter = filter_cell * f->filter_block + f->filter_of[e];
        by[e] = group < f->groups && filter < f->filters ? scale[group * f->filters + filter] : 0;
    }
}

/* count tiles, each stride floats behind the last. */
CPU_CLONES static void scale_tiles(float *out, const float *w, const float *restrict by,
                                   int64_t tile, int64_t count, int64_t stride)
{
    for (int64_t i = 0; i < count; i++) {
#pragma omp simd
        for (int64_t e = 0; e < tile; e++) out[i * stride + e] = w[i * stride + e] * by[e];
    }
}

static void fold_cell(const CpuFold *f, void *const *address, int64_t group_cell,
                      int64_t filter_cell)
{
    const int64_t *cells = f->tiles.cells, *strides = f->tiles.strides;
    const int64_t first = group_cell * strides[DIM_GROUP] + filter_cell * strides[DIM_FILTER];
    const float *w = address[FOLD_WEIGHTS];
    float *out = address[FOLD_FOLDED], by[FOLD_MAX_TILE];
    spread_scale(f, address[FOLD_SCALE], group_cell, filter_cell, by);
    for (int64_t h = 0; h < cells[DIM_HEIGHT]; h++)
        for (int64_t v = 0; v < cells[DIM_WIDTH]; v++) {
            const int64_t at = first + h * strides[DIM_HEIGHT] + v * strides[DIM_WIDTH];
            scale_tiles(out + at, w + at, by, f->tile, cells[DIM_CHANNEL], strides[DIM_CHANNEL]);
        }
}

Status cpu_fold_run(const void *cookie, void *const *address, int threads)
{
    const CpuFold *f = cookie;
    const int64_t filter_cells = f->tiles.cells[DIM_FILTER],
                  cells = f->tiles.cells[DIM_GROUP] * filter_cells;
    find_vectors(f, address);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t cell = 0; cell < cells; cell++)
        fold_cell(f, address, cell / filter_cells, cell % filter_cells);
    return OK;
}
