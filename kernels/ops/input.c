/* input.c - from decoded images to the network's first activation: shapes only. */
#include "kernels/ops/infer.h"

static Status infer(const void *attr, const TensorDesc *const *in, const bool *wanted, TensorDesc *out)
{
    (void)attr;
    const OpKind kind = OP_INPUT;
    TRY(infer_need(kind, INPUT_IN_IMAGES, in[INPUT_IN_IMAGES], DTYPE_U8, 4));
    const int64_t *d = in[INPUT_IN_IMAGES]->dims; /* N,H,W,C */
    if (d[3] > OP_MAX_IMAGE_CHANNELS)
        return fail(ERR_INTERNAL, "%s: images have %d channels, at most %d are possible", op_name(kind), (int)d[3],
                    OP_MAX_IMAGE_CHANNELS);
    return infer_output(kind, INPUT_OUT_X, wanted[INPUT_OUT_X], &out[INPUT_OUT_X], DTYPE_F32, 4,
                        (int64_t[]){ d[0], d[3], d[1], d[2] });
}

const OpDef op_rows_input[] = { {
    .kind = OP_INPUT,
    .name = "input",
    .attr_bytes = sizeof(InputAttr),
    .inputs = 1,
    .outputs = 1,
    .in_names = { "images" },
    .out_names = { "x" },
    .in_place_of = { -1, -1, -1, -1 },
    .infer = infer,
} };
