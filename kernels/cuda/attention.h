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
    float *lse;            /* [images,heads,positions]; written forward, where it is not NULL */
    const void *dy, *made; /* backward; made: y */
    void *dqkv;
    float *inner; /* backward: as lse, scratch */
} AttentionPass;
struct OpInstance;
/* Of a prepared op: in how many parts cuDNN takes its images, one after the other in the same
 * workspace; 0: kernels of our own run it. */
int attention_parts(const struct OpInstance *op);
/* Backward where there is a dqkv. */
C_LINKAGE cudaError_t cuda_launch_attention(const AttentionPass *p, cudaStream_t stream);
#endif
