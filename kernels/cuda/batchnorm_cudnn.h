/* batchnorm_cudnn.h - training batch norm by cuDNN, and what our kernels do beside it. */
#ifndef CONVOY_KERNELS_CUDA_BATCHNORM_CUDNN_H
#define CONVOY_KERNELS_CUDA_BATCHNORM_CUDNN_H
#include "kernels/cuda/launcher.h"
#include "kernels/dtype.h"

/* What norm_choice.c lets it do; ERR_ENV where cuDNN has no engine. */
extern const struct OpImpl batchnorm_cudnn, batchnorm_cudnn_bwd;

/* dz = dy [+ dy2], where [y > 0], else 0; dz may be dy or dy2. */
typedef struct BnGradientOfZ {
    DType dtype;
    int64_t vectors;          /* of 16 bytes */
    const void *dy, *dy2, *y; /* dy2, y: NULL if absent */
    void *dz;
} BnGradientOfZ;
C_LINKAGE cudaError_t cuda_launch_batchnorm_cudnn_gradient_of_z(const BnGradientOfZ *k,
                                                                cudaStream_t stream);

/* Running statistics from those of a batch. */
typedef struct BnRunning {
    int c, cp;
    float eps, momentum;
    double count;            /* values of a channel */
    const float *statistics; /* [2][cp]: mean and 1/sqrt(var + eps) */
    float *running_mean, *running_var;
} BnRunning;
C_LINKAGE cudaError_t cuda_launch_batchnorm_cudnn_running(const BnRunning *k, cudaStream_t stream);
#endif
