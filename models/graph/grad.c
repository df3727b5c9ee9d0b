/* grad.c - backward: one rule per op in a table, and one walk over the forward nodes in reverse.
 *
 * DESIGN. The array is the topological order, so when the walk reaches a node, all consumers of its
 * outputs have delivered their share of the gradient. A rule appends the backward nodes of one
 * forward node and hands gradients on in two ways: deliver() to an activation (a second share makes
 * an OP_ADD), own() for a parameter. That may be used by one node, and by one more whose backward
 * node can add: that has the gradient so far as an input and adds to it in place.
 *
 * Which tensors need a gradient is worked out first: parameters that train do, and whatever depends
 * on one. Images do not, so neither does the data gradient of the first layer exist. Of a frozen
 * parameter a node may make the gradient beside others; nobody reads it then.
 *
 * ORDER. Weight gradients are appended before data gradients: the bucket they fill can start on its
 * way to the other ranks a whole data gradient earlier. The order in which parameter gradients are
 * produced is also their order in the GRAD slab (plan.h). */
#include "models/graph/graph.h"
#include "models/graph/graph_internal.h"
#include <string.h>

typedef struct Walk {
    Graph *g;
    TensorId *grad; /* by forward tensor: the gradient so far */
    bool *needs;    /* by forward tensor: depends on a parameter */
} Walk;

/* Appends the backward nodes of n. n is a copy; the gradient of its first output exists except for
 * a rule that seeds.
 */
typedef void (*GradRule)(Walk *w, const GraphNode *n, TensorId dy);

/* Appends a backward node named after its forward node. Returns a copy, with all outputs absent
 * once the graph is broken. */
static GraphNode emit(Walk *w, const GraphNode *n, OpKind kind, const char *suffix,
                      const TensorId *in, const bool *wanted, const TensorDesc *preset)
{
    GraphNode none = { .kind = kind };
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) none.out[i] = TENSOR_NONE;
    const char *name = arena_printf(w->g->arena, "%s.%s", n->name, suffix);
    if (!name) {
        graph_break(w->g, ERR_MEMORY);
        return none;
    }
    int index = graph_add_node(w->g, kind, PHASE_BACKWARD, name, n->attr, in, wanted, preset);
    return index < 0 ? none : w->g->nodes[index];
}

static void deliver(Walk *w, TensorId x, TensorId dx)
{
    if (x == TENSOR_NONE || dx == TENSOR_NONE || !w->needs[x]) return;
    if (w->grad[x] == TENSOR_NONE) {
        w->grad[x] = dx;
        return;
    }
    const TensorId in[OP_MAX_INPUTS] = { [ADD_IN_A] = w->grad[x], [ADD_IN_B] = dx };
    const GraphNode like = { .name = w->g->tensors[x].name };
    w->grad[x] = emit(w, &like, OP_ADD, "grad_sum", in, NULL, NULL).out[ADD_OUT_Y];
}

static void own(Walk *w, TensorId param, TensorId dparam)
{
    if (param == TENSOR_NONE || dparam == TENSOR_NONE || !w->needs[param]) return;
    Graph *g = w->g;
    GraphTensor *p = &g->tensors[param], *d = &g->tensors[dparam];
    const char *name = arena_printf(g->arena, "grad:%s", p->name);
    if (p->grad != TENSOR_NONE)
        graph_break(g, fail(ERR_INTERNAL, "parameter %s is used by two nodes", p->name));
    if (!name) graph_break(g, ERR_MEMORY);
    if (g->status != OK) return;
    d->name = name;
    d->role = ROLE_GRAD;
    d->grad_of = param;
    p->grad = dparam;
}

static TensorDesc desc_of(const Walk *w, TensorId id)
{
    return id == TENSOR_NONE ? (TensorDesc){ .rank = 0 } : w->g->tensors[id].desc;
}

/* Backward of an op with one activation input x, whose gradient takes dy and at most one more
 * tensor. */
static void emit_unary(Walk *w, const GraphNode *n, OpKind kind, TensorId dy, TensorId second)
{
    const TensorId in[OP_MAX_INPUTS] = { dy, second };
    const TensorDesc preset[OP_MAX_OUTPUTS] = { desc_of(w, n->in[0]) };
    deliver(w, n->in[0], emit(w, n, kind, "bwd", in, NULL, preset).out[0]);
}

_Static_assert((int)CONV_IN_B == (int)LINEAR_IN_B && (int)CONV_IN_W == (int)LINEAR_IN_W &&
                   (int)CONV_BWD_WEIGHTS_IN_DY == (int)LINEAR_BWD_WEIGHTS_IN_DY &&
                   (int)CONV_BWD_WEIGHTS_OUT_DB == (int)LINEAR_BWD_WEIGHTS_OUT_DB &&
                   (int)CONV_BWD_DATA_IN_DY == (int)LINEAR_BWD_DATA_IN_DY &&
                   (int)CONV_BWD_DATA_IN_W == (int)LINEAR_BWD_DATA_IN_W &&
                   (int)CONV_BWD_DATA_OUT_DX == (int)LINEAR_BWD_DATA_OUT_DX,
               "grad_product() takes these as one");

/* Of convolutions and linear layers, whose slots are the same. */
static void weights_bwd(Walk *w, const GraphNode *n, OpKind kind, TensorId dy)
{
    const TensorId x = n->in[LINEAR_IN_X], weight = n->in[LINEAR_IN_W], bias = n->in[LINEAR_IN_B];
    const bool biased = bias != TENSOR_NONE && w->needs[bias];
    const TensorId in[OP_MAX_INPUTS] = {
        [LINEAR_BWD_WEIGHTS_IN_X] = x, [LINEAR_BWD_WEIGHTS_IN_DY] = dy
    };
    const bool wanted[OP_MAX_OUTPUTS] = {
        [LINEAR_BWD_WEIGHTS_OUT_DW] = true, [LINEAR_BWD_WEIGHTS_OUT_DB] = biased
    };
    const TensorDesc dw[OP_MAX_OUTPUTS] = { [LINEAR_BWD_WEIGHTS_OUT_DW] = desc_of(w, weight),
                                            [LINEAR_BWD_WEIGHTS_OUT_DB] = desc_of(w, bias) };
    if (!biased && !w->needs[weight]) return;
    const GraphNode weights = emit(w, n, kind, "bwd_weights", in, wanted, dw);
    own(w, weight, weights.out[LINEAR_BWD_WEIGHTS_OUT_DW]);
    own(w, bias, weights.out[LINEAR_BWD_WEIGHTS_OUT_DB]);
}

static void grad_product(Walk *w, const GraphNode *n, TensorId dy)
{
    const bool conv = n->kind == OP_CONV2D;
    const TensorId x = n->in[LINEAR_IN_X], weight = n->in[LINEAR_IN_W];
    weights_bwd(w, n, conv ? OP_CONV2D_BWD_WEIGHTS : OP_LINEAR_BWD_WEIGHTS, dy);
    if (!w->needs[x]) return;
    const TensorId data_in[OP_MAX_INPUTS] = {
        [LINEAR_BWD_DATA_IN_DY] = dy, [LINEAR_BWD_DATA_IN_W] = weight
    };
    const TensorDesc dx[OP_MAX_OUTPUTS] = { [LINEAR_BWD_DATA_OUT_DX] = desc_of(w, x) };
    const OpKind kind = conv ? OP_CONV2D_BWD_DATA : OP_LINEAR_BWD_DATA;
    deliver(w, x, emit(w, n, kind, "bwd_data", data_in, NULL, dx).out[LINEAR_BWD_DATA_OUT_DX]);
}

/* dx by sums over ranks: one node makes this rank's, another dx; what is between them sums. in: of
 * OP_BATCHNORM_BWD. The second forms dz again, or has it from the residual's gradient. */
static void grad_batchnorm_ranks(Walk *w, const GraphNode *n, const TensorId *in,
                                 const bool *wanted, const TensorDesc *preset)
{
    TensorDesc sums_preset[OP_MAX_OUTPUTS];
    memcpy(sums_preset, preset, sizeof sums_preset);
    sums_preset[BN_BWD_SUMS_OUT_SUMS] = (TensorDesc){ .rank = 0 };
    const GraphNode sums = emit(w, n, OP_BN_BWD_SUMS, "bwd_sums", in, wanted, sums_preset);
    const TensorId dz = sums.out[BN_BWD_SUMS_OUT_DRESIDUAL];
    BatchNormAttr attr = *(const BatchNormAttr *)n->attr;
    TensorId apply_in[OP_MAX_INPUTS];
    memcpy(apply_in, in, sizeof apply_in);
    apply_in[BN_BWD_IN_SUMS] = sums.out[BN_BWD_SUMS_OUT_SUMS];
    if (dz != TENSOR_NONE) {
        apply_in[BN_BWD_IN_DY] = dz;
        apply_in[BN_BWD_IN_Y] = TENSOR_NONE;
        attr.act = ACT_NONE;
    }
    GraphNode like = *n;
    like.attr = &attr;
    own(w, n->in[BN_IN_GAMMA], sums.out[BN_BWD_SUMS_OUT_DGAMMA]);
    own(w, n->in[BN_IN_BETA], sums.out[BN_BWD_SUMS_OUT_DBETA]);
    const bool only_dx[OP_MAX_OUTPUTS] = { [BN_BWD_OUT_DX] = true };
    const TensorDesc dx[OP_MAX_OUTPUTS] = { [BN_BWD_OUT_DX] = preset[BN_BWD_OUT_DX] };
    deliver(w, n->in[BN_IN_X],
            emit(w, &like, OP_BATCHNORM_BWD, "bwd", apply_in, only_dx, dx).out[BN_BWD_OUT_DX]);
    deliver(w, n->in[BN_IN_RESIDUAL], dz);
}

static void grad_batchnorm(Walk *w, const GraphNode *n, TensorId dy)
{
    const BatchNormAttr *attr = n->attr;
    const TensorId x = n->in[BN_IN_X], gamma = n->in[BN_IN_GAMMA], beta = n->in[BN_IN_BETA],
                   residual = n->in[BN_IN_RESIDUAL];
    /* Without a residual the kernel recomputes the sign of y from x, so y need not stay alive. */
    const bool needs_y = attr->act != ACT_NONE && residual != TENSOR_NONE;
    const bool gives_residual = residual != TENSOR_NONE && w->needs[residual];
    const TensorId in[OP_MAX_INPUTS] = { [BN_BWD_IN_DY] = dy,
                                         [BN_BWD_IN_DY2] = TENSOR_NONE,
                                         [BN_BWD_IN_X] = x,
                                         [BN_BWD_IN_Y] = needs_y ? n->out[BN_OUT_Y] : TENSOR_NONE,
                                         [BN_BWD_IN_GAMMA] = gamma,
                                         [BN_BWD_IN_BETA] = beta,
                                         [BN_BWD_IN_SAVED] = n->out[BN_OUT_SAVED],
                                         [BN_BWD_IN_SUMS] = TENSOR_NONE };
    const bool wanted[OP_MAX_OUTPUTS] = { true, true,
                                          true, [BN_BWD_OUT_DRESIDUAL] = gives_residual };
    const TensorDesc preset[OP_MAX_OUTPUTS] = { [BN_BWD_OUT_DX] = desc_of(w, x),
                                                [BN_BWD_OUT_DGAMMA] = desc_of(w, gamma),
                                                [BN_BWD_OUT_DBETA] = desc_of(w, beta),
                                                [BN_BWD_OUT_DRESIDUAL] = desc_of(w, residual) };
    if (attr->ranks > 0) {
        grad_batchnorm_ranks(w, n, in, wanted, preset);
        return;
    }
    const GraphNode b = emit(w, n, OP_BATCHNORM_BWD, "bwd", in, wanted, preset);
    own(w, gamma, b.out[BN_BWD_OUT_DGAMMA]);
    own(w, beta, b.out[BN_BWD_OUT_DBETA]);
    deliver(w, x, b.out[BN_BWD_OUT_DX]);
    deliver(w, residual, b.out[BN_BWD_OUT_DRESIDUAL]);
}

static void grad_layernorm(Walk *w, const GraphNode *n, TensorId dy)
{
    const TensorId x = n->in[LAYERNORM_IN_X], gamma = n->in[LAYERNORM_IN_GAMMA],
                   beta = n->in[LAYERNORM_IN_BETA];
    const TensorId in[OP_MAX_INPUTS] = {
        [LAYERNORM_BWD_IN_DY] = dy, [LAYERNORM_BWD_IN_X] = x, [LAYERNORM_BWD_IN_GAMMA] = gamma
    };
    const TensorDesc preset[OP_MAX_OUTPUTS] = { [LAYERNORM_BWD_OUT_DX] = desc_of(w, x),
                                                [LAYERNORM_BWD_OUT_DGAMMA] = desc_of(w, gamma),
                                                [LAYERNORM_BWD_OUT_DBETA] = desc_of(w, beta) };
    const OpKind kind = n->kind == OP_GRN ? OP_GRN_BWD : OP_LAYERNORM_BWD;
    const GraphNode b = emit(w, n, kind, "bwd", in, NULL, preset);
    own(w, gamma, b.out[LAYERNORM_BWD_OUT_DGAMMA]);
    own(w, beta, b.out[LAYERNORM_BWD_OUT_DBETA]);
    deliver(w, x, b.out[LAYERNORM_BWD_OUT_DX]);
}

static void grad_activation(Walk *w, const GraphNode *n, TensorId dy)
{
    const ActivationAttr *attr = n->attr;
    emit_unary(w, n, OP_ACTIVATION_BWD, dy,
               op_act(attr->act)->by_sign ? n->out[ACTIVATION_OUT_Y] : n->in[ACTIVATION_IN_X]);
}

static void grad_add(Walk *w, const GraphNode *n, TensorId dy)
{
    deliver(w, n->in[ADD_IN_A], dy);
    deliver(w, n->in[ADD_IN_B], dy);
}

static void grad_pool2d(Walk *w, const GraphNode *n, TensorId dy)
{
    emit_unary(w, n, OP_POOL2D_BWD, dy, n->out[POOL_OUT_INDEX]);
}

static void grad_by_dy(Walk *w, const GraphNode *n, TensorId dy)
{
    static const OpKind kinds[OP_COUNT] = { [OP_GLOBAL_AVGPOOL] = OP_GLOBAL_AVGPOOL_BWD,
                                            [OP_SUBSAMPLE] = OP_SUBSAMPLE_BWD,
                                            [OP_SCALE] = OP_SCALE };
    emit_unary(w, n, kinds[n->kind], dy, TENSOR_NONE);
}

static void grad_gate(Walk *w, const GraphNode *n, TensorId dy)
{
    const TensorId x = n->in[GATE_IN_X], gate = n->in[GATE_IN_G];
    const TensorId in[OP_MAX_INPUTS] = {
        [GATE_BWD_IN_DY] = dy, [GATE_BWD_IN_X] = x, [GATE_BWD_IN_G] = gate
    };
    const TensorDesc preset[OP_MAX_OUTPUTS] = {
        [GATE_BWD_OUT_DX] = desc_of(w, x), [GATE_BWD_OUT_DG] = desc_of(w, gate)
    };
    const GraphNode b = emit(w, n, OP_GATE_BWD, "bwd", in, NULL, preset);
    deliver(w, gate, b.out[GATE_BWD_OUT_DG]);
    deliver(w, x, b.out[GATE_BWD_OUT_DX]);
}

static void grad_drop(Walk *w, const GraphNode *n, TensorId dy)
{
    const TensorId x = n->in[DROP_IN_X];
    const TensorId in[OP_MAX_INPUTS] = { [DROP_BWD_IN_DY] = dy,
                                         [DROP_BWD_IN_SCALARS] = n->in[DROP_IN_SCALARS],
                                         [DROP_BWD_IN_WHERE] = n->in[DROP_IN_WHERE] };
    const TensorDesc preset[OP_MAX_OUTPUTS] = { desc_of(w, x) };
    deliver(w, x, emit(w, n, OP_DROP_BWD, "bwd", in, NULL, preset).out[DROP_BWD_OUT_DX]);
    deliver(w, n->in[DROP_IN_RESIDUAL], dy);
}

static void grad_attention(Walk *w, const GraphNode *n, TensorId dy)
{
    const TensorId qkv = n->in[ATTENTION_IN_QKV];
    const TensorId in[OP_MAX_INPUTS] = {
        [ATTENTION_BWD_IN_DY] = dy,
        [ATTENTION_BWD_IN_QKV] = qkv,
        [ATTENTION_BWD_IN_Y] = n->out[ATTENTION_OUT_Y],
        [ATTENTION_BWD_IN_LSE] = n->out[ATTENTION_OUT_LSE],
        [ATTENTION_BWD_IN_SCALARS] = n->in[ATTENTION_IN_SCALARS],
        [ATTENTION_BWD_IN_STARTS] = n->in[ATTENTION_IN_STARTS],
    };
    deliver(w, qkv,
            emit(w, n, OP_ATTENTION_BWD, "bwd", in, NULL, NULL).out[ATTENTION_BWD_OUT_DQKV]);
}

static void grad_tokens(Walk *w, const GraphNode *n, TensorId dy)
{
    const TensorId x = n->in[TOKENS_IN_X], positions = n->in[TOKENS_IN_POSITIONS],
                   first = n->in[TOKENS_IN_CLASS];
    const TensorId in[OP_MAX_INPUTS] = { [TOKENS_BWD_IN_DY] = dy };
    const bool wanted[OP_MAX_OUTPUTS] = { true, true, first != TENSOR_NONE };
    const TensorDesc preset[OP_MAX_OUTPUTS] = { desc_of(w, x), desc_of(w, positions),
                                                desc_of(w, first) };
    const GraphNode b = emit(w, n, OP_TOKENS_BWD, "bwd", in, wanted, preset);
    own(w, positions, b.out[TOKENS_BWD_OUT_DPOSITIONS]);
    own(w, first, b.out[TOKENS_BWD_OUT_DCLASS]);
    deliver(w, x, b.out[TOKENS_BWD_OUT_DX]);
}

/* The words' table may be a product's weights too, whose gradient is there then: it goes on in
 * it. */
static void grad_embed(Walk *w, const GraphNode *n, TensorId dy)
{
    const TensorId words = n->in[EMBED_IN_WORDS], positions = n->in[EMBED_IN_POSITIONS],
                   segments = n->in[EMBED_IN_SEGMENTS];
    const TensorId so_far = w->g->tensors[words].grad;
    const TensorId in[OP_MAX_INPUTS] = { [EMBED_BWD_IN_DY] = dy,
                                         [EMBED_BWD_IN_IDS] = n->in[EMBED_IN_IDS],
                                         [EMBED_BWD_IN_ORDER] = graph_input(w->g, "order"),
                                         [EMBED_BWD_IN_STARTS] = graph_input(w->g, "starts"),
                                         [EMBED_BWD_IN_SEGMENT_IDS] = n->in[EMBED_IN_SEGMENT_IDS],
                                         [EMBED_BWD_IN_SO_FAR] = so_far };
    const bool wanted[OP_MAX_OUTPUTS] = { so_far == TENSOR_NONE && w->needs[words], true,
                                          segments != TENSOR_NONE };
    const TensorDesc preset[OP_MAX_OUTPUTS] = { desc_of(w, words), desc_of(w, positions),
                                                desc_of(w, segments) };
    const GraphNode b = emit(w, n, OP_EMBED_BWD, "bwd", in, wanted, preset);
    own(w, words, b.out[EMBED_BWD_OUT_DWORDS]);
    own(w, positions, b.out[EMBED_BWD_OUT_DPOSITIONS]);
    own(w, segments, b.out[EMBED_BWD_OUT_DSEGMENTS]);
}

static void grad_pick(Walk *w, const GraphNode *n, TensorId dy)
{
    emit_unary(w, n, OP_PICK_BWD, dy, n->in[PICK_IN_ROWS]);
}

/* The seed: the forward node has already computed the gradient of the logits. */
static void grad_softmax_xent(Walk *w, const GraphNode *n, TensorId dy)
{
    (void)dy;
    deliver(w, n->in[XENT_IN_LOGITS], n->out[XENT_OUT_DLOGITS]);
}

static const GradRule rules[OP_COUNT] = {
    [OP_CONV2D] = grad_product,
    [OP_BATCHNORM] = grad_batchnorm,
    [OP_ACTIVATION] = grad_activation,
    [OP_ADD] = grad_add,
    [OP_POOL2D] = grad_pool2d,
    [OP_GLOBAL_AVGPOOL] = grad_by_dy,
    [OP_SUBSAMPLE] = grad_by_dy,
    [OP_LINEAR] = grad_product,
    [OP_SOFTMAX_XENT] = grad_softmax_xent,
    [OP_SCALE] = grad_by_dy,
    [OP_GATE] = grad_gate,
    [OP_DROP] = grad_drop,
    [OP_LAYERNORM] = grad_layernorm,
    [OP_GRN] = grad_layernorm,
    [OP_ATTENTION] = grad_attention,
    [OP_TOKENS] = grad_tokens,
    [OP_EMBED] = grad_embed,
    [OP_PICK] = grad_pick,
};

static void mark_needs(Walk *w, int tensors, int nodes)
{
    for (TensorId id = 0; id < tensors; id++)
        w->needs[id] = w->g->tensors[id].role == ROLE_PARAM && !w->g->tensors[id].frozen;
    for (int i = 0; i < nodes; i++) {
        const GraphNode *n = &w->g->nodes[i];
        bool any = false;
        for (int k = 0; k < OP_MAX_INPUTS; k++)
            any = any || (n->in[k] != TENSOR_NONE && w->needs[n->in[k]]);
        for (int k = 0; k < OP_MAX_OUTPUTS; k++)
            if (n->out[k] != TENSOR_NONE) w->needs[n->out[k]] = any;
    }
}

static Status walk_back(Walk *w, int nodes)
{
    for (int i = nodes - 1; i >= 0 && w->g->status == OK; i--) {
        const GraphNode n = w->g->nodes[i]; /* a copy: rules make the array grow */
        TensorId dy = n.out[0] == TENSOR_NONE ? TENSOR_NONE : w->grad[n.out[0]];
        bool seeds = n.kind == OP_SOFTMAX_XENT;
        /* does not depend on a parameter, or nothing depends on it */
        if (!seeds && dy == TENSOR_NONE) continue;
        if (!rules[n.kind])
            return graph_break(w->g, fail(ERR_INTERNAL, "%s: op %s has no gradient rule", n.name,
                                          op_name(n.kind)));
        rules[n.kind](w, &n, dy);
    }
    return graph_status(w->g);
}

static Status check_complete(Graph *g)
{
    for (TensorId id = 0; id < g->tensor_count; id++) {
        const GraphTensor *t = &g->tensors[id];
        if (t->role == ROLE_PARAM && t->grad == TENSOR_NONE && !t->frozen)
            return graph_break(g,
                               fail(ERR_INTERNAL, "parameter %s does not reach the loss", t->name));
    }
    return OK;
}

Status graph_append_backward(Graph *g)
{
    TRY(graph_status(g));
    if (!g->options.training)
        return graph_break(g, fail(ERR_INTERNAL, "an evaluation graph has no backward pass"));
    if (g->logits == TENSOR_NONE)
        return graph_break(g, fail(ERR_INTERNAL, "the network does not end in a loss"));
    const int tensors = g->tensor_count, nodes = g->node_count;
    if (g->nodes[nodes - 1].phase != PHASE_FORWARD)
        return graph_break(g, fail(ERR_INTERNAL, "backward was already appended"));
    Walk w = { .g = g,
               .grad = mem_calloc((size_t)tensors, sizeof *w.grad),
               .needs = mem_calloc((size_t)tensors, sizeof *w.needs) };
    Status status = ERR_MEMORY;
    if (!w.grad || !w.needs) {
        graph_break(g, status);
        goto done;
    }
    for (TensorId id = 0; id < tensors; id++) w.grad[id] = TENSOR_NONE;
    mark_needs(&w, tensors, nodes);
    status = walk_back(&w, nodes);
    if (status == OK) status = check_complete(g);
done:
    mem_free(w.grad);
    mem_free(w.needs);
    return status;
}
