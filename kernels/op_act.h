/* op_act.h - activations: which there are, and the op that applies one where no batch norm takes
 * it along. */
#ifndef CONVOY_KERNELS_OP_ACT_H
#define CONVOY_KERNELS_OP_ACT_H
#include "kernels/tensor.h"

/* silu: z sigmoid(z). With a batch norm it takes no residual: backward recomputes z from x
 * alone. */
typedef enum ActKind { ACT_NONE, ACT_RELU, ACT_SILU, ACT_COUNT } ActKind;

/* OP_ACTIVATION: y = act(x), element by element, x of any rank.
 * OP_ACTIVATION_BWD: dx = dy act'. y: what forward made; of silu x, since y does not tell the
 * derivative. */
enum { ACTIVATION_IN_X };
enum { ACTIVATION_OUT_Y };
enum { ACTIVATION_BWD_IN_DY, ACTIVATION_BWD_IN_Y };
enum { ACTIVATION_BWD_OUT_DX };
typedef struct ActivationAttr {
    ActKind act;
} ActivationAttr;
#endif
