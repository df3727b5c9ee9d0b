/* color_op.h - ops on bytes where they are: blends, bit masks, histograms, hue. wide: with AVX2. */
#ifndef CONVOY_DATA_AUGMENT_COLOR_OP_H
#define CONVOY_DATA_AUGMENT_COLOR_OP_H
#include "data/augment/picture.h"

typedef void ColorOp(const Picture *p, double value, bool wide);
void color_op_brightness(const Picture *p, double factor, bool wide);
void color_op_saturation(const Picture *p, double factor, bool wide);
void color_op_contrast(const Picture *p, double factor, bool wide);
void color_op_posterize(const Picture *p, double bits, bool wide);
void color_op_solarize(const Picture *p, double threshold, bool wide);
void color_op_solarize_add(const Picture *p, double add, bool wide); /* add: a whole number */
void color_op_invert(const Picture *p, double unused, bool wide);
void color_op_autocontrast(const Picture *p, double unused, bool wide);
void color_op_equalize(const Picture *p, double unused, bool wide);
/* share: of the colour circle, -0.5 to 0.5; nothing on grey pictures */
void color_op_turn(const Picture *p, double share, bool wide);
void color_op_sharpness(const Picture *p, const uint8_t *copy, double factor, bool wide);
#endif
