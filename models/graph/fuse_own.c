/* fuse_own.c - patterns of a training step that a backend's own kernels do in fewer passes over
 * memory, with the same bits, where the backend takes them (FuseOptions.takes).
 *
 *   pool           y = max pooling of relu(bn(x)), which only that reads: it is never written
 *   pool gradient  the gradient of relu(bn(x)) is gathered from that of what was pooled, instead of
 *                  being written and read
 *   shortcut       that end normalises what comes by its shortcut itself, so that the norm there is
 *                  never written; behind signs
 *   signs          the end of a residual block writes the signs of y = relu(bn(x) + residual) as
 *                  bits, which its gradient reads instead of y
 *
 * They are asked for behind those of fuse_norm.c, which may leave no such pattern. Forward and
 * backward do not need each other. A node that is replaced keeps its place, that of the norm, so
 * the array stays in topological order and gradients are produced in the order in which they
 * were. */
#include "models/graph/graph_edit.h"
#include "models/graph/graph_internal.h"

/* Of this rank's batch, with ReLU. */
static bool is_plain_relu(const GraphNode *n)
{
    const BatchNormAttr *a = n->attr;
    return a->mode == BN_TRAIN && a->ranks == 0 && a->act == ACT_RELU;
}

/* The node of that kind whose result only one input reads; NULL. */
static GraphNode *sole_producer(const Graph *g, TensorId id, OpKind kind)
{
    int reader, slot;
    const GraphTensor *t = id == TENSOR_NONE ? NULL : &g->tensors[id];
    if (!t || t->producer < 0 || t->role != ROLE_ACTIVATION) return NULL;
    GraphNode *n = &g->nodes[t->producer];
    return n->kind == kind && graph_edit_count_readers(g, id, &reader, &slot) == 1 ? n : NULL;
}

/* norm becomes fused, whose attributes are a norm's and a pooling's; false: it is not taken. */
static bool replace_by_pooled(Graph *g, const FuseOptions *o, const char *name, GraphNode *norm,
                              const GraphNode *pool, GraphNode *fused)
{
    const BnPoolAttr attr = { *(const BatchNormAttr *)norm->attr, *(const Pool2dAttr *)pool->attr };
    const bool forward = fused->kind == OP_BN_POOL;
    Fusion f = { .name = name, .before_count = 2, .after_count = 1 };
    fused->attr = &attr;
    f.before[0] = graph_edit_shape_of(g, forward ? norm : pool);
    f.before[1] = graph_edit_shape_of(g, forward ? pool : norm);
    f.after[0] = graph_edit_shape_of(g, fused);
    if (!o->takes(o->cookie, &f)) return false;
    BnPoolAttr *copy = arena_alloc(g->arena, sizeof *copy);
    if (!copy) {
        graph_break(g, ERR_MEMORY);
        return false;
    }
    *copy = attr;
    fused->attr = copy;
    *norm = *fused;
    return true;
}

static void fuse_pool(Graph *g, const FuseOptions *o, const GraphNode *pool, bool *gone)
{
    if (pool->kind != OP_POOL2D || ((const Pool2dAttr *)pool->attr)->kind != POOL_MAX) return;
    GraphNode *norm = sole_producer(g, pool->in[POOL_IN_X], OP_BATCHNORM);
    if (!norm || !is_plain_relu(norm) || norm->in[BN_IN_RESIDUAL] != TENSOR_NONE ||
        pool->out[POOL_OUT_INDEX] == TENSOR_NONE)
        return;
    GraphNode fused = graph_edit_empty_node(OP_BN_POOL, norm, NULL);
    for (int i = 0; i <= BN_IN_RUNNING_VAR; i++) fused.in[i] = norm->in[i];
    fused.out[BN_POOL_OUT_Y] = pool->out[POOL_OUT_Y];
    fused.out[BN_POOL_OUT_SAVED] = norm->out[BN_OUT_SAVED];
    fused.out[BN_POOL_OUT_INDEX] = pool->out[POOL_OUT_INDEX];
    if (replace_by_pooled(g, o, "pool", norm, pool, &fused)) gone[pool - g->nodes] = true;
}

static void fuse_pool_gradient(Graph *g, const FuseOptions *o, GraphNode *norm, bool *gone)
{
    if (norm->kind != OP_BATCHNORM_BWD || !is_plain_relu(norm) ||
        norm->in[BN_BWD_IN_DY2] != TENSOR_NONE || norm->in[BN_BWD_IN_Y] != TENSOR_NONE)
        return;
    const GraphNode *pool = sole_producer(g, norm->in[BN_BWD_IN_DY], OP_POOL2D_BWD);
    if (!pool || ((const Pool2dAttr *)pool->attr)->kind != POOL_MAX) return;
    GraphNode fused = *norm;
    fused.kind = OP_BN_POOL_BWD;
    fused.in[BN_BWD_IN_DY] = pool->in[POOL_BWD_IN_DY];
    fused.in[BN_POOL_BWD_IN_INDEX] = pool->in[POOL_BWD_IN_INDEX];
    if (replace_by_pooled(g, o, "pool gradient", norm, pool, &fused)) gone[pool - g->nodes] = true;
}

/* The end of a residual block whose y this gradient reads; NULL. */
static GraphNode *block_end_of(const Graph *g, const GraphNode *gradient)
{
    const TensorId y = gradient->in[BN_BWD_IN_Y];
    if (gradient->kind != OP_BATCHNORM_BWD || !is_plain_relu(gradient) || y == TENSOR_NONE ||
        g->tensors[y].producer < 0 || g->tensors[gradient->in[BN_BWD_IN_X]].desc.rank != 4)
        return NULL;
    GraphNode *norm = &g->nodes[g->tensors[y].producer];
    return norm->kind == OP_BATCHNORM && is_plain_relu(norm) &&
                   norm->in[BN_IN_RESIDUAL] != TENSOR_NONE && norm->out[BN_OUT_Y] == y
               ? norm
               : NULL;
}

static void fuse_signs(Graph *g, const FuseOptions *o, GraphNode *gradient)
{
    GraphNode *norm = block_end_of(g, gradient);
    if (!norm) return;
    const int64_t *x = g->tensors[norm->in[BN_IN_X]].desc.dims,
                  bytes = x[0] * x[2] * x[3] * ((x[1] + 7) / 8);
    const TensorDesc desc = tensor_desc(DTYPE_U8, 1, &bytes);
    Fusion f = { .name = "signs", .before_count = 2, .after_count = 2 };
    f.before[0] = f.after[0] = graph_edit_shape_of(g, norm);
    f.before[1] = f.after[1] = graph_edit_shape_of(g, gradient);
    f.after[0].kind = OP_BN_SIGNS;
    f.after[0].out[BN_SIGNS_OUT_SIGNS] = desc;
    f.after[1].kind = OP_BN_SIGNS_BWD;
    f.after[1].in[BN_SIGNS_BWD_IN_SIGNS] = desc;
    if (!o->takes(o->cookie, &f)) return;
    const TensorId signs = graph_add_tensor(g, norm->name, ROLE_ACTIVATION, &desc);
    if (signs == TENSOR_NONE) return;
    g->tensors[signs].producer = (int)(norm - g->nodes);
    norm->kind = OP_BN_SIGNS;
    norm->out[BN_SIGNS_OUT_SIGNS] = signs;
    gradient->kind = OP_BN_SIGNS_BWD;
    gradient->in[BN_SIGNS_BWD_IN_SIGNS] = signs;
}

static GraphNode *shortcut_norm_of(const Graph *g, const GraphNode *end)
{
    GraphNode *norm =
        end->kind == OP_BN_SIGNS ? sole_producer(g, end->in[BN_IN_RESIDUAL], OP_BATCHNORM) : NULL;
    const BatchNormAttr *a = norm ? norm->attr : NULL;
    return a && a->mode == BN_TRAIN && a->ranks == 0 && a->act == ACT_NONE &&
                   norm->in[BN_IN_RESIDUAL] == TENSOR_NONE && norm->out[BN_OUT_SAVED] != TENSOR_NONE
               ? norm
               : NULL;
}

static void fuse_shortcut(Graph *g, const FuseOptions *o, GraphNode *end)
{
    GraphNode *norm = shortcut_norm_of(g, end);
    if (!norm) return;
    GraphNode statistics = *norm, sum = *end;
    statistics.kind = OP_BN_STATISTICS;
    statistics.in[BN_IN_GAMMA] = statistics.in[BN_IN_BETA] = TENSOR_NONE;
    statistics.out[BN_OUT_Y] = TENSOR_NONE;
    sum.in[BN_IN_RESIDUAL] = norm->in[BN_IN_X];
    sum.in[BN_SIGNS_IN_RESIDUAL_GAMMA] = norm->in[BN_IN_GAMMA];
    sum.in[BN_SIGNS_IN_RESIDUAL_BETA] = norm->in[BN_IN_BETA];
    sum.in[BN_SIGNS_IN_RESIDUAL_SAVED] = norm->out[BN_OUT_SAVED];
    Fusion f = { .name = "shortcut", .before_count = 2, .after_count = 2 };
    f.before[0] = graph_edit_shape_of(g, norm);
    f.before[1] = graph_edit_shape_of(g, end);
    f.after[0] = graph_edit_shape_of(g, &statistics);
    f.after[1] = graph_edit_shape_of(g, &sum);
    if (!o->takes(o->cookie, &f)) return;
    g->tensors[norm->out[BN_OUT_Y]].producer = -1;
    *norm = statistics;
    *end = sum;
}

Status graph_fuse_own(Graph *g, const FuseOptions *o)
{
    if (!o->takes) return OK;
    bool *gone = mem_calloc((size_t)g->node_count, sizeof *gone);
    if (!gone) return ERR_MEMORY;
    for (int i = 0; i < g->node_count && g->status == OK; i++) {
        fuse_pool(g, o, &g->nodes[i], gone);
        fuse_pool_gradient(g, o, &g->nodes[i], gone);
        fuse_signs(g, o, &g->nodes[i]);
    }
    for (int i = 0; i < g->node_count && g->status == OK; i++) fuse_shortcut(g, o, &g->nodes[i]);
    graph_edit_remove_nodes(g, gone);
    mem_free(gone);
    return graph_status(g);
}
