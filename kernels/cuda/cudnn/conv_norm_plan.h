/* conv_norm_plan.h - convolution passes with parts of the batch norms beside them, as cuDNN would
 * run them: shape in, plan out. conv_norm_plan.c builds cuDNN operation graphs; tests/emu has plain
 * loops behind the same functions.
 *
 * What is convolved is z, by the prologue: x itself; relu(x scale + shift); relu(x scale + shift +
 * residual), written out; the same with a residual that is scaled and shifted too. Per-channel
 * vectors scale and shift are of type io, all others f32.
 *
 *   CONV_NORM_STATS        y = conv(z, w); sums of y and of its square. Any prologue.
 *   CONV_NORM_BWD_DATA     dz = gradient of z where bn(x) > 0, else 0; dgamma, dbeta at dz; by_dz,
 *                          by_x, constant: the gradient of x is by_dz dz + by_x x + constant.
 *                          CONV_PLAIN; or at the end of a block, where dz = (gradient of z + dy2)
 *                          where bn(x) + residual > 0 (CONV_RESIDUAL), or bn(x) + bn(residual)
 *                          (CONV_DUAL, with the results of that norm too).
 *   CONV_NORM_BWD_WEIGHTS  dw for z = relu(x scale + shift). CONV_AFFINE. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_CONV_NORM_PLAN_H
#define CONVOY_KERNELS_CUDA_CUDNN_CONV_NORM_PLAN_H
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cudnn/conv_norm_shape.h"

typedef struct ConvNormPlan ConvNormPlan;
/* ERR_ENV if no engine fits within the workspace limit, with cuDNN's reason, or if cuDNN is older
 * than 9.14. */
Status conv_norm_plan_create(ConvNormPlan **out, CudaBackend *b, ConvNormPass pass,
                             ConvPrologue prologue, const ConvShape *shape);
void conv_norm_plan_destroy(ConvNormPlan *p); /* NULL ok */
size_t conv_norm_plan_workspace(const ConvNormPlan *p);
const char *conv_norm_plan_name(const ConvNormPlan *p); /* lives as long as p */
/* Fixes the addresses that runs use from now on, by ConvOperand; those that the pass does not have
 * are not read. 16-byte aligned device memory. */
Status conv_norm_plan_bind(ConvNormPlan *p, void *const operands[CONV_OPERAND_COUNT],
                           void *workspace);
Status conv_norm_plan_run(ConvNormPlan *p, cudaStream_t stream); /* enqueues */
#endif
