/* attention_plan.h - multi-head attention as cuDNN would run it, each pass one operation graph:
 * shape in, plan out. attention_plan.c builds the graphs; tests/emu has plain loops behind the same
 * functions.
 *
 *   ATTENTION_FORWARD  y = drop(softmax(scale q k^T)) v; with statistics also lse, of
 *                      kernels/op_attention.h
 *   ATTENTION_BWD      dq, dk and dv at dy, from y and lse, whoever made those
 *
 * Queries, keys and values lie beside each other in rows of 3 heads width, as do their gradients; y
 * and dy have rows of heads width. All are of one 16-bit type. The sequences are taken in equal
 * parts, one run each; before it the caller writes the part's mask, and once for all parts where
 * packed sequences lie. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_ATTENTION_PLAN_H
#define CONVOY_KERNELS_CUDA_CUDNN_ATTENTION_PLAN_H
#include "kernels/cuda/cuda.h"

typedef enum AttentionGraph { ATTENTION_FORWARD, ATTENTION_BWD } AttentionGraph;

typedef struct AttentionShape {
    int64_t n, heads, length, width; /* sequences; positions of the longest; of a head */
    /* 0: every sequence has `length` positions. Otherwise lengths differ, and the sequences lie one
     * after the other in this many positions. */
    int64_t packed;
    float scale;
    float factor; /* scales the weights that dropout keeps; 0: no dropout, and no mask */
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
    ATTENTION_OP_LSE, /* f32 [N,heads,L]; packed [packed,heads] */
    /* Packed, i32: positions of each sequence [N], one at least, and where it begins in rows of 3
     * heads width, in rows of heads width and in lse, [N+1] each. Of all parts, one by one. */
    ATTENTION_OP_LENGTHS,
    ATTENTION_OP_QKV_STARTS,
    ATTENTION_OP_Y_STARTS,
    ATTENTION_OP_LSE_STARTS,
    ATTENTION_OP_MASK, /* io [N,heads,L,attention_plan_mask_row(L)] of one part: 1 keeps, 0 drops */
    ATTENTION_OPERAND_COUNT
} AttentionOperand;
enum { ATTENTION_PLACES = 4 }; /* operands from ATTENTION_OP_LENGTHS on */

/* Numbers from a row of the mask, and from one of the four lists of a part, to the next. */
static inline int64_t attention_plan_mask_row(int64_t length)
{
    return (length + 7) / 8 * 8;
}

static inline int64_t attention_plan_places_row(int64_t part_n)
{
    return (part_n + 4) / 4 * 4;
}

/* What the caller's mask and lists take, in multiples of 256; they count as workspace. s->n: of a
 * part. */
static inline size_t attention_plan_mask_bytes(const AttentionShape *s)
{
    const int64_t row = attention_plan_mask_row(s->length);
    const int64_t numbers = s->factor > 0 ? s->n * s->heads * s->length * row : 0;
    return ((size_t)numbers * dtype_bytes(s->io) + 255) / 256 * 256;
}

static inline size_t attention_plan_places_bytes(const AttentionShape *s, int parts)
{
    const int64_t row = attention_plan_places_row(s->n);
    const int64_t numbers = s->packed ? parts * ATTENTION_PLACES * row : 0;
    return ((size_t)numbers * sizeof(int32_t) + 255) / 256 * 256;
}

typedef struct AttentionPlan AttentionPlan;
/* ERR_ENV if no engine fits within the workspace limit, less the mask and the lists, with cuDNN's
 * reason. */
Status attention_plan_create(AttentionPlan **out, CudaBackend *b, AttentionGraph pass,
                             const AttentionShape *shape);
void attention_plan_destroy(AttentionPlan *p);           /* NULL ok */
size_t attention_plan_workspace(const AttentionPlan *p); /* without the mask and the lists */
int attention_plan_parts(const AttentionPlan *p);
const AttentionShape *attention_plan_part(const AttentionPlan *p); /* the shape of one */
const char *attention_plan_name(const AttentionPlan *p); /* "cudnn engine 0"; lives as long as p */
/* Fixes the addresses that runs use from now on, by AttentionOperand; those that the pass does not
 * have are not read. 16-byte aligned device memory. */
Status attention_plan_bind(AttentionPlan *p, void *const operands[ATTENTION_OPERAND_COUNT],
                           void *workspace);
Status attention_plan_run(AttentionPlan *p, int part, cudaStream_t stream); /* enqueues */
#endif
