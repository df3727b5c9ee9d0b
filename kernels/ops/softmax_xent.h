/* softmax_xent.h - the names of the losses, in the order of LossKind. */
#ifndef CONVOY_KERNELS_OPS_SOFTMAX_XENT_H
#define CONVOY_KERNELS_OPS_SOFTMAX_XENT_H
#include "kernels/op.h"

extern const char *const softmax_xent_loss_names[LOSS_KIND_COUNT + 1]; /* NULL at the end */
#endif
