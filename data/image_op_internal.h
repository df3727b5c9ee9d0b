/* image_op_internal.h - what image_op.c hands on to the files that compute: colour, histograms, hue, geometry. */
#ifndef CONVOY_DATA_IMAGE_OP_INTERNAL_H
#define CONVOY_DATA_IMAGE_OP_INTERNAL_H
#include "data/image_op.h"

/* Loops for the compiler's vectoriser, compiled twice and chosen at load time. No fused multiply-add in either (the
 * room is compiled without contraction), so both give the same bytes. */
#if defined(__x86_64__) && defined(__GNUC__) && defined(__GLIBC__) && !defined(__clang__) &&                           \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define IMAGE_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define IMAGE_CLONES
#endif

/* Behind a copy lie so many bytes that may be read. */
#define IMAGE_COPY_PADDING 32

static inline size_t picture_bytes(const Picture *p)
{
    return (size_t)p->width * (size_t)p->height * (size_t)p->channels;
}

/* image_op.c: a copy of p, borrowed until the next one, for ops that read what they overwrite. */
Status image_copy(const Picture *p, ImageOpScratch *scratch, const uint8_t **copy);

/* color_op.c */
void color_brightness(const Picture *p, double factor);
void color_saturation(const Picture *p, double factor);
void color_contrast(const Picture *p, double factor);
void color_sharpness(const Picture *p, const uint8_t *copy, double factor);
void color_posterize(const Picture *p, double bits);
void color_solarize(const Picture *p, double threshold);
void color_invert(const Picture *p);

/* histogram_op.c */
void histogram_autocontrast(const Picture *p);
void histogram_equalize(const Picture *p);

/* hue_op.c */
void hue_shift(const Picture *p, double share);

/* affine_op.c: kind is one of shear, translate, rotate */
Status affine_apply(const ImageOp *op, const ImageOpStyle *style, const Picture *p, ImageOpScratch *scratch);
#endif
