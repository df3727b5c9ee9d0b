/* rig.c - runs one op on one backend with everything around it watched.
 *
 * Every tensor and the workspace lie between guard bytes; outputs and workspace hold NaN before the
 * run; inputs must hold the same bytes after it; padding that a layout adds must be zero. A rig may
 * run several times, each time in fresh memory that is bound anew. */
#include "tests/ops/rig.h"

#include <stdio.h>
#include <string.h>

bool op_updates_input(const Problem *p, int slot)
{
    if (p->kind == OP_BATCHNORM)
        return p->attr.bn.mode == BN_TRAIN &&
               (slot == BN_IN_RUNNING_MEAN || slot == BN_IN_RUNNING_VAR);
    if (p->kind == OP_BN_POOL || p->kind == OP_BN_SIGNS || p->kind == OP_BN_STATISTICS)
        return slot == BN_IN_RUNNING_MEAN || slot == BN_IN_RUNNING_VAR;
    if (p->kind == OP_BN_FINALIZE)
        return slot == BN_FINALIZE_IN_RUNNING_MEAN || slot == BN_FINALIZE_IN_RUNNING_VAR;
    if (p->kind == OP_FINITE_CHECK) return slot == FINITE_CHECK_IN_LOSS_SCALE;
    if (p->kind == OP_LOSS_SCALE) return slot == LOSS_SCALE_IN_STATE;
    if (p->kind == OP_LERP)
        return slot == LERP_IN_AVERAGE || (slot == LERP_IN_X && p->attr.lerp.mode != LERP_FOLLOW);
    if (p->kind == OP_EMBED_BWD) return slot == EMBED_BWD_IN_SO_FAR;
    if (p->kind == OP_MUON) return slot == MUON_IN_GRAD || slot == MUON_IN_MOMENTUM;
    return p->kind == OP_UPDATE &&
           (slot == UPDATE_IN_PARAM || slot == UPDATE_IN_STATE0 || slot == UPDATE_IN_STATE1);
}

bool op_out_is_gradient(OpKind kind, int slot)
{
    if (kind == OP_BATCHNORM_BWD || kind == OP_BN_BWD_SUMS || kind == OP_BN_POOL_BWD ||
        kind == OP_BN_SIGNS_BWD)
        return slot == BN_BWD_OUT_DGAMMA || slot == BN_BWD_OUT_DBETA;
    if (kind == OP_LAYERNORM_BWD || kind == OP_GRN_BWD) return slot != LAYERNORM_BWD_OUT_DX;
    if (kind == OP_CONV2D_BWD_DATA_NORM)
        return slot == CONV_BWD_DATA_NORM_OUT_DGAMMA || slot == CONV_BWD_DATA_NORM_OUT_DBETA ||
               slot == CONV_BWD_DATA_NORM_OUT_RESIDUAL_DGAMMA ||
               slot == CONV_BWD_DATA_NORM_OUT_RESIDUAL_DBETA;
    return kind == OP_CONV2D_BWD_WEIGHTS || kind == OP_CONV2D_BWD_WEIGHTS_NORM ||
           kind == OP_LINEAR_BWD_WEIGHTS || kind == OP_EMBED_BWD ||
           (kind == OP_TOKENS_BWD && slot != TOKENS_BWD_OUT_DX);
}

/* A layout may keep f32 in a type of half the size. */
static size_t least_bytes(const OpTensor *t)
{
    size_t plain = tensor_plain_bytes(&t->desc);
    return t->layout && t->desc.dtype == DTYPE_F32 ? plain / 2 : plain;
}

static Status check_decided(const OpInstance *op)
{
    const OpDef *def = op_def(op->kind);
    for (int i = 0; i < OP_MAX_INPUTS + OP_MAX_OUTPUTS; i++) {
        bool input = i < OP_MAX_INPUTS;
        int slot = input ? i : i - OP_MAX_INPUTS;
        const OpTensor *t = input ? &op->in[slot] : &op->out[slot];
        if (t->desc.rank == 0) continue;
        if (t->bytes < least_bytes(t))
            return fail(ERR_HEALTH, "prepare left %s with %zu bytes",
                        input ? def->in_names[slot] : def->out_names[slot], t->bytes);
    }
    return OK;
}

/* What was decided before prepare must be so behind it. */
static Status prepare_and_check(OpInstance *op)
{
    const OpInstance before = *op;
    TRY(backend_prepare_op(op));
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        if (before.in[i].bytes &&
            (before.in[i].bytes != op->in[i].bytes || before.in[i].layout != op->in[i].layout))
            return fail(ERR_HEALTH, "prepare changed the decided layout of input %d", i);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++)
        if (before.out[i].bytes &&
            (before.out[i].bytes != op->out[i].bytes || before.out[i].layout != op->out[i].layout))
            return fail(ERR_HEALTH, "prepare changed the decided layout of output %d", i);
    return check_decided(op);
}

Status rig_create(Rig *rig, Backend *b, const Problem *p, const Variant *v)
{
    *rig = (Rig){ .backend = b, .problem = p, .variant = *v };
    OpInstance *op = &rig->op;
    *op = (OpInstance){
        .kind = p->kind, .backend = b, .attr = &p->attr, .accumulate = v->accumulate
    };
    for (int i = 0; i < OP_MAX_INPUTS; i++) op->in[i].desc = p->in[i];
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) op->out[i].desc = p->out[i];
    TRY(layouts_decide_inputs(b, p, v, op));
    TRY(prepare_and_check(op));
    return b->v->stream_create(b, LANE_COMPUTE, &rig->stream);
}

void rig_destroy(Rig *rig)
{
    if (!rig->backend) return;
    if (rig->stream) rig->backend->v->stream_destroy(rig->backend, rig->stream);
    backend_release_op(&rig->op);
    rig->backend = NULL;
}

bool rig_can_lie_over(const Rig *rig, int out_slot)
{
    const OpTensor *out = &rig->op.out[out_slot],
                   *in = &rig->op.in[op_in_place_of(rig->op.kind, out_slot)];
    return out->layout == in->layout && out->bytes == in->bytes;
}

typedef struct Run { /* the memory of one run */
    Rig *rig;
    Arena *arena;
    Guarded in[OP_MAX_INPUTS], out[OP_MAX_OUTPUTS], workspace;
    uint8_t *before[OP_MAX_INPUTS];
    bool overwritten[OP_MAX_INPUTS]; /* an output lies over it, or the op updates it */
} Run;

static Status place_inputs(Run *r, const Host *in)
{
    OpInstance *op = &r->rig->op;
    Backend *b = r->rig->backend;
    for (int i = 0; i < OP_MAX_INPUTS; i++) {
        OpTensor *t = &op->in[i];
        if (t->desc.rank == 0) continue;
        TRY(guarded_alloc(b, r->arena, t->bytes, &r->in[i]));
        t->data = r->in[i].data;
        if (!(r->before[i] = arena_alloc(r->arena, t->bytes))) return ERR_MEMORY;
        TRY(rig_write(b, t->data, t->bytes,
                      /* zeros, then the values: padding is zero whatever import does */
                      r->before[i]));
        TRY(rig_import(b, r->arena, t, &in[i]));
        TRY(rig_read(b, t->data, t->bytes, r->before[i]));
        r->overwritten[i] = op_updates_input(r->rig->problem, i);
    }
    return OK;
}

static Status place_outputs(Run *r, const Host *start)
{
    OpInstance *op = &r->rig->op;
    Backend *b = r->rig->backend;
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) {
        OpTensor *t = &op->out[i];
        if (t->desc.rank == 0) continue;
        /* A plan lays tensors over each other only where their sizes are equal: of one type. */
        bool over_input = (r->rig->variant.in_place & ~op->no_alias) >> i & 1;
        int over = op_in_place_of(op->kind, i);
        if (over_input && t->bytes == op->in[over].bytes) {
            if (!rig_can_lie_over(r->rig, i))
                return fail(ERR_HEALTH, "output %d may lie over input %d but is laid out otherwise",
                            i, over);
            t->data = op->in[over].data;
            r->overwritten[over] = true;
            continue;
        }
        TRY(guarded_alloc(b, r->arena, t->bytes, &r->out[i]));
        t->data = r->out[i].data;
        if (!start[i].v) continue;
        uint8_t *zeros = arena_alloc(r->arena, t->bytes);
        if (!zeros) return ERR_MEMORY;
        TRY(rig_write(b, t->data, t->bytes, zeros));
        TRY(rig_import(b, r->arena, t, &start[i]));
    }
    return OK;
}

static Status check_guards(const Run *r)
{
    const OpDef *def = op_def(r->rig->op.kind);
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        if (r->in[i].base)
            TRY(guarded_check(r->rig->backend, r->arena, &r->in[i], def->in_names[i]));
    for (int i = 0; i < OP_MAX_OUTPUTS; i++)
        if (r->out[i].base)
            TRY(guarded_check(r->rig->backend, r->arena, &r->out[i], def->out_names[i]));
    return r->workspace.base ? guarded_check(r->rig->backend, r->arena, &r->workspace, "workspace")
                             : OK;
}

static Status check_inputs(const Run *r)
{
    for (int i = 0; i < OP_MAX_INPUTS; i++) {
        if (!r->in[i].base || r->overwritten[i]) continue;
        uint8_t *after = arena_alloc(r->arena, r->in[i].bytes);
        if (!after) return ERR_MEMORY;
        TRY(rig_read(r->rig->backend, r->in[i].data, r->in[i].bytes, after));
        if (memcmp(after, r->before[i], r->in[i].bytes) != 0)
            return fail(ERR_HEALTH, "changed its input %s", op_def(r->rig->op.kind)->in_names[i]);
    }
    return OK;
}

/* A zero may have either sign: the highest bit of its highest byte. The values themselves are equal
 * already. */
static bool differ_by_signs_of_zero(const uint8_t *raw, const uint8_t *again, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (raw[i] != again[i] && (raw[i] != 0x80 || again[i] != 0 || i % 2 == 0)) return false;
    return true;
}

/* Exported and imported into zeros, a tensor must give the same bytes: what lies between its
 * elements is zero. */
static Status check_padding(const Run *r, const OpTensor *t, const uint8_t *raw, const char *name)
{
    Backend *b = r->rig->backend;
    Guarded fresh;
    uint8_t *again = arena_alloc(r->arena, t->bytes);
    void *plain = arena_alloc(r->arena, tensor_plain_bytes(&t->desc));
    if (!again || !plain) return ERR_MEMORY;
    Status st = guarded_alloc(b, r->arena, t->bytes, &fresh);
    OpTensor copy = *t;
    copy.data = fresh.data;
    if (st == OK) st = rig_write(b, copy.data, t->bytes, again);
    if (st == OK) st = b->v->export_tensor(b, t, plain);
    if (st == OK) st = b->v->import_tensor(b, &copy, plain);
    if (st == OK) st = rig_read(b, copy.data, t->bytes, again);
    if (st == OK) st = guarded_check(b, r->arena, &fresh, "an imported tensor");
    if (st == OK && !differ_by_signs_of_zero(raw, again, t->bytes))
        st = fail(ERR_HEALTH, "padding of %s is not zero", name);
    guarded_free(b, &fresh);
    return st;
}

static Status take_result(const Run *r, const OpTensor *t, const char *name, Host *host,
                          uint8_t **raw)
{
    Backend *b = r->rig->backend;
    if (!(*raw = arena_alloc(r->arena, t->bytes))) return ERR_MEMORY;
    TRY(rig_read(b, t->data, t->bytes, *raw));
    TRY(rig_export(b, r->arena, t, host));
    bool compact = t->bytes == rig_plain_bytes(b, &t->desc);
    /* NaN times a zero of the padding is NaN */
    if (compact || r->rig->variant.mode == MODE_NAN) return OK;
    return check_padding(r, t, *raw, name);
}

static Status take_results(const Run *r, Result *out)
{
    const OpInstance *op = &r->rig->op;
    const OpDef *def = op_def(op->kind);
    memset(out, 0, sizeof *out);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++)
        if (op->out[i].desc.rank)
            TRY(take_result(r, &op->out[i], def->out_names[i], &out->out[i], &out->raw_out[i]));
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        if (op->in[i].desc.rank && op_updates_input(r->rig->problem, i))
            TRY(take_result(r, &op->in[i], def->in_names[i], &out->in[i], &out->raw_in[i]));
    return OK;
}

/* Compute copies are for the backend to use or not: with exact inputs they are there, with others
 * not. The optimizer always writes them. */
static Status attach_params(const Run *r, bool attach)
{
    const OpInstance *op = &r->rig->op;
    Backend *b = r->rig->backend;
    int slot = layouts_weight_input(op->kind);
    bool wanted =
        r->rig->variant.mode == MODE_EXACT || op->kind == OP_UPDATE || op->kind == OP_LERP;
    if (!b->v->device || slot < 0 || !wanted) return OK;
    if (!attach) return b->v->device->params_attach(b, NULL, 0);
    TRY(b->v->device->params_attach(b, op->in[slot].data, op->in[slot].bytes));
    return b->v->device->params_changed(b, r->rig->stream);
}

static Status run_instance(Run *r)
{
    OpInstance *op = &r->rig->op;
    Backend *b = r->rig->backend;
    const OpImpl *impl = b->v->ops[op->kind];
    TRY(impl->bind(op));
    TRY(impl->run(op, r->rig->stream));
    return b->v->stream_wait(b, r->rig->stream);
}

static Status run_placed(Run *r, const Host *in, const Host *start, Result *out)
{
    OpInstance *op = &r->rig->op;
    Backend *b = r->rig->backend;
    TRY(place_inputs(r, in));
    TRY(place_outputs(r, start));
    TRY(guarded_alloc(b, r->arena, op->workspace_bytes, &r->workspace));
    op->workspace = r->workspace.data; /* also where none was asked for, as in a program */
    TRY(attach_params(r, true));
    Status st = run_instance(r);
    Status detached = attach_params(r, false);
    TRY(st == OK ? detached : st);
    TRY(check_guards(r));
    TRY(check_inputs(r));
    return take_results(r, out);
}

Status rig_run(Rig *rig, Arena *arena, const Host *in, const Host *start, Result *out)
{
    Run r = { .rig = rig, .arena = arena };
    Status st = run_placed(&r, in, start, out);
    for (int i = 0; i < OP_MAX_INPUTS; i++) guarded_free(rig->backend, &r.in[i]);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) guarded_free(rig->backend, &r.out[i]);
    guarded_free(rig->backend, &r.workspace);
    return st;
}
