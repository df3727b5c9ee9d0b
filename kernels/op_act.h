/* op_act.h - activations: which there are, and the op that applies one where no batch norm takes
 * it along. */
#ifndef CONVOY_KERNELS_OP_ACT_H
#define CONVOY_KERNELS_OP_ACT_H
#include "kernels/tensor.h"

/* silu: z sigmoid(z). gelu: z Phi(z), Phi being the normal distribution's; gelu_tanh: the same with
 * (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))) / 2 for Phi(z); as torch.nn.functional.gelu. */
typedef enum ActKind { ACT_NONE, ACT_RELU, ACT_SILU, ACT_GELU, ACT_GELU_TANH, ACT_COUNT } ActKind;

/* What is to be known of an activation besides its formula, which each backend has. */
typedef struct ActDef {
    const char *name;
    /* The derivative follows from the sign of y; else backward needs what it was applied to. A
     * batch norm recomputes that from its x alone, so with such an activation it takes no
     * residual. */
    bool by_sign;
    bool normed; /* OP_BATCHNORM and OP_CONV2D_BN take it along */
} ActDef;
const ActDef *op_act(ActKind act);

/* OP_ACTIVATION: y = act(x), element by element, x of any rank.
 * OP_ACTIVATION_BWD: dx = dy act'. y: what forward made, or where the derivative does not follow
 * from its sign (ActDef.by_sign) what forward read, x. */
enum { ACTIVATION_IN_X };
enum { ACTIVATION_OUT_Y };
enum { ACTIVATION_BWD_IN_DY, ACTIVATION_BWD_IN_Y };
enum { ACTIVATION_BWD_OUT_DX };
typedef struct ActivationAttr {
    ActKind act;
} ActivationAttr;
#endif
