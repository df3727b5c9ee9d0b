/* histogram_op.h - ops whose change of a byte depends on all bytes of its channel. */
#ifndef CONVOY_DATA_AUGMENT_HISTOGRAM_OP_H
#define CONVOY_DATA_AUGMENT_HISTOGRAM_OP_H
#include "data/augment/picture.h"

void histogram_op_autocontrast(const Picture *p);
void histogram_op_equalize(const Picture *p);
#endif
