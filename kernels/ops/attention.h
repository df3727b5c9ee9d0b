/* attention.h - the sizes of an attention, which every backend derives from its tensors. */
#ifndef CONVOY_KERNELS_OPS_ATTENTION_H
#define CONVOY_KERNELS_OPS_ATTENTION_H
#include "kernels/op.h"
#include <math.h>

typedef struct AttentionSizes {
    int64_t n, heads, length, width; /* sequences; positions of the longest; d, of a head */
    int64_t positions;               /* of an image, which may hold all sequences: */
    bool packed;
    float scale; /* 1 / sqrt(d) */
} AttentionSizes;

/* qkv: [N,3E,H,W], or with starts [1,3E,H,W]; starts: NULL, or of rank 0, where absent */
static inline AttentionSizes attention_sizes(const AttentionAttr *a, const TensorDesc *qkv,
                                             const TensorDesc *starts)
{
    const int64_t width = qkv->dims[1] / 3 / a->heads, positions = qkv->dims[2] * qkv->dims[3];
    const bool packed = starts && starts->rank != 0;
    return (AttentionSizes){ .n = packed ? starts->dims[0] - 1 : qkv->dims[0],
                             .heads = a->heads,
                             .length = packed ? a->longest : positions,
                             .width = width,
                             .positions = positions,
                             .packed = packed,
                             .scale = (float)(1 / sqrt((double)width)) };
}

/* Where a sequence lies: in which image, from which of its positions on. */
typedef struct AttentionPlace {
    int64_t image, first, length;
} AttentionPlace;

/* starts: NULL where absent */
static inline AttentionPlace attention_place(const AttentionSizes *z, const int32_t *starts,
                                             int64_t n)
{
    if (!starts) return (AttentionPlace){ n, 0, z->length };
    const AttentionPlace at = { 0, starts[n], starts[n + 1] - starts[n] };
    ASSERT(at.first >= 0 && at.length >= 0 && at.length <= z->length &&
           at.first + at.length <= z->positions);
    return at;
}

/* Elements of lse in front of that of a sequence's query and head. */
static inline int64_t attention_lse_at(const AttentionSizes *z, const AttentionPlace *at,
                                       int64_t head, int64_t query)
{
    if (z->packed) return (at->first + query) * z->heads + head;
    return (at->image * z->heads + head) * z->positions + query;
}

/* The channel of a head's first query (part 0), key (1) or value (2). */
static inline int64_t attention_channel(const AttentionSizes *z, int part, int64_t head)
{
    return (part * z->heads + head) * z->width;
}
#endif
