/* recompute.c - computes results of forward again instead of keeping them for backward. A copy of
 * the node is placed right before the first node of backward that reads the result, after copies
 * of the nodes that it needs itself. Runs after fuse.c, so that a copy is the same operation on the
 * same operands as before and gives the same bits; the plan of memory sees nodes like all others.
 *
 * A batch norm is not copied: its statistics would be summed twice, over ranks too, and its running
 * ones would move twice. OP_BN_APPLY normalises by those that it has saved, which are kept. Draws
 * of dropout are addressed, so a copy draws the same. Small results are kept.
 *
 *   norms   what one pass over memory makes: norms, activations, sums, gates, draws. At most
 *           NORMS_DEPTH behind each other, so that of a chain of residual blocks some are kept; and
 *           only from operands that backward needs anyway.
 *   blocks  everything between chosen tensors, which are kept, and before the last of them. Such a
 *           tensor is all that is alive at one point of forward, as between two residual blocks.
 *           They are chosen for the least peak of memory: what is kept up to a stretch of nodes,
 *           and what is alive while backward goes through that. */
#include "models/graph/graph_edit.h"
#include "models/graph/graph_internal.h"
#include <string.h>

const char *const recompute_names[RECOMPUTE_COUNT + 1] = {
    [RECOMPUTE_NONE] = "none", [RECOMPUTE_NORMS] = "norms", [RECOMPUTE_BLOCKS] = "blocks"
};

/* A tensor is small below this part of the largest; peaks are searched for to that precision. */
enum { SMALL_PART = 256, NORMS_DEPTH = 2, SEARCH_STEPS = 32 };

/* How a result may be made again. */
typedef enum Way {
    WAY_NONE,
    WAY_APPLY /* by saved statistics; y alone */,
    WAY_PASS /* by a copy that costs a pass over memory */,
    WAY_PRODUCT /* by a copy that costs more */
} Way;
static const Way ways[OP_COUNT] = {
    [OP_BATCHNORM] = WAY_APPLY,
    [OP_BN_SIGNS] = WAY_APPLY,
    [OP_BN_APPLY] = WAY_PASS,
    [OP_LAYERNORM] = WAY_PASS,
    [OP_GRN] = WAY_PASS,
    [OP_ACTIVATION] = WAY_PASS,
    [OP_ADD] = WAY_PASS,
    [OP_SCALE] = WAY_PASS,
    [OP_GATE] = WAY_PASS,
    [OP_DROP] = WAY_PASS,
    [OP_SUBSAMPLE] = WAY_PASS,
    [OP_TOKENS] = WAY_PASS,
    [OP_CONV2D] = WAY_PRODUCT,
    [OP_CONV2D_STATS] = WAY_PRODUCT,
    [OP_LINEAR] = WAY_PRODUCT,
    [OP_ATTENTION] = WAY_PRODUCT,
    [OP_POOL2D] = WAY_PRODUCT,
    [OP_PICK] = WAY_PRODUCT,
    [OP_GLOBAL_AVGPOOL] = WAY_PRODUCT,
};

typedef enum Fate {
    FATE_GONE, /* behind its last reader in forward */
    FATE_KEPT,
    FATE_AGAIN
} Fate;

typedef struct TensorFate {
    double bytes;  /* 0: small, or no result of forward, or the teacher's */
    bool read;     /* by backward */
    bool boundary; /* blocks: kept between stretches */
    Fate fate;
    int depth, last_reader; /* in forward */
    TensorId again;         /* what has been made again */
} TensorFate;

typedef struct Again {
    Graph *g;
    Recompute how;
    TensorFate *tensors;
    int forward; /* nodes */
    int end;     /* what nodes from here on make is kept */
    GraphNode *to;
    int count;
} Again;

/* ---- looking ---- */

static void look_at_readers(Again *a)
{
    const Graph *g = a->g;
    while (a->forward < g->node_count && g->nodes[a->forward].phase == PHASE_FORWARD) a->forward++;
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < OP_MAX_INPUTS; k++) {
            const TensorId id = g->nodes[i].in[k];
            if (id == TENSOR_NONE) continue;
            if (i >= a->forward) a->tensors[id].read = true;
            else a->tensors[id].last_reader = i;
        }
}

static void look_at_sizes(Again *a)
{
    double largest = 0;
    for (int pass = 0; pass < 2; pass++)
        for (TensorId id = 0; id < a->g->tensor_count; id++) {
            const GraphTensor *t = &a->g->tensors[id];
            if (t->role != ROLE_ACTIVATION || t->producer < 0 || t->producer >= a->forward ||
                a->g->nodes[t->producer].teacher)
                continue;
            const double bytes = (double)tensor_plain_bytes(&t->desc);
            if (bytes > largest) largest = bytes;
            if (pass == 1 && bytes * SMALL_PART >= largest) a->tensors[id].bytes = bytes;
        }
}

/* ---- blocks: what is kept ---- */

/* A point of forward where one tensor is all that is alive. */
typedef struct Cut {
    int node; /* the last before it; -1: the start */
    TensorId tensor;
    double bytes, kept; /* the tensor's; of all that are kept up to here, if this one is */
    int before;         /* the cut that is kept before it */
} Cut;

/* The start, the cuts, the end. Returns their number. */
static int find_cuts(const Again *a, Cut *cuts)
{
    int count = 0, alive = 0;
    TensorId which = 0; /* the sum of those alive */
    cuts[count++] = (Cut){ .node = -1, .tensor = TENSOR_NONE };
    for (int i = 0; i < a->forward; i++) {
        const GraphNode *n = &a->g->nodes[i];
        for (int k = 0; k < OP_MAX_OUTPUTS + OP_MAX_INPUTS; k++) {
            const bool made = k < OP_MAX_OUTPUTS;
            const TensorId id = made ? n->out[k] : n->in[k - OP_MAX_OUTPUTS];
            const TensorFate *t = id == TENSOR_NONE ? NULL : &a->tensors[id];
            if (!t || t->bytes == 0 || (made ? t->last_reader <= i : t->last_reader != i)) continue;
            bool twice = false; /* one tensor in two slots */
            for (int s = 0; !made && s < k - OP_MAX_OUTPUTS; s++) twice = twice || n->in[s] == id;
            if (twice) continue;
            alive += made ? 1 : -1;
            which += made ? id : -id;
        }
        if (alive == 1 && which != cuts[count - 1].tensor)
            cuts[count++] = (Cut){ .node = i, .tensor = which, .bytes = a->tensors[which].bytes };
    }
    cuts[count++] = (Cut){ .node = a->forward - 1, .tensor = TENSOR_NONE };
    return count;
}

/* Chooses the cuts to keep so that the peak is at most limit; false if that is impossible. */
static bool try_limit(const double *reads, const double *largest, Cut *cuts, int count,
                      double limit)
{
    for (int b = 1; b < count; b++) {
        double widest = 0;
        cuts[b].before = -1;
        for (int at = b - 1, node = cuts[b].node; at >= 0; at--) {
            for (; node > cuts[at].node; node--)
                if (largest[node] > widest) widest = largest[node];
            const double stretch = reads[cuts[b].node + 1] - reads[cuts[at].node + 1] + 2 * widest,
                         kept = cuts[at].kept + cuts[b].bytes;
            if (stretch > limit) break;
            if ((at > 0 && cuts[at].before < 0) || cuts[at].kept + stretch > limit) continue;
            if (cuts[b].before >= 0 && kept >= cuts[b].kept) continue;
            cuts[b].before = at;
            cuts[b].kept = kept;
        }
    }
    return cuts[count - 1].before >= 0;
}

/* reads: bytes that backward reads of what the first i nodes make; largest: of a node's results. */
static void choose_cuts(Again *a, double *reads, double *largest, Cut *cuts)
{
    const int count = find_cuts(a, cuts);
    for (int i = 0; i < a->forward; i++) {
        reads[i + 1] = reads[i];
        for (int k = 0; k < OP_MAX_OUTPUTS; k++) {
            const TensorId id = a->g->nodes[i].out[k];
            if (id == TENSOR_NONE) continue;
            const TensorFate *t = &a->tensors[id];
            if (t->read) reads[i + 1] += t->bytes;
            if (t->bytes > largest[i]) largest[i] = t->bytes;
        }
    }
    double low = 0, high = 4 * reads[a->forward] + 1;
    for (int i = 0; i < a->forward; i++) high += largest[i];
    for (int step = 0; step < SEARCH_STEPS; step++) {
        const double limit = (low + high) / 2;
        if (try_limit(reads, largest, cuts, count, limit)) high = limit;
        else low = limit;
    }
    try_limit(reads, largest, cuts, count, high);
    const int last = cuts[count - 1].before;
    a->end = cuts[last].node + 1;
    for (int at = last; at > 0; at = cuts[at].before) a->tensors[cuts[at].tensor].boundary = true;
}

static Status choose_boundaries(Again *a)
{
    double *reads = mem_calloc((size_t)a->forward + 1, sizeof *reads),
           *largest = mem_calloc((size_t)a->forward + 1, sizeof *largest);
    Cut *cuts = mem_calloc((size_t)a->forward + 2, sizeof *cuts);
    const Status status = reads && largest && cuts ? OK : ERR_MEMORY;
    if (status == OK) choose_cuts(a, reads, largest, cuts);
    mem_free(reads);
    mem_free(largest);
    mem_free(cuts);
    return status;
}

/* ---- what is made again ---- */

static bool is_allowed(const Again *a, int node, int slot)
{
    const Way way = ways[a->g->nodes[node].kind];
    if (node >= a->end || way == WAY_NONE || (way == WAY_APPLY && slot != BN_OUT_Y)) return false;
    return a->how == RECOMPUTE_BLOCKS || way != WAY_PRODUCT;
}

/* Steps from what is kept to a result of the node; 0: it would need what is not. */
static int depth_behind(const Again *a, const GraphNode *n)
{
    int depth = 1;
    for (int k = 0; k < OP_MAX_INPUTS; k++) {
        if (n->in[k] == TENSOR_NONE || a->g->tensors[n->in[k]].role != ROLE_ACTIVATION) continue;
        const TensorFate *t = &a->tensors[n->in[k]];
        if (t->fate == FATE_GONE) return 0;
        if (t->fate == FATE_AGAIN && t->depth >= depth) depth = t->depth + 1;
    }
    return depth;
}

static void decide(const Again *a, int node, int slot)
{
    TensorFate *t = &a->tensors[a->g->nodes[node].out[slot]];
    const bool free = t->bytes > 0 && !t->boundary && is_allowed(a, node, slot);
    const int depth = free ? depth_behind(a, &a->g->nodes[node]) : 0;
    t->depth = depth;
    if (depth > 0 && (a->how == RECOMPUTE_BLOCKS || depth <= NORMS_DEPTH)) t->fate = FATE_AGAIN;
    else t->fate = t->read || t->boundary || t->bytes == 0 ? FATE_KEPT : FATE_GONE;
}

/* ---- making it ---- */

/* What stands for tensor id in backward. */
static TensorId stand_in(const Again *a, TensorId id)
{
    return id != TENSOR_NONE && a->tensors[id].fate == FATE_AGAIN ? a->tensors[id].again : id;
}

/* A copy of node n, whose results are new tensors. */
static void emit(Again *a, GraphNode n)
{
    Graph *g = a->g;
    n.phase = PHASE_BACKWARD;
    n.again = true;
    n.name = arena_printf(g->arena, "%s.again", n.name);
    if (!n.name) graph_break(g, ERR_MEMORY);
    for (int k = 0; k < OP_MAX_OUTPUTS && g->status == OK; k++) {
        if (n.out[k] == TENSOR_NONE) continue;
        const TensorDesc desc = g->tensors[n.out[k]].desc;
        TensorId *again = &a->tensors[n.out[k]].again;
        n.out[k] = *again = graph_add_tensor(g, n.name, ROLE_ACTIVATION, &desc);
    }
    if (g->status == OK) a->to[a->count++] = n;
}

/* y of norm from x, by the gamma, beta and saved statistics in these slots of it. */
static GraphNode apply_node(const GraphNode *norm, const BatchNormAttr *attr, TensorId x,
                            TensorId gamma, TensorId beta, TensorId saved)
{
    GraphNode n = graph_edit_empty_node(OP_BN_APPLY, norm, attr);
    n.in[BN_APPLY_IN_X] = x;
    n.in[BN_APPLY_IN_GAMMA] = gamma;
    n.in[BN_APPLY_IN_BETA] = beta;
    n.in[BN_APPLY_IN_SAVED] = saved;
    n.out[BN_APPLY_OUT_Y] = norm->out[BN_OUT_Y];
    return n;
}

/* Where what is added is a norm too (OP_BN_SIGNS), that first. */
static void emit_apply(Again *a, const GraphNode *norm)
{
    GraphNode n = apply_node(norm, norm->attr, stand_in(a, norm->in[BN_IN_X]),
                             norm->in[BN_IN_GAMMA], norm->in[BN_IN_BETA], norm->out[BN_OUT_SAVED]);
    n.in[BN_APPLY_IN_RESIDUAL] = stand_in(a, norm->in[BN_IN_RESIDUAL]);
    if (norm->kind == OP_BN_SIGNS && norm->in[BN_SIGNS_IN_RESIDUAL_GAMMA] != TENSOR_NONE) {
        BatchNormAttr *attr = arena_alloc(a->g->arena, sizeof *attr);
        if (!attr) {
            graph_break(a->g, ERR_MEMORY);
            return;
        }
        *attr = *(const BatchNormAttr *)norm->attr;
        attr->act = ACT_NONE;
        emit(a, apply_node(
                    norm, attr, n.in[BN_APPLY_IN_RESIDUAL], norm->in[BN_SIGNS_IN_RESIDUAL_GAMMA],
                    norm->in[BN_SIGNS_IN_RESIDUAL_BETA], norm->in[BN_SIGNS_IN_RESIDUAL_SAVED]));
        n.in[BN_APPLY_IN_RESIDUAL] = a->tensors[norm->out[BN_OUT_Y]].again;
    }
    emit(a, n);
}

static bool is_due(const Again *a, TensorId id)
{
    return id != TENSOR_NONE && a->tensors[id].fate == FATE_AGAIN &&
           a->tensors[id].again == TENSOR_NONE;
}

static bool makes_due(const GraphNode *n, const bool *due)
{
    for (int k = 0; k < OP_MAX_OUTPUTS; k++)
        if (n->out[k] != TENSOR_NONE && due[n->out[k]]) return true;
    return false;
}

/* Emits what node of backward needs, in the order of forward. due: scratch by tensor, false. */
static void make_operands(Again *a, const GraphNode *node, bool *due)
{
    const Graph *g = a->g;
    bool any = false;
    for (int k = 0; k < OP_MAX_INPUTS; k++)
        if (is_due(a, node->in[k])) any = due[node->in[k]] = true;
    for (int i = a->forward - 1; any && i >= 0; i--)
        if (makes_due(&g->nodes[i], due))
            for (int k = 0; k < OP_MAX_INPUTS; k++)
                if (is_due(a, g->nodes[i].in[k])) due[g->nodes[i].in[k]] = true;
    for (int i = 0; any && i < a->forward && g->status == OK; i++) {
        GraphNode n = g->nodes[i];
        if (!makes_due(&n, due)) continue;
        for (int k = 0; k < OP_MAX_OUTPUTS; k++)
            if (n.out[k] != TENSOR_NONE) due[n.out[k]] = false;
        if (ways[n.kind] == WAY_APPLY) {
            emit_apply(a, &n);
            continue;
        }
        for (int k = 0; k < OP_MAX_INPUTS; k++) n.in[k] = stand_in(a, n.in[k]);
        emit(a, n);
    }
}

static Status rewrite(Again *a)
{
    Graph *g = a->g;
    const int nodes = g->node_count;
    const size_t room = (size_t)nodes + 2 * (size_t)a->forward;
    bool *due = mem_calloc((size_t)g->tensor_count, sizeof *due);
    a->to = arena_alloc(g->arena, room * sizeof *a->to);
    if (!due || !a->to) graph_break(g, ERR_MEMORY);
    for (int i = 0; i < nodes && g->status == OK; i++) {
        GraphNode n = g->nodes[i];
        if (i >= a->forward) make_operands(a, &n, due);
        for (int k = 0; i >= a->forward && k < OP_MAX_INPUTS; k++) n.in[k] = stand_in(a, n.in[k]);
        a->to[a->count++] = n;
    }
    mem_free(due);
    TRY(graph_status(g));
    g->nodes = a->to;
    g->node_count = a->count;
    g->node_capacity = (int)room;
    graph_edit_number_producers(g);
    return OK;
}

Status graph_recompute(Graph *g, Recompute how)
{
    Again a = { .g = g, .how = how };
    TRY(graph_status(g));
    if (how == RECOMPUTE_NONE) return OK;
    a.tensors = mem_calloc((size_t)g->tensor_count, sizeof *a.tensors);
    if (!a.tensors) return graph_break(g, ERR_MEMORY);
    for (TensorId id = 0; id < g->tensor_count; id++) a.tensors[id].again = TENSOR_NONE;
    look_at_readers(&a);
    look_at_sizes(&a);
    a.end = a.forward;
    /* an evaluation has no backward pass */
    Status status =
        how == RECOMPUTE_BLOCKS && a.forward < g->node_count ? choose_boundaries(&a) : OK;
    for (int i = 0; i < a.forward && status == OK; i++)
        for (int k = 0; k < OP_MAX_OUTPUTS; k++)
            if (g->nodes[i].out[k] != TENSOR_NONE) decide(&a, i, k);
    if (status == OK) status = rewrite(&a);
    mem_free(a.tensors);
    return status == OK ? OK : graph_break(g, status);
}
