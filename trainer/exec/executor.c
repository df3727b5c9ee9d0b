/* executor.c - see executor.h. Programs are prepared in the order in which they are added; node by node, because an
 * op's layouts come from the nodes before it. A gradient is told to lie like its parameter before the node that makes
 * it is prepared. */
#include "trainer/exec/executor.h"
#include "base/clock.h"
#include "base/mem.h"
#include "models/models.h"
#include <string.h>

#define MAX_PROGRAMS 4

struct Program {
    Executor *executor;
    Graph *graph;
    bool accumulate;
    OpTensor *tensors; /* [tensor count] */
    OpInstance *nodes; /* [node count] */
    Plan *plan;
    double *stats; /* [STATS_COUNT] */
};

typedef struct StateEntry {
    const char *name; /* the first program's graph owns it */
    TensorId id;      /* in the first program */
    bool is_param;
} StateEntry;

struct Executor {
    Backend *backend;
    Stream *stream;
    Program *programs[MAX_PROGRAMS];
    int program_count;
    StateEntry *states; /* parameters in slab order, then buffers */
    int state_count;
    const char **param_order;
    int param_count;
    size_t slab_bytes[SLAB_COUNT], workspace_bytes, naive_bytes;
    void *slabs[SLAB_COUNT], *workspace;
    OpTensor scalars; /* on the backend */
    float host_scalars[SCALAR_COUNT];
};

/* ---- preparing ---- */

static const Program *first_program(const Executor *x)
{
    return x->program_count > 0 ? x->programs[0] : NULL;
}

/* Parameters and buffers lie as the first program has them. */
static Status place_given_tensors(Program *p)
{
    const Program *first = first_program(p->executor);
    for (int i = 0; i < graph_tensor_count(p->graph); i++) {
        const GraphTensor *t = graph_tensor(p->graph, i);
        OpTensor *o = &p->tensors[i];
        o->desc = t->desc;
        if ((t->role != ROLE_PARAM && t->role != ROLE_BUFFER) || !first) continue;
        TensorId given = graph_find(first->graph, t->name);
        if (given == TENSOR_NONE || !tensor_same_shape(&first->tensors[given].desc, &t->desc)) {
            return fail(ERR_INTERNAL, "programs disagree about parameter %s", t->name);
        }
        o->layout = first->tensors[given].layout;
        o->bytes = first->tensors[given].bytes;
    }
    return OK;
}

static Status prepare_node(Program *p, int index)
{
    const GraphNode *n = graph_node(p->graph, index);
    OpInstance *op = &p->nodes[index];
    op->kind = n->kind;
    op->backend = p->executor->backend;
    op->attr = n->attr;
    op->accumulate = p->accumulate;
    for (int i = 0; i < OP_MAX_INPUTS; i++) {
        if (n->in[i] != TENSOR_NONE) op->in[i] = p->tensors[n->in[i]];
    }
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) {
        if (n->out[i] == TENSOR_NONE) continue;
        const GraphTensor *t = graph_tensor(p->graph, n->out[i]);
        OpTensor *o = &p->tensors[n->out[i]];
        if (t->role == ROLE_GRAD) {
            o->layout = p->tensors[t->grad_of].layout;
            o->bytes = p->tensors[t->grad_of].bytes;
        }
        op->out[i] = *o;
    }
    Status status = op_prepare(op);
    if (status != OK) return fail_note(status, "%s", n->name);
    for (int i = 0; i < OP_MAX_INPUTS; i++) {
        if (n->in[i] != TENSOR_NONE) p->tensors[n->in[i]] = op->in[i];
    }
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) {
        if (n->out[i] != TENSOR_NONE) p->tensors[n->out[i]] = op->out[i];
    }
    return OK;
}

static Status make_plan(Program *p)
{
    int tensors = graph_tensor_count(p->graph), nodes = graph_node_count(p->graph);
    size_t *bytes = mem_calloc((size_t)tensors, sizeof *bytes);
    size_t *workspace = mem_calloc((size_t)nodes + 1, sizeof *workspace);
    Status status = bytes && workspace ? OK : ERR_MEMORY;
    if (status == OK) {
        for (int i = 0; i < tensors; i++) bytes[i] = p->tensors[i].bytes;
        for (int i = 0; i < nodes; i++) workspace[i] = p->nodes[i].workspace_bytes;
        const Executor *x = p->executor;
        PlanInputs in = { .tensor_bytes = bytes,
                          .node_workspace = workspace,
                          .alignment = x->backend->v->alignment,
                          .param_order = x->param_order,
                          .param_count = x->param_count };
        status = plan_create(&p->plan, p->graph, &in);
    }
    mem_free(bytes);
    mem_free(workspace);
    return status;
}

/* Lists parameters and buffers of the first program in slab order. */
static Status list_states(Executor *x)
{
    const Program *p = x->programs[0];
    TRY(plan_param_order(p->plan, p->graph, &x->param_order, &x->param_count));
    int tensors = graph_tensor_count(p->graph);
    if (!(x->states = mem_calloc((size_t)tensors, sizeof *x->states))) return ERR_MEMORY;
    for (int i = 0; i < x->param_count; i++) {
        TensorId id = graph_find(p->graph, x->param_order[i]);
        x->states[x->state_count++] =
            (StateEntry){ .name = graph_tensor(p->graph, id)->name, .id = id, .is_param = true };
    }
    for (TensorId id = 0; id < tensors; id++) {
        if (graph_tensor(p->graph, id)->role != ROLE_BUFFER) continue;
        x->states[x->state_count++] = (StateEntry){ .name = graph_tensor(p->graph, id)->name, .id = id };
    }
    return OK;
}

static void program_destroy(Program *p)
{
    if (!p) return;
    for (int i = 0; p->nodes && i < graph_node_count(p->graph); i++) op_release(&p->nodes[i]);
    plan_destroy(p->plan);
    graph_destroy(p->graph);
    mem_free(p->tensors);
    mem_free(p->nodes);
    mem_free(p->stats);
    mem_free(p);
}

static Status program_prepare(Program *p)
{
    if (!(p->tensors = mem_calloc((size_t)graph_tensor_count(p->graph) + 1, sizeof *p->tensors))) return ERR_MEMORY;
    if (!(p->nodes = mem_calloc((size_t)graph_node_count(p->graph) + 1, sizeof *p->nodes))) return ERR_MEMORY;
    if (!(p->stats = mem_calloc(STATS_COUNT, sizeof *p->stats))) return ERR_MEMORY;
    TRY(place_given_tensors(p));
    for (int i = 0; i < graph_node_count(p->graph); i++) TRY(prepare_node(p, i));
    for (int i = 0; i < graph_tensor_count(p->graph); i++) { /* inputs that no op had a wish for are plain */
        TensorRole role = graph_tensor(p->graph, i)->role;
        if ((role == ROLE_INPUT || role == ROLE_OUTPUT) && p->tensors[i].bytes == 0) {
            p->tensors[i].bytes = tensor_plain_bytes(&p->tensors[i].desc);
        }
    }
    return make_plan(p);
}

Status executor_add(Executor *x, Graph *g, bool accumulate, Program **out)
{
    *out = NULL;
    ASSERT(x->program_count < MAX_PROGRAMS && !x->slabs[SLAB_PARAM]);
    Program *p = mem_calloc(1, sizeof *p);
    if (!p) {
        graph_destroy(g);
        return ERR_MEMORY;
    }
    *p = (Program){ .executor = x, .graph = g, .accumulate = accumulate };
    Status status = program_prepare(p);
    if (status != OK) {
        program_destroy(p);
        return status;
    }
    x->programs[x->program_count++] = p;
    if (x->program_count == 1) TRY(list_states(x));
    for (int s = 0; s < SLAB_COUNT; s++) {
        if (p->plan->slab_bytes[s] > x->slab_bytes[s]) x->slab_bytes[s] = p->plan->slab_bytes[s];
    }
    if (p->plan->workspace_bytes > x->workspace_bytes) x->workspace_bytes = p->plan->workspace_bytes;
    if (p->plan->naive_activation_bytes > x->naive_bytes) x->naive_bytes = p->plan->naive_activation_bytes;
    *out = p;
    return OK;
}

/* ---- binding ---- */

static void *external_address(const Program *p, const GraphTensor *t)
{
    if (strcmp(t->name, "scalars") == 0) return p->executor->scalars.data;
    if (strcmp(t->name, "stats") == 0) return p->stats;
    return NULL; /* images and labels: program_set_input() */
}

static Status bind_node(Program *p, int index)
{
    const GraphNode *n = graph_node(p->graph, index);
    OpInstance *op = &p->nodes[index];
    bool complete = true;
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) {
        if (n->out[i] != TENSOR_NONE) op->out[i].data = p->tensors[n->out[i]].data;
    }
    op->workspace = p->executor->workspace;
    for (int i = 0; i < OP_MAX_INPUTS; i++) {
        if (n->in[i] == TENSOR_NONE) continue;
        op->in[i].data = p->tensors[n->in[i]].data;
        complete = complete && op->in[i].data;
    }
    if (!complete) return OK; /* images or labels: program_set_input() will come back */
    const OpImpl *impl = p->executor->backend->v->ops[op->kind];
    return impl->bind ? impl->bind(op) : OK;
}

static Status program_bind(Program *p)
{
    for (int i = 0; i < graph_tensor_count(p->graph); i++) {
        const PlanEntry *e = &p->plan->entries[i];
        const GraphTensor *t = graph_tensor(p->graph, i);
        if (e->slab == SLAB_EXTERNAL) {
            p->tensors[i].data = external_address(p, t);
        } else {
            p->tensors[i].data = (char *)p->executor->slabs[e->slab] + e->offset;
        }
    }
    for (int i = 0; i < graph_node_count(p->graph); i++) TRY(bind_node(p, i));
    return OK;
}

Status executor_commit(Executor *x)
{
    Backend *b = x->backend;
    for (int s = 0; s < SLAB_COUNT; s++) {
        if (s == SLAB_EXTERNAL || x->slab_bytes[s] == 0) continue;
        Status status = b->v->alloc(b, x->slab_bytes[s], &x->slabs[s]);
        if (status != OK) return fail_note(status, "memory plan (see convoy inspect memory)");
    }
    if (x->workspace_bytes > 0) TRY(b->v->alloc(b, x->workspace_bytes, &x->workspace));
    const Program *first = x->programs[0];
    x->scalars = first->tensors[graph_input(first->graph, "scalars")];
    TRY(b->v->alloc(b, x->scalars.bytes, &x->scalars.data));
    for (int i = 0; i < x->program_count; i++) TRY(program_bind(x->programs[i]));
    return OK;
}

Status program_set_input(Program *p, const char *name, const void *data)
{
    TensorId id = graph_input(p->graph, name);
    ASSERT(id != TENSOR_NONE);
    /* Inputs are only read: the one place where const is dropped, because OpTensor serves inputs and outputs. */
    memcpy(&p->tensors[id].data, &data, sizeof data);
    for (int i = 0; i < graph_node_count(p->graph); i++) {
        const GraphNode *n = graph_node(p->graph, i);
        for (int k = 0; k < OP_MAX_INPUTS; k++) {
            if (n->in[k] == id) TRY(bind_node(p, i));
        }
    }
    return OK;
}

/* ---- running ---- */

Status executor_run(Executor *x, Program *p, const RunHooks *hooks)
{
    const BackendVTable *v = x->backend->v;
    int next_bucket = 0, nodes = graph_node_count(p->graph);
    for (int i = 0; i < nodes; i++) {
        OpInstance *op = &p->nodes[i];
        double start = hooks && hooks->node_seconds ? clock_s() : 0;
        Status status = v->ops[op->kind]->run(op, x->stream);
        if (status != OK) return fail_note(status, "%s", graph_node(p->graph, i)->name);
        if (!hooks) continue;
        if (hooks->node_seconds) {
            TRY(v->stream_wait(x->backend, x->stream));
            hooks->node_seconds[i] += clock_s() - start;
        }
        while (next_bucket < hooks->bucket_count && hooks->buckets[next_bucket].ready_after <= i) {
            hooks->bucket_ready(hooks->cookie, next_bucket++);
        }
    }
    return v->stream_wait(x->backend, x->stream);
}

/* ---- life and look-ups ---- */

Status executor_create(Executor **out, Backend *backend)
{
    Executor *x = *out = mem_calloc(1, sizeof *x);
    if (!x) return ERR_MEMORY;
    x->backend = backend;
    Status status = backend->v->stream_create(backend, &x->stream);
    if (status != OK) {
        executor_destroy(x);
        *out = NULL;
    }
    return status;
}

void executor_destroy(Executor *x)
{
    if (!x) return;
    const BackendVTable *v = x->backend->v;
    for (int i = 0; i < x->program_count; i++) program_destroy(x->programs[i]);
    for (int s = 0; s < SLAB_COUNT; s++) {
        if (x->slabs[s]) v->free(x->backend, x->slabs[s]);
    }
    if (x->workspace) v->free(x->backend, x->workspace);
    if (x->scalars.data) v->free(x->backend, x->scalars.data);
    if (x->stream) v->stream_destroy(x->backend, x->stream);
    mem_free(x->states);
    mem_free((void *)x->param_order);
    mem_free(x);
}

void executor_memory(const Executor *x, ExecutorMemory *out)
{
    *out = (ExecutorMemory){ .params = x->slab_bytes[SLAB_PARAM],
                             .grads = x->slab_bytes[SLAB_GRAD],
                             .buffers = x->slab_bytes[SLAB_BUFFER],
                             .activations = x->slab_bytes[SLAB_ACTIVATION],
                             .workspace = x->workspace_bytes,
                             .activations_naive = x->naive_bytes };
}

const Graph *program_graph(const Program *p)
{
    return p->graph;
}
const Plan *program_plan(const Program *p)
{
    return p->plan;
}
const char *program_implementation(const Program *p, int node)
{
    return p->nodes[node].implementation;
}
const OpTensor *program_tensor(const Program *p, TensorId id)
{
    return &p->tensors[id];
}
const double *program_stats(const Program *p)
{
    return p->stats;
}
const OpTensor *executor_scalars(const Executor *x)
{
    return &x->scalars;
}
int executor_state_count(const Executor *x)
{
    return x->state_count;
}
const char *executor_state_name(const Executor *x, int index)
{
    return x->states[index].name;
}
bool executor_state_is_param(const Executor *x, int index)
{
    return x->states[index].is_param;
}
Stream *executor_stream(const Executor *x)
{
    return x->stream;
}
void *executor_slab(const Executor *x, Slab slab)
{
    return x->slabs[slab];
}
size_t executor_slab_bytes(const Executor *x, Slab slab)
{
    return x->slab_bytes[slab];
}

const OpTensor *executor_state(const Executor *x, int index)
{
    return &x->programs[0]->tensors[x->states[index].id];
}

size_t executor_state_offset(const Executor *x, int index)
{
    return x->programs[0]->plan->entries[x->states[index].id].offset;
}

bool executor_state_decays(const Executor *x, int index)
{
    return graph_tensor(x->programs[0]->graph, x->states[index].id)->decay;
}

Status executor_export_state(const Executor *x, int index, void *host)
{
    return x->backend->v->export_tensor(x->backend, executor_state(x, index), host);
}

Status executor_import_state(Executor *x, int index, const void *host)
{
    return x->backend->v->import_tensor(x->backend, executor_state(x, index), host);
}

static int64_t largest_state(const Executor *x)
{
    int64_t largest = 0;
    for (int i = 0; i < x->state_count; i++) {
        int64_t n = tensor_elements(&executor_state(x, i)->desc);
        if (n > largest) largest = n;
    }
    return largest;
}

Status executor_init_states(Executor *x, uint64_t seed)
{
    float *host = mem_alloc((size_t)largest_state(x) * sizeof *host);
    if (!host) return ERR_MEMORY;
    Status status = OK;
    for (int i = 0; i < x->state_count && status == OK; i++) {
        status = model_init_tensor(x->programs[0]->graph, x->states[i].id, seed, host);
        if (status == OK) status = executor_import_state(x, i, host);
    }
    mem_free(host);
    return status;
}

Status executor_set_scalars(Executor *x, const float values[SCALAR_COUNT])
{
    memcpy(x->host_scalars, values, sizeof x->host_scalars);
    return x->backend->v->import_tensor(x->backend, &x->scalars, x->host_scalars);
}
