/* image_op_avx2.h - inner loops of color_op.c and affine_op.c, only to be called where
 * image_op_avx2_is_available(). The loops over bytes or pixels do as many from the start as fill
 * vectors and return where the plain form goes on. */
#ifndef CONVOY_DATA_AUGMENT_IMAGE_OP_AVX2_H
#define CONVOY_DATA_AUGMENT_IMAGE_OP_AVX2_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool image_op_avx2_is_available(void);
size_t image_op_avx2_blend_constant(uint8_t *v, size_t bytes, int constant, float strength);
size_t image_op_avx2_blend_luma(uint8_t *v, size_t pixels, float strength);
size_t image_op_avx2_sum_luma(const uint8_t *v, size_t pixels, uint64_t *sum);
size_t image_op_avx2_sharpen_row(const uint8_t *above, const uint8_t *row, const uint8_t *below,
                                 size_t step, size_t bytes, float strength, uint8_t *out);
/* Where samples lie between pixels: on rows, on columns, anywhere. */
typedef enum SampleAxes { SAMPLE_ACROSS, SAMPLE_DOWN, SAMPLE_BOTH } SampleAxes;
/* Of the samples of a row: offset of the upper left neighbour, shares of the right and the lower
 * ones; a bit for each that must be done again, by eights. */
typedef struct SampleTaps {
    int32_t *at;
    float *dx, *dy;
    uint8_t *again;
} SampleTaps;
/* Bilinear RGB samples whose four neighbours exist. */
size_t image_op_avx2_sample_row(const uint8_t *copy, size_t stride, const double *xs,
                                const double *ys, size_t count, SampleAxes axes, SampleTaps *taps,
                                uint8_t *out);
#endif
