/* op_act.c - see op_act.h. */
#include "kernels/op_act.h"
#include "base/status.h"

const ActDef *op_act(ActKind act)
{
    static const ActDef acts[ACT_COUNT] = {
        [ACT_NONE] = { "none", .by_sign = true, .normed = true, .folded = true },
        [ACT_RELU] = { "relu", .by_sign = true, .normed = true, .folded = true },
        [ACT_SILU] = { "silu", .normed = true, .folded = true },
        [ACT_GELU] = { "gelu" },
        [ACT_GELU_TANH] = { "gelu_tanh" },
        /* oneDNN's clip behind a convolution makes a number of a NaN */
        [ACT_RELU6] = { "relu6", .normed = true },
        [ACT_HARD_SWISH] = { "hard_swish", .normed = true, .folded = true },
        [ACT_TANH] = { "tanh" },
    };
    ASSERT((unsigned)act < ACT_COUNT);
    return &acts[act];
}
