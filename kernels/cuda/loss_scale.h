/* loss_scale.h - the dynamic loss scale; state is the op's, see the LOSS_SCALE_ enum. */
#ifndef CONVOY_KERNELS_CUDA_LOSS_SCALE_H
#define CONVOY_KERNELS_CUDA_LOSS_SCALE_H
#include "kernels/cuda/launcher.h"
#include "kernels/op.h"

C_LINKAGE cudaError_t cuda_launch_loss_scale_check_finite(const float *x, int64_t count,
                                                          float *state, int sm_count,
                                                          cudaStream_t stream);
C_LINKAGE cudaError_t cuda_launch_loss_scale(const LossScaleAttr *attr, float *state,
                                             cudaStream_t stream);
#endif
