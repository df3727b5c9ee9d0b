/* conv_norm_shape.c - which tensors a fused convolution has, and of which shape and type. */
#include "kernels/cuda/cudnn/conv_norm_shape.h"

#define END CONV_OPERAND_COUNT

/* clang-format off */
static const struct PassRow {
    const char *name;
    ConvOperand operands[CONV_OPERAND_COUNT];
} passes[CONV_NORM_PASS_COUNT][CONV_PROLOGUE_COUNT] = {
    [CONV_NORM_STATS] = {
        [CONV_PLAIN] = { "stats",
            { CONV_OP_X, CONV_OP_W, CONV_OP_Y, CONV_OP_SUM, CONV_OP_SQUARE, END } },
        [CONV_AFFINE] = { "stats of affine",
            { CONV_OP_X, CONV_OP_W, CONV_OP_Y, CONV_OP_SUM, CONV_OP_SQUARE, CONV_OP_SCALE,
              CONV_OP_SHIFT, END } },
        [CONV_RESIDUAL] = { "stats of residual",
            { CONV_OP_X, CONV_OP_W, CONV_OP_Y, CONV_OP_SUM, CONV_OP_SQUARE, CONV_OP_SCALE,
              CONV_OP_SHIFT, CONV_OP_RESIDUAL, CONV_OP_Z, END } },
        [CONV_DUAL] = { "stats of dual",
            { CONV_OP_X, CONV_OP_W, CONV_OP_Y, CONV_OP_SUM, CONV_OP_SQUARE, CONV_OP_SCALE,
              CONV_OP_SHIFT, CONV_OP_RESIDUAL, CONV_OP_RESIDUAL_SCALE, CONV_OP_RESIDUAL_SHIFT,
              CONV_OP_Z, END } },
    },
    [CONV_NORM_BWD_DATA] = {
        [CONV_PLAIN] = { "bwd_data to norm",
            { CONV_OP_X, CONV_OP_W, CONV_OP_Y, CONV_OP_Z, CONV_OP_MEAN, CONV_OP_INV_STD,
              CONV_OP_GAMMA, CONV_OP_BETA, CONV_OP_DGAMMA, CONV_OP_DBETA, CONV_OP_BY_DZ,
              CONV_OP_BY_X, CONV_OP_CONSTANT, END } },
        [CONV_RESIDUAL] = { "bwd_data to norm of residual",
            { CONV_OP_X, CONV_OP_W, CONV_OP_Y, CONV_OP_Z, CONV_OP_MEAN, CONV_OP_INV_STD,
              CONV_OP_GAMMA, CONV_OP_BETA, CONV_OP_DGAMMA, CONV_OP_DBETA, CONV_OP_BY_DZ,
              CONV_OP_BY_X, CONV_OP_CONSTANT, CONV_OP_DY2, CONV_OP_RESIDUAL, END } },
        [CONV_DUAL] = { "bwd_data to norm of dual",
            { CONV_OP_X, CONV_OP_W, CONV_OP_Y, CONV_OP_Z, CONV_OP_MEAN, CONV_OP_INV_STD,
              CONV_OP_GAMMA, CONV_OP_BETA, CONV_OP_DGAMMA, CONV_OP_DBETA, CONV_OP_BY_DZ,
              CONV_OP_BY_X, CONV_OP_CONSTANT, CONV_OP_DY2, CONV_OP_RESIDUAL,
              CONV_OP_RESIDUAL_MEAN, CONV_OP_RESIDUAL_INV_STD, CONV_OP_RESIDUAL_GAMMA,
              CONV_OP_RESIDUAL_BETA, CONV_OP_RESIDUAL_DGAMMA, CONV_OP_RESIDUAL_DBETA,
              CONV_OP_RESIDUAL_BY_DZ, CONV_OP_RESIDUAL_BY_X, CONV_OP_RESIDUAL_CONSTANT, END } },
    },
    [CONV_NORM_BWD_WEIGHTS] = {
        [CONV_AFFINE] = { "bwd_weights of affine",
            { CONV_OP_X, CONV_OP_W, CONV_OP_Y, CONV_OP_SCALE, CONV_OP_SHIFT, END } },
    },
};
/* clang-format on */

static const struct PassRow *row_of(ConvNormPass pass, ConvPrologue prologue)
{
    ASSERT(pass < CONV_NORM_PASS_COUNT && prologue < CONV_PROLOGUE_COUNT &&
           passes[pass][prologue].name);
    return &passes[pass][prologue];
}

const ConvOperand *conv_norm_shape_operands(ConvNormPass pass, ConvPrologue prologue)
{
    return row_of(pass, prologue)->operands;
}

const char *conv_norm_shape_pass_name(ConvNormPass pass, ConvPrologue prologue)
{
    return row_of(pass, prologue)->name;
}

void conv_norm_shape_dims(const ConvShape *s, ConvOperand operand, int64_t dims[4])
{
    const int64_t x[4] = { s->n, s->c, s->h, s->w },
                  w[4] = { s->k, s->c / s->attr.groups, s->r, s->s },
                  y[4] = { s->n, s->k, s->p, s->q }, of_x[4] = { 1, s->c, 1, 1 },
                  of_y[4] = { 1, s->k, 1, 1 };
    const bool image = operand == CONV_OP_X || operand == CONV_OP_RESIDUAL ||
                       operand == CONV_OP_Z || operand == CONV_OP_DY2;
    const int64_t *from = image                                                 ? x
                          : operand == CONV_OP_W                                ? w
                          : operand == CONV_OP_Y                                ? y
                          : operand == CONV_OP_SUM || operand == CONV_OP_SQUARE ? of_y
                                                                                : of_x;
    for (int i = 0; i < 4; i++) dims[i] = from[i];
}

DType conv_norm_shape_type(const ConvShape *s, ConvOperand operand)
{
    switch (operand) {
    case CONV_OP_SUM:
    case CONV_OP_SQUARE:
    case CONV_OP_MEAN:
    case CONV_OP_INV_STD:
    case CONV_OP_GAMMA:
    case CONV_OP_BETA:
    case CONV_OP_DGAMMA:
    case CONV_OP_DBETA:
    case CONV_OP_BY_DZ:
    case CONV_OP_BY_X:
    case CONV_OP_CONSTANT:
    case CONV_OP_RESIDUAL_MEAN:
    case CONV_OP_RESIDUAL_INV_STD:
    case CONV_OP_RESIDUAL_GAMMA:
    case CONV_OP_RESIDUAL_BETA:
    case CONV_OP_RESIDUAL_DGAMMA:
    case CONV_OP_RESIDUAL_DBETA:
    case CONV_OP_RESIDUAL_BY_DZ:
    case CONV_OP_RESIDUAL_BY_X:
    case CONV_OP_RESIDUAL_CONSTANT:
        return DTYPE_F32;
    case CONV_OP_X:
    case CONV_OP_W:
    case CONV_OP_Y:
    case CONV_OP_Z:
    case CONV_OP_SCALE:
    case CONV_OP_SHIFT:
    case CONV_OP_RESIDUAL:
    case CONV_OP_RESIDUAL_SCALE:
    case CONV_OP_RESIDUAL_SHIFT:
    case CONV_OP_DY2:
    case CONV_OPERAND_COUNT:
        break;
    }
    return s->io;
}

bool conv_norm_shape_writes(ConvNormPass pass, ConvOperand operand)
{
    static const ConvOperand written[CONV_NORM_PASS_COUNT][CONV_OPERAND_COUNT] = {
        [CONV_NORM_STATS] = { CONV_OP_Y, CONV_OP_SUM, CONV_OP_SQUARE, CONV_OP_Z, END },
        [CONV_NORM_BWD_DATA] = { CONV_OP_Z, CONV_OP_DGAMMA, CONV_OP_DBETA, CONV_OP_BY_DZ,
                                 CONV_OP_BY_X, CONV_OP_CONSTANT, CONV_OP_RESIDUAL_DGAMMA,
                                 CONV_OP_RESIDUAL_DBETA, CONV_OP_RESIDUAL_BY_DZ,
                                 CONV_OP_RESIDUAL_BY_X, CONV_OP_RESIDUAL_CONSTANT, END },
        [CONV_NORM_BWD_WEIGHTS] = { CONV_OP_W, END },
    };
    for (const ConvOperand *w = written[pass]; *w != END; w++)
        if (*w == operand) return true;
    return false;
}
