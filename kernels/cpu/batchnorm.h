/* batchnorm.h - what batchnorm.c and batchnorm_bwd.c share: per-channel constants as lane tables,
 * and the two-pass sweep.
 *
 * THE SWEEP. Training batch norm must see a channel twice: for its sums, then to apply them. The
 * sweep does both passes over a few channel blocks before it goes on to the next, so that the
 * second pass reads from cache what the first brought in; it walks the images of the second pass
 * backwards, because the last ones are the warmest.
 *
 * REPEATABLE. A plane's sums are one partial, in float over a short run and in double beyond, and
 * partials are added in the order of images. Neither depends on which thread did it, so results are
 * the same bits for any number of threads.
 */
#ifndef CONVOY_KERNELS_CPU_BATCHNORM_H
#define CONVOY_KERNELS_CPU_BATCHNORM_H
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/view.h"

/* lane l holds the values of channel l % b of the block; zero for channels past C */
typedef struct BnLanes {
    float mean[CPU_LANES], scale[CPU_LANES], shift[CPU_LANES]; /* y = (x - mean) scale + shift */
    /* backward: dx = scale (dz - mean_dz - (x - mean) slope) */
    float mean_dz[CPU_LANES], slope[CPU_LANES];
} BnLanes;
typedef struct BnSums {
    double first[CPU_LANES], second[CPU_LANES];
} BnSums;

/* The one expression for what is normalised. Backward recomputes the sign of y from it, so both
 * must round alike: with -std=c17 gcc does not contract it to a fused multiply-add, and elsewhere
 * both sides contract the same expression. x - mean first keeps the digits of channels whose mean
 * is large against their deviation. */
CPU_INLINE float batchnorm_affine(float x, float mean, float scale, float shift)
{
    return (x - mean) * scale + shift;
}

typedef struct BnSweep {
    CpuView view;
    int threads;
    const void *ctx;
    void (*begin)(const void *ctx, int64_t block, BnLanes *lanes); /* before any sum of the block */
    /* overwrites *partial */
    void (*sum)(const void *ctx, int64_t plane, const BnLanes *lanes, BnSums *partial);
    /* once per block */
    void (*finish)(const void *ctx, int64_t block, const BnSums *total, BnLanes *lanes);
    /* plane = image * cb + block */
    void (*apply)(const void *ctx, int64_t plane, const BnLanes *lanes);
} BnSweep;

size_t batchnorm_sweep_workspace(const CpuView *view, int threads);
void batchnorm_sweep(const BnSweep *sweep, void *workspace);
#endif
