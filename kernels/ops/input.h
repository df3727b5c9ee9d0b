/* input.h - the names of what an erased box holds, in the order of EraseMode: timm's. */
#ifndef CONVOY_KERNELS_OPS_INPUT_H
#define CONVOY_KERNELS_OPS_INPUT_H
#include "kernels/op.h"

extern const char *const input_erase_names[ERASE_MODE_COUNT + 1]; /* NULL at the end */
#endif
