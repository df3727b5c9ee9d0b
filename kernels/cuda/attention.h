/* attention.h - multi-head attention of sequences that lie as rows of channels, and its gradient.
 * Widths are multiples of 8, so that each head's rows begin at a vector. */
#ifndef CONVOY_KERNELS_CUDA_ATTENTION_H
#define CONVOY_KERNELS_CUDA_ATTENTION_H
#include "kernels/cuda/launcher.h"
#include "kernels/op.h"

typedef struct AttentionPass {
    DropAttr drop;
    DType dtype;                            /* of all but lse and inner */
    int n, heads, length, width, positions; /* as AttentionSizes */
    int qkv_cp, y_cp;                       /* of rows of qkv and dqkv, and of y and dy */
    float scale;                            /* of scores */
    const float *scalars;                   /* the step's; NULL where nothing is dropped */
    const int32_t *starts;                  /* NULL: each image is one sequence */
    const void *qkv;
    void *y;               /* forward */
    float *lse;            /* kernels/op_attention.h; written forward, where it is not NULL */
    const void *dy, *made; /* backward; made: y */
    void *dqkv;
    float *inner; /* backward: as lse, scratch */
} AttentionPass;
struct OpInstance;
/* Of a prepared op: in how many parts cuDNN takes its sequences, one after the other in the same
 * workspace; 0: kernels of our own run it. */
int attention_parts(const struct OpInstance *op);
/* Backward where there is a dqkv. */
C_LINKAGE cudaError_t cuda_launch_attention(const AttentionPass *p, cudaStream_t stream);

/* What cuDNN's plans read besides (cudnn/attention_plan.h), which take the sequences in equal parts
 * of n. */
typedef struct AttentionExtra {
    void *mask;      /* p->dtype [n,heads,length,mask_row], of one part */
    int32_t *places; /* [parts,4,places_row]: lengths, and starts in rows of qkv, of y and of lse */
    int parts, n, mask_row, places_row;
} AttentionExtra;
/* The lists of all parts. No sequence is empty in them. */
C_LINKAGE cudaError_t cuda_launch_attention_places(const AttentionPass *p, const AttentionExtra *e,
                                                   cudaStream_t stream);
C_LINKAGE cudaError_t cuda_launch_attention_mask(const AttentionPass *p, const AttentionExtra *e,
                                                 int part, cudaStream_t stream);
/* Zeros in the results behind the last sequence. */
C_LINKAGE cudaError_t cuda_launch_attention_rest(const AttentionPass *p, cudaStream_t stream);
#endif
