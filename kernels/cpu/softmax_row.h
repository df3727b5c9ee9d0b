/* softmax_row.h - vector code over a piece of a row of logits. */
#ifndef CONVOY_KERNELS_CPU_SOFTMAX_ROW_H
#define CONVOY_KERNELS_CPU_SOFTMAX_ROW_H
#include <stdbool.h>
#include <stdint.h>

typedef struct SoftmaxPiece {
    float most;        /* of the logits, finite unless one is infinity */
    double sum;        /* of e^(logit - most) */
    double logits;     /* their sum, where it was asked for */
    int64_t not_below; /* logits that are not below a given one */
    bool has_nan;
} SoftmaxPiece;

/* e: gets e^(logit - most) of each; may lie over logits, or be NULL. */
SoftmaxPiece cpu_softmax_row_survey(const float *logits, int64_t count, float given,
                                    bool sums_logits, float *e);
/* e becomes factor e - less. */
void cpu_softmax_row_slopes(float *e, int64_t count, float factor, float less);
#endif
