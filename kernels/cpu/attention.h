/* attention.h - what attention.c, attention_softmax.c and attention_bf16.c share. L positions, d
 * channels of a head. */
#ifndef CONVOY_KERNELS_CPU_ATTENTION_H
#define CONVOY_KERNELS_CPU_ATTENTION_H
#include "kernels/cpu/head_product.h"
#include "kernels/drop.h"
#include "kernels/ops/attention.h"

enum { ATTENTION_PARTS = 3 }; /* queries, keys, values */

/* Products in bf16, each with the shape of its result. */
typedef enum AttentionProduct {
    PRODUCT_SCORES, /* [L,L] of queries and keys */
    PRODUCT_Y,      /* [L,d] of the softmax and values */
    PRODUCT_SLOPES, /* [L,L] of dy and values; from here on backward's */
    PRODUCT_DV,     /* [L,d] of the softmax's transpose and dy */
    PRODUCT_DK,     /* [L,d] of the transpose of the scores' gradient and queries */
    PRODUCT_DQ,     /* [L,d] of that gradient and keys */
    PRODUCT_COUNT
} AttentionProduct;
/* Number of lengths that products are made for; one if all sequences have the same length. */
enum { ATTENTION_LENGTHS = 4 };
typedef struct AttentionState {
    bool narrow; /* products are these; else oneDNN's sgemm */
    bool backward;
    int lengths;
    int64_t length[ATTENTION_LENGTHS]; /* rising */
    HeadProduct products[ATTENTION_LENGTHS][PRODUCT_COUNT];
    size_t scratch_bytes; /* the most of any */
} AttentionState;

/* One head of one sequence. */
typedef struct AttentionCall {
    AttentionSizes z;
    AttentionPlace at;
    int64_t n, head;
    int64_t block; /* queries in one, but for the last */
    int64_t row;   /* elements from a query's scores to the next one's */
    bool drops;
    DropAddress drop;
    Stream *stream;
} AttentionCall;

/* What a thread has in the workspace: one head's matrices [L,d], and what a block of queries needs,
 * which in bf16 is all of them. */
typedef struct AttentionScratch {
    int thread;
    float *part[ATTENTION_PARTS], *y, *dpart[ATTENTION_PARTS]; /* y: y, or dy */
    float *scores, *slopes;                                    /* [block,L] */
    float *factors;                                            /* [L]: what the drop makes */
    struct {                                                   /* in bf16 */
        uint16_t *part[ATTENTION_PARTS], *dy, *out;            /* [L,d] */
        uint16_t *weights, *slopes;                            /* [L,L] */
        void *product;                                         /* a product's own */
    } narrow;
} AttentionScratch;

/* ---- rows of the softmax ---- */

/* Where the logarithm of a query's sum lies, or NULL. */
float *cpu_attention_lse(const AttentionCall *c, const OpTensor *lse, int64_t query);
/* Row `row` of s->scores, a query's, becomes its weights; lse: cpu_attention_lse(). */
void cpu_attention_soften(const AttentionCall *c, const AttentionScratch *s, int64_t query,
                          int64_t row, float *lse);
/* Row `row` of s->scores becomes the weights of a query again, and that of s->slopes, the weights'
 * gradient, the scores'. dy, y: the query's [d], of type. */
void cpu_attention_soften_bwd(const AttentionCall *c, const AttentionScratch *s, int64_t query,
                              int64_t row, float lse, const void *dy, const void *y, DType type);

/* ---- heads in bf16 ---- */

/* Makes what op->state, which knows its direction, needs, and sets its narrow: whether they are all
 * there. They hold all scores of a head, so that for many positions they are not made. ragged:
 * sequences differ in length, and one's matrices get rows of zeros up to the next length that has
 * products. */
Status cpu_attention_make_products(OpInstance *op, const AttentionSizes *z, bool ragged);
Status cpu_attention_forward_bf16(const OpInstance *op, AttentionCall *c,
                                  const AttentionScratch *s);
Status cpu_attention_backward_bf16(const OpInstance *op, AttentionCall *c,
                                   const AttentionScratch *s);
#endif
