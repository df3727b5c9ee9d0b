/* executor.c - see executor.h. Programs are prepared in the order in which they are added; node by
 * node, because an op's layouts come from the nodes before it. A gradient is told to lie like its
 * parameter before the node that makes it is prepared. */
#include "base/mem.h"
#include "models/models.h"
#include "trainer/engine/exec/executor_internal.h"
#include <string.h>

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
        const bool weight =
            t->role == ROLE_PARAM || t->role == ROLE_BUFFER || t->role == ROLE_TEACHER;
        if (!weight || !first) continue;
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
    op->evaluates = n->teacher || !graph_options(p->graph)->training;
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
    Status status = backend_prepare_op(op);
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
    unsigned *no_alias = mem_calloc((size_t)nodes + 1, sizeof *no_alias);
    Status status = bytes && workspace && no_alias ? OK : ERR_MEMORY;
    if (status == OK) {
        for (int i = 0; i < tensors; i++) bytes[i] = p->tensors[i].bytes;
        for (int i = 0; i < nodes; i++) workspace[i] = p->nodes[i].workspace_bytes;
        for (int i = 0; i < nodes; i++) no_alias[i] = p->nodes[i].no_alias;
        const Executor *x = p->executor;
        PlanInputs in = { .tensor_bytes = bytes,
                          .node_workspace = workspace,
                          .node_no_alias = no_alias,
                          .alignment = x->backend->v->alignment,
                          .param_order = x->param_order,
                          .param_count = x->param_count,
                          .side_depth = x->options.side_depth };
        status = plan_create(&p->plan, p->graph, &in);
    }
    mem_free(bytes);
    mem_free(workspace);
    mem_free(no_alias);
    return status;
}

/* Lists parameters and buffers of the first program in slab order. */
static Status list_states(Executor *x)
{
    const Program *p = x->programs[0];
    TRY(plan_param_order(p->plan, p->graph, &x->param_order, &x->param_count));
    int tensors = graph_tensor_count(p->graph);
    if (!(x->states = mem_calloc((size_t)tensors, sizeof *x->states))) return ERR_MEMORY;
    for (int i = 0; i < x->param_count; i++)
        x->states[x->state_count++] = graph_find(p->graph, x->param_order[i]);
    for (TensorId id = 0; id < tensors; id++)
        if (graph_tensor(p->graph, id)->role == ROLE_BUFFER) x->states[x->state_count++] = id;
    return OK;
}

static void program_destroy(Program *p)
{
    if (!p) return;
    executor_forget_recordings(p);
    for (int i = 0; p->nodes && i < graph_node_count(p->graph); i++)
        backend_release_op(&p->nodes[i]);
    for (int i = 0; i < TIMELINE_RUN_COUNT; i++) timeline_destroy(p->timelines[i]);
    plan_destroy(p->plan);
    graph_destroy(p->graph);
    mem_free(p->tensors);
    mem_free(p->nodes);
    if (p->stats) p->executor->backend->v->free(p->executor->backend, p->stats);
    mem_free(p);
}

/* Host memory with a side depth is for tests: planned as on a device, run in the order of issue. */
static bool has_lanes(const Executor *x)
{
    return x->backend->v->device || x->options.side_depth > 0;
}

static Status program_prepare(Program *p)
{
    const TimelineOptions plain = { .events = has_lanes(p->executor) };
    if (!(p->tensors = mem_calloc((size_t)graph_tensor_count(p->graph) + 1, sizeof *p->tensors)))
        return ERR_MEMORY;
    if (!(p->nodes = mem_calloc((size_t)graph_node_count(p->graph) + 1, sizeof *p->nodes)))
        return ERR_MEMORY;
    TRY(place_given_tensors(p));
    for (int i = 0; i < graph_node_count(p->graph); i++) TRY(prepare_node(p, i));
    /* inputs that no op had a wish for are plain */
    for (int i = 0; i < graph_tensor_count(p->graph); i++) {
        TensorRole role = graph_tensor(p->graph, i)->role;
        if ((role == ROLE_INPUT || role == ROLE_OUTPUT) && p->tensors[i].bytes == 0) {
            p->tensors[i].bytes = tensor_plain_bytes(&p->tensors[i].desc);
        }
    }
    TRY(make_plan(p));
    return timeline_create(&p->timelines[0], p->graph, p->plan, &plain);
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
    /* Programs never run at once, so they lie over each other: the largest decides. */
    for (int s = 0; s < SLAB_COUNT; s++) {
        if (p->plan->slab_bytes[s] > x->slab_bytes[s]) x->slab_bytes[s] = p->plan->slab_bytes[s];
    }
    for (int l = 0; l < PLAN_LANE_COUNT; l++) {
        if (p->plan->workspace_bytes[l] > x->workspace_bytes[l])
            x->workspace_bytes[l] = p->plan->workspace_bytes[l];
    }
    if (executor_staging_bytes(p) > x->staging_bytes) x->staging_bytes = executor_staging_bytes(p);
    if (p->plan->naive_activation_bytes > x->naive_bytes)
        x->naive_bytes = p->plan->naive_activation_bytes;
    *out = p;
    return OK;
}

/* ---- binding ---- */

static void *external_address(const Program *p, const GraphTensor *t)
{
    const OpTensor *record = executor_record(p->executor, t->name);
    if (strcmp(t->name, "stats") == 0) return p->stats;
    return record ? record->data : NULL; /* images and labels: program_set_input() */
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
    for (int i = 0; i < graph_node_count(p->graph); i++) {
        p->nodes[i].workspace = p->executor->workspaces[p->plan->nodes[i].lane];
        TRY(program_bind_node(p, i));
    }
    return OK;
}

void executor_borrow_grads(Executor *x, void *memory)
{
    ASSERT(memory && !x->slabs[SLAB_PARAM]);
    x->slabs[SLAB_GRAD] = memory;
    x->borrows_grads = true;
}

/* The teacher's weights follow the parameters in one allocation, so they get compute copies too. */
static Status alloc_slabs(Executor *x)
{
    Backend *b = x->backend;
    const size_t params = x->slab_bytes[SLAB_PARAM], teacher = x->slab_bytes[SLAB_TEACHER];
    for (int s = 0; s < SLAB_COUNT; s++) {
        const bool elsewhere = s == SLAB_EXTERNAL || s == SLAB_TEACHER;
        if (elsewhere || x->slab_bytes[s] == 0 || x->slabs[s]) continue;
        const size_t bytes = x->slab_bytes[s] + (s == SLAB_PARAM ? teacher : 0);
        Status status = b->v->alloc(b, bytes, &x->slabs[s]);
        if (status != OK) return fail_note(status, "memory plan (see convoy inspect memory)");
    }
    for (int l = 0; l < PLAN_LANE_COUNT; l++) {
        if (x->workspace_bytes[l] > 0)
            TRY(b->v->alloc(b, x->workspace_bytes[l], &x->workspaces[l]));
    }
    if (x->staging_bytes > 0) TRY(b->v->alloc(b, x->staging_bytes, &x->staging));
    if (teacher > 0) x->slabs[SLAB_TEACHER] = (char *)x->slabs[SLAB_PARAM] + params;
    if (!b->v->device || !x->slabs[SLAB_PARAM]) return OK;
    return b->v->device->params_attach(b, x->slabs[SLAB_PARAM], params + teacher);
}

static Status alloc_results(Executor *x)
{
    void *results = NULL;
    TRY(executor_alloc_host(x, (size_t)x->options.results * sizeof *x->results, &results));
    x->results = results;
    for (int i = 0; i < x->program_count; i++) {
        TRY(x->backend->v->alloc(x->backend, sizeof *x->results, &x->programs[i]->stats));
        x->programs[i]->result = x->results[0];
    }
    return OK;
}

static void destroy_events(const Executor *x, EventList *l)
{
    for (int i = 0; i < l->count; i++) x->backend->v->device->event_destroy(x->backend, l->list[i]);
    mem_free(l->list);
}

/* Nothing where lanes are no streams. */
static Status reserve_events(Executor *x, int count)
{
    const DeviceVTable *d = x->backend->v->device;
    return d ? executor_reserve(x, &x->events, count, d->event_create) : OK;
}

static Status create_lanes(Executor *x)
{
    Backend *b = x->backend;
    for (int l = 0; l < LANE_COUNT; l++) {
        bool used = l == LANE_COMPUTE || (has_lanes(x) && l == LANE_WEIGHTS) || b->v->device;
        if (used) TRY(b->v->stream_create(b, (Lane)l, &x->lanes[l]));
    }
    for (int i = 0; i < x->program_count; i++)
        TRY(reserve_events(x, x->programs[i]->timelines[0]->event_count));
    return OK;
}

/* The first two rows of the table of states (state.h). */
static void keep_weights(Executor *x)
{
    static const Slab slabs[] = { [STATE_PARAMS] = SLAB_PARAM, [STATE_BUFFERS] = SLAB_BUFFER };
    for (int shape = STATE_PARAMS; shape <= STATE_BUFFERS; shape++)
        x->kept[x->kept_count++] = (State){ .def = { .shape = (StateShape)shape, .saved = true },
                                            .data = x->slabs[slabs[shape]],
                                            .bytes = x->slab_bytes[slabs[shape]] };
}

Status executor_commit(Executor *x)
{
    TRY(create_lanes(x));
    TRY(alloc_slabs(x));
    TRY(executor_alloc_records(x));
    keep_weights(x);
    TRY(alloc_results(x));
    for (int i = 0; i < x->program_count; i++) {
        TRY(program_bind(x->programs[i]));
        TRY(executor_stage(x->programs[i], NULL, 0));
    }
    return OK;
}

/* ---- steps ---- */

/* Of what lies as gradients do, an operation on a bucket uses the bucket. */
static void use_tensor(const Executor *x, StepOp *s, const OpTensor *t, const char *name,
                       StepMode mode)
{
    const uintptr_t data = (uintptr_t)t->data;
    const bool whole = s->bytes == 0 || t->bytes != x->slab_bytes[SLAB_GRAD];
    StepUse use = { .name = name, .offset = data, .bytes = whole ? t->bytes : s->bytes };
    use.mode = mode;
    for (int slab = SLAB_PARAM; slab <= SLAB_BUFFER; slab++) {
        const uintptr_t base = (uintptr_t)x->slabs[slab];
        if (base == 0 || data < base || data - base >= x->slab_bytes[slab]) continue;
        use.slab = (Slab)slab;
        use.offset = data - base;
    }
    for (int i = 0; i < x->record_count; i++)
        if (x->records[i]->tensor.data == t->data) use.name = x->records[i]->name;
    if (!whole) use.offset += s->offset;
    step_use(s, use);
}

static void find_uses(const Executor *x, StepOp *s)
{
    const OpDef *def = s->op ? op_def(s->op->kind) : NULL;
    const OpTensor from = { .bytes = s->copy.bytes, .data = (void *)(uintptr_t)s->copy.from },
                   to = { .bytes = s->copy.bytes, .data = s->copy.to };
    for (int i = 0; def && i < OP_MAX_INPUTS; i++)
        if (!(s->unread >> i & 1))
            use_tensor(x, s, &s->op->in[i], def->in_names[i],
                       s->updates >> i & 1 ? STEP_UPDATES : STEP_READS);
    for (int i = 0; def && i < OP_MAX_OUTPUTS; i++)
        use_tensor(x, s, &s->op->out[i], def->out_names[i], STEP_WRITES);
    if (def && s->op->workspace)
        step_use(s, (StepUse){ .name = "workspace",
                               .offset = (uintptr_t)s->op->workspace,
                               .bytes = s->op->workspace_bytes,
                               .mode = STEP_UPDATES }); /* others may have it too */
    if (def) return;
    use_tensor(x, s, &from, "what is copied", STEP_READS);
    if (s->when != STEP_RESULT) use_tensor(x, s, &to, "a copy", STEP_WRITES);
}

Status executor_add_step(Executor *x, const StepOp *op)
{
    StepOp *steps = mem_realloc(x->steps, (size_t)(x->step_count + 1) * sizeof *steps);
    if (!steps) return ERR_MEMORY;
    x->steps = steps;
    x->steps[x->step_count] = *op;
    find_uses(x, &x->steps[x->step_count++]);
    return OK;
}

void executor_remove_steps(Executor *x, const void *owner)
{
    int kept = 0;
    for (int i = 0; i < x->step_count; i++)
        if (x->steps[i].owner != owner) x->steps[kept++] = x->steps[i];
    x->step_count = kept;
}

int executor_step_count(const Executor *x)
{
    return x->step_count;
}
const StepOp *executor_step(const Executor *x, int index)
{
    return &x->steps[index];
}

Status executor_plan_step(Executor *x, Program *p, const TimelineOptions *o)
{
    TimelineOptions local = *o;
    local.events = has_lanes(x);
    local.ops = x->steps;
    local.op_count = x->step_count;
    ASSERT(o->step != TIMELINE_MICRO_BATCH);
    executor_forget_recordings(p); /* they hold what the timeline before said */
    TRY(executor_stage(p, o->buckets, o->bucket_count));
    timeline_destroy(p->timelines[o->step]);
    TRY(timeline_create(&p->timelines[o->step], p->graph, p->plan, &local));
    return reserve_events(x, p->timelines[o->step]->event_count);
}

/* ---- life and look-ups ---- */

Status executor_create(Executor **out, Backend *backend)
{
    Executor *x = *out = mem_calloc(1, sizeof *x);
    if (!x) return ERR_MEMORY;
    x->backend = backend;
    const bool device = backend->v->device != NULL;
    executor_configure(
        x, &(ExecutorOptions){ .side_depth = device ? EXECUTOR_SIDE_DEPTH : 0, .replay = device });
    return OK;
}

void executor_configure(Executor *x, const ExecutorOptions *o)
{
    ASSERT(x->program_count == 0);
    x->options = *o;
    if (x->options.results < 1) x->options.results = 1;
}

static void destroy_lanes(Executor *x)
{
    Backend *b = x->backend;
    destroy_events(x, &x->events);
    destroy_events(x, &x->timers);
    for (int l = 0; l < LANE_COUNT; l++) {
        if (x->lanes[l]) b->v->stream_destroy(b, x->lanes[l]);
    }
    if (x->origin) b->v->device->event_destroy(b, x->origin);
}

void executor_destroy(Executor *x)
{
    if (!x) return;
    const BackendVTable *v = x->backend->v;
    for (int l = 0; l < LANE_COUNT; l++) { /* nothing may be under way in what is freed now */
        if (x->lanes[l] && v->stream_wait(x->backend, x->lanes[l]) != OK) break;
    }
    for (int i = 0; i < x->program_count; i++) program_destroy(x->programs[i]);
    for (int k = 0; k < x->kept_count; k++)
        if (x->kept[k].owned) v->free(x->backend, x->kept[k].data);
    for (int s = 0; s < SLAB_COUNT; s++) {
        if (s == SLAB_TEACHER || (s == SLAB_GRAD && x->borrows_grads)) continue;
        if (x->slabs[s]) v->free(x->backend, x->slabs[s]);
    }
    for (int l = 0; l < PLAN_LANE_COUNT; l++) {
        if (x->workspaces[l]) v->free(x->backend, x->workspaces[l]);
    }
    if (x->staging) v->free(x->backend, x->staging);
    executor_free_records(x);
    executor_free_host(x, x->results);
    destroy_lanes(x);
    mem_free(x->steps);
    mem_free(x->states);
    mem_free((void *)x->param_order);
    mem_free(x);
}

void executor_memory(const Executor *x, ExecutorMemory *out)
{
    const DeviceVTable *d = x->backend->v->device;
    *out = (ExecutorMemory){ .params = x->slab_bytes[SLAB_PARAM],
                             .grads = x->slab_bytes[SLAB_GRAD],
                             .buffers = x->slab_bytes[SLAB_BUFFER],
                             .activations = x->slab_bytes[SLAB_ACTIVATION],
                             .teacher = x->slab_bytes[SLAB_TEACHER],
                             .workspace = x->workspace_bytes[PLAN_MAIN],
                             .side_workspace = x->workspace_bytes[PLAN_SIDE] + x->staging_bytes,
                             .activations_naive = x->naive_bytes };
    if (d) out->param_copies = d->param_copy_bytes(x->backend, out->params + out->teacher);
}

int executor_state_count(const Executor *x)
{
    return x->state_count;
}
const char *executor_state_name(const Executor *x, int index)
{
    return executor_state_tensor(x, index)->name;
}
bool executor_state_is_param(const Executor *x, int index)
{
    return index < x->param_count;
}
Backend *executor_backend(const Executor *x)
{
    return x->backend;
}
Stream *executor_stream(const Executor *x)
{
    return x->lanes[LANE_COMPUTE];
}
Stream *executor_lane(const Executor *x, Lane lane)
{
    return x->lanes[lane];
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
    return &x->programs[0]->tensors[x->states[index]];
}

size_t executor_state_offset(const Executor *x, int index)
{
    return x->programs[0]->plan->entries[x->states[index]].offset;
}

bool executor_state_trains(const Executor *x, int index)
{
    return executor_state_is_param(x, index) && !executor_state_tensor(x, index)->frozen;
}

int executor_state_order(const Executor *x, int index)
{
    return x->states[index];
}

const GraphTensor *executor_state_tensor(const Executor *x, int index)
{
    return graph_tensor(x->programs[0]->graph, x->states[index]);
}

Status executor_export_state(const Executor *x, int index, void *host)
{
    return x->backend->v->export_tensor(x->backend, executor_state(x, index), host);
}

Status executor_params_changed(Executor *x)
{
    const DeviceVTable *d = x->backend->v->device;
    if (!d) return OK;
    TRY(d->params_changed(x->backend, x->lanes[LANE_COMPUTE]));
    return executor_wait(x);
}

Status executor_import_state(Executor *x, int index, const void *host)
{
    TRY(x->backend->v->import_tensor(x->backend, executor_state(x, index), host));
    return executor_state_is_param(x, index) ? executor_params_changed(x) : OK;
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
        status = model_init_tensor(x->programs[0]->graph, x->states[i], seed, host);
        if (status == OK)
            status = x->backend->v->import_tensor(x->backend, executor_state(x, i), host);
    }
    mem_free(host);
    return status == OK ? executor_params_changed(x) : status;
}
