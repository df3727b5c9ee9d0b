/* affine_op.h - shear, translate and rotate. ERR_MEMORY. */
#ifndef CONVOY_DATA_AUGMENT_AFFINE_OP_H
#define CONVOY_DATA_AUGMENT_AFFINE_OP_H
#include "data/augment/picture.h"

typedef struct ImageOpStyle { /* of shear, translate and rotate */
    bool nearest;             /* sampling: nearest pixel, else bilinear */
    uint8_t fill[3];          /* what comes in from outside */
    bool cubic;               /* sampling: bicubic; not with nearest */
} ImageOpStyle;

typedef Status AffineOp(const Picture *p, double right, double down, const ImageOpStyle *style,
                        ImageOpScratch *scratch);
/* about the upper left corner; a shear is the tangent of its angle */
Status affine_op_shear(const Picture *p, double right, double down, const ImageOpStyle *style,
                       ImageOpScratch *scratch);
/* pixels, truncated to a whole number */
Status affine_op_translate(const Picture *p, double right, double down, const ImageOpStyle *style,
                           ImageOpScratch *scratch);
/* As timm's: the place of a pixel (x, y) is (x + right y, y + down x) ... */
Status affine_op_skew(const Picture *p, double right, double down, const ImageOpStyle *style,
                      ImageOpScratch *scratch);
/* ... or (x + left, y + up), between pixels too */
Status affine_op_slide(const Picture *p, double left, double up, const ImageOpStyle *style,
                       ImageOpScratch *scratch);
/* against the clock, about the middle */
Status affine_op_rotate(const Picture *p, double degrees, const ImageOpStyle *style,
                        ImageOpScratch *scratch);
#endif
