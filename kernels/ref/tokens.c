/* tokens.c - y[n,c,l] = token + positions[l,c], where token is pixel l of x, or behind a class
 * token pixel l - 1; and the gradients. */
#include "kernels/ref/ref.h"

static void run_forward(OpInstance *op)
{
    const int64_t *d = ref_in_dims(op, TOKENS_IN_X), length = ref_out_dims(op, TOKENS_OUT_Y)[2],
                  pixels = d[2] * d[3], extra = length - pixels;
    for (int64_t i = 0; i < d[0] * d[1] * length; i++) {
        const int64_t plane = i / length, l = i % length, c = plane % d[1];
        ref_out(op, TOKENS_OUT_Y)[i] =
            ref_in(op, TOKENS_IN_POSITIONS)[l * d[1] + c] +
            (l < extra ? ref_in(op, TOKENS_IN_CLASS)[c]
                       : ref_in(op, TOKENS_IN_X)[plane * pixels + l - extra]);
    }
}

static void run_backward(OpInstance *op)
{
    const int64_t *d = ref_out_dims(op, TOKENS_BWD_OUT_DX),
                  length = ref_in_dims(op, TOKENS_BWD_IN_DY)[2], pixels = d[2] * d[3],
                  extra = length - pixels;
    const double *dy = ref_in(op, TOKENS_BWD_IN_DY);
    for (int64_t l = 0; l < length; l++)
        for (int64_t c = 0; c < d[1]; c++) {
            double sum = 0;
            for (int64_t n = 0; n < d[0]; n++) {
                const int64_t plane = n * d[1] + c;
                sum += dy[plane * length + l];
                if (l >= extra)
                    ref_out(op, TOKENS_BWD_OUT_DX)[plane * pixels + l - extra] =
                        dy[plane * length + l];
            }
            ref_store_gradient(op, &ref_out(op, TOKENS_BWD_OUT_DPOSITIONS)[l * d[1] + c], sum);
            if (l < extra) ref_store_gradient(op, &ref_out(op, TOKENS_BWD_OUT_DCLASS)[c], sum);
        }
}

REF_LOOPS(ref_tokens, run_forward);
REF_LOOPS(ref_tokens_bwd, run_backward);
