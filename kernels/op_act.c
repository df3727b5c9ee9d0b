/* op_act.c - see op_act.h. */
#include "kernels/op_act.h"
#include "base/status.h"

const ActDef *op_act(ActKind act)
{
    static const ActDef acts[ACT_COUNT] = {
        [ACT_NONE] = { "none", .by_sign = true, .normed = true },
        [ACT_RELU] = { "relu", .by_sign = true, .normed = true },
        [ACT_SILU] = { "silu", .normed = true },
        [ACT_GELU] = { "gelu" },
        [ACT_GELU_TANH] = { "gelu_tanh" },
    };
    ASSERT((unsigned)act < ACT_COUNT);
    return &acts[act];
}
