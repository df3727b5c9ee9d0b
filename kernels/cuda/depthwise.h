/* depthwise.h - convolutions with one filter for each channel by kernels of our own: shape in, grid
 * out. The functions are conv_plan.h's, for kernels of 3x3 and 5x5 and strides of 1 and 2.
 *
 * Sums are f32 and in an order that shape and number of multiprocessors decide: the same bits at
 * every run. In tf32 nothing is rounded: there is no matrix product to speed up. The gradient of
 * the weights is f32 in every precision. */
#ifndef CONVOY_KERNELS_CUDA_DEPTHWISE_H
#define CONVOY_KERNELS_CUDA_DEPTHWISE_H
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cudnn/conv_shape.h"
#include "kernels/cuda/fast_div.h"
#include "kernels/cuda/launcher.h"

typedef struct Depthwise Depthwise;
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

/* ---- the kernels ---- */

enum {
    DEPTHWISE_LANES = 4,
    DEPTHWISE_THREADS = 256,
    DEPTHWISE_BLOCKS = 2,
    DEPTHWISE_GATHER_STRIP = 4
};
/* positions of y that a thread has beside each other */
#define DEPTHWISE_STRIP(stride) ((stride) == 1 ? 4 : 2)
/* warps of a block for each row of the window */
#define DEPTHWISE_DEPTH(kernel_size)       ((kernel_size) == 3 ? 3 : 2)
#define DEPTHWISE_BWD_THREADS(kernel_size) (32 * (kernel_size)*DEPTHWISE_DEPTH(kernel_size))
#define DEPTHWISE_BWD_BLOCKS(kernel_size)  ((kernel_size) == 3 ? 2 : 1)
typedef struct DepthwiseShape {
    DType dtype;             /* of activations, and of w */
    int n, vectors;          /* vectors of 16 bytes in a pixel */
    int h, w, p, q;          /* of what is read and of what is written; of x and of dy */
    int kernel_size, stride; /* 3 or 5; 1 or 2 */
    int pad_h, pad_w;        /* above and left of what is read; of x where it gathers */
    bool turned, gathers;    /* gradient to x, at stride 1 and at stride 2 */
    bool accumulate;         /* adds into dw */
    int places;              /* strips of all images; below 2^30 */
    int tiles, splits;       /* blocks: tiles cover a pixel, splits share the places */
    FastDiv by_strips, by_rows;
} DepthwiseShape;
/* (x, w, y), or (dy, w, dx) where turned or gathers. w: [channels][kernel_size^2] */
C_LINKAGE cudaError_t cuda_launch_depthwise(const DepthwiseShape *k, const void *w,
                                            const void *from, void *to, cudaStream_t stream);
/* parts: workspace [splits][kernel_size^2][tiles * 16-byte vectors of 4 lanes]; dw:
 * [channels][kernel_size^2] */
C_LINKAGE cudaError_t cuda_launch_depthwise_bwd_weights(const DepthwiseShape *k, const void *x,
                                                        const void *dy, float *parts, float *dw,
                                                        cudaStream_t stream);
#endif
