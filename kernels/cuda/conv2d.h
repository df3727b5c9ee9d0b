/* conv2d.h - what conv2d.c and conv2d_norm.c share: how the tensors of a convolution lie, and its
 * weights in the compute type. */
#ifndef CONVOY_KERNELS_CUDA_CONV2D_H
#define CONVOY_KERNELS_CUDA_CONV2D_H
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cudnn/conv_shape.h"

/* Decides x, w and y; ERR_USAGE for groups that the layout cannot have. */
Status conv2d_decide(const CudaBackend *b, const Conv2dAttr *attr, OpTensor *x, OpTensor *w,
                     OpTensor *y);
/* Of decided tensors. */
ConvShape conv2d_shape(const CudaBackend *b, const Conv2dAttr *attr, const OpTensor *x,
                       const OpTensor *w, const OpTensor *y);
/* Of a prepared op of conv2d.c: kernels of our own run it. */
bool conv2d_is_own(const OpInstance *op);
int64_t conv2d_weights(const ConvShape *s); /* elements, padding included */
/* Of the weights in the compute type, rounded up to the alignment; 0 for f32, which needs no
 * copy. */
size_t conv2d_weights_bytes(const CudaBackend *b, const ConvShape *s);
#endif
