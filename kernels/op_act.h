/* op_act.h - activations: which there are, and the op that applies one where no batch norm takes
 * it along. */
#ifndef CONVOY_KERNELS_OP_ACT_H
#define CONVOY_KERNELS_OP_ACT_H
#include "kernels/tensor.h"

/* silu: z sigmoid(z). gelu: z Phi(z), Phi being the normal distribution's; gelu_tanh: the same with
 * (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))) / 2 for Phi(z); as torch.nn.functional.gelu. relu6: z
 * within 0 and 6. hard_swish: z times hard_sigmoid(z), which is z / 6 + 1/2 within 0 and 1 (a
 * gate's: OP_GATE). Where their slopes jump they have torch's: that of what is constant, and at 3
 * that of z. tanh is what its name says. All are 0 at 0: so is what fills blocks of channels up,
 * before and after. */
typedef enum ActKind {
    ACT_NONE,
    ACT_RELU,
    ACT_SILU,
    ACT_GELU,
    ACT_GELU_TANH,
    ACT_RELU6,
    ACT_HARD_SWISH,
    ACT_TANH,
    ACT_COUNT
} ActKind;

/* What is to be known of an activation besides its formula, which each backend has. */
typedef struct ActDef {
    const char *name;
    /* The derivative follows from the sign of y; else backward needs what it was applied to. A
     * batch norm recomputes that from its x alone, so with such an activation it takes no
     * residual. */
    bool by_sign;
    bool normed; /* OP_BATCHNORM takes it along */
    bool folded; /* so does OP_CONV2D_BN */
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
