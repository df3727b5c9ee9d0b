/* batchnorm_signs.c - the two ops of batchnorm.c with signs as bits: forward writes those of its y,
 * backward takes them for y. What a norm on the shortcut leaves out is made here. */
#include "base/mem.h"
#include "kernels/ref/ref.h"
#include <string.h>

typedef struct Bit { /* of an element of a tensor N,C,H,W */
    int64_t byte;
    int bit;
} Bit;

static Bit bit_of(const TensorDesc *x, int64_t at)
{
    const int64_t hw = x->dims[2] * x->dims[3], c = at / hw % x->dims[1],
                  position = at / hw / x->dims[1] * hw + at % hw;
    return (Bit){ position * ((x->dims[1] + 7) / 8) + c / 8, (int)(c % 8) };
}

/* A tensor like another, with values of its own (mem_free). */
static Status make_like(OpTensor *t, const OpTensor *like)
{
    *t = *like;
    return (t->data = mem_calloc(1, like->bytes)) ? OK : ERR_MEMORY;
}

/* A norm with some gamma and beta, whose y is of no use. */
static Status run_statistics(OpInstance *op, Stream *stream)
{
    OpInstance bn = *op;
    OpTensor *made[] = { &bn.out[BN_OUT_Y], &bn.in[BN_IN_GAMMA], &bn.in[BN_IN_BETA] };
    const OpTensor *like[] = { &op->in[BN_IN_X], &op->in[BN_IN_RUNNING_MEAN],
                               &op->in[BN_IN_RUNNING_MEAN] };
    Status status = OK;
    bn.kind = OP_BATCHNORM;
    for (int i = 0; i < 3; i++)
        if (make_like(made[i], like[i]) != OK) status = ERR_MEMORY;
    if (status == OK) status = ref_batchnorm.run(&bn, stream);
    for (int i = 0; i < 3; i++) mem_free(made[i]->data);
    return status;
}

/* By statistics that are given, in place. */
static void norm_residual(const OpInstance *op, const TensorDesc *desc, double *values)
{
    const int64_t *d = desc->dims, hw = d[2] * d[3];
    const double *gamma = ref_in(op, BN_SIGNS_IN_RESIDUAL_GAMMA),
                 *beta = ref_in(op, BN_SIGNS_IN_RESIDUAL_BETA),
                 *saved = ref_in(op, BN_SIGNS_IN_RESIDUAL_SAVED);
    for (int64_t i = 0, n = tensor_elements(desc); i < n; i++) {
        const int64_t c = i / hw % d[1];
        values[i] = (values[i] - saved[c]) * saved[d[1] + c] * gamma[c] + beta[c];
    }
}

static Status run_norm(const OpInstance *op, Stream *stream)
{
    OpInstance bn = *op;
    OpTensor *residual = &bn.in[BN_IN_RESIDUAL];
    const bool normed = ref_has_in(op, BN_SIGNS_IN_RESIDUAL_SAVED);
    bn.kind = OP_BATCHNORM;
    bn.out[BN_SIGNS_OUT_SIGNS] = (OpTensor){ .data = NULL };
    for (int i = BN_SIGNS_IN_RESIDUAL_GAMMA; i <= BN_SIGNS_IN_RESIDUAL_SAVED; i++)
        bn.in[i] = (OpTensor){ .data = NULL };
    if (normed) {
        TRY(make_like(residual, &op->in[BN_IN_RESIDUAL]));
        memcpy(residual->data, op->in[BN_IN_RESIDUAL].data, residual->bytes);
        norm_residual(op, &residual->desc, residual->data);
    }
    Status status = ref_batchnorm.run(&bn, stream);
    if (normed) mem_free(residual->data);
    return status;
}

static Status run_forward(OpInstance *op, Stream *stream)
{
    TRY(run_norm(op, stream));
    const OpTensor *y = &op->out[BN_OUT_Y], *signs = &op->out[BN_SIGNS_OUT_SIGNS];
    uint8_t *bits = signs->data;
    memset(bits, 0, (size_t)tensor_elements(&signs->desc));
    for (int64_t i = 0, n = tensor_elements(&y->desc); i < n; i++) {
        const Bit b = bit_of(&y->desc, i);
        if (!(((const double *)y->data)[i] <= 0)) bits[b.byte] |= (uint8_t)(1 << b.bit);
    }
    return OK;
}

static Status run_backward(OpInstance *op, Stream *stream)
{
    OpInstance bn = *op;
    OpTensor *y = &bn.in[BN_BWD_IN_Y];
    const uint8_t *bits = op->in[BN_SIGNS_BWD_IN_SIGNS].data;
    bn.kind = OP_BATCHNORM_BWD;
    *y = op->in[BN_BWD_IN_X];
    double *values = y->data = mem_alloc(y->bytes);
    if (!values) return ERR_MEMORY;
    for (int64_t i = 0, n = tensor_elements(&y->desc); i < n; i++) {
        const Bit b = bit_of(&y->desc, i);
        values[i] = bits[b.byte] >> b.bit & 1;
    }
    Status status = ref_batchnorm_bwd.run(&bn, stream);
    mem_free(values);
    return status;
}

const OpImpl ref_bn_statistics = { ref_prepare, ref_bind, run_statistics, NULL };
const OpImpl ref_bn_signs = { ref_prepare, ref_bind, run_forward, NULL };
const OpImpl ref_bn_signs_bwd = { ref_prepare, ref_bind, run_backward, NULL };
