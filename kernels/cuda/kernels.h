/* kernels.h - launchers of our own kernels (*.cu): plain C, device pointers, one call enqueues one
 * pass on a stream.
 *
 * Activations are rows of cp channels (CudaView) in dtype; vectors are f32. Channel counts are
 * padded ones unless a parameter says otherwise. All launchers return cudaGetLastError() of their
 * launch and never allocate or wait. Results do not depend on timing: no floating-point atomics.
 * Formulas that decide numbers stand in *_math.h, which host and device compile alike. */
#ifndef CONVOY_KERNELS_CUDA_KERNELS_H
#define CONVOY_KERNELS_CUDA_KERNELS_H
#include "kernels/cuda/batchnorm.h"
#include "kernels/cuda/batchnorm_parts.h"
#include "kernels/cuda/fast_div.h"
#include "kernels/cuda/update.h"
#include "kernels/op.h"
#include <cuda_runtime_api.h>
#ifdef __cplusplus
extern "C" {
#endif
/* Each .cu file's launchers are declared here, under the name of the file. */

/* ---- cast.cu: flat conversions between f32, bf16 and f16; count elements ---- */
cudaError_t cuda_launch_cast(const void *in, DType from, void *out, DType to, int64_t count,
                             cudaStream_t stream);
/* out f32 += in */
cudaError_t cuda_launch_cast_add(const void *in, DType from, float *out, int64_t count,
                                 cudaStream_t stream);

/* ---- input.cu: images u8 [pixels][c] -> x [pixels][cp], (v/255 - mean) / std, zero from c on
 * ---- */
cudaError_t cuda_launch_input(const uint8_t *images, const InputAttr *attr, void *x, DType dtype,
                              int64_t pixels, int c, int cp, int sm_count, cudaStream_t stream);

/* The same with images erased, mixed, or followed by their mirror images. */
typedef struct InputAugment {
    InputAttr attr;
    const uint8_t *images;
    const int32_t *boxes; /* [n][ERASE_COUNT]; NULL: nothing is erased */
    const float *mix;     /* [MIX_COUNT]; NULL: nothing is mixed */
    int64_t n;
    int h, w, views; /* views 2: x has 2 n images */
} InputAugment;
cudaError_t cuda_launch_input_augmented(const InputAugment *t, void *x, DType dtype, int c, int cp,
                                        int sm_count, cudaStream_t stream);

/* ---- pointwise.cu: flat, count elements; results are of dtype, as is the first input, over which
 * they may lie; over the second too, where that is of the same type ---- */
/* act is not ACT_NONE; y of the gradient: see OP_ACTIVATION_BWD. */
cudaError_t cuda_launch_pointwise_activation(ActKind act, const void *x, void *y, DType dtype,
                                             int64_t count, cudaStream_t stream);
cudaError_t cuda_launch_pointwise_activation_bwd(ActKind act, const void *dy, const void *y,
                                                 void *dx, DType dtype, DType y_type, int64_t count,
                                                 cudaStream_t stream);
cudaError_t cuda_launch_pointwise_add(const void *a, const void *b, void *y, DType dtype,
                                      DType b_type, int64_t count, cudaStream_t stream);
cudaError_t cuda_launch_pointwise_scale(const void *x, float factor, void *y, DType dtype,
                                        int64_t count, cudaStream_t stream);

/* ---- softmax_xent.cu ---- */
typedef struct XentPass {
    int64_t rows; /* images */
    int c, cp;    /* of logits and dlogits */
    int views;    /* 2: logits has twice as many rows, of which two are averaged */
    DType logits_type, dlogits_type;
    float smoothing;
    double even; /* smoothing / c */
    const void *logits;
    const int32_t *labels;
    const float *scalars, *loss_scale, *mix; /* the last two: NULL if absent */
    /* NULL if absent; may be logits where the types are equal */
    void *dlogits;
    double *row_stats; /* workspace [rows][STATS_COUNT] */
    double *stats;
} XentPass;
cudaError_t cuda_launch_softmax_xent(const XentPass *p, cudaStream_t stream); /* two kernels */

/* ---- update.cu: see update.h ---- */
cudaError_t cuda_launch_update(const UpdatePass *p, cudaStream_t stream);

/* ---- loss_scale.cu: state is the op's, see the LOSS_SCALE_ enum ---- */
cudaError_t cuda_launch_loss_scale_check_finite(const float *x, int64_t count, float *state,
                                                int sm_count, cudaStream_t stream);
cudaError_t cuda_launch_loss_scale(const LossScaleAttr *attr, float *state, cudaStream_t stream);

/* ---- grad_norm.cu: x is aligned to 16 bytes; sums and clip are the ops' ---- */
cudaError_t cuda_launch_grad_norm_squares(const float *x, int64_t count, double *sums,
                                          cudaStream_t stream);
/* loss_scale: NULL if absent */
cudaError_t cuda_launch_grad_norm(const GradNormAttr *attr, const double *sums, int64_t count,
                                  const float *loss_scale, float *clip, cudaStream_t stream);

/* ---- batchnorm.cu: see batchnorm.h ---- */
/* Sums of one pass over x -> partials, guess. */
cudaError_t cuda_launch_batchnorm_statistics(const BnForward *f, cudaStream_t stream);
/* partials, guess -> statistics, running statistics. */
cudaError_t cuda_launch_batchnorm_finish(const BnForward *f, cudaStream_t stream);
/* Running statistics -> statistics. */
cudaError_t cuda_launch_batchnorm_constant(const BnForward *f, cudaStream_t stream);
/* y = act(bn(x) + residual) by statistics. */
cudaError_t cuda_launch_batchnorm_apply(const BnForward *f, cudaStream_t stream);

/* ---- batchnorm_bwd.cu: see batchnorm.h ---- */
/* dz -> partials, dresidual. */
cudaError_t cuda_launch_batchnorm_bwd_sums(const BnBackward *b, cudaStream_t stream);
/* partials -> dgamma, dbeta, means. */
cudaError_t cuda_launch_batchnorm_bwd_finish(const BnBackward *b, cudaStream_t stream);
/* dx by means, from dresidual where that was written. */
cudaError_t cuda_launch_batchnorm_bwd_apply(const BnBackward *b, cudaStream_t stream);

/* ---- batchnorm_cudnn.cu: see batchnorm.h ---- */
cudaError_t cuda_launch_batchnorm_cudnn_gradient_of_z(const BnGradientOfZ *k, cudaStream_t stream);
cudaError_t cuda_launch_batchnorm_cudnn_running(const BnRunning *k, cudaStream_t stream);

/* ---- batchnorm_parts.cu: see batchnorm_parts.h ---- */
/* sums -> saved, affine, running statistics. */
cudaError_t cuda_launch_batchnorm_parts_finalize(const BnFinalize *f, cudaStream_t stream);
/* dx by coefficients. */
cudaError_t cuda_launch_batchnorm_parts_combine(const BnCombine *k, cudaStream_t stream);

/* ---- pool2d.cu: index is NULL or u8, NHWC like y ---- */
typedef struct Pool2dShape {
    DType dtype;
    PoolKind kind;
    int n, c, vectors; /* c: unpadded; vectors of 16 bytes in a pixel */
    int h, w, p, q;    /* of x and of y */
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    float share; /* of an average: 1 / (kernel_h * kernel_w) */
    FastDiv by_vectors, by_w, by_q, by_stride_h, by_stride_w;
} Pool2dShape;
cudaError_t cuda_launch_pool2d(const Pool2dShape *k, const void *x, void *y, uint8_t *index,
                               cudaStream_t stream);
cudaError_t cuda_launch_pool2d_bwd(const Pool2dShape *k, const void *dy, const uint8_t *index,
                                   void *dx, cudaStream_t stream);

/* ---- depthwise.cu, depthwise_bwd.cu ---- */
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
/* (x, w, y), or (dy, w, dx) where turned or gathers. w: [channels][window * window] */
cudaError_t cuda_launch_depthwise(const DepthwiseShape *k, const void *w, const void *from,
                                  void *to, cudaStream_t stream);
/* parts: workspace [splits][window * window][tiles * 16-byte vectors of 4 lanes]; dw:
 * [channels][window * window] */
cudaError_t cuda_launch_depthwise_bwd_weights(const DepthwiseShape *k, const void *x,
                                              const void *dy, float *parts, float *dw,
                                              cudaStream_t stream);

/* ---- global_avgpool.cu ---- */
typedef struct AvgpoolShape {
    RowGrid grid; /* of one image: its rows are pixels */
    DType dtype;
    int n;
    float share; /* 1 / pixels */
} AvgpoolShape;
cudaError_t cuda_launch_global_avgpool(const AvgpoolShape *k, const void *x, void *y,
                                       cudaStream_t stream);
/* dy_type: f32 or that of dx */
cudaError_t cuda_launch_global_avgpool_bwd(const AvgpoolShape *k, const void *dy, DType dy_type,
                                           void *dx, cudaStream_t stream);

/* ---- gate.cu: y = x sigmoid(g); g and dg are rows of cp channels, f32 or of dtype ---- */
typedef struct GateShape {
    DType dtype, g_type; /* of x, y, dx, dy; of g and dg */
    int n, rows, vectors, cp;
    int lanes_log2, tiles, splits; /* blocks: tiles cover a row, splits share an image's rows */
} GateShape;
cudaError_t cuda_launch_gate(const GateShape *k, const void *x, const void *g, void *y,
                             cudaStream_t stream);
/* dx may be dy. partials: workspace f32 [n][splits][cp]. */
cudaError_t cuda_launch_gate_bwd(const GateShape *k, const void *dy, const void *x, const void *g,
                                 void *dx, void *dg, float *partials, cudaStream_t stream);

/* ---- drop.cu: y = x f + residual, f of kernels/drop.h; y may be x or residual ---- */
typedef struct DropPass {
    DropAttr attr;
    DType dtype;              /* of x, residual and y */
    int64_t images, vectors;  /* of 16 bytes, in an image */
    const float *scalars;     /* the step's */
    const void *x, *residual; /* residual: NULL if absent */
    void *y;
} DropPass;
cudaError_t cuda_launch_drop(const DropPass *p, cudaStream_t stream);

/* ---- subsample.cu ---- */
typedef struct SubsampleShape {
    int n, h, w, p, q, stride;        /* h, w: of x (large); p, q: of y (small) */
    int large_vectors, small_vectors; /* vectors of 16 bytes in a pixel */
    int channel_bytes;                /* of x, unpadded */
    FastDiv by_large_vectors, by_small_vectors, by_w, by_q, by_stride;
} SubsampleShape;
cudaError_t cuda_launch_subsample(const SubsampleShape *k, const void *x, void *y,
                                  cudaStream_t stream);
cudaError_t cuda_launch_subsample_bwd(const SubsampleShape *k, const void *dy, void *dx,
                                      cudaStream_t stream);

/* ---- linear.cu ---- */
/* x: NHWC [n][h][w][cp] of c channels; flat: [n][flat_cp], the elements of an image in the order
 * C,H,W. Both are of the same type; padding is written as zero. */
typedef struct LinearFlatten {
    int64_t n, c, h, w, cp, flat_cp;
    int element_bytes; /* 2 or 4 */
} LinearFlatten;
cudaError_t cuda_launch_linear_flatten(const LinearFlatten *f, const void *x, void *flat,
                                       cudaStream_t stream);
cudaError_t cuda_launch_linear_unflatten(const LinearFlatten *f, const void *flat, void *x,
                                         cudaStream_t stream);
/* db[kp] = or += the sum of the n rows of dy. */
cudaError_t cuda_launch_linear_bias_gradient(const void *dy, DType dtype, float *db, int64_t n,
                                             int64_t kp, bool accumulate, cudaStream_t stream);
#ifdef __cplusplus
}
#endif
#endif
