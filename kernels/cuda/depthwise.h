/* depthwise.h - convolutions with one filter for each channel by kernels of our own: shape in, grid
 * out. The functions are conv_plan.h's, for windows of 3x3 and 5x5 and strides of 1 and 2. *
 * Sums are f32 and in an order that shape and number of multiprocessors decide: the same bits at
 * every run. In tf32 nothing is rounded: there is no matrix product to speed up. The gradient of
 * the weights is f32 in every precision. */
#ifndef CONVOY_KERNELS_CUDA_DEPTHWISE_H
#define CONVOY_KERNELS_CUDA_DEPTHWISE_H
#include "kernels/cuda/cudnn/conv_plan.h"

typedef struct Depthwise Depthwise;
/* depthwise_choice.c: whether our kernels are to run this pass of an op whose tensors are decided.
 * May time both. */
bool depthwise_is_own(const OpInstance *op, ConvPass pass, const ConvShape *shape);
/* Whether there are kernels for the shape. */
bool depthwise_takes(const ConvShape *s);
/* Of a shape that is taken. accumulate: CONV_BWD_WEIGHTS adds into dw. ERR_MEMORY. */
Status depthwise_create(Depthwise **out, const CudaBackend *b, ConvPass pass,
                        const ConvShape *shape, bool accumulate);
void depthwise_destroy(Depthwise *d); /* NULL ok */
size_t depthwise_workspace(const Depthwise *d);
const char *depthwise_name(const Depthwise *d); /* static */
/* As conv_plan_bind, but for dw, which is f32. */
void depthwise_bind(Depthwise *d, const void *a, const void *b, void *out, void *workspace);
Status depthwise_run(const Depthwise *d, cudaStream_t stream); /* enqueues */
#endif
