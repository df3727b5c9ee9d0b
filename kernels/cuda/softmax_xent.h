/* softmax_xent.h - softmax, its loss and its gradient by rows. */
#ifndef CONVOY_KERNELS_CUDA_SOFTMAX_XENT_H
#define CONVOY_KERNELS_CUDA_SOFTMAX_XENT_H
#include "kernels/cuda/launcher.h"
#include "kernels/op.h"

typedef struct XentPass {
    int64_t rows; /* images */
    int c, cp;    /* of logits and dlogits */
    int views;    /* logits has that many times the rows, which are averaged */
    DType logits_type, dlogits_type;
    XentAttr attr;
    const float *class_weights; /* NULL: 1 */
    const void *teacher;        /* NULL: there is none; rows of teacher_cp */
    DType teacher_type;
    int teacher_cp;
    float smoothing;
    double even; /* smoothing / c */
    const void *logits;
    const int32_t *labels;
    const uint8_t *targets;                  /* rows of bits; NULL if absent */
    const float *scalars, *loss_scale, *mix; /* the last two: NULL if absent */
    /* NULL if absent; may be logits where the types are equal */
    void *dlogits;
    double *row_stats; /* workspace [rows][STATS_COUNT] */
    double *stats;
} XentPass;
C_LINKAGE cudaError_t cuda_launch_softmax_xent(const XentPass *p,
                                               cudaStream_t stream); /* two kernels */
#endif
