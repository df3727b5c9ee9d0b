/* conv2d_bn.c - a convolution of an evaluation and the batch norm behind it: the two ops of
 * conv2d.c and batchnorm.c, one after the other. */
#include "base/mem.h"
#include "kernels/ref/ref.h"

static Status run_forward(OpInstance *op, Stream *stream)
{
    const Conv2dBnAttr *a = op->attr;
    const BatchNormAttr norm = { .eps = a->eps, .mode = BN_EVAL, .act = a->act };
    OpInstance conv = { .kind = OP_CONV2D, .backend = op->backend, .attr = &a->conv },
               bn = { .kind = OP_BATCHNORM, .backend = op->backend, .attr = &norm };
    OpTensor *sums = &conv.out[CONV_OUT_Y];
    conv.in[CONV_IN_X] = op->in[CONV_BN_IN_X];
    conv.in[CONV_IN_W] = op->in[CONV_BN_IN_W];
    *sums = op->out[CONV_BN_OUT_Y]; /* y may lie over the residual */
    if (!(sums->data = mem_alloc(sums->bytes))) return ERR_MEMORY;
    Status st = ref_conv2d.run(&conv, stream);
    bn.in[BN_IN_X] = *sums;
    for (int i = 0; i < 4; i++) bn.in[BN_IN_GAMMA + i] = op->in[CONV_BN_IN_GAMMA + i];
    bn.in[BN_IN_RESIDUAL] = op->in[CONV_BN_IN_RESIDUAL];
    bn.out[BN_OUT_Y] = op->out[CONV_BN_OUT_Y];
    if (st == OK) st = ref_batchnorm.run(&bn, stream);
    mem_free(sums->data);
    return st;
}

const OpImpl ref_conv2d_bn = { ref_prepare, ref_bind, run_forward, NULL };
