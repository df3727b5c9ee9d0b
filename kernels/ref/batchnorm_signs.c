/* batchnorm_signs.c - the two ops of batchnorm.c with signs as bits: forward writes those of its y,
 * backward takes them for y. */
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

static Status run_forward(OpInstance *op, Stream *stream)
{
    OpInstance bn = *op;
    bn.kind = OP_BATCHNORM;
    bn.out[BN_SIGNS_OUT_SIGNS] = (OpTensor){ .data = NULL };
    TRY(ref_batchnorm.run(&bn, stream));
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

const OpImpl ref_bn_signs = { ref_prepare, ref_bind, run_forward, NULL };
const OpImpl ref_bn_signs_bwd = { ref_prepare, ref_bind, run_backward, NULL };
