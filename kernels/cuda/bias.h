/* bias.h - a value for each channel added to rows, and its gradient. */
#ifndef CONVOY_KERNELS_CUDA_BIAS_H
#define CONVOY_KERNELS_CUDA_BIAS_H
#include "kernels/cuda/launcher.h"
#include "kernels/cuda/rows.h"
#include "kernels/dtype.h"

enum { BIAS_BLOCKS_PER_SM = 6 };

/* y += bias, in place; y: rows x vectors of dtype. */
C_LINKAGE cudaError_t cuda_launch_bias(void *y, DType dtype, const float *bias, int64_t rows,
                                       int64_t vectors, cudaStream_t stream);
/* db[cp] = or += the sum of dy's rows, over the grid g. partials: workspace f32
 * [row_grid_partials(g)][cp]. */
C_LINKAGE cudaError_t cuda_launch_bias_gradient(const RowGrid *g, const void *dy, DType dtype,
                                                float *db, int64_t cp, bool accumulate,
                                                float *partials, cudaStream_t stream);
#endif
