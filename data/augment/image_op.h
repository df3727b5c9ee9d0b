/* image_op.h - changes of colour and geometry of a uint8 picture in memory, byte for byte as Pillow
 * makes them.
 *
 * Each kind is one function of torchvision.transforms.functional, or of timm.data.auto_augment, on
 * a PIL image; value is its parameter, so a picture after a list of ops equals theirs after the
 * same list. tests/unit/data/augment/test_image_op.c holds Pillow's checksums. */
#ifndef CONVOY_DATA_AUGMENT_IMAGE_OP_H
#define CONVOY_DATA_AUGMENT_IMAGE_OP_H
#include "data/augment/affine_op.h"

typedef enum ImageOpKind {
    IMAGE_IDENTITY,
    /* value: the shear; affine(shear = degrees(atan(value)), centre = the upper left corner) */
    IMAGE_SHEAR_X,
    IMAGE_SHEAR_Y,     /* likewise */
    IMAGE_TRANSLATE_X, /* value: pixels to the right, truncated to a whole number */
    IMAGE_TRANSLATE_Y, /* value: pixels down, likewise */
    IMAGE_ROTATE,      /* value: degrees against the clock, about the middle */
    /* value: factor; this one and the next three: 1 changes nothing, 0 leaves black ... */
    IMAGE_BRIGHTNESS,
    IMAGE_COLOR,     /* ... grey (adjust_saturation) ... */
    IMAGE_CONTRAST,  /* ... the mean grey everywhere ... */
    IMAGE_SHARPNESS, /* ... or a smoothed picture; beyond 1 the difference is enlarged */
    IMAGE_POSTERIZE, /* value: upper bits that are kept, 0 to 8 */
    IMAGE_SOLARIZE,  /* value: bytes from here on are inverted */
    IMAGE_AUTOCONTRAST,
    IMAGE_EQUALIZE,
    IMAGE_INVERT,
    IMAGE_HUE, /* value: share of the colour circle, -0.5 to 0.5; nothing on grey pictures */
    /* timm's forms: a pixel is looked up further on, by value of the other coordinate, or pixels */
    IMAGE_SKEW_X,
    IMAGE_SKEW_Y,
    IMAGE_SLIDE_X,
    IMAGE_SLIDE_Y,
    IMAGE_SOLARIZE_ADD, /* value: whole, 0 to 128; added to bytes below 128 */
    IMAGE_OP_COUNT
} ImageOpKind;

typedef struct ImageOp {
    ImageOpKind kind;
    double value;
} ImageOp;

Status image_op_apply(const ImageOp *op, const ImageOpStyle *style, const Picture *p,
                      ImageOpScratch *scratch);
void image_op_scratch_free(ImageOpScratch *scratch);

const char *image_op_name(ImageOpKind kind);             /* "shear_x" */
bool image_op_find(const char *name, ImageOpKind *kind); /* false: no such op */
/* its magnitude has a sign that is drawn */
bool image_op_mirrors(ImageOpKind kind);
#endif
