/* norm_plan.h - training batch norms as cuDNN would run them, each pass one operation graph: shape
 * in, plan out. norm_plan.c builds the graphs; tests/emu has plain loops behind the same functions.
 *
 *   NORM_FORWARD  mean and inv_std of x; y = act(gamma (x - mean) inv_std + beta [+ residual])
 *   NORM_BWD      dz = dy act'(z), where z is formed again from x; dx, dgamma and dbeta at dz. No
 *                 residual: after one the sign is not x's, and dz is to be had from outside, for
 *                 ACT_NONE.
 *
 * dx must not lie over dy: in which order a graph reads and writes is not documented. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_NORM_PLAN_H
#define CONVOY_KERNELS_CUDA_CUDNN_NORM_PLAN_H
#include "kernels/cuda/cuda.h"

typedef enum NormPass { NORM_FORWARD, NORM_BWD, NORM_PASS_COUNT } NormPass;

typedef struct NormShape {
    int64_t n, c, h, w; /* physical: NHWC, packed */
    DType io;           /* of the tensors of x's shape; vectors are f32 */
    ActKind act;
    bool residual; /* NORM_FORWARD; not with silu */
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

typedef struct NormPlan NormPlan;
/* ERR_ENV if no engine fits within the workspace limit, with cuDNN's reason. */
Status norm_plan_create(NormPlan **out, CudaBackend *b, NormPass pass, const NormShape *shape);
void norm_plan_destroy(NormPlan *p); /* NULL ok */
size_t norm_plan_workspace(const NormPlan *p);
const char *norm_plan_name(const NormPlan *p); /* "cudnn engine 0"; lives as long as p */
/* Fixes the addresses that runs use from now on, by NormOperand; those that the pass does not have
 * are not read. 16-byte aligned device memory. */
Status norm_plan_bind(NormPlan *p, void *const operands[NORM_OPERAND_COUNT], void *workspace);
Status norm_plan_run(NormPlan *p, cudaStream_t stream); /* enqueues */

/* ---- norm_shape.c: what the plan and its double share ---- */
/* Writes the operands of a pass in a fixed order; returns how many. */
int norm_shape_operands(NormPass pass, const NormShape *s, NormOperand out[NORM_OPERAND_COUNT]);
void norm_shape_dims(const NormShape *s, NormOperand operand, int64_t dims[4]);
DType norm_shape_type(const NormShape *s, NormOperand operand);
int64_t norm_shape_elements(const NormShape *s, NormOperand operand);
/* "norm forward residual relu bf16 n2 c8 h4 w4" */
void norm_shape_format(NormPass pass, const NormShape *s, char *out, size_t bytes);
#endif
