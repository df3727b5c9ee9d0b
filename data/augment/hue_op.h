/* hue_op.h - turns the colour circle. */
#ifndef CONVOY_DATA_AUGMENT_HUE_OP_H
#define CONVOY_DATA_AUGMENT_HUE_OP_H
#include "data/augment/picture.h"

/* share: of the circle, -0.5 to 0.5; nothing on grey pictures */
void hue_op_shift(const Picture *p, double share);
#endif
