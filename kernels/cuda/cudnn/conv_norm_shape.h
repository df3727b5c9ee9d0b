/* conv_norm_shape.h - which tensors a fused convolution has, and of which shape and type: what the
 * plan and its double (tests/emu) share. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_CONV_NORM_SHAPE_H
#define CONVOY_KERNELS_CUDA_CUDNN_CONV_NORM_SHAPE_H
#include "kernels/cuda/cudnn/conv_shape.h"

typedef enum ConvNormPass {
    CONV_NORM_STATS,
    CONV_NORM_BWD_DATA,
    CONV_NORM_BWD_WEIGHTS,
    CONV_NORM_PASS_COUNT
} ConvNormPass;
typedef enum ConvPrologue {
    CONV_PLAIN,
    CONV_AFFINE,
    CONV_RESIDUAL,
    CONV_DUAL,
    CONV_PROLOGUE_COUNT
} ConvPrologue;

/* Each shape of tensor is that of x, w or y, or a vector over the channels of x or y. */
typedef enum ConvOperand {
    CONV_OP_X,
    CONV_OP_W, /* dw in CONV_NORM_BWD_WEIGHTS */
    CONV_OP_Y, /* dy in the gradients */
    CONV_OP_SUM,
    CONV_OP_SQUARE,
    CONV_OP_SCALE,
    CONV_OP_SHIFT,
    CONV_OP_RESIDUAL,
    CONV_OP_RESIDUAL_SCALE,
    CONV_OP_RESIDUAL_SHIFT,
    CONV_OP_Z, /* dz in CONV_NORM_BWD_DATA */
    CONV_OP_MEAN,
    CONV_OP_INV_STD,
    CONV_OP_GAMMA,
    CONV_OP_BETA,
    CONV_OP_DGAMMA,
    CONV_OP_DBETA,
    CONV_OP_BY_DZ,
    CONV_OP_BY_X,
    CONV_OP_CONSTANT,
    /* of the residual's own norm, as those of x from CONV_OP_MEAN on */
    CONV_OP_RESIDUAL_MEAN,
    CONV_OP_RESIDUAL_INV_STD,
    CONV_OP_RESIDUAL_GAMMA,
    CONV_OP_RESIDUAL_BETA,
    CONV_OP_RESIDUAL_DGAMMA,
    CONV_OP_RESIDUAL_DBETA,
    CONV_OP_RESIDUAL_BY_DZ,
    CONV_OP_RESIDUAL_BY_X,
    CONV_OP_RESIDUAL_CONSTANT,
    CONV_OP_DY2,
    CONV_OPERAND_COUNT
} ConvOperand;

/* The operands of a pass in a fixed order, ended by CONV_OPERAND_COUNT. */
const ConvOperand *conv_norm_shape_operands(ConvNormPass pass, ConvPrologue prologue);
void conv_norm_shape_dims(const ConvShape *s, ConvOperand operand, int64_t dims[4]);
DType conv_norm_shape_type(const ConvShape *s, ConvOperand operand);
bool conv_norm_shape_writes(ConvNormPass pass, ConvOperand operand);
const char *conv_norm_shape_pass_name(ConvNormPass pass,
                                      ConvPrologue prologue); /* "stats of affine" */
#endif
