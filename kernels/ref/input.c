/* input.c - images to activations: u8 N,H,W,C -> N,C,H,W, (v/255 - mean) / std, zero or noise in
 * the image's box to erase, mixed with the neighbour, and with several views the others behind.
 *
 * The one op of the reference that rounds to float32 after each step, because op.h defines it so:
 * the rounding is part of the meaning (torchvision's ToTensor, Normalize and mixing do the same),
 * hence backends must match it bit for bit. */
#include "kernels/erase_noise.h"
#include "kernels/ref/ref.h"

/* Element (c, h, w) of image n, normalised and erased. */
static float value_at(const OpInstance *op, int64_t n, int64_t c, int64_t h, int64_t w)
{
    const InputAttr *attr = op->attr;
    const int64_t *d = ref_in_dims(op, INPUT_IN_IMAGES);
    const uint8_t *images = op->in[INPUT_IN_IMAGES].data;
    if (ref_has_in(op, INPUT_IN_ERASE)) {
        const int32_t *box = (const int32_t *)op->in[INPUT_IN_ERASE].data + n * ERASE_COUNT;
        if (h >= box[ERASE_TOP] && h < box[ERASE_TOP] + box[ERASE_HEIGHT] && w >= box[ERASE_LEFT] &&
            w < box[ERASE_LEFT] + box[ERASE_WIDTH])
            return attr->erase == ERASE_CONST
                       ? 0
                       : erase_noise_at(box, attr->erase, (int)c, (int)h, (int)w);
    }
    float v = (float)images[((n * d[1] + h) * d[2] + w) * d[3] + c];
    volatile float unit = v / 255.0f; /* volatile: no excess precision, no contraction */
    volatile float centred = unit - attr->mean[c];
    return centred / attr->std[c];
}

static float mixed_at(const OpInstance *op, int64_t n, int64_t c, int64_t h, int64_t w)
{
    const double *mix = ref_in(op, INPUT_IN_MIX);
    float own = value_at(op, n, c, h, w);
    float other = value_at(op, op_input_neighbour(n, ref_in_dims(op, INPUT_IN_IMAGES)[0]), c, h, w);
    if (mix[MIX_BOX] != 0) {
        double y = (double)h, x = (double)w;
        return y >= mix[MIX_TOP] && y < mix[MIX_BOTTOM] && x >= mix[MIX_LEFT] && x < mix[MIX_RIGHT]
                   ? other
                   : own;
    }
    volatile float a = own * (float)mix[MIX_LAMBDA], b = other * (float)mix[MIX_REST];
    return a + b;
}

static void run(OpInstance *op)
{
    double *x = ref_out(op, INPUT_OUT_X);
    const int64_t *d = ref_out_dims(op, INPUT_OUT_X), images = ref_in_dims(op, INPUT_IN_IMAGES)[0];
    const bool mixes = ref_has_in(op, INPUT_IN_MIX);
    for (int64_t n = 0; n < d[0]; n++)
        for (int64_t c = 0; c < d[1]; c++)
            for (int64_t h = 0; h < d[2]; h++)
                for (int64_t w = 0; w < d[3]; w++) {
                    const int view = (int)(n / images);
                    int64_t column = op_input_mirrored(view) ? d[3] - 1 - w : w;
                    column = op_input_view_from(view, column, d[3]);
                    const int64_t row = op_input_view_from(view, h, d[2]);
                    float v = mixes ? mixed_at(op, n % images, c, row, column)
                                    : value_at(op, n % images, c, row, column);
                    x[ref_at(d, n, c, h, w)] = (double)v;
                }
}

REF_LOOPS(ref_input, run);
