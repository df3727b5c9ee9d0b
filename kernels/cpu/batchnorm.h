/* batchnorm.h - what batchnorm.c and batchnorm_bwd.c share: per-channel constants as lane tables,
 * and the two-pass sweep.
 *
 * THE SWEEP. Training batch norm must see a channel twice: for its sums, then to apply them. The
 * sweep does both passes over a few channel blocks before it goes on to the next, so that the
 * second pass reads from cache what the first brought in; it walks the images of the second pass
 * backwards, because the last ones are the warmest.
 *
 * ROWS have no blocks to go by: a few channels of all positions would be a cache line each. There
 * the first pass streams over all of x and the second goes back. Rows follow each other without a
 * gap, so images mean nothing either; x is one run of memory, read as it lies, or the prefetchers
 * lose it, in wide steps: as many whole rows as make a multiple of BN_LANES, so that any number of
 * channels vectorises, and lane l of a wide step is of channel l % C.
 *
 * REPEATABLE. Sums of a plane, or of a part of rows that the shape alone decides, are one partial,
 * in float over a short run and in double beyond, and partials are added in the order of memory.
 * Neither depends on which thread did it, so results are the same bits for any number of threads.
 */
#ifndef CONVOY_KERNELS_CPU_BATCHNORM_H
#define CONVOY_KERNELS_CPU_BATCHNORM_H
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/view.h"

/* of bf16: as many as fill the registers that they are read to and written from */
enum { BN_LANES = 2 * CPU_LANES };

/* Lane l of CPU_LANES holds the values of channel l % b of the block; zero for channels past C.
 * Rows have a table for each BN_LANES of a wide step. */
typedef struct BnLanes {
    float mean[BN_LANES], scale[BN_LANES], shift[BN_LANES]; /* y = (x - mean) scale + shift */
    /* backward: dx = scale (dz - mean_dz - (x - mean) slope) */
    float mean_dz[BN_LANES], slope[BN_LANES];
} BnLanes;
typedef struct BnSums {
    double first[CPU_LANES], second[CPU_LANES];
} BnSums;

/* The one expression for what is normalised. Backward recomputes the sign of y from it, so both
 * must round alike: of this product and sum there is one way to make a fused multiply-add, and a
 * machine that has it does so on both sides. x - mean first keeps the digits of channels whose mean
 * is large against their deviation. */
CPU_INLINE float batchnorm_affine(float x, float mean, float scale, float shift)
{
    return (x - mean) * scale + shift;
}

/* A step of an inner loop; a constant where type is. */
CPU_INLINE int batchnorm_lanes(DType type)
{
    return type == DTYPE_BF16 ? BN_LANES : CPU_LANES;
}

/* A loop of its own: in one with what comes before gcc narrows both sides of each choice. */
CPU_INLINE void batchnorm_store(void *to, int64_t i, const float *from, int lanes, DType type)
{
    for (int l = 0; l < lanes; l++) cpu_lanes_store(to, i + l, from[l], type);
}

CPU_INLINE void batchnorm_add_sums(BnSums *out, const float *first, const float *second, int lanes)
{
    for (; lanes > 0; lanes -= CPU_LANES, out++, first += CPU_LANES, second += CPU_LANES)
        for (int l = 0; l < CPU_LANES; l++) {
            out->first[l] += (double)first[l];
            out->second[l] += (double)second[l];
        }
}

/* A stretch of memory from element `at` on: steps of `tables` times batchnorm_lanes() elements,
 * table j for the j-th of those, and behind them `rest` elements. In f32 tables is 1. */
typedef struct BnSpan {
    int64_t at, steps, rest, tables;
} BnSpan;

/* Tables whose sums are in float at a time, over so many wide steps of rows: they stay in a
 * first-level cache of 48 KB with what backward reads of the tables; of as few tables as rows of
 * 8, 16, 32 or 64 channels have, in AVX-512's registers. */
enum { BN_TILE_TABLES = 64, BN_TILE_ROWS = 16, BN_FEW_TABLES = 2 };

/* What an inner loop of sums walks: `rows` times `tables` steps, the rows `stride` elements apart,
 * and behind them `rest` elements. */
typedef struct BnTile {
    int64_t at, rows, stride, tables, rest;
} BnTile;

/* Tile of the tables from `table` on, from wide step `first` on: at most `rows` of them; the last
 * one, which is shorter, has the rest. */
CPU_INLINE BnTile batchnorm_tile(const BnSpan *s, int64_t first, int64_t rows, int64_t table,
                                 DType type)
{
    const int64_t lanes = batchnorm_lanes(type), left = s->steps - first,
                  tables = type == DTYPE_F32 ? 1 : s->tables;
    BnTile t = { .at = s->at + (first * tables + table) * lanes,
                 .rows = left < rows ? left : rows,
                 .stride = tables * lanes,
                 .tables = type == DTYPE_F32 ? 1 : tables - table };
    if (t.tables > BN_TILE_TABLES) t.tables = BN_TILE_TABLES;
    if (left < rows) t.rest = s->rest - table * lanes;
    if (t.rest > t.tables * lanes) t.rest = t.tables * lanes;
    return t;
}

/* How many of the `rest` elements behind whole steps are next: one table's, in f32 lanes of blocks
 * of 8, or of planes whose lanes are all of one channel. */
CPU_INLINE int batchnorm_rest_lanes(int64_t rest, DType type)
{
    if (type == DTYPE_BF16) return rest < BN_LANES ? (int)rest : BN_LANES;
    return rest >= CPU_HALF_LANES ? CPU_HALF_LANES : 1;
}

typedef struct BnSweep {
    CpuView view;
    int threads;
    const void *ctx;
    void (*begin)(const void *ctx, int64_t block, BnLanes *lanes); /* before any sum of the block */
    /* overwrites *partial, or of rows all of a wide step */
    void (*sum)(const void *ctx, const BnSpan *span, const BnLanes *lanes, BnSums *partial);
    /* once per block */
    void (*finish)(const void *ctx, int64_t block, const BnSums *total, BnLanes *lanes);
    /* NULL: the second pass is left out */
    void (*apply)(const void *ctx, const BnSpan *span, const BnLanes *lanes);
} BnSweep;

/* What op reads beside x, t, which of rank 2 may be of another type: then it is cast to x's, as on
 * devices. Decides t, and adds to the workspace what the copy takes. */
Status batchnorm_decide_operand(OpInstance *op, OpTensor *t, const OpTensor *x);
/* Its data, or a copy at *workspace, which moves on; NULL where t is absent. */
const void *batchnorm_read_operand(const OpTensor *t, const OpTensor *x, void **workspace);

/* Values of a channel behind its sums: x's, and those of other ranks. */
CPU_INLINE double batchnorm_values(const CpuView *v, const BatchNormAttr *attr)
{
    return (double)v->n * (double)v->hw * (attr->ranks > 0 ? attr->ranks : 1);
}

size_t batchnorm_sweep_workspace(const CpuView *view, int threads);
void batchnorm_sweep(const BnSweep *sweep, void *workspace);
/* begin and apply alone, for statistics that are known beforehand: one pass, in the order of
 * memory. */
size_t batchnorm_once_workspace(const CpuView *view);
void batchnorm_once(const BnSweep *sweep, void *workspace);
#endif
