/* grad_norm.h - the norm of gradients; x is aligned to 16 bytes, sums and clip are the ops'. */
#ifndef CONVOY_KERNELS_CUDA_GRAD_NORM_H
#define CONVOY_KERNELS_CUDA_GRAD_NORM_H
#include "kernels/cuda/launcher.h"
#include "kernels/op.h"

C_LINKAGE cudaError_t cuda_launch_grad_norm_squares(const float *x, int64_t count, double *sums,
                                                    cudaStream_t stream);
/* loss_scale: NULL if absent */
C_LINKAGE cudaError_t cuda_launch_grad_norm(const GradNormAttr *attr, const double *sums,
                                            int64_t count, const float *loss_scale, float *clip,
                                            cudaStream_t stream);
#endif
