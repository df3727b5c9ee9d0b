/* image_op.c - names and dispatch; what is computed stands in color_op.c and affine_op.c. */
#include "data/augment/image_op.h"
#include "data/augment/color_op.h"
#include <string.h>

typedef struct ImageOpRow {
    const char *name;
    bool mirrors;
    AffineOp *affine; /* by value to the right; down: downwards */
    bool down;
    ColorOp *color;
} ImageOpRow;

/* Those without a function do nothing, or have their line in image_op_apply(). */
static const ImageOpRow rows[IMAGE_OP_COUNT] = {
    [IMAGE_IDENTITY] = { "identity", false },
    [IMAGE_SHEAR_X] = { "shear_x", true, .affine = affine_op_shear },
    [IMAGE_SHEAR_Y] = { "shear_y", true, .affine = affine_op_shear, .down = true },
    [IMAGE_TRANSLATE_X] = { "translate_x", true, .affine = affine_op_translate },
    [IMAGE_TRANSLATE_Y] = { "translate_y", true, .affine = affine_op_translate, .down = true },
    [IMAGE_ROTATE] = { "rotate", true },
    [IMAGE_BRIGHTNESS] = { "brightness", true, .color = color_op_brightness },
    [IMAGE_COLOR] = { "color", true, .color = color_op_saturation },
    [IMAGE_CONTRAST] = { "contrast", true, .color = color_op_contrast },
    [IMAGE_SHARPNESS] = { "sharpness", true },
    [IMAGE_POSTERIZE] = { "posterize", false, .color = color_op_posterize },
    [IMAGE_SOLARIZE] = { "solarize", false, .color = color_op_solarize },
    [IMAGE_AUTOCONTRAST] = { "autocontrast", false, .color = color_op_autocontrast },
    [IMAGE_EQUALIZE] = { "equalize", false, .color = color_op_equalize },
    [IMAGE_INVERT] = { "invert", false, .color = color_op_invert },
    [IMAGE_HUE] = { "hue", false, .color = color_op_turn },
    [IMAGE_SKEW_X] = { "skew_x", true, .affine = affine_op_skew },
    [IMAGE_SKEW_Y] = { "skew_y", true, .affine = affine_op_skew, .down = true },
    [IMAGE_SLIDE_X] = { "slide_x", true, .affine = affine_op_slide },
    [IMAGE_SLIDE_Y] = { "slide_y", true, .affine = affine_op_slide, .down = true },
    [IMAGE_SOLARIZE_ADD] = { "solarize_add", false, .color = color_op_solarize_add },
};

const char *image_op_name(ImageOpKind kind)
{
    return rows[kind].name;
}

bool image_op_find(const char *name, ImageOpKind *kind)
{
    for (int i = 0; i < IMAGE_OP_COUNT; i++) {
        if (strcmp(rows[i].name, name) != 0) continue;
        *kind = (ImageOpKind)i;
        return true;
    }
    return false;
}

bool image_op_mirrors(ImageOpKind kind)
{
    return rows[kind].mirrors;
}

static Status sharpen(const Picture *p, double factor, ImageOpScratch *scratch)
{
    const uint8_t *copy;
    TRY(picture_copy(p, scratch, &copy));
    color_op_sharpness(p, copy, factor, picture_is_wide(scratch));
    return OK;
}

Status image_op_apply(const ImageOp *op, const ImageOpStyle *style, const Picture *p,
                      ImageOpScratch *scratch)
{
    const ImageOpRow *row = &rows[op->kind];
    const double v = op->value;
    ASSERT(p->channels == 1 || p->channels == 3);
    if (op->kind == IMAGE_ROTATE) return affine_op_rotate(p, v, style, scratch);
    if (op->kind == IMAGE_SHARPNESS) return sharpen(p, v, scratch);
    if (row->affine) return row->affine(p, row->down ? 0 : v, row->down ? v : 0, style, scratch);
    if (row->color) row->color(p, v, picture_is_wide(scratch));
    return OK;
}

void image_op_scratch_free(ImageOpScratch *scratch)
{
    byte_buf_free(&scratch->copy);
    byte_buf_free(&scratch->row);
}
