/* batchnorm_parts.h - what the kernels of a batch norm in parts are told (batchnorm_parts.cu).
 * Vectors per channel are of cp, zero from c on. */
#ifndef CONVOY_KERNELS_CUDA_BATCHNORM_PARTS_H
#define CONVOY_KERNELS_CUDA_BATCHNORM_PARTS_H
#include "kernels/cuda/launcher.h"
#include "kernels/cuda/rows.h"
#include "kernels/dtype.h"

typedef struct BnFinalize {
    int c, cp;
    float eps, momentum;
    double count;
    const float *sums, *gamma, *beta; /* sums [2][cp] */
    float *running_mean, *running_var;
    float *saved; /* [2][cp] */
    void *affine; /* [2][cp] of affine_type; NULL: not wanted */
    DType affine_type;
} BnFinalize;

typedef struct BnCombine { /* dx = a dz + b x + c; dx may be dz */
    RowGrid grid;
    DType dtype;
    int cp;
    const void *dz, *x;
    void *dx;
    const float *coefficients; /* [3][cp] */
} BnCombine;
/* sums -> saved, affine, running statistics. */
C_LINKAGE cudaError_t cuda_launch_batchnorm_parts_finalize(const BnFinalize *f,
                                                           cudaStream_t stream);
/* dx by coefficients. */
C_LINKAGE cudaError_t cuda_launch_batchnorm_parts_combine(const BnCombine *k, cudaStream_t stream);
#endif
