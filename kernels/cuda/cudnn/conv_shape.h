/* conv_shape.h - one convolution pass in numbers. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_CONV_SHAPE_H
#define CONVOY_KERNELS_CUDA_CUDNN_CONV_SHAPE_H
#include "kernels/op.h"

typedef enum ConvPass { CONV_FORWARD, CONV_BWD_DATA, CONV_BWD_WEIGHTS, CONV_PASS_COUNT } ConvPass;

/* Physical sizes: channels padded, x and y NHWC, w KRSC, all three of type io, packed. */
typedef struct ConvShape {
    int64_t n, c, h, w, k, r, s, p, q; /* c, k: of the whole tensor, not per group */
    Conv2dAttr attr;
    DType io;
    bool tf32; /* f32 io: round inputs to tf32 */
} ConvShape;
#endif
