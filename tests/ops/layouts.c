/* layouts.c - decides the tensors that an op finds decided in a real program, as the backend under
 * test would have decided them.
 *
 * The check knows no backend's layouts; it asks, by preparing the op that would have made the
 * tensor: an activation is the output of a 1x1 convolution or, of rank 2, of an average over
 * images, logits are those of a linear layer, weights are what a forward op chose, window indices
 * are those of a forward pooling, vectors of a norm those of its forward. Layouts outlive the op
 * that was asked (backend.h), so it is released at once. */
#include "tests/ops/check.h"

#include "tests/ops/rig.h"
#include <string.h>

static Status ask(OpInstance *op)
{
    const TensorDesc *in[OP_MAX_INPUTS];
    TensorDesc out[OP_MAX_OUTPUTS] = { { 0 } };
    const OpDef *def = op_def(op->kind);
    bool wanted[OP_MAX_OUTPUTS];
    for (int i = 0; i < OP_MAX_INPUTS; i++) in[i] = op->in[i].desc.rank ? &op->in[i].desc : NULL;
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) wanted[i] = i < op_outputs(def);
    TRY(op_infer(op->kind, op->attr, in, wanted, out));
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) op->out[i].desc = out[i];
    Status st = backend_prepare_op(op);
    backend_release_op(op);
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

/* As the first convolution of a network leaves it. */
static Status decide_images(Backend *b, OpTensor *t)
{
    static const Conv2dAttr one_by_one = { .stride_h = 1, .stride_w = 1, .groups = 1 };
    static const InputAttr normal = { .mean = { 0 }, .std = { 1 } };
    const int64_t *d = t->desc.dims, images[] = { d[0], d[2], d[3], 1 }, w[] = { d[1], 1, 1, 1 };
    OpInstance input = { .kind = OP_INPUT, .backend = b, .attr = &normal },
               op = { .kind = OP_CONV2D, .backend = b, .attr = &one_by_one };
    input.in[INPUT_IN_IMAGES].desc = tensor_desc(DTYPE_U8, 4, images);
    TRY(ask(&input));
    op.in[CONV_IN_X] = input.out[INPUT_OUT_X];
    op.in[CONV_IN_W].desc = tensor_desc(DTYPE_F32, 4, w);
    TRY(ask(&op));
    copy_decision(t, &op.out[CONV_OUT_Y]);
    return OK;
}

/* As an average over images leaves it. */
static Status decide_rows(Backend *b, OpTensor *t)
{
    const int64_t *d = t->desc.dims, x[] = { d[0], d[1], 1, 1 };
    OpInstance op = { .kind = OP_GLOBAL_AVGPOOL, .backend = b };
    op.in[GLOBAL_AVGPOOL_IN_X].desc = tensor_desc(DTYPE_F32, 4, x);
    TRY(decide_images(b, &op.in[GLOBAL_AVGPOOL_IN_X]));
    TRY(ask(&op));
    copy_decision(t, &op.out[GLOBAL_AVGPOOL_OUT_Y]);
    return OK;
}

static Status decide_linear_rows(Backend *b, OpTensor *t)
{
    const int64_t *d = t->desc.dims, x[] = { d[0], 1 }, w[] = { d[1], 1 };
    OpInstance op = { .kind = OP_LINEAR, .backend = b };
    op.in[LINEAR_IN_X].desc = tensor_desc(DTYPE_F32, 2, x);
    op.in[LINEAR_IN_W].desc = tensor_desc(DTYPE_F32, 2, w);
    TRY(decide_rows(b, &op.in[LINEAR_IN_X]));
    TRY(ask(&op));
    copy_decision(t, &op.out[LINEAR_OUT_Y]);
    return OK;
}

static Status decide_activation(Backend *b, const Variant *v, OpTensor *t)
{
    decide_plain(b, t);
    if (v->plain || t->desc.dtype != DTYPE_F32) return OK;
    if (t->desc.rank == 4) return decide_images(b, t);
    return t->desc.rank == 2 ? decide_rows(b, t) : OK;
}

/* Of what a linear layer can have left, one input is: the others come from elsewhere. */
static bool comes_from_linear(OpKind kind, const Variant *v, int slot)
{
    if (kind == OP_SOFTMAX_XENT) return slot == XENT_IN_LOGITS || slot == XENT_IN_TEACHER;
    if (kind == OP_GATE) return slot == GATE_IN_G;
    if (kind == OP_GATE_BWD) return slot == GATE_BWD_IN_G;
    if (!v->wide) return false;
    if (kind == OP_ACTIVATION_BWD) return slot == ACTIVATION_BWD_IN_Y;
    if (kind == OP_ADD) return slot == ADD_IN_B;
    if (kind == OP_LAYERNORM_BWD) return slot == LAYERNORM_BWD_IN_X;
    if (kind == OP_BATCHNORM_BWD || kind == OP_BN_BWD_SUMS) return slot == BN_BWD_IN_X;
    return slot == 0;
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
    { OP_CONV2D_STATS, OP_CONV2D, CONV_STATS_IN_X, CONV_STATS_IN_W },
    { OP_CONV2D_BWD_DATA_NORM, OP_CONV2D, CONV_BWD_DATA_NORM_IN_X, CONV_BWD_DATA_NORM_IN_W },
    { OP_CONV2D_BWD_WEIGHTS_NORM, OP_CONV2D, CONV_BWD_WEIGHTS_NORM_IN_X,
      -1 - CONV_BWD_WEIGHTS_NORM_OUT_DW },
    /* whose attributes begin with the convolution's */
    { OP_CONV2D_BN, OP_CONV2D, CONV_BN_IN_X, CONV_BN_IN_W },
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

int layouts_weight_input(OpKind kind)
{
    const WeightSlots *s = weights_of(kind);
    if (kind == OP_UPDATE) return UPDATE_IN_PARAM;
    if (kind == OP_LERP) return LERP_IN_X;
    return s && s->w >= 0 ? s->w : -1;
}

bool layouts_is_product(OpKind kind)
{
    return weights_of(kind) != NULL;
}

static OpTensor *tensor_at(OpInstance *op, int slot)
{
    return slot < 0 ? &op->out[-1 - slot] : &op->in[slot];
}

/* A forward op that is itself under test finds weights that a program with another batch size
 * placed. */
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

/* What backward reads of the forward op's own: its vectors and statistics. */
static Status decide_norm_vectors(Backend *b, OpInstance *op)
{
    BatchNormAttr attr = *(const BatchNormAttr *)op->attr;
    OpInstance forward = { .kind = OP_BATCHNORM, .backend = b, .attr = &attr };
    if (attr.ranks) attr.mode = BN_FROZEN; /* lies alike, and is made of one value too */
    attr.ranks = 0;
    forward.in[BN_IN_X] = op->in[BN_BWD_IN_X];
    for (int slot = BN_IN_GAMMA; slot <= BN_IN_RUNNING_VAR; slot++)
        forward.in[slot].desc = op->in[BN_BWD_IN_GAMMA].desc;
    TRY(ask(&forward));
    copy_decision(&op->in[BN_BWD_IN_GAMMA], &forward.in[BN_IN_GAMMA]);
    copy_decision(&op->in[BN_BWD_IN_BETA], &forward.in[BN_IN_BETA]);
    copy_decision(&op->in[BN_BWD_IN_SAVED], &forward.out[BN_OUT_SAVED]);
    return OK;
}

/* x: of the pooling; index, and dy as y, lie as a pooling leaves them. */
static Status decide_pool_index(Backend *b, const Variant *v, const Pool2dAttr *pool,
                                const TensorDesc *x, OpTensor *dy, OpTensor *index)
{
    OpInstance forward = { .kind = OP_POOL2D, .backend = b, .attr = pool };
    forward.in[POOL_IN_X].desc = *x;
    TRY(decide_activation(b, v, &forward.in[POOL_IN_X]));
    TRY(ask(&forward));
    copy_decision(dy, &forward.out[POOL_OUT_Y]);
    copy_decision(index, &forward.out[POOL_OUT_INDEX]);
    return OK;
}

/* As the weights of the layer that they are of. */
static Status decide_like_weights(Backend *b, const Variant *v, OpInstance *op)
{
    static const Conv2dAttr attr = { .stride_h = 1, .stride_w = 1, .groups = 1 };
    const TensorDesc *w = &op->in[MUON_IN_GRAD].desc;
    const int64_t x[] = { 2, w->dims[1], w->dims[2], w->dims[3] };
    OpInstance forward = { .kind = w->rank == 4 ? OP_CONV2D : OP_LINEAR, .backend = b };
    if (w->rank == 4) forward.attr = &attr;
    forward.in[0].desc = tensor_desc(DTYPE_F32, w->rank, x);
    forward.in[1].desc = *w;
    TRY(decide_activation(b, v, &forward.in[0]));
    TRY(ask(&forward));
    for (int i = MUON_IN_GRAD; i <= MUON_IN_MOMENTUM; i++)
        copy_decision(&op->in[i], &forward.in[1]);
    return OK;
}

/* Vectors that a forward op sees first: it decides them. Those of fused ops, and of a norm by given
 * statistics, are never anything but vectors. */
static bool is_first_seen(OpKind kind, int slot, int rank)
{
    if (op_fused(kind) || kind == OP_BN_APPLY) return rank < 4;
    if (kind == OP_BATCHNORM) return slot >= BN_IN_GAMMA && slot <= BN_IN_RUNNING_VAR;
    if (kind == OP_LAYERNORM || kind == OP_GRN) return slot != LAYERNORM_IN_X;
    if (kind == OP_LAYERNORM_BWD || kind == OP_GRN_BWD) return slot == LAYERNORM_BWD_IN_GAMMA;
    if (kind == OP_CONV2D) return slot == CONV_IN_B;
    if (kind == OP_EMBED) return slot <= EMBED_IN_SEGMENTS;
    if (kind == OP_EMBED_BWD) return slot == EMBED_BWD_IN_SO_FAR;
    return kind == OP_LINEAR && slot == LINEAR_IN_B;
}

Status layouts_decide_inputs(Backend *b, const Problem *p, const Variant *v, OpInstance *op)
{
    const WeightSlots *weights = weights_of(p->kind);
    for (int i = 0; i < OP_MAX_INPUTS; i++) {
        if (op->in[i].desc.rank == 0 || is_first_seen(p->kind, i, op->in[i].desc.rank) ||
            (weights && weights->w == i))
            continue;
        bool linear = op->in[i].desc.rank == 2 && comes_from_linear(p->kind, v, i);
        TRY(linear ? decide_linear_rows(b, &op->in[i]) : decide_activation(b, v, &op->in[i]));
    }
    if ((p->kind == OP_BATCHNORM_BWD || p->kind == OP_BN_BWD_SUMS) && !v->plain)
        TRY(decide_norm_vectors(b, op));
    if (weights) TRY(decide_weights(b, v, weights, op));
    if (p->kind == OP_MUON) TRY(decide_like_weights(b, v, op));
    if (op->in[POOL_BWD_IN_INDEX].desc.rank && p->kind == OP_POOL2D_BWD)
        TRY(decide_pool_index(b, v, op->attr, &op->out[POOL_BWD_OUT_DX].desc,
                              &op->in[POOL_BWD_IN_DY], &op->in[POOL_BWD_IN_INDEX]));
    if (p->kind == OP_BN_POOL_BWD)
        TRY(decide_pool_index(b, v, &((const BnPoolAttr *)op->attr)->pool,
                              &op->in[BN_BWD_IN_X].desc, &op->in[BN_BWD_IN_DY],
                              &op->in[BN_POOL_BWD_IN_INDEX]));
    return OK;
}
