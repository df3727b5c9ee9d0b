/* embed.c - words to a canvas, and single places of one: shapes and work. */
#include "kernels/ops/infer.h"
#include <stdio.h>

static Status need_i32(const OpSlots *s, int slot, int rank, int64_t a, int64_t b)
{
    const TensorDesc need = tensor_desc(DTYPE_I32, rank, (const int64_t[]){ a, b });
    return infer_need_like(s, slot, &need);
}

/* in[slot] must be a table of rows of C. */
static Status need_table(const OpSlots *s, int slot, int64_t c)
{
    TRY(infer_need(s, slot, DTYPE_F32, 2));
    return infer_need_dims(s, slot, 2, (const int64_t[]){ s->in[slot]->dims[0], c });
}

/* A canvas of one row of places. */
static Status check_canvas(OpKind kind, const char *name, const TensorDesc *x)
{
    if (x->dims[0] == 1 && x->dims[3] == 1) return OK;
    return fail(ERR_INTERNAL, "%s: %s is [%lld,%lld,%lld,%lld], expected [1,C,T,1]", op_name(kind),
                name, (long long)x->dims[0], (long long)x->dims[1], (long long)x->dims[2],
                (long long)x->dims[3]);
}

static Status check_offset(const OpSlots *s, int64_t positions)
{
    const int offset = ((const EmbedAttr *)s->attr)->offset;
    if (offset >= 0 && offset < positions) return OK;
    return fail(ERR_INTERNAL, "%s: %lld positions from %d on", op_name(s->kind),
                (long long)positions, offset);
}

static Status infer_embed(const OpSlots *s)
{
    TRY(infer_need(s, EMBED_IN_WORDS, DTYPE_F32, 2));
    TRY(infer_need(s, EMBED_IN_IDS, DTYPE_I32, 1));
    const int64_t c = s->in[EMBED_IN_WORDS]->dims[1], t = s->in[EMBED_IN_IDS]->dims[0];
    TRY(need_table(s, EMBED_IN_POSITIONS, c));
    TRY(check_offset(s, s->in[EMBED_IN_POSITIONS]->dims[0]));
    TRY(need_i32(s, EMBED_IN_WHERE, 2, t, 2));
    if (s->in[EMBED_IN_SEGMENTS] || s->in[EMBED_IN_SEGMENT_IDS]) {
        TRY(need_table(s, EMBED_IN_SEGMENTS, c));
        TRY(need_i32(s, EMBED_IN_SEGMENT_IDS, 1, t, 0));
    }
    return infer_output(s, EMBED_OUT_Y, DTYPE_F32, 4, (const int64_t[]){ 1, c, t, 1 });
}

/* The gradient of a table, whose shape the caller gave. */
static Status check_gradient(const OpSlots *s, int slot, int64_t c)
{
    if (!s->wanted[slot]) return OK;
    TRY(infer_preset(s, slot, 2));
    return infer_output(s, slot, DTYPE_F32, 2, (const int64_t[]){ s->out[slot].dims[0], c });
}

static Status infer_embed_bwd(const OpSlots *s)
{
    TRY(infer_need(s, EMBED_BWD_IN_DY, DTYPE_F32, 4));
    TRY(check_canvas(s->kind, "dy", s->in[EMBED_BWD_IN_DY]));
    const int64_t c = s->in[EMBED_BWD_IN_DY]->dims[1], t = s->in[EMBED_BWD_IN_DY]->dims[2];
    TRY(need_i32(s, EMBED_BWD_IN_IDS, 1, t, 0));
    TRY(need_i32(s, EMBED_BWD_IN_ORDER, 1, t, 0));
    TRY(infer_need(s, EMBED_BWD_IN_STARTS, DTYPE_I32, 1));
    if (s->in[EMBED_BWD_IN_SEGMENT_IDS]) TRY(need_i32(s, EMBED_BWD_IN_SEGMENT_IDS, 1, t, 0));
    if (s->in[EMBED_BWD_IN_SO_FAR]) TRY(need_table(s, EMBED_BWD_IN_SO_FAR, c));
    if (s->wanted[EMBED_BWD_OUT_DWORDS] && s->in[EMBED_BWD_IN_SO_FAR])
        return fail(ERR_INTERNAL, "%s: dwords and so_far exclude each other", op_name(s->kind));
    if (s->wanted[EMBED_BWD_OUT_DSEGMENTS] != !!s->in[EMBED_BWD_IN_SEGMENT_IDS])
        return fail(ERR_INTERNAL, "%s: dsegments and segment_ids need each other",
                    op_name(s->kind));
    TRY(check_gradient(s, EMBED_BWD_OUT_DWORDS, c));
    TRY(check_gradient(s, EMBED_BWD_OUT_DSEGMENTS, c));
    TRY(check_gradient(s, EMBED_BWD_OUT_DPOSITIONS, c));
    return check_offset(s, s->out[EMBED_BWD_OUT_DPOSITIONS].dims[0]);
}

static void print_embed(const void *attr, char *out, size_t bytes)
{
    snprintf(out, bytes, "from %d", ((const EmbedAttr *)attr)->offset);
}

static double flops_embed(const void *attr, const TensorDesc *const *in, const TensorDesc *out)
{
    (void)attr;
    return (double)tensor_elements(&out[EMBED_OUT_Y]) * (in[EMBED_IN_SEGMENTS] ? 2 : 1);
}

static double flops_embed_bwd(const void *attr, const TensorDesc *const *in, const TensorDesc *out)
{
    (void)attr;
    (void)out;
    return (double)tensor_elements(in[EMBED_BWD_IN_DY]) * (in[EMBED_BWD_IN_SEGMENT_IDS] ? 3 : 2);
}

static Status infer_pick(const OpSlots *s)
{
    const int64_t count = ((const PickAttr *)s->attr)->count;
    TRY(infer_need(s, PICK_IN_X, DTYPE_F32, 4));
    TRY(check_canvas(s->kind, "x", s->in[PICK_IN_X]));
    TRY(infer_need(s, PICK_IN_ROWS, DTYPE_I32, 1));
    if (count < 1 || count > s->in[PICK_IN_ROWS]->dims[0])
        return fail(ERR_INTERNAL, "%s: %lld of %lld rows", op_name(s->kind), (long long)count,
                    (long long)s->in[PICK_IN_ROWS]->dims[0]);
    return infer_output(s, PICK_OUT_Y, DTYPE_F32, 2,
                        (const int64_t[]){ count, s->in[PICK_IN_X]->dims[1] });
}

static Status infer_pick_bwd(const OpSlots *s)
{
    const int64_t count = ((const PickAttr *)s->attr)->count;
    TRY(infer_preset(s, PICK_BWD_OUT_DX, 4));
    const TensorDesc *dx = &s->out[PICK_BWD_OUT_DX];
    TRY(check_canvas(s->kind, "dx", dx));
    TRY(infer_need_dims(s, PICK_BWD_IN_DY, 2, (const int64_t[]){ count, dx->dims[1] }));
    TRY(infer_need(s, PICK_BWD_IN_ROWS, DTYPE_I32, 1));
    if (count <= s->in[PICK_BWD_IN_ROWS]->dims[0]) return OK;
    return fail(ERR_INTERNAL, "%s: %lld of %lld rows", op_name(s->kind), (long long)count,
                (long long)s->in[PICK_BWD_IN_ROWS]->dims[0]);
}

const OpDef op_row_embed = {
    .attr_bytes = sizeof(EmbedAttr),
    .in_names = { "words", "positions", "segments?", "ids", "where", "segment_ids?" },
    .out_names = { "y" },
    .infer = infer_embed,
    .flops = flops_embed,
    .print = print_embed,
};

const OpDef op_row_embed_bwd = {
    .attr_bytes = sizeof(EmbedAttr),
    .in_names = { "dy", "ids", "order", "starts", "segment_ids?", "so_far?" },
    .out_names = { "dwords?", "dpositions", "dsegments?" },
    .infer = infer_embed_bwd,
    .flops = flops_embed_bwd,
    .print = print_embed,
};

const OpDef op_row_pick = {
    .attr_bytes = sizeof(PickAttr),
    .in_names = { "x", "rows" },
    .out_names = { "y" },
    .infer = infer_pick,
};

const OpDef op_row_pick_bwd = {
    .attr_bytes = sizeof(PickAttr),
    .in_names = { "dy", "rows" },
    .out_names = { "dx" },
    .infer = infer_pick_bwd,
};
