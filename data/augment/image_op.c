/* image_op.c - names and dispatch; what is computed stands in color_op.c and affine_op.c. */
#include "data/augment/image_op.h"
#include "data/augment/color_op.h"
#include <string.h>

typedef struct ImageOpRow {
    const char *name;
    bool mirrors;
} ImageOpRow;

static const ImageOpRow rows[IMAGE_OP_COUNT] = {
    [IMAGE_IDENTITY] = { "identity", false },
    [IMAGE_SHEAR_X] = { "shear_x", true },
    [IMAGE_SHEAR_Y] = { "shear_y", true },
    [IMAGE_TRANSLATE_X] = { "translate_x", true },
    [IMAGE_TRANSLATE_Y] = { "translate_y", true },
    [IMAGE_ROTATE] = { "rotate", true },
    [IMAGE_BRIGHTNESS] = { "brightness", true },
    [IMAGE_COLOR] = { "color", true },
    [IMAGE_CONTRAST] = { "contrast", true },
    [IMAGE_SHARPNESS] = { "sharpness", true },
    [IMAGE_POSTERIZE] = { "posterize", false },
    [IMAGE_SOLARIZE] = { "solarize", false },
    [IMAGE_AUTOCONTRAST] = { "autocontrast", false },
    [IMAGE_EQUALIZE] = { "equalize", false },
    [IMAGE_INVERT] = { "invert", false },
    [IMAGE_HUE] = { "hue", false },
    [IMAGE_SKEW_X] = { "skew_x", true },
    [IMAGE_SKEW_Y] = { "skew_y", true },
    [IMAGE_SLIDE_X] = { "slide_x", true },
    [IMAGE_SLIDE_Y] = { "slide_y", true },
    [IMAGE_SOLARIZE_ADD] = { "solarize_add", false },
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
    const bool wide = picture_is_wide(scratch);
    ASSERT(p->channels == 1 || p->channels == 3);
    switch (op->kind) {
    case IMAGE_SHEAR_X:
        return affine_op_shear(p, op->value, 0, style, scratch);
    case IMAGE_SHEAR_Y:
        return affine_op_shear(p, 0, op->value, style, scratch);
    case IMAGE_TRANSLATE_X:
        return affine_op_translate(p, op->value, 0, style, scratch);
    case IMAGE_TRANSLATE_Y:
        return affine_op_translate(p, 0, op->value, style, scratch);
    case IMAGE_ROTATE:
        return affine_op_rotate(p, op->value, style, scratch);
    case IMAGE_SHARPNESS:
        return sharpen(p, op->value, scratch);
    case IMAGE_BRIGHTNESS:
        color_op_brightness(p, op->value, wide);
        return OK;
    case IMAGE_COLOR:
        color_op_saturation(p, op->value, wide);
        return OK;
    case IMAGE_CONTRAST:
        color_op_contrast(p, op->value, wide);
        return OK;
    case IMAGE_POSTERIZE:
        color_op_posterize(p, op->value);
        return OK;
    case IMAGE_SOLARIZE:
        color_op_solarize(p, op->value);
        return OK;
    case IMAGE_AUTOCONTRAST:
        color_op_autocontrast(p);
        return OK;
    case IMAGE_EQUALIZE:
        color_op_equalize(p);
        return OK;
    case IMAGE_INVERT:
        color_op_invert(p);
        return OK;
    case IMAGE_HUE:
        color_op_turn(p, op->value);
        return OK;
    case IMAGE_SKEW_X:
        return affine_op_skew(p, op->value, 0, style, scratch);
    case IMAGE_SKEW_Y:
        return affine_op_skew(p, 0, op->value, style, scratch);
    case IMAGE_SLIDE_X:
        return affine_op_slide(p, op->value, 0, style, scratch);
    case IMAGE_SLIDE_Y:
        return affine_op_slide(p, 0, op->value, style, scratch);
    case IMAGE_SOLARIZE_ADD:
        color_op_solarize_add(p, (int)op->value);
        return OK;
    case IMAGE_IDENTITY:
    case IMAGE_OP_COUNT:
        return OK;
    }
    return OK;
}

void image_op_scratch_free(ImageOpScratch *scratch)
{
    byte_buf_free(&scratch->copy);
    byte_buf_free(&scratch->row);
}
