/* averages.c - see averages.h. */
#include "trainer/engine/rules/averages.h"
#include "base/mem.h"
#include <stdio.h>

enum { PARTS = 2 };
static const Slab slabs[PARTS] = { SLAB_PARAM, SLAB_BUFFER };

typedef struct Copy {
    void *data[PARTS]; /* as slabs; states of the executor's; NULL where there is none */
    LerpAttr move_attr, swap_attr;
    OpInstance moves[PARTS], swaps[PARTS];
} Copy;

struct Averages {
    Executor *executor;
    const Config *config;
    TrainPlan plan;
    Copy copies[AVERAGE_KIND_COUNT];
};

static Status prepare(OpInstance *op, const Averages *a, const LerpAttr *attr, void *copy,
                      Slab slab)
{
    const size_t bytes = executor_slab_bytes(a->executor, slab);
    const OpTensor *scale = executor_record(a->executor, "loss_scale");
    *op = (OpInstance){ .kind = OP_LERP, .backend = executor_backend(a->executor), .attr = attr };
    op->in[LERP_IN_AVERAGE] = backend_flat(copy, bytes);
    op->in[LERP_IN_X] = backend_flat(executor_slab(a->executor, slab), bytes);
    op->in[LERP_IN_SCALARS] = *executor_record(a->executor, "scalars");
    if (scale) op->in[LERP_IN_LOSS_SCALE] = *scale;
    return backend_ready_op(op);
}

static Status add_move(Averages *a, Copy *c, int part, int64_t every)
{
    const StepOp s = { .name = "averages",
                       .owner = a,
                       .when = STEP_AVERAGE,
                       .runs = STEP_IN_LAST,
                       .every = every,
                       .op = &c->moves[part],
                       .updates = 1 << LERP_IN_AVERAGE |
                                  (c->move_attr.mode == LERP_MEET ? 1 << LERP_IN_X : 0) };
    return executor_add_step(a->executor, &s);
}

/* Of one copy. */
static int states_of(const Config *c, AverageKind kind, StateDef *out)
{
    const AverageTraits t = averaging_traits(c, kind);
    const int count = !t.wanted ? 0 : t.statistics ? PARTS : 1;
    for (int p = 0; p < count; p++) {
        out[p] = (StateDef){ .kind = STATE_AVERAGES,
                             .shape = p == 0 ? STATE_PARAMS : STATE_BUFFERS,
                             .lack = STATE_FOLLOWS,
                             .saved = true };
        snprintf(out[p].prefix, sizeof out[p].prefix, "%s", t.prefix);
    }
    return count;
}

int averages_states(const Config *c, StateDef *out)
{
    int count = 0;
    for (int k = 0; k < AVERAGE_KIND_COUNT; k++) count += states_of(c, (AverageKind)k, out + count);
    return count;
}

static Status fill(Averages *a, AverageKind kind)
{
    static const int weights[AVERAGE_KIND_COUNT] = {
        [AVERAGE_LOOKAHEAD] = SCALAR_LOOKAHEAD, [AVERAGE_EMA] = SCALAR_EMA
    };
    Copy *c = &a->copies[kind];
    StateDef defs[PARTS];
    const int count = states_of(a->config, kind, defs);
    const int64_t every =
        kind == AVERAGE_LOOKAHEAD ? a->config->optimizer.lookahead_steps : a->config->ema.every;
    c->move_attr = (LerpAttr){ .mode = kind == AVERAGE_LOOKAHEAD ? LERP_MEET : LERP_FOLLOW,
                               .weight = weights[kind] };
    c->swap_attr = (LerpAttr){ .mode = LERP_SWAP };
    for (int p = 0; p < count; p++) {
        TRY(state_add(a->executor, &defs[p], &c->data[p]));
        if (!c->data[p]) continue;
        TRY(prepare(&c->moves[p], a, &c->move_attr, c->data[p], slabs[p]));
        TRY(add_move(a, c, p, every));
        TRY(prepare(&c->swaps[p], a, &c->swap_attr, c->data[p], slabs[p]));
    }
    return OK;
}

Status averages_create(Averages **out, Executor *x, const Config *c, const TrainPlan *plan)
{
    Averages *a = *out = mem_calloc(1, sizeof *a);
    if (!a) return ERR_MEMORY;
    *a = (Averages){ .executor = x, .config = c, .plan = *plan };
    Status status = OK;
    for (int k = 0; k < AVERAGE_KIND_COUNT && status == OK; k++) status = fill(a, (AverageKind)k);
    if (status != OK) {
        averages_destroy(a);
        *out = NULL;
    }
    return status;
}

void averages_destroy(Averages *a)
{
    if (!a) return;
    executor_remove_steps(a->executor, a);
    for (int k = 0; k < AVERAGE_KIND_COUNT; k++) {
        Copy *c = &a->copies[k];
        for (int p = 0; p < PARTS; p++) {
            backend_release_op(&c->moves[p]);
            backend_release_op(&c->swaps[p]);
            state_remove(a->executor, c->data[p]);
        }
    }
    mem_free(a);
}

bool averages_any(const Averages *a)
{
    for (int k = 0; k < AVERAGE_KIND_COUNT; k++)
        if (a->copies[k].data[0]) return true;
    return false;
}

void averages_scalars(const Averages *a, int64_t step, int64_t update, float scalars[SCALAR_COUNT])
{
    for (int k = 0; k < AVERAGE_KIND_COUNT; k++)
        scalars[a->copies[k].move_attr.weight] =
            (float)averaging_weight(a->config, &a->plan, (AverageKind)k, step, update);
}

Status averages_swap(Averages *a, AverageKind kind)
{
    OpInstance *swaps = a->copies[kind].swaps;
    for (int p = 0; p < PARTS; p++)
        if (swaps[p].backend)
            TRY(executor_backend(a->executor)
                    ->v->ops[OP_LERP]
                    ->run(&swaps[p], executor_stream(a->executor)));
    return executor_wait(a->executor);
}
