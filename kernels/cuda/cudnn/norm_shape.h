/* norm_shape.h - which tensors a batch norm's graph has, and of which shape and type: what the plan
 * and its double (tests/emu) share. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_NORM_SHAPE_H
#define CONVOY_KERNELS_CUDA_CUDNN_NORM_SHAPE_H
#include "kernels/op.h"

typedef enum NormPass { NORM_FORWARD, NORM_BWD, NORM_PASS_COUNT } NormPass;

typedef struct NormShape {
    int64_t n, c, h, w; /* physical: NHWC, packed */
    DType io;           /* of the tensors of x's shape; vectors are f32 */
    ActKind act;
    bool residual; /* NORM_FORWARD; with an act by sign (ActDef) */
    float eps;     /* NORM_FORWARD */
} NormShape;

typedef enum NormOperand {
    NORM_OP_X,
    NORM_OP_Y,
    NORM_OP_RESIDUAL,
    NORM_OP_DY,
    NORM_OP_DX,
    NORM_OP_MEAN, /* vectors from here on */
    NORM_OP_INV_STD,
    NORM_OP_GAMMA,
    NORM_OP_BETA,
    NORM_OP_DGAMMA,
    NORM_OP_DBETA,
    NORM_OPERAND_COUNT
} NormOperand;

/* Writes the operands of a pass in a fixed order; returns how many. */
int norm_shape_operands(NormPass pass, const NormShape *s, NormOperand out[NORM_OPERAND_COUNT]);
void norm_shape_dims(const NormShape *s, NormOperand operand, int64_t dims[4]);
DType norm_shape_type(const NormShape *s, NormOperand operand);
bool norm_shape_writes(NormPass pass, NormOperand operand);
int64_t norm_shape_elements(const NormShape *s, NormOperand operand);
/* "norm forward residual relu bf16 n2 c8 h4 w4" */
void norm_shape_format(NormPass pass, const NormShape *s, char *out, size_t bytes);
#endif
