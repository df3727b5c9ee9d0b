/* input.c - from decoded images to the network's first activation: shapes only. */
#include "kernels/ops/input.h"
#include "kernels/ops/infer.h"

const char *const input_erase_names[ERASE_MODE_COUNT + 1] = {
    [ERASE_CONST] = "const", [ERASE_RAND] = "rand", [ERASE_PIXEL] = "pixel"
};

static Status infer_input(const OpSlots *s)
{
    const InputAttr *a = s->attr;
    const int views = op_input_views(a->views);
    TRY(infer_need(s, INPUT_IN_IMAGES, DTYPE_U8, 4));
    const int64_t *d = s->in[INPUT_IN_IMAGES]->dims; /* N,H,W,C */
    if (d[3] > OP_MAX_IMAGE_CHANNELS)
        return fail(ERR_INTERNAL, "%s: images have %d channels, at most %d are possible",
                    op_name(s->kind), (int)d[3], OP_MAX_IMAGE_CHANNELS);
    if (views > 1 && (s->in[INPUT_IN_ERASE] || s->in[INPUT_IN_MIX]))
        return fail(ERR_INTERNAL, "%s: images of several views are neither erased nor mixed",
                    op_name(s->kind));
    if (views == VIEWS_SHIFTED && (d[1] < 2 || d[2] < 2))
        return fail(ERR_INTERNAL, "%s: images of %lld x %lld pixels cannot be moved by one",
                    op_name(s->kind), (long long)d[2], (long long)d[1]);
    if (s->in[INPUT_IN_ERASE]) {
        TensorDesc boxes = tensor_desc(DTYPE_I32, 2, (int64_t[]){ d[0], ERASE_COUNT });
        TRY(infer_need_like(s, INPUT_IN_ERASE, &boxes));
    }
    if (s->in[INPUT_IN_MIX]) TRY(infer_need_dims(s, INPUT_IN_MIX, 1, (int64_t[]){ MIX_COUNT }));
    return infer_output(s, INPUT_OUT_X, DTYPE_F32, 4,
                        (int64_t[]){ views * d[0], d[3], d[1], d[2] });
}

const OpDef op_row_input = {
    .attr_bytes = sizeof(InputAttr),
    .in_names = { "images", "erase?", "mix?" },
    .out_names = { "x" },
    .infer = infer_input,
};
