/* conv2d.h - between the two halves of the convolution: which primitive (conv2d_choose.c) and how it is used
 * (conv2d.c). */
#ifndef CONVOY_KERNELS_CPU_CONV2D_H
#define CONVOY_KERNELS_CPU_CONV2D_H
#include "kernels/cpu/dnnl_util.h"

typedef struct ConvGeometry {
    int64_t x[4], w[LAYOUT_MAX_RANK], y[4]; /* w: [K,C,R,S], or [G,K/G,C/G,R,S] with groups */
    int w_rank;
    dnnl_dims_t stride, pad_before, pad_after; /* height, width */
    int64_t first_tap[2];                      /* of the full window, where w is a part of it */
    bool cropped;
} ConvGeometry;

ConvGeometry conv_geometry(const Conv2dAttr *a, const TensorDesc *x, const TensorDesc *w, const TensorDesc *y);
/* The same convolution without the taps of the window that meet nothing but padding. */
ConvGeometry conv_crop(const ConvGeometry *full);

typedef struct ConvProblem {
    ConvDirection direction;
    const ConvGeometry *geometry;
    const Layout *x, *w, *y; /* what the tensors have; w NULL: open */
} ConvProblem;

typedef struct ConvChoice {
    dnnl_primitive_desc_t pd;
    const Layout *x, *w, *y; /* what the primitive takes */
    const char *implementation;
} ConvChoice;

/* Caller owns out->pd. */
Status conv_choose(CpuBackend *b, const ConvProblem *problem, ConvChoice *out);
#endif
