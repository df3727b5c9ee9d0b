/* fold.h - weights of a convolution with the batch norm behind it multiplied in. */
#ifndef CONVOY_KERNELS_CPU_FOLD_H
#define CONVOY_KERNELS_CPU_FOLD_H
#include "kernels/cpu/layout.h"

#define FOLD_MAX_TILE 1024
typedef struct CpuFold {
    float eps;
    CompatTiles tiles;       /* of the weights, as [G,K/G,C/G,R,S] */
    int64_t groups, filters; /* filters: of one group */
    /* a tile's groups, its filters of a group, its elements */
    int64_t group_block, filter_block, tile;
    int16_t group_of[FOLD_MAX_TILE], filter_of[FOLD_MAX_TILE]; /* of each element of a tile */
} CpuFold;

/* What cpu_fold_run finds at address[]. scale and shift hold all channels; scale is for that call
 * alone. */
enum {
    FOLD_FOLDED,
    FOLD_WEIGHTS,
    FOLD_GAMMA,
    FOLD_BETA,
    FOLD_MEAN,
    FOLD_VAR,
    FOLD_SCALE,
    FOLD_SHIFT,
    FOLD_COUNT
};

/* weights: [K,C,R,S] or with groups [G,K/G,C/G,R,S]. ERR_INTERNAL for a layout without such
 * tiles. */
Status cpu_fold_prepare(CpuFold *out, const Layout *weights, float eps);
/* A CpuStepCall; cookie is the CpuFold. folded may lie over weights. The same bits for any number
 * of threads. */
Status cpu_fold_run(const void *cookie, void *const *address, int threads);
#endif
