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
#include "kernels/cuda/cudnn/norm_shape.h"

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
#endif
