/* norm_shape.c - which tensors a batch norm's graph has, and of which shape and type. */
#include "kernels/cuda/cudnn/norm_shape.h"
#include <stdio.h>

int norm_shape_operands(NormPass pass, const NormShape *s, NormOperand out[NORM_OPERAND_COUNT])
{
    const bool forward = pass == NORM_FORWARD;
    const struct {
        NormOperand operand;
        bool there;
    } rows[] = { { NORM_OP_X, true },
                 { NORM_OP_Y, forward },
                 { NORM_OP_RESIDUAL, forward && s->residual },
                 { NORM_OP_DY, !forward },
                 { NORM_OP_DX, !forward },
                 { NORM_OP_MEAN, true },
                 { NORM_OP_INV_STD, true },
                 { NORM_OP_GAMMA, true },
                 { NORM_OP_BETA, forward || s->act != ACT_NONE },
                 { NORM_OP_DGAMMA, !forward },
                 { NORM_OP_DBETA, !forward } };
    int count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].there) out[count++] = rows[i].operand;
    return count;
}

void norm_shape_dims(const NormShape *s, NormOperand operand, int64_t dims[4])
{
    const bool vector = operand >= NORM_OP_MEAN;
    dims[0] = vector ? 1 : s->n;
    dims[1] = s->c;
    dims[2] = vector ? 1 : s->h;
    dims[3] = vector ? 1 : s->w;
}

DType norm_shape_type(const NormShape *s, NormOperand operand)
{
    return operand >= NORM_OP_MEAN ? DTYPE_F32 : s->io;
}

bool norm_shape_writes(NormPass pass, NormOperand operand)
{
    if (pass == NORM_FORWARD)
        return operand == NORM_OP_Y || operand == NORM_OP_MEAN || operand == NORM_OP_INV_STD;
    return operand == NORM_OP_DX || operand == NORM_OP_DGAMMA || operand == NORM_OP_DBETA;
}

int64_t norm_shape_elements(const NormShape *s, NormOperand operand)
{
    int64_t dims[4];
    norm_shape_dims(s, operand, dims);
    return dims[0] * dims[1] * dims[2] * dims[3];
}

void norm_shape_format(NormPass pass, const NormShape *s, char *out, size_t bytes)
{
    const bool act = s->act != ACT_NONE;
    snprintf(out, bytes, "norm %s%s%s%s %s n%lld c%lld h%lld w%lld",
             pass == NORM_FORWARD ? "forward" : "bwd",
             pass == NORM_FORWARD && s->residual ? " residual" : "", act ? " " : "",
             act ? op_act(s->act)->name : "", dtype_name(s->io), (long long)s->n, (long long)s->c,
             (long long)s->h, (long long)s->w);
}
