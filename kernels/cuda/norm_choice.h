/* norm_choice.h - who normalises in training: our own kernels, or cuDNN. */
#ifndef CONVOY_KERNELS_CUDA_NORM_CHOICE_H
#define CONVOY_KERNELS_CUDA_NORM_CHOICE_H
#include "kernels/cuda/cuda.h"

/* batchnorm.c: everything that kernels/op.h says. */
extern const OpImpl batchnorm_own, batchnorm_own_bwd;
/* batchnorm_cudnn.c: what norm_choice.c lets it do; ERR_ENV where cuDNN has no engine. */
extern const OpImpl batchnorm_cudnn, batchnorm_cudnn_bwd;
#endif
