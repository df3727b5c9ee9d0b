/* buckets.c - what others work out from a finished plan: gradient buckets, the order of parameters,
 * and the check of the plan itself.
 *
 * BUCKETS tile the GRAD slab in slab order, which is the order in which backward produces
 * gradients: bucket 0 is complete first. A bucket ends before the tensor that would take it over
 * its cap; a tensor larger than the cap is a bucket of its own. The caller decides the caps.
 *
 * THE CHECK is deliberately naive: it works every lifetime out of the node list again and compares
 * all pairs, so that a mistake in the placement cannot hide in code that both share. */
#include "base/mem.h"
#include "models/graph/plan.h"
#include <stdlib.h>
#include <string.h>

typedef struct SlabItem {
    size_t offset, bytes;
    TensorId id;
} SlabItem;

static int compare_items(const void *a, const void *b)
{
    const SlabItem *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Tensors of one role sorted by offset; returns to caller (mem_free). */
static Status list_slab(const Plan *p, const Graph *g, TensorRole role, SlabItem **out, int *count)
{
    *count = 0;
    *out = mem_calloc((size_t)graph_tensor_count(g), sizeof **out);
    if (!*out) return ERR_MEMORY;
    for (TensorId id = 0; id < graph_tensor_count(g); id++)
        if (graph_tensor(g, id)->role == role)
            (*out)[(*count)++] = (SlabItem){ p->entries[id].offset, p->entries[id].bytes, id };
    qsort(*out, (size_t)*count, sizeof **out, compare_items);
    return OK;
}

Status plan_buckets(const Plan *p, const Graph *g, size_t cap_bytes, size_t first_cap_bytes,
                    Bucket **out, int *count)
{
    *out = NULL;
    *count = 0;
    SlabItem *grads = NULL;
    int grad_count = 0;
    TRY(list_slab(p, g, ROLE_GRAD, &grads, &grad_count));
    Bucket *buckets = mem_calloc((size_t)grad_count, sizeof *buckets);
    if (!buckets) {
        mem_free(grads);
        return ERR_MEMORY;
    }
    int n = 0;
    for (int i = 0; i < grad_count; i++) {
        /* The tensor's range reaches to the next tensor: alignment gaps belong to the bucket before
         * them. */
        const size_t end = i + 1 < grad_count ? grads[i + 1].offset : p->slab_bytes[SLAB_GRAD];
        const size_t cap = n <= 1 ? first_cap_bytes : cap_bytes;
        if (n == 0 || end - buckets[n - 1].offset > cap)
            buckets[n++] = (Bucket){ .offset = grads[i].offset };
        Bucket *bucket = &buckets[n - 1];
        const int producer = graph_tensor(g, grads[i].id)->producer;
        bucket->bytes = end - bucket->offset;
        if (producer > bucket->ready_after) bucket->ready_after = producer;
    }
    mem_free(grads);
    *out = buckets;
    *count = n;
    return OK;
}

Status plan_param_order(const Plan *p, const Graph *g, const char ***names, int *count)
{
    *names = NULL;
    *count = 0;
    SlabItem *params = NULL;
    int n = 0;
    TRY(list_slab(p, g, ROLE_PARAM, &params, &n));
    size_t bytes = (size_t)n * sizeof **names;
    for (int i = 0; i < n; i++) bytes += strlen(graph_tensor(g, params[i].id)->name) + 1;
    /* One block: the pointers, then the strings, so that the list outlives the graph and is freed
     * at once. */
    const char **list = mem_alloc(bytes);
    Status status = list ? OK : ERR_MEMORY;
    char *text = list ? (char *)(list + n) : NULL;
    for (int i = 0; i < n && list; i++) {
        const char *name = graph_tensor(g, params[i].id)->name;
        const size_t length = strlen(name) + 1;
        memcpy(text, name, length);
        list[i] = text;
        text += length;
    }
    mem_free(params);
    *names = list;
    *count = list ? n : 0;
    return status;
}

/* ---- check ---- */

typedef struct Life {
    int first, last; /* -1: never */
} Life;

static Life life_of(const Graph *g, TensorId id)
{
    Life life = { -1, -1 };
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        bool here = false;
        for (int k = 0; k < OP_MAX_INPUTS; k++) here = here || n->in[k] == id;
        for (int k = 0; k < OP_MAX_OUTPUTS; k++) here = here || n->out[k] == id;
        if (!here) continue;
        if (life.first < 0) life.first = i;
        life.last = i;
    }
    return life;
}

static Slab slab_for(TensorRole role)
{
    switch (role) {
    case ROLE_INPUT:
    case ROLE_OUTPUT:
        return SLAB_EXTERNAL;
    case ROLE_PARAM:
        return SLAB_PARAM;
    case ROLE_BUFFER:
        return SLAB_BUFFER;
    case ROLE_GRAD:
        return SLAB_GRAD;
    case ROLE_ACTIVATION:
        return SLAB_ACTIVATION;
    }
    return SLAB_COUNT;
}

/* Whether the op that makes upper declares it may lie over lower, and lower is read there for the
 * last time, through that slot alone. */
static bool allowed_in_place(const Plan *p, const Graph *g, TensorId lower, TensorId upper,
                             Life lower_life, Life upper_life)
{
    if (p->entries[upper].over != lower || lower_life.last != upper_life.first) return false;
    if (p->entries[upper].offset != p->entries[lower].offset ||
        p->entries[upper].bytes != p->entries[lower].bytes)
        return false;
    const GraphNode *n = graph_node(g, upper_life.first);
    const OpDef *def = op_def(n->kind);
    int reads = 0;
    bool declared = false;
    for (int k = 0; k < OP_MAX_INPUTS; k++) reads += n->in[k] == lower;
    for (int k = 0; k < def->outputs; k++)
        declared = declared || (n->out[k] == upper && def->in_place_of[k] >= 0 &&
                                n->in[def->in_place_of[k]] == lower);
    return reads == 1 && declared;
}

static Status check_pair(const Plan *p, const Graph *g, const Life *lives, TensorId a, TensorId b)
{
    const PlanEntry *ea = &p->entries[a], *eb = &p->entries[b];
    if (ea->slab != eb->slab || ea->slab == SLAB_EXTERNAL || ea->bytes == 0 || eb->bytes == 0)
        return OK;
    if (ea->offset + ea->bytes <= eb->offset || eb->offset + eb->bytes <= ea->offset) return OK;
    if (ea->slab == SLAB_ACTIVATION) {
        if (lives[a].last < lives[b].first || lives[b].last < lives[a].first) return OK;
        if (allowed_in_place(p, g, a, b, lives[a], lives[b]) ||
            allowed_in_place(p, g, b, a, lives[b], lives[a]))
            return OK;
    }
    return fail(ERR_INTERNAL, "memory plan: %s and %s overlap", graph_tensor(g, a)->name,
                graph_tensor(g, b)->name);
}

static Status check_entry(const Plan *p, const Graph *g, const Life *lives, TensorId id)
{
    const PlanEntry *e = &p->entries[id];
    const GraphTensor *t = graph_tensor(g, id);
    if (e->slab != slab_for(t->role))
        return fail(ERR_INTERNAL, "memory plan: %s is in slab %d", t->name, (int)e->slab);
    if (e->slab == SLAB_EXTERNAL) return OK;
    if (e->offset > p->slab_bytes[e->slab] || e->bytes > p->slab_bytes[e->slab] - e->offset)
        return fail(ERR_INTERNAL, "memory plan: %s reaches past its slab", t->name);
    if (e->bytes == 0 && lives[id].first >= 0)
        return fail(ERR_INTERNAL, "memory plan: %s has no memory", t->name);
    if (t->role == ROLE_PARAM && t->grad != TENSOR_NONE && p->entries[t->grad].offset != e->offset)
        return fail(ERR_INTERNAL, "memory plan: %s and its gradient lie at different offsets",
                    t->name);
    return OK;
}

Status plan_check(const Plan *p, const Graph *g)
{
    const int tensors = graph_tensor_count(g);
    Life *lives = mem_calloc((size_t)tensors, sizeof *lives);
    if (!lives) return ERR_MEMORY;
    Status status = OK;
    for (TensorId id = 0; id < tensors; id++) lives[id] = life_of(g, id);
    for (TensorId a = 0; a < tensors && status == OK; a++) {
        status = check_entry(p, g, lives, a);
        for (TensorId b = 0; b < a && status == OK; b++) status = check_pair(p, g, lives, a, b);
    }
    mem_free(lives);
    return status;
}
