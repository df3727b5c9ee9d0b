/* attention.h - the sizes of an attention, which every backend derives from its tensors. */
#ifndef CONVOY_KERNELS_OPS_ATTENTION_H
#define CONVOY_KERNELS_OPS_ATTENTION_H
#include "kernels/op.h"
#include <math.h>

typedef struct AttentionSizes {
    int64_t n, heads, length, width; /* images; positions; d, of a head */
    float scale;                     /* 1 / sqrt(d) */
} AttentionSizes;

/* qkv: [N,3E,H,W] */
static inline AttentionSizes attention_sizes(const AttentionAttr *a, const TensorDesc *qkv)
{
    const int64_t width = qkv->dims[1] / 3 / a->heads;
    return (AttentionSizes){ .n = qkv->dims[0],
                             .heads = a->heads,
                             .length = qkv->dims[2] * qkv->dims[3],
                             .width = width,
                             .scale = (float)(1 / sqrt((double)width)) };
}

/* The channel of a head's first query (part 0), key (1) or value (2). */
static inline int64_t attention_channel(const AttentionSizes *z, int part, int64_t head)
{
    return (part * z->heads + head) * z->width;
}
#endif
