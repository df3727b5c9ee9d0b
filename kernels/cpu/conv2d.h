/* conv2d.h - between the two halves of the convolution: which primitive (conv2d_choose.c) and how
 * it is used (conv2d.c). */
#ifndef CONVOY_KERNELS_CPU_CONV2D_H
#define CONVOY_KERNELS_CPU_CONV2D_H
#include "kernels/cpu/steps.h"

typedef struct ConvGeometry {
    int64_t x[4], w[LAYOUT_MAX_RANK], y[4]; /* w: [K,C,R,S], or [G,K/G,C/G,R,S] with groups */
    int w_rank;
    dnnl_dims_t stride, pad_before, pad_after; /* height, width */
    int64_t first_tap[2];                      /* of the full window, where w is a part of it */
    bool cropped;
} ConvGeometry;

ConvGeometry conv2d_geometry(const Conv2dAttr *a, const TensorDesc *x, const TensorDesc *w,
                             const TensorDesc *y);
/* One filter for each channel. */
static inline bool conv2d_depthwise(const ConvGeometry *g)
{
    return g->w_rank == 5 && g->w[0] == g->x[1] && g->w[1] == 1;
}
/* The same convolution without the taps of the window that meet nothing but padding. */
ConvGeometry conv2d_crop(const ConvGeometry *full);

typedef struct ConvEpilogue { /* y = act(sum + bias, and with add what y held) */
    const Layout *bias;
    bool add;
    ActKind act;
} ConvEpilogue;

typedef struct ConvProblem {
    ConvDirection direction;
    const ConvGeometry *geometry;
    const Layout *x, *w, *y;      /* what the tensors have; w NULL or of another type: open */
    const ConvEpilogue *epilogue; /* forward alone; NULL: none */
    bool evaluates;               /* OpInstance */
} ConvProblem;

typedef struct ConvChoice {
    dnnl_primitive_desc_t pd; /* NULL: winograd.c or depthwise.c computes it */
    const Layout *x, *w, *y;  /* what the primitive takes */
    /* of bf16, in f32: what it takes is wide, and weights that it reads have to be rounded */
    bool emulated;
    bool product;  /* pd is a matrix product: conv2d_product.c */
    bool winograd; /* winograd.c computes it */
    const char *implementation;
} ConvChoice;

/* Caller owns out->pd. */
Status conv2d_choose(CpuBackend *b, const ConvProblem *problem, ConvChoice *out);

/* ---- conv2d_product.c ---- */

/* Puts a matrix product in the place of *choice where that pays. */
Status conv2d_choose_product(CpuBackend *b, const ConvProblem *problem, ConvChoice *choice);
/* The steps of one; takes pd. g is borrowed as long as the steps live. */
Status conv2d_add_product(CpuBackend *b, CpuSteps *s, ConvDirection direction,
                          const ConvGeometry *g, dnnl_primitive_desc_t pd, CpuOperand x,
                          CpuOperand w, CpuOperand y);

/* ---- conv2d.c, for it and conv2d_bn.c ---- */

/* How weights lie that no program has placed yet, and their gradients. */
Status conv2d_layout_of_weights(CpuBackend *b, const ConvGeometry *g, const Layout *x,
                                const Layout *y, const Layout **out);
Status conv2d_decide_weights(CpuBackend *b, const ConvGeometry *g, const Layout *x, const Layout *y,
                             OpTensor *w);
/* have, or a copy of it that lies as want; of weights that lie as the full window, the part that is
 * g's, and with `rounds` its nearest bf16. */
Status conv2d_fetch(CpuBackend *b, CpuSteps *s, CpuOperand have, const Layout *want,
                    CpuOperand *out);
Status conv2d_fetch_weights(CpuBackend *b, CpuSteps *s, const ConvGeometry *g, CpuOperand have,
                            const Layout *want, bool rounds, CpuOperand *out);
#endif
