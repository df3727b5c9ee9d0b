/* head_product.h - a product of two matrices of bf16 that each thread of a team computes for
 * itself, in place of the team computing one: those of attention are a head's. */
#ifndef CONVOY_KERNELS_CPU_HEAD_PRODUCT_H
#define CONVOY_KERNELS_CPU_HEAD_PRODUCT_H
#include "kernels/cpu/dnnl.h"

typedef struct HeadMatrix { /* its rows, or transposed its columns, lie one after the other */
    int64_t rows, columns;
    bool transposed;
    DType type;
} HeadMatrix;

enum { HEAD_LEFT, HEAD_RIGHT, HEAD_OUT, HEAD_MATRICES };
typedef struct HeadProduct { /* zero-initialise */
    dnnl_primitive_t primitive;
    dnnl_memory_t *memories; /* [threads][HEAD_MATRICES + 1], the last of each the scratchpad */
    int threads;
    size_t scratch_bytes; /* of a thread; 0: none */
} HeadProduct;

/* out = left right, out of f32 or bf16; of: HEAD_MATRICES. *found: false where this CPU is no
 * faster in bf16 than in f32, or oneDNN has no such product; *out is to be freed either way. */
Status cpu_head_product_make(CpuBackend *b, HeadProduct *out, const HeadMatrix *of, bool *found);
/* By thread `thread` of b->threads. scratch: 64-byte aligned, its own. */
Status cpu_head_product_run(const HeadProduct *p, Stream *stream, int thread, const void *left,
                            const void *right, void *out, void *scratch);
void cpu_head_product_free(HeadProduct *p);
#endif
