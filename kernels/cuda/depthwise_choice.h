/* depthwise_choice.h - who convolves with one filter for each channel: our own kernels or cuDNN. */
#ifndef CONVOY_KERNELS_CUDA_DEPTHWISE_CHOICE_H
#define CONVOY_KERNELS_CUDA_DEPTHWISE_CHOICE_H
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cudnn/conv_shape.h"

/* Whether our kernels are to run this pass of an op whose tensors are decided. May time both. */
bool depthwise_choice_is_own(const OpInstance *op, ConvPass pass, const ConvShape *shape);
#endif
