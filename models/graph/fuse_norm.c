/* fuse_norm.c - batch norm of a training step taken apart, and its parts given to the convolutions
 * beside it, where the backend takes them (FuseOptions.takes).
 *
 *   statistics  the convolution in front of a batch norm sums what the norm needs while it has y in
 *               registers; what is left is BN_FINALIZE (per channel) and BN_APPLY (one pass instead
 *               of two)
 *   prologue    y = relu(bn(x)) that only one convolution reads is never written: the convolution,
 *               and its weight gradient, normalise x as they read it
 *   block end   y = relu(bn(x) + residual) is written by the convolution that reads it first; where
 *               the residual is a batch norm that nobody else reads, that one is never written
 *               either
 *   gradient    the data gradient of a convolution of relu(bn(x)) goes through the ReLU and sums
 *               what the gradient of the norm needs; what is left is BN_BWD_APPLY (one pass instead
 *               of two)
 *   residual    the same at the end of a block, y = relu(bn(x) + residual): the data gradient that
 *   gradient    comes last adds the other share of dy, and its dz is the residual's gradient too
 *   shortcut    the same where the residual is a batch norm that nobody else reads: the sums are
 *   gradient    those of both norms
 *
 * The backend is asked for each by itself, in this order; the second and third build on the first.
 * Forward does not decide for backward: the gradient works with the statistics of either way. A
 * node that is replaced keeps its place, so the array stays in topological order and gradients are
 * produced in the order in which they were. */
#include "models/graph/graph_edit.h"
#include "models/graph/graph_internal.h"
#include <stdio.h>
#include <string.h>

typedef struct Fuser {
    Graph *g;
    const FuseOptions *o;
    bool *gone; /* [nodes] */
} Fuser;

/* ---- looking ---- */

static TensorDesc vectors(int64_t count, int64_t channels)
{
    return tensor_desc(DTYPE_F32, 2, (int64_t[]){ count, channels });
}

static GraphNode *producer_of(const Fuser *f, TensorId id)
{
    const int node = f->g->tensors[id].producer;
    return node < 0 ? NULL : &f->g->nodes[node];
}

static bool reads(const GraphNode *n, TensorId id)
{
    for (int k = 0; k < OP_MAX_INPUTS; k++)
        if (n->in[k] == id) return true;
    return false;
}

/* The next node behind index that reads id; -1 if there is none. */
static int next_reader(const Fuser *f, TensorId id, int index)
{
    for (int i = index + 1; i < f->g->node_count; i++)
        if (!f->gone[i] && reads(&f->g->nodes[i], id)) return i;
    return -1;
}

static bool is_read_once(const Fuser *f, TensorId id)
{
    const int first = next_reader(f, id, -1);
    return first >= 0 && next_reader(f, id, first) < 0;
}

static bool is_plain_stats(const GraphNode *n)
{
    return n && n->kind == OP_CONV2D_STATS && n->in[CONV_STATS_IN_AFFINE] == TENSOR_NONE;
}

static bool takes(const Fuser *f, const Fusion *fusion)
{
    return f->o->takes(f->o->cookie, fusion);
}

static void remove_node(const Fuser *f, const GraphNode *n)
{
    f->gone[n - f->g->nodes] = true;
}

/* ---- statistics ---- */

static Fusion statistics_fusion(const Graph *g, const GraphNode *conv, const GraphNode *bn,
                                const BnFinalizeAttr *attr)
{
    Fusion f = { .name = "statistics", .before_count = 2, .after_count = 3 };
    const TensorDesc *x = &g->tensors[bn->in[BN_IN_X]].desc;
    f.before[0] = graph_edit_shape_of(g, conv);
    f.before[1] = graph_edit_shape_of(g, bn);
    OpShape *stats = &f.after[0], *finalize = &f.after[1], *apply = &f.after[2];
    *stats = f.before[0];
    stats->kind = OP_CONV2D_STATS;
    stats->out[CONV_STATS_OUT_SUMS] = vectors(2, x->dims[1]);
    *finalize = (OpShape){ .kind = OP_BN_FINALIZE, .attr = attr };
    finalize->in[BN_FINALIZE_IN_SUMS] = vectors(2, x->dims[1]);
    for (int i = 0; i < 4; i++)
        finalize->in[BN_FINALIZE_IN_GAMMA + i] = f.before[1].in[BN_IN_GAMMA + i];
    finalize->out[BN_FINALIZE_OUT_SAVED] = vectors(2, x->dims[1]);
    *apply = (OpShape){ .kind = OP_BN_APPLY, .attr = bn->attr };
    apply->in[BN_APPLY_IN_X] = *x;
    apply->in[BN_APPLY_IN_GAMMA] = f.before[1].in[BN_IN_GAMMA];
    apply->in[BN_APPLY_IN_BETA] = f.before[1].in[BN_IN_BETA];
    apply->in[BN_APPLY_IN_SAVED] = vectors(2, x->dims[1]);
    apply->in[BN_APPLY_IN_RESIDUAL] = f.before[1].in[BN_IN_RESIDUAL];
    apply->out[BN_APPLY_OUT_Y] = f.before[1].out[BN_OUT_Y];
    return f;
}

static TensorId add_vectors(Graph *g, const char *name, int64_t count, int64_t channels)
{
    const TensorDesc desc = vectors(count, channels);
    return graph_add_tensor(g, name, ROLE_ACTIVATION, &desc);
}

/* conv is changed; parts get what stands in bn's place. */
static void split_norm(Graph *g, GraphNode *conv, const GraphNode *bn, const BnFinalizeAttr *attr,
                       GraphNode parts[2])
{
    const int64_t channels = g->tensors[bn->in[BN_IN_X]].desc.dims[1];
    BnFinalizeAttr *copy = arena_alloc(g->arena, sizeof *copy);
    const TensorId sums = add_vectors(g, conv->name, 2, channels);
    const char *name = arena_printf(g->arena, "%s.statistics", bn->name);
    if (!copy || !name) graph_break(g, ERR_MEMORY);
    if (g->status != OK) return;
    *copy = *attr;
    conv->kind = OP_CONV2D_STATS;
    conv->out[CONV_STATS_OUT_SUMS] = sums;
    parts[0] = graph_edit_empty_node(OP_BN_FINALIZE, bn, copy);
    parts[0].name = name;
    parts[0].in[BN_FINALIZE_IN_SUMS] = sums;
    for (int i = 0; i < 4; i++) parts[0].in[BN_FINALIZE_IN_GAMMA + i] = bn->in[BN_IN_GAMMA + i];
    parts[0].out[BN_FINALIZE_OUT_SAVED] = bn->out[BN_OUT_SAVED];
    parts[1] = graph_edit_empty_node(OP_BN_APPLY, bn, bn->attr);
    parts[1].in[BN_APPLY_IN_X] = bn->in[BN_IN_X];
    parts[1].in[BN_APPLY_IN_GAMMA] = bn->in[BN_IN_GAMMA];
    parts[1].in[BN_APPLY_IN_BETA] = bn->in[BN_IN_BETA];
    parts[1].in[BN_APPLY_IN_SAVED] = bn->out[BN_OUT_SAVED];
    parts[1].in[BN_APPLY_IN_RESIDUAL] = bn->in[BN_IN_RESIDUAL];
    parts[1].out[BN_APPLY_OUT_Y] = bn->out[BN_OUT_Y];
}

/* Appends node n to the new array, or its parts. producer: places of nodes in the new array, which
 * has all before n. */
static void move_or_split(const Fuser *f, const GraphNode *n, GraphNode *to, const int *place,
                          int *count)
{
    Graph *g = f->g;
    const BatchNormAttr *attr = n->attr;
    const int made_by = n->kind == OP_BATCHNORM ? g->tensors[n->in[BN_IN_X]].producer : -1;
    GraphNode *conv = made_by >= 0 ? &to[place[made_by]] : NULL;
    if (conv && conv->kind == OP_CONV2D && conv->in[CONV_IN_B] == TENSOR_NONE &&
        attr->mode == BN_TRAIN && attr->ranks == 0 && op_act(attr->act)->by_sign) {
        const int64_t *x = g->tensors[n->in[BN_IN_X]].desc.dims;
        const BnFinalizeAttr finalize = { attr->eps, attr->momentum, x[0] * x[2] * x[3] };
        const Fusion fusion = statistics_fusion(g, conv, n, &finalize);
        /* of one value there is no running variance; batch norm itself refuses it */
        if (finalize.count > 1 && takes(f, &fusion)) {
            split_norm(g, conv, n, &finalize, &to[*count]);
            *count += 2;
            return;
        }
    }
    to[(*count)++] = *n;
}

static Status split_norms(const Fuser *f)
{
    Graph *g = f->g;
    const int nodes = g->node_count;
    GraphNode *to = arena_alloc(g->arena, 2 * (size_t)nodes * sizeof *to);
    int *place = arena_alloc(g->arena, (size_t)nodes * sizeof *place), count = 0;
    if (!to || !place) return graph_break(g, ERR_MEMORY);
    for (int i = 0; i < nodes && g->status == OK; i++) {
        const int first = count;
        move_or_split(f, &g->nodes[i], to, place, &count);
        place[i] = first;
    }
    if (g->status != OK) return graph_status(g);
    g->nodes = to;
    g->node_count = count;
    g->node_capacity = 2 * nodes;
    graph_edit_number_producers(g);
    return OK;
}

/* ---- prologue ---- */

/* The affine of the norm whose statistics are saved; made on first demand. */
static TensorId affine_of(const Fuser *f, TensorId saved)
{
    GraphNode *finalize = producer_of(f, saved);
    ASSERT(finalize && finalize->kind == OP_BN_FINALIZE);
    TensorId *affine = &finalize->out[BN_FINALIZE_OUT_AFFINE];
    if (*affine == TENSOR_NONE) {
        *affine = add_vectors(f->g, finalize->name, 2, f->g->tensors[saved].desc.dims[1]);
        if (*affine != TENSOR_NONE) f->g->tensors[*affine].producer = (int)(finalize - f->g->nodes);
    }
    return *affine;
}

/* y of apply is read by one convolution and its weight gradient alone. */
static bool find_prologue(const Fuser *f, const GraphNode *apply, GraphNode **conv,
                          GraphNode **weights)
{
    const BatchNormAttr *attr = apply->attr;
    const TensorId y = apply->out[BN_APPLY_OUT_Y];
    if (attr->act != ACT_RELU || apply->in[BN_APPLY_IN_RESIDUAL] != TENSOR_NONE) return false;
    const int first = next_reader(f, y, -1), second = first < 0 ? -1 : next_reader(f, y, first);
    if (second < 0 || next_reader(f, y, second) >= 0) return false;
    *conv = &f->g->nodes[first];
    *weights = &f->g->nodes[second];
    return is_plain_stats(*conv) && (*weights)->kind == OP_CONV2D_BWD_WEIGHTS &&
           (*conv)->in[CONV_STATS_IN_X] == y && (*weights)->in[CONV_BWD_WEIGHTS_IN_X] == y;
}

static void fuse_prologue(const Fuser *f, const GraphNode *apply)
{
    GraphNode *conv = NULL, *weights = NULL;
    if (!find_prologue(f, apply, &conv, &weights)) return;
    const TensorId x = apply->in[BN_APPLY_IN_X];
    const TensorDesc affine_desc = vectors(2, f->g->tensors[x].desc.dims[1]);
    Fusion fusion = { .name = "prologue", .before_count = 3, .after_count = 2 };
    fusion.before[0] = graph_edit_shape_of(f->g, apply);
    fusion.before[1] = fusion.after[0] = graph_edit_shape_of(f->g, conv);
    fusion.before[2] = fusion.after[1] = graph_edit_shape_of(f->g, weights);
    fusion.after[0].in[CONV_STATS_IN_AFFINE] = affine_desc;
    fusion.after[1].kind = OP_CONV2D_BWD_WEIGHTS_NORM;
    fusion.after[1].in[CONV_BWD_WEIGHTS_NORM_IN_AFFINE] = affine_desc;
    if (!takes(f, &fusion)) return;
    const TensorId affine = affine_of(f, apply->in[BN_APPLY_IN_SAVED]);
    conv->in[CONV_STATS_IN_X] = x;
    conv->in[CONV_STATS_IN_AFFINE] = affine;
    weights->kind = OP_CONV2D_BWD_WEIGHTS_NORM;
    weights->in[CONV_BWD_WEIGHTS_NORM_IN_X] = x;
    weights->in[CONV_BWD_WEIGHTS_NORM_IN_AFFINE] = affine;
    remove_node(f, apply);
}

/* ---- block end ---- */

/* A batch norm without activation, which only the end of the block reads. */
static GraphNode *shortcut_norm(const Fuser *f, TensorId residual)
{
    GraphNode *n = producer_of(f, residual);
    const bool norm = n && n->kind == OP_BN_APPLY && n->in[BN_APPLY_IN_RESIDUAL] == TENSOR_NONE &&
                      ((const BatchNormAttr *)n->attr)->act == ACT_NONE;
    return norm && is_read_once(f, residual) ? n : NULL;
}

static Fusion block_end_fusion(const Graph *g, const GraphNode *apply, const GraphNode *shortcut,
                               const GraphNode *conv)
{
    Fusion f = { .name = shortcut ? "block end with shortcut" : "block end", .after_count = 1 };
    const OpShape end = graph_edit_shape_of(g, apply);
    OpShape *fused = &f.after[0];
    if (shortcut) f.before[f.before_count++] = graph_edit_shape_of(g, shortcut);
    f.before[f.before_count++] = end;
    f.before[f.before_count++] = *fused = graph_edit_shape_of(g, conv);
    fused->in[CONV_STATS_IN_AFFINE] = end.in[BN_APPLY_IN_SAVED]; /* of the same shape */
    fused->in[CONV_STATS_IN_RESIDUAL] = end.in[BN_APPLY_IN_RESIDUAL];
    if (shortcut) fused->in[CONV_STATS_IN_RESIDUAL_AFFINE] = end.in[BN_APPLY_IN_SAVED];
    fused->out[CONV_STATS_OUT_Z] = end.out[BN_APPLY_OUT_Y];
    return f;
}

static void fuse_block_end(const Fuser *f, const GraphNode *apply)
{
    Graph *g = f->g;
    const TensorId y = apply->out[BN_APPLY_OUT_Y], residual = apply->in[BN_APPLY_IN_RESIDUAL];
    const int first = next_reader(f, y, -1);
    GraphNode *conv = first < 0 ? NULL : &g->nodes[first];
    if (((const BatchNormAttr *)apply->attr)->act != ACT_RELU || residual == TENSOR_NONE) return;
    if (!is_plain_stats(conv) || conv->in[CONV_STATS_IN_X] != y) return;
    GraphNode *shortcut = shortcut_norm(f, residual);
    if (shortcut) {
        const Fusion dual = block_end_fusion(g, apply, shortcut, conv);
        if (!takes(f, &dual)) shortcut = NULL;
    }
    if (!shortcut) {
        const Fusion single = block_end_fusion(g, apply, NULL, conv);
        if (!takes(f, &single)) return;
    }
    conv->in[CONV_STATS_IN_X] = apply->in[BN_APPLY_IN_X];
    conv->in[CONV_STATS_IN_AFFINE] = affine_of(f, apply->in[BN_APPLY_IN_SAVED]);
    conv->in[CONV_STATS_IN_RESIDUAL] = shortcut ? shortcut->in[BN_APPLY_IN_X] : residual;
    if (shortcut)
        conv->in[CONV_STATS_IN_RESIDUAL_AFFINE] = affine_of(f, shortcut->in[BN_APPLY_IN_SAVED]);
    conv->out[CONV_STATS_OUT_Z] = y;
    /* The next block asks who made its residual, which may be y. */
    g->tensors[y].producer = first;
    remove_node(f, apply);
    if (shortcut) remove_node(f, shortcut);
}

/* ---- gradient ---- */

/* A norm's gradient that a data gradient takes over, but for its last pass. */
typedef struct GradientEnd {
    GraphNode *data, *bn;
    /* at the end of a block: the other share of dy, and what bn(x) was added to, or what that was
     * before it was normalised itself */
    TensorId dy2, residual;
    GraphNode *shortcut; /* the gradient of that norm; NULL */
} GradientEnd;

static bool is_plain_gradient(const GraphNode *bn, ActKind act)
{
    const BatchNormAttr *attr = bn->attr;
    return bn->kind == OP_BATCHNORM_BWD && attr->mode == BN_TRAIN && attr->ranks == 0 &&
           attr->act == act;
}

/* Of y = relu(bn(x)), with one share of dy. */
static bool find_inner_gradient(const Fuser *f, GradientEnd *e)
{
    const GraphNode *bn = e->bn;
    const TensorId dy = bn->in[BN_BWD_IN_DY];
    e->data = producer_of(f, dy);
    return is_plain_gradient(bn, ACT_RELU) && bn->in[BN_BWD_IN_DY2] == TENSOR_NONE &&
           bn->in[BN_BWD_IN_Y] == TENSOR_NONE && bn->out[BN_BWD_OUT_DRESIDUAL] == TENSOR_NONE &&
           e->data && e->data->kind == OP_CONV2D_BWD_DATA && is_read_once(f, dy);
}

static bool is_read_backward(const Fuser *f, TensorId id)
{
    int reader = next_reader(f, id, -1);
    while (reader >= 0 && f->g->nodes[reader].phase != PHASE_BACKWARD)
        reader = next_reader(f, id, reader);
    return reader >= 0;
}

/* The residual that forward added before its ReLU gave y, if that is in memory. */
static TensorId residual_of(const Fuser *f, TensorId y)
{
    const GraphNode *n = producer_of(f, y);
    if (!n) return TENSOR_NONE;
    if (n->kind == OP_BATCHNORM) return n->in[BN_IN_RESIDUAL];
    if (n->kind == OP_BN_APPLY) return n->in[BN_APPLY_IN_RESIDUAL];
    const bool plain =
        n->kind == OP_CONV2D_STATS && n->in[CONV_STATS_IN_RESIDUAL_AFFINE] == TENSOR_NONE;
    return plain ? n->in[CONV_STATS_IN_RESIDUAL] : TENSOR_NONE;
}

/* The gradient of a norm without activation that alone reads dresidual. */
static GraphNode *shortcut_gradient(const Fuser *f, TensorId dresidual)
{
    const int reader = next_reader(f, dresidual, -1);
    GraphNode *n = reader < 0 ? NULL : &f->g->nodes[reader];
    const bool norm = n && is_plain_gradient(n, ACT_NONE) && n->in[BN_BWD_IN_DY] == dresidual &&
                      n->in[BN_BWD_IN_DY2] == TENSOR_NONE &&
                      n->out[BN_BWD_OUT_DRESIDUAL] == TENSOR_NONE;
    return norm && is_read_once(f, dresidual) ? n : NULL;
}

/* Of y = relu(bn(x) + residual), with two shares of dy, of which the later one is a data gradient:
 * the other has to be there when that runs. A residual that would be kept for this alone is not
 * taken; of one that a norm made it is the norm's x. */
static bool find_end_gradient(const Fuser *f, GradientEnd *e)
{
    const GraphNode *bn = e->bn;
    const TensorId dresidual = bn->out[BN_BWD_OUT_DRESIDUAL], y = bn->in[BN_BWD_IN_Y];
    TensorId dy = bn->in[BN_BWD_IN_DY];
    e->dy2 = bn->in[BN_BWD_IN_DY2];
    if (!is_plain_gradient(bn, ACT_RELU) || e->dy2 == TENSOR_NONE || y == TENSOR_NONE ||
        dresidual == TENSOR_NONE)
        return false;
    if (f->g->tensors[dy].producer < f->g->tensors[e->dy2].producer) {
        dy = e->dy2;
        e->dy2 = bn->in[BN_BWD_IN_DY];
    }
    e->data = producer_of(f, dy);
    e->shortcut = shortcut_gradient(f, dresidual);
    e->residual = e->shortcut ? e->shortcut->in[BN_BWD_IN_X] : residual_of(f, y);
    return e->residual != TENSOR_NONE && is_read_backward(f, e->residual) && e->data &&
           e->data->kind == OP_CONV2D_BWD_DATA && is_read_once(f, dy);
}

/* Gives the slots from gamma and from dgamma on those of bn. */
static void move_norm(GraphNode *n, const GraphNode *bn, int gamma, int dgamma)
{
    for (int i = 0; i < 3; i++) n->in[gamma + i] = bn->in[BN_BWD_IN_GAMMA + i];
    for (int i = 0; i < 2; i++) n->out[dgamma + i] = bn->out[BN_BWD_OUT_DGAMMA + i];
}

/* Coefficients are yet to be given. */
static GraphNode fused_gradient(const GradientEnd *e)
{
    GraphNode n = *e->data;
    n.kind = OP_CONV2D_BWD_DATA_NORM;
    n.in[CONV_BWD_DATA_NORM_IN_X] = e->bn->in[BN_BWD_IN_X];
    move_norm(&n, e->bn, CONV_BWD_DATA_NORM_IN_GAMMA, CONV_BWD_DATA_NORM_OUT_DGAMMA);
    if (e->residual == TENSOR_NONE) return n;
    n.in[CONV_BWD_DATA_NORM_IN_DY2] = e->dy2;
    n.in[CONV_BWD_DATA_NORM_IN_RESIDUAL] = e->residual;
    n.out[CONV_BWD_DATA_NORM_OUT_DZ] = e->bn->out[BN_BWD_OUT_DRESIDUAL];
    if (e->shortcut)
        move_norm(&n, e->shortcut, CONV_BWD_DATA_NORM_IN_RESIDUAL_GAMMA,
                  CONV_BWD_DATA_NORM_OUT_RESIDUAL_DGAMMA);
    return n;
}

/* What is left of bn. */
static GraphNode last_pass(const GraphNode *bn, TensorId dz, TensorId coefficients)
{
    GraphNode n = graph_edit_empty_node(OP_BN_BWD_APPLY, bn, NULL);
    n.in[BN_BWD_APPLY_IN_DZ] = dz;
    n.in[BN_BWD_APPLY_IN_X] = bn->in[BN_BWD_IN_X];
    n.in[BN_BWD_APPLY_IN_COEFFICIENTS] = coefficients;
    n.out[BN_BWD_APPLY_OUT_DX] = bn->out[BN_BWD_OUT_DX];
    return n;
}

static void add_last_pass(const Graph *g, const GraphNode *bn, TensorId dz, OpShape *coefficients,
                          int slot, Fusion *f)
{
    const GraphNode last = last_pass(bn, dz, TENSOR_NONE);
    OpShape *shape = &f->after[f->after_count++];
    f->before[f->before_count++] = graph_edit_shape_of(g, bn);
    *shape = graph_edit_shape_of(g, &last);
    shape->in[BN_BWD_APPLY_IN_COEFFICIENTS] = coefficients->out[slot] =
        vectors(3, g->tensors[bn->in[BN_BWD_IN_X]].desc.dims[1]);
}

static Fusion gradient_fusion(const Graph *g, const GradientEnd *e, const GraphNode *fused)
{
    const TensorId dz = fused->out[CONV_BWD_DATA_NORM_OUT_DZ];
    Fusion f = { .name = e->shortcut                  ? "shortcut gradient"
                         : e->residual == TENSOR_NONE ? "gradient"
                                                      : "residual gradient",
                 .before_count = 1,
                 .after_count = 1 };
    f.before[0] = graph_edit_shape_of(g, e->data);
    f.after[0] = graph_edit_shape_of(g, fused);
    add_last_pass(g, e->bn, dz, &f.after[0], CONV_BWD_DATA_NORM_OUT_COEFFICIENTS, &f);
    if (e->shortcut)
        add_last_pass(g, e->shortcut, dz, &f.after[0], CONV_BWD_DATA_NORM_OUT_RESIDUAL_COEFFICIENTS,
                      &f);
    return f;
}

/* bn becomes its last pass, by coefficients that fused gives at slot. */
static void replace_norm(Graph *g, GraphNode *fused, int slot, GraphNode *bn)
{
    const int64_t channels = g->tensors[bn->in[BN_BWD_IN_X]].desc.dims[1];
    fused->out[slot] = add_vectors(g, fused->name, 3, channels);
    *bn = last_pass(bn, fused->out[CONV_BWD_DATA_NORM_OUT_DZ], fused->out[slot]);
}

static void fuse_gradient(const Fuser *f, GraphNode *bn)
{
    Graph *g = f->g;
    GradientEnd e = { .bn = bn, .dy2 = TENSOR_NONE, .residual = TENSOR_NONE };
    if (bn->kind != OP_BATCHNORM_BWD || (!find_inner_gradient(f, &e) && !find_end_gradient(f, &e)))
        return;
    GraphNode fused = fused_gradient(&e);
    const Fusion fusion = gradient_fusion(g, &e, &fused);
    if (!takes(f, &fusion)) return;
    replace_norm(g, &fused, CONV_BWD_DATA_NORM_OUT_COEFFICIENTS, bn);
    if (e.shortcut)
        replace_norm(g, &fused, CONV_BWD_DATA_NORM_OUT_RESIDUAL_COEFFICIENTS, e.shortcut);
    *e.data = fused;
    /* The block before asks which of its shares is the later one. */
    g->tensors[fused.out[CONV_BWD_DATA_NORM_OUT_DZ]].producer = (int)(e.data - g->nodes);
}

/* ---- all of them ---- */

Status graph_fuse_norms(Graph *g, const FuseOptions *o)
{
    Fuser f = { .g = g, .o = o };
    if (!o->takes) return OK;
    TRY(split_norms(&f));
    if (!(f.gone = mem_calloc((size_t)g->node_count, sizeof *f.gone))) return ERR_MEMORY;
    for (int i = 0; i < g->node_count; i++)
        if (g->nodes[i].kind == OP_BN_APPLY) fuse_prologue(&f, &g->nodes[i]);
    for (int i = 0; i < g->node_count; i++)
        if (g->nodes[i].kind == OP_BN_APPLY && !f.gone[i]) fuse_block_end(&f, &g->nodes[i]);
    for (int i = 0; i < g->node_count; i++) fuse_gradient(&f, &g->nodes[i]);
    graph_edit_remove_nodes(g, f.gone);
    mem_free(f.gone);
    return graph_status(g);
}
