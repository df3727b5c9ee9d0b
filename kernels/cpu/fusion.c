/* fusion.c - which fusions the CPU backend takes: batch norm behind a convolution, in evaluations.
 *
 * What is saved is a pass over y; what it costs is a pass over the weights (fold.c). FUSE_AUTO
 * takes it where the weights are fewer than y of a few images: not of the whole batch, on which the
 * answer must not depend, since evaluations give the same bits however many ranks share the images.
 * FUSE_ALL takes it wherever the convolution is computed by the same implementation with and
 * without. */
#include "kernels/cpu/conv2d.h"
#include "kernels/cpu/fold.h"
#include "kernels/cpu/view.h"

/* ResNet-50 at 224 pixels: 32 of 53 convolutions with 0.89 of all elements of y, and 0.16 of the
 * weights. */
enum { WORTH_IMAGES = 4 };

static bool is_worth_it(const OpShape *op)
{
    const TensorDesc *y = &op->out[CONV_BN_OUT_Y];
    return tensor_elements(&op->in[CONV_BN_IN_W]) <=
           WORTH_IMAGES * (tensor_elements(y) / y->dims[0]);
}

/* folds: how weights would lie while the norm is multiplied in. */
static Status choose_conv(CpuBackend *b, const OpShape *op, const ConvEpilogue *epilogue,
                          ConvChoice *out, const Layout **folds)
{
    const Conv2dBnAttr *a = op->attr;
    const TensorDesc *x = &op->in[CONV_BN_IN_X], *y = &op->out[CONV_BN_OUT_Y];
    const ConvGeometry full = conv2d_geometry(&a->conv, x, &op->in[CONV_BN_IN_W], y),
                       live = conv2d_crop(&full);
    ConvProblem problem = {
        .direction = CONV_FORWARD, .geometry = &live, .epilogue = epilogue, .evaluates = true
    };
    OpTensor tx = { .desc = *x }, ty = { .desc = *y };
    cpu_view_decide(b, &tx);
    cpu_view_decide(b, &ty);
    TRY(cpu_layout_of_tensor(b, &problem.x, &tx));
    TRY(cpu_layout_of_tensor(b, &problem.y, &ty));
    TRY(conv2d_choose(b, &problem, out));
    dnnl_primitive_desc_destroy(out->pd);
    *folds = out->w;
    return out->w->type == DTYPE_F32
               ? OK
               : conv2d_layout_of_weights(b, &full, problem.x, problem.y, folds);
}

static bool is_as_fast(CpuBackend *b, const OpShape *op)
{
    const Conv2dBnAttr *a = op->attr;
    ConvEpilogue epilogue = { .add = op->in[CONV_BN_IN_RESIDUAL].rank != 0, .act = a->act };
    ConvChoice without, with;
    const Layout *folds;
    CpuFold fold;
    if (cpu_layout_plain(b, &epilogue.bias, 1, op->in[CONV_BN_IN_W].dims) != OK) return false;
    if (choose_conv(b, op, NULL, &without, &folds) != OK ||
        choose_conv(b, op, &epilogue, &with, &folds) != OK)
        return false;
    /* names and layouts are interned */
    return with.implementation == without.implementation && with.x == without.x &&
           with.y == without.y && cpu_fold_prepare(&fold, folds, a->eps) == OK;
}

bool cpu_fusion_takes(void *backend, const Fusion *fusion)
{
    CpuBackend *b = backend;
    const OpShape *op = &fusion->after[0];
    if (b->fuse == FUSE_NONE || op->kind != OP_CONV2D_BN) return false;
    return (b->fuse == FUSE_ALL || is_worth_it(op)) && is_as_fast(b, op);
}
