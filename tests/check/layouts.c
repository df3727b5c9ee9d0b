/* layouts.c - decides the tensors that an op finds decided in a real program, as the backend under test would have
 * decided them.
 *
 * The check knows no backend's layouts; it asks, by preparing the op that would have made the tensor: an
 * activation is the output of a 1x1 convolution, weights are what a forward op chose, window indices are those of
 * a forward pooling. Layouts outlive the op that was asked (backend.h), so it is released at once. */
#include "tests/check/check.h"
#include "tests/check/rig.h"

#include <string.h>

static Status ask(OpInstance *op)
{
    const TensorDesc *in[OP_MAX_INPUTS];
    TensorDesc out[OP_MAX_OUTPUTS] = { { 0 } };
    const OpDef *def = op_def(op->kind);
    bool wanted[OP_MAX_OUTPUTS];
    for (int i = 0; i < OP_MAX_INPUTS; i++) in[i] = op->in[i].desc.rank ? &op->in[i].desc : NULL;
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) wanted[i] = i < def->outputs;
    TRY(def->infer(op->attr, in, wanted, out));
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) op->out[i].desc = out[i];
    Status st = op_prepare(op);
    op_release(op);
    return st;
}

static void copy_decision(OpTensor *to, const OpTensor *from)
{
    to->layout = from->layout;
    to->bytes = from->bytes;
}

static void decide_plain(Backend *b, OpTensor *t)
{
    t->layout = NULL;
    t->bytes = rig_plain_bytes(b, &t->desc);
}

static Status decide_activation(Backend *b, const Variant *v, OpTensor *t)
{
    static const Conv2dAttr one_by_one = { .stride_h = 1, .stride_w = 1, .groups = 1 };
    decide_plain(b, t);
    if (v->plain || t->desc.rank != 4 || t->desc.dtype != DTYPE_F32) return OK;
    const int64_t *d = t->desc.dims, x[] = { d[0], 1, d[2], d[3] }, w[] = { d[1], 1, 1, 1 };
    OpInstance op = { .kind = OP_CONV2D, .backend = b, .attr = &one_by_one };
    op.in[CONV_IN_X].desc = tensor_desc(DTYPE_F32, 4, x);
    op.in[CONV_IN_W].desc = tensor_desc(DTYPE_F32, 4, w);
    decide_plain(b, &op.in[CONV_IN_X]);
    TRY(ask(&op));
    copy_decision(t, &op.out[CONV_OUT_Y]);
    return OK;
}

/* Where the ops with weights have x and w: slot, negative for outputs (-1 - slot). */
typedef struct WeightSlots {
    OpKind kind, forward;
    int x, w;
} WeightSlots;
static const WeightSlots weight_slots[] = {
    { OP_CONV2D, OP_CONV2D, CONV_IN_X, CONV_IN_W },
    { OP_CONV2D_BWD_DATA, OP_CONV2D, -1 - CONV_BWD_DATA_OUT_DX, CONV_BWD_DATA_IN_W },
    { OP_CONV2D_BWD_WEIGHTS, OP_CONV2D, CONV_BWD_WEIGHTS_IN_X, -1 - CONV_BWD_WEIGHTS_OUT_DW },
    { OP_LINEAR, OP_LINEAR, LINEAR_IN_X, LINEAR_IN_W },
    { OP_LINEAR_BWD_DATA, OP_LINEAR, -1 - LINEAR_BWD_DATA_OUT_DX, LINEAR_BWD_DATA_IN_W },
    { OP_LINEAR_BWD_WEIGHTS, OP_LINEAR, LINEAR_BWD_WEIGHTS_IN_X, -1 - LINEAR_BWD_WEIGHTS_OUT_DW },
};

static const WeightSlots *weights_of(OpKind kind)
{
    for (size_t i = 0; i < sizeof weight_slots / sizeof weight_slots[0]; i++)
        if (weight_slots[i].kind == kind) return &weight_slots[i];
    return NULL;
}

static OpTensor *tensor_at(OpInstance *op, int slot)
{
    return slot < 0 ? &op->out[-1 - slot] : &op->in[slot];
}

/* A forward op that is itself under test finds weights that a program with another batch size placed. */
static Status decide_weights(Backend *b, const Variant *v, const WeightSlots *s, OpInstance *op)
{
    OpTensor *w = tensor_at(op, s->w);
    if (v->weights == WEIGHTS_PLAIN) decide_plain(b, w);
    if (v->weights != WEIGHTS_FORWARD) return OK;
    OpInstance forward = { .kind = s->forward, .backend = b, .attr = op->attr };
    forward.in[0].desc = tensor_at(op, s->x)->desc;
    if (s->kind == s->forward) forward.in[0].desc.dims[0] += 1;
    forward.in[1].desc = w->desc;
    TRY(decide_activation(b, v, &forward.in[0]));
    TRY(ask(&forward));
    copy_decision(w, &forward.in[1]);
    return OK;
}

static Status decide_pool_index(Backend *b, const Variant *v, OpInstance *op)
{
    OpInstance forward = { .kind = OP_POOL2D, .backend = b, .attr = op->attr };
    forward.in[POOL_IN_X].desc = op->out[POOL_BWD_OUT_DX].desc;
    TRY(decide_activation(b, v, &forward.in[POOL_IN_X]));
    TRY(ask(&forward));
    copy_decision(&op->in[POOL_BWD_IN_DY], &forward.out[POOL_OUT_Y]);
    copy_decision(&op->in[POOL_BWD_IN_INDEX], &forward.out[POOL_OUT_INDEX]);
    return OK;
}

/* Vectors that a forward op sees first: it decides them. */
static bool is_first_seen(OpKind kind, int slot)
{
    if (kind == OP_BATCHNORM) return slot >= BN_IN_GAMMA && slot <= BN_IN_RUNNING_VAR;
    return kind == OP_LINEAR && slot == LINEAR_IN_B;
}

Status layouts_decide_inputs(Backend *b, const Problem *p, const Variant *v, OpInstance *op)
{
    const WeightSlots *weights = weights_of(p->kind);
    for (int i = 0; i < OP_MAX_INPUTS; i++) {
        if (op->in[i].desc.rank == 0 || is_first_seen(p->kind, i) || (weights && weights->w == i)) continue;
        TRY(decide_activation(b, v, &op->in[i]));
    }
    if (weights) TRY(decide_weights(b, v, weights, op));
    if (op->in[POOL_BWD_IN_INDEX].desc.rank && p->kind == OP_POOL2D_BWD) TRY(decide_pool_index(b, v, op));
    return OK;
}
