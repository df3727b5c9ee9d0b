/* attention_plan.h - multi-head attention without dropout as cuDNN would run it, each pass one
 * operation graph: shape in, plan out. attention_plan.c builds the graphs; tests/emu has plain
 * loops behind the same functions.
 *
 *   ATTENTION_FORWARD  y = softmax(scale q k^T) v; with statistics also lse, of
 *                      kernels/op_attention.h
 *   ATTENTION_BWD      dq, dk and dv at dy, from y and lse, whoever made those
 *
 * Queries, keys and values lie beside each other in rows of 3 heads width, as do their gradients; y
 * and dy have rows of heads width. All are of one 16-bit type. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_ATTENTION_PLAN_H
#define CONVOY_KERNELS_CUDA_CUDNN_ATTENTION_PLAN_H
#include "kernels/cuda/cuda.h"

typedef enum AttentionGraph { ATTENTION_FORWARD, ATTENTION_BWD } AttentionGraph;

typedef struct AttentionShape {
    int64_t n, heads, length, width; /* images; positions; of a head */
    float scale;
    DType io;
    bool statistics; /* ATTENTION_FORWARD: lse is written */
} AttentionShape;

typedef enum AttentionOperand {
    ATTENTION_OP_Q,
    ATTENTION_OP_K,
    ATTENTION_OP_V,
    ATTENTION_OP_Y,
    ATTENTION_OP_DY,
    ATTENTION_OP_DQ,
    ATTENTION_OP_DK,
    ATTENTION_OP_DV,
    ATTENTION_OP_LSE, /* [N,heads,L] of f32 */
    ATTENTION_OPERAND_COUNT
} AttentionOperand;

typedef struct AttentionPlan AttentionPlan;
/* ERR_ENV if no engine fits within the workspace limit, with cuDNN's reason. */
Status attention_plan_create(AttentionPlan **out, CudaBackend *b, AttentionGraph pass,
                             const AttentionShape *shape);
void attention_plan_destroy(AttentionPlan *p); /* NULL ok */
size_t attention_plan_workspace(const AttentionPlan *p);
int attention_plan_parts(const AttentionPlan *p);        /* of the images, one after the other */
const char *attention_plan_name(const AttentionPlan *p); /* "cudnn engine 0"; lives as long as p */
/* Fixes the addresses that runs use from now on, by AttentionOperand; those that the pass does not
 * have are not read. 16-byte aligned device memory. */
Status attention_plan_bind(AttentionPlan *p, void *const operands[ATTENTION_OPERAND_COUNT],
                           void *workspace);
Status attention_plan_run(AttentionPlan *p, cudaStream_t stream); /* enqueues */
#endif
