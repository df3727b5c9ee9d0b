/* plan_check.c - see plan_check.h. Deliberately naive: it works every lifetime out of the node list
 * and compares all pairs, so that a mistake in the placement cannot hide in code that both
 * share. */
#include "tests/tools/plan_check.h"
#include "base/mem.h"

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
    case ROLE_TEACHER:
        return SLAB_TEACHER;
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
    for (int k = 0; k < op_outputs(def); k++) {
        const int over = op_in_place_of(n->kind, k);
        declared = declared || (n->out[k] == upper && over >= 0 && n->in[over] == lower);
    }
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
