/* sharpness.c - see sharpness.h. No operation is its own: OP_GRAD_NORM says what makes the gradient
 * sam_rho long, and plain SGD at rate -1, clipped by that factor, goes so far uphill; so the loss
 * scale, steps that are skipped for it and the compute copies of parameters are the update's. */
#include "trainer/engine/rules/sharpness.h"
#include "base/mem.h"

struct Sharpness {
    Executor *executor;
    Backend *backend;
    void *params, *buffers; /* kept; buffers NULL where there are none */
    OpTensor factor, scalars;
    OpInstance norm, step;
    GradNormAttr norm_attr;
    UpdateAttr step_attr;
    UpdateSegment all;
};

bool sharpness_wanted(const Config *c)
{
    return c->optimizer.sam_rho > 0;
}

bool sharpness_in_step(const Config *c, int64_t step)
{
    return sharpness_wanted(c) && step % c->optimizer.sam_interval == 0;
}

static Status alloc_flat(Sharpness *s, size_t count, OpTensor *out)
{
    *out = backend_flat(NULL, count * sizeof(float));
    return s->backend->v->alloc(s->backend, out->bytes, &out->data);
}

static StepOp step_of(const Sharpness *s, const char *name, StepWhen when, unsigned runs,
                      OpInstance *op)
{
    return (StepOp){ .name = name, .owner = s, .when = when, .runs = runs, .op = op };
}

/* Between a slab and what is kept of it, to the bit. */
static Status add_copy(const Sharpness *s, StepOp step, Slab slab, bool back)
{
    void *const kept = slab == SLAB_PARAM ? s->params : s->buffers, *const own = executor_slab(
                                                                        s->executor, slab);
    step.copy.to = back ? own : kept;
    step.copy.from = back ? kept : own;
    step.copy.bytes = executor_slab_bytes(s->executor, slab);
    return executor_add_step(s->executor, &step);
}

static Status add_copies(const Sharpness *s)
{
    const unsigned first = STEP_IN_FIRST, second = STEP_IN_SECOND;
    StepOp step = step_of(s, "keep parameters", STEP_MOVE, first, NULL);
    TRY(add_copy(s, step, SLAB_PARAM, false));
    step.name = "keep running statistics";
    TRY(add_copy(s, step, SLAB_BUFFER, false));
    step = step_of(s, "restore parameters", STEP_MOVE, second, NULL);
    step.need = STEP_NEEDS_FIRST;
    TRY(add_copy(s, step, SLAB_PARAM, true));
    step.name = "restore running statistics";
    step.when = STEP_FORWARD;
    return add_copy(s, step, SLAB_BUFFER, true);
}

static Status add_ops(Sharpness *s)
{
    StepOp step = step_of(s, "length of a perturbation", STEP_MOVE, STEP_IN_FIRST, &s->norm);
    TRY(executor_add_step(s->executor, &step));
    step.name = "perturb";
    step.op = &s->step;
    step.updates = 1 << UPDATE_IN_PARAM;
    return executor_add_step(s->executor, &step);
}

static Status make_ops(Sharpness *s, const Config *c, OpTensor squares)
{
    const OpTensor *scale = executor_record(s->executor, "loss_scale");
    /* not what is frozen, which lies behind */
    const size_t bytes = executor_slab_bytes(s->executor, SLAB_GRAD);
    s->norm_attr.length = (float)c->optimizer.sam_rho;
    s->norm = (OpInstance){ .kind = OP_GRAD_NORM, .backend = s->backend, .attr = &s->norm_attr };
    s->norm.in[GRAD_NORM_IN_SUMS] = squares;
    s->norm.out[GRAD_NORM_OUT_CLIP] = s->factor;
    s->all = (UpdateSegment){ .count = (int64_t)(bytes / sizeof(float)), .lr = 1 };
    s->step_attr = (UpdateAttr){ .kind = UPDATE_SGD, .segment_count = 1, .segments = &s->all };
    s->step = (OpInstance){ .kind = OP_UPDATE, .backend = s->backend, .attr = &s->step_attr };
    s->step.in[UPDATE_IN_PARAM] = backend_flat(executor_slab(s->executor, SLAB_PARAM), bytes);
    s->step.in[UPDATE_IN_GRAD] = backend_flat(executor_slab(s->executor, SLAB_GRAD), bytes);
    s->step.in[UPDATE_IN_SCALARS] = s->scalars;
    s->step.in[UPDATE_IN_CLIP] = s->factor;
    if (scale) s->norm.in[GRAD_NORM_IN_LOSS_SCALE] = s->step.in[UPDATE_IN_LOSS_SCALE] = *scale;
    TRY(backend_ready_op(&s->norm));
    TRY(backend_ready_op(&s->step));
    TRY(add_copies(s));
    return add_ops(s);
}

int sharpness_states(const Config *c, StateDef *out)
{
    for (int i = 0; sharpness_wanted(c) && i < SHARPNESS_STATES; i++)
        out[i] = (StateDef){ .kind = STATE_KEPT, .shape = i == 0 ? STATE_PARAMS : STATE_BUFFERS };
    return sharpness_wanted(c) ? SHARPNESS_STATES : 0;
}

static Status fill(Sharpness *s, const Config *c, OpTensor squares)
{
    const float uphill[SCALAR_COUNT] = { [SCALAR_LR] = -1 };
    StateDef defs[SHARPNESS_STATES];
    if (sharpness_states(c, defs) == 0) return fail(ERR_INTERNAL, "no sam_rho");
    TRY(state_add(s->executor, &defs[0], &s->params));
    TRY(state_add(s->executor, &defs[1], &s->buffers));
    TRY(alloc_flat(s, CLIP_COUNT, &s->factor));
    TRY(alloc_flat(s, SCALAR_COUNT, &s->scalars));
    TRY(s->backend->v->import_tensor(s->backend, &s->scalars, uphill));
    return make_ops(s, c, squares);
}

Status sharpness_create(Sharpness **out, Executor *x, const Config *c, OpTensor squares)
{
    Sharpness *s = *out = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    *s = (Sharpness){ .executor = x, .backend = executor_backend(x) };
    Status status = fill(s, c, squares);
    if (status != OK) {
        sharpness_destroy(s);
        *out = NULL;
    }
    return status;
}

void sharpness_destroy(Sharpness *s)
{
    if (!s) return;
    executor_remove_steps(s->executor, s);
    void *const memory[] = { s->factor.data, s->scalars.data };
    backend_release_op(&s->norm);
    backend_release_op(&s->step);
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        if (memory[i]) s->backend->v->free(s->backend, memory[i]);
    state_remove(s->executor, s->params);
    state_remove(s->executor, s->buffers);
    mem_free(s);
}
