/* depthwise_choice.c - who runs a convolution with one filter for each channel: our own kernels or
 * cuDNN.
 *
 * Ours need nothing compiled and next to no workspace. What decides is CudaOptions.depthwise:
 *   KERNELS_OWN    ours, wherever there are some
 *   KERNELS_CUDNN  cuDNN, wherever it has an engine
 *   KERNELS_AUTO   cuDNN where it was measured to be faster (decision.h)
 * Each shape of each pass is decided once. */
#include "kernels/cuda/depthwise_choice.h"
#include "kernels/cuda/decision.h"
#include "kernels/cuda/depthwise.h"

/* The instance in words: all that decides how fast it is. */
static void write_key(const OpInstance *op, const char *name, StrBuf *key)
{
    const CudaBackend *b = cuda_backend(op);
    char text[96];
    op_def(op->kind)->print(op->attr, text, sizeof text);
    str_printf(key, "%s by cudnn: %s %s", name, text, dtype_name(b->compute));
    if (b->precision == PRECISION_TF32) str_add(key, " tf32");
    for (int i = 0; i < 2; i++) {
        tensor_format(&op->in[i].desc, text, sizeof text);
        str_printf(key, " %s", text);
    }
    tensor_format(&op->out[0].desc, text, sizeof text);
    str_printf(key, " -> %s limit %zu", text, b->workspace_limit);
}

static bool cudnn_takes(const OpInstance *op, ConvPass pass)
{
    static const char *const names[CONV_PASS_COUNT] = { [CONV_FORWARD] = "depthwise",
                                                        [CONV_BWD_DATA] = "depthwise_bwd_data",
                                                        [CONV_BWD_WEIGHTS] =
                                                            "depthwise_bwd_weights" };
    StrBuf key = { 0 };
    write_key(op, names[pass], &key);
    return cuda_decision_of_op(op, names[pass], cuda_backend(op)->options.depthwise, false, &key);
}

bool depthwise_choice_is_own(const OpInstance *op, ConvPass pass, const ConvShape *shape)
{
    const CudaBackend *b = cuda_backend(op);
    if (!depthwise_takes(shape)) return false;
    if (b->on_trial != TRIAL_NONE) return b->on_trial == TRIAL_OWN;
    return b->options.depthwise == KERNELS_OWN || !cudnn_takes(op, pass);
}
