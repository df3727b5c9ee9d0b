/* input.c - images to activations: u8 N,H,W,C -> N,C,H,W, (v/255 - mean) / std.
 *
 * The one op of the reference that rounds to float32 after each step, because op.h defines it so: the rounding is
 * part of the meaning (torchvision's ToTensor and Normalize do the same), hence backends must match it bit for
 * bit. */
#include "kernels/ref/ref.h"

static Status run(OpInstance *op, Stream *stream)
{
    (void)stream;
    const InputAttr *attr = op->attr;
    const uint8_t *images = op->in[INPUT_IN_IMAGES].data;
    double *x = ref_out(op, INPUT_OUT_X);
    const int64_t *d = ref_out_dims(op, INPUT_OUT_X);
    for (int64_t n = 0; n < d[0]; n++)
        for (int64_t c = 0; c < d[1]; c++)
            for (int64_t h = 0; h < d[2]; h++)
                for (int64_t w = 0; w < d[3]; w++) {
                    float v = (float)images[((n * d[2] + h) * d[3] + w) * d[1] + c];
                    volatile float unit = v / 255.0f; /* volatile: no excess precision, no contraction */
                    volatile float centred = unit - attr->mean[c];
                    x[ref_at(d, n, c, h, w)] = (double)(centred / attr->std[c]);
                }
    return OK;
}

const OpImpl ref_input = { ref_prepare, ref_bind, run, NULL };
