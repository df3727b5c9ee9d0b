/* update.c - the optimizer step over flat ranges: which state each kind keeps, and that its
 * segments lie inside the tensors. It has no outputs: parameters and states are updated in
 * place. */
#include "kernels/ops/update.h"
#include "kernels/ops/infer.h"
#include <inttypes.h>
#include <stdio.h>

#define TRAITS(kind_, name_, states_, ...)                                                         \
    [UPDATE_##kind_] = { .name = (name_), .states = (states_), __VA_ARGS__ },
#define NAME(kind_, name_, ...) [UPDATE_##kind_] = (name_),

static const UpdateTraits rows[UPDATE_KIND_COUNT] = { UPDATE_ROWS(TRAITS) };
const char *const update_kind_names[UPDATE_KIND_COUNT + 1] = { UPDATE_ROWS(NAME) };

const UpdateTraits *update_traits(UpdateKind kind)
{
    return &rows[kind];
}

int update_states(UpdateKind kind, double momentum)
{
    return rows[kind].by_momentum && momentum == 0 ? 0 : rows[kind].states;
}

double update_eps(UpdateKind kind)
{
    return rows[kind].eps > 0 ? rows[kind].eps : UPDATE_EPS;
}

const double *update_betas(UpdateKind kind)
{
    static const double adam[2] = { 0.9, 0.999 };
    return rows[kind].betas[0] > 0 ? rows[kind].betas : adam;
}

int64_t update_trust_chunks(const UpdateSegment *s)
{
    return s->adapts ? (s->count + TRUST_CHUNK - 1) / TRUST_CHUNK : 0;
}

int64_t update_all_trust_chunks(const UpdateAttr *a)
{
    int64_t chunks = 0;
    for (int i = 0; i < a->segment_count; i++) chunks += update_trust_chunks(&a->segments[i]);
    return chunks;
}

static Status check_segments(const UpdateAttr *a, int64_t count)
{
    int64_t at = 0;
    for (int i = 0; i < a->segment_count; i++) {
        const UpdateSegment *s = &a->segments[i];
        if (s->first < at || s->count < 0 || s->count > count - s->first)
            return fail(ERR_INTERNAL,
                        "%s: segment %d (%" PRId64 "+%" PRId64 ") overlaps or leaves the %" PRId64
                        " elements",
                        op_name(OP_UPDATE), i, s->first, s->count, count);
        at = s->first + s->count;
    }
    return OK;
}

static Status infer_update(const OpSlots *s)
{
    const UpdateAttr *a = s->attr;
    if ((unsigned)a->kind >= UPDATE_KIND_COUNT)
        return fail(ERR_INTERNAL, "%s: unknown kind %d", op_name(s->kind), (int)a->kind);
    const TensorDesc *param = s->in[UPDATE_IN_PARAM];
    TRY(infer_need(s, UPDATE_IN_PARAM, DTYPE_F32, 1));
    TRY(infer_need_like(s, UPDATE_IN_GRAD, param));
    for (int i = 0, slot = UPDATE_IN_STATE0; i < UPDATE_STATES_MAX; i++, slot++)
        if (i < update_states(a->kind, (double)a->momentum) || s->in[slot])
            TRY(infer_need_like(s, slot, param));
    TRY(infer_need_dims(s, UPDATE_IN_SCALARS, 1, (int64_t[]){ SCALAR_COUNT }));
    if (s->in[UPDATE_IN_LOSS_SCALE])
        TRY(infer_need_dims(s, UPDATE_IN_LOSS_SCALE, 1, (int64_t[]){ LOSS_SCALE_COUNT }));
    if (s->in[UPDATE_IN_CLIP])
        TRY(infer_need_dims(s, UPDATE_IN_CLIP, 1, (int64_t[]){ CLIP_COUNT }));
    if (s->in[UPDATE_IN_RATIO])
        TRY(infer_need_dims(s, UPDATE_IN_RATIO, 1, (int64_t[]){ a->segment_count }));
    return check_segments(a, param->dims[0]);
}

static Status infer_ratio(const OpSlots *s)
{
    const UpdateAttr *a = s->attr;
    TRY(infer_update(s));
    const int64_t dims[] = { update_all_trust_chunks(a), TRUST_SUM_COUNT };
    if (rows[a->kind].trust == TRUST_NONE || dims[0] == 0)
        return fail(ERR_INTERNAL, "%s: %s has no trust ratios here", op_name(s->kind),
                    rows[a->kind].name);
    TRY(infer_output(s, TRUST_RATIO_OUT_SUMS, DTYPE_F64, 2, dims));
    return infer_output(s, TRUST_RATIO_OUT_RATIOS, DTYPE_F32, 1, (int64_t[]){ a->segment_count });
}

static void print_update(const void *attr, char *out, size_t bytes)
{
    const UpdateAttr *a = attr;
    const UpdateTraits *traits = update_traits(a->kind);
    snprintf(out, bytes, "%s%s", traits->name, traits->nesterov && a->nesterov ? " nesterov" : "");
}

#define IN_NAMES                                                                                   \
    {                                                                                              \
        "param", "grad", "state0?", "state1?", "scalars", "loss_scale?", "clip?", "ratio?"         \
    }

const OpDef op_row_update = {
    .attr_bytes = sizeof(UpdateAttr),
    .in_names = IN_NAMES,
    .infer = infer_update,
    .print = print_update,
};

const OpDef op_row_trust_ratio = {
    .attr_bytes = sizeof(UpdateAttr),
    .in_names = IN_NAMES,
    .out_names = { "sums", "ratios" },
    .infer = infer_ratio,
    .print = print_update,
    .work = { 4, UPDATE_IN_PARAM },
};
