/* image_op_internal.h - what image_op.c hands on to the files that compute: colour, histograms,
 * hue, geometry. */
#ifndef CONVOY_DATA_AUGMENT_IMAGE_OP_INTERNAL_H
#define CONVOY_DATA_AUGMENT_IMAGE_OP_INTERNAL_H
#include "data/augment/image_op.h"

/* Loops for the compiler's vectoriser, compiled twice and chosen at load time. No fused
 * multiply-add in either (the room is compiled without contraction), so both give the same
 * bytes. */
#if defined(__x86_64__) && defined(__GNUC__) && defined(__GLIBC__) && !defined(__clang__) &&       \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define IMAGE_OP_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define IMAGE_OP_CLONES
#endif

/* Behind a copy lie so many bytes that may be read. */
#define IMAGE_OP_COPY_PADDING 32

static inline size_t image_op_picture_bytes(const Picture *p)
{
    return (size_t)p->width * (size_t)p->height * (size_t)p->channels;
}

/* image_op.c */
bool image_op_is_wide(const ImageOpScratch *scratch); /* AVX2 is there and may be used */
/* A copy of p, borrowed until the next one, for ops that read what they overwrite. */
Status image_op_copy(const Picture *p, ImageOpScratch *scratch, const uint8_t **copy);

/* image_op_avx2.c: inner loops, only to be called where image_op_avx2_is_available(). The loops
 * over bytes or pixels do as many from the start as fill vectors and return where the plain form
 * goes on. */
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

/* color_op.c; wide: with AVX2 */
void color_op_brightness(const Picture *p, double factor, bool wide);
void color_op_saturation(const Picture *p, double factor, bool wide);
void color_op_contrast(const Picture *p, double factor, bool wide);
void color_op_sharpness(const Picture *p, const uint8_t *copy, double factor, bool wide);
void color_op_posterize(const Picture *p, double bits);
void color_op_solarize(const Picture *p, double threshold);
void color_op_invert(const Picture *p);

/* histogram_op.c */
void histogram_op_autocontrast(const Picture *p);
void histogram_op_equalize(const Picture *p);

/* hue_op.c */
void hue_op_shift(const Picture *p, double share);

/* affine_op.c: kind is one of shear, translate, rotate */
Status affine_op_apply(const ImageOp *op, const ImageOpStyle *style, const Picture *p,
                       ImageOpScratch *scratch);
#endif
