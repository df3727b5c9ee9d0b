/* averages.c - see averages.h. */
#include "trainer/train/averages.h"
#include "base/mem.h"

enum { PARTS = 2 };
static const Slab slabs[PARTS] = { SLAB_PARAM, SLAB_BUFFER };

typedef struct Copy {
    AverageTraits traits;
    void *data[PARTS]; /* as slabs; owned; NULL where there is none */
    LerpAttr move_attr, swap_attr;
    OpInstance moves[PARTS], swaps[PARTS];
    int entries;
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

static Status fill(Averages *a, AverageKind kind)
{
    static const int weights[AVERAGE_KIND_COUNT] = {
        [AVERAGE_LOOKAHEAD] = SCALAR_LOOKAHEAD, [AVERAGE_EMA] = SCALAR_EMA
    };
    Copy *c = &a->copies[kind];
    Backend *b = executor_backend(a->executor);
    c->traits = averaging_traits(a->config, kind);
    c->move_attr = (LerpAttr){ .mode = kind == AVERAGE_LOOKAHEAD ? LERP_MEET : LERP_FOLLOW,
                               .weight = weights[kind] };
    c->swap_attr = (LerpAttr){ .mode = LERP_SWAP };
    if (!c->traits.wanted) return OK;
    for (int i = 0; i < executor_state_count(a->executor); i++)
        c->entries += c->traits.statistics || executor_state_is_param(a->executor, i);
    for (int p = 0; p < PARTS; p++) {
        const size_t bytes = executor_slab_bytes(a->executor, slabs[p]);
        if (bytes == 0 || (slabs[p] == SLAB_BUFFER && !c->traits.statistics)) continue;
        TRY(b->v->alloc(b, bytes, &c->data[p]));
        TRY(prepare(&c->moves[p], a, &c->move_attr, c->data[p], slabs[p]));
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
    Backend *b = executor_backend(a->executor);
    for (int k = 0; k < AVERAGE_KIND_COUNT; k++) {
        Copy *c = &a->copies[k];
        for (int p = 0; p < PARTS; p++) {
            backend_release_op(&c->moves[p]);
            backend_release_op(&c->swaps[p]);
            if (c->data[p]) b->v->free(b, c->data[p]);
        }
    }
    mem_free(a);
}

bool averages_any(const Averages *a)
{
    return averages_count(a) > 0;
}

void averages_scalars(const Averages *a, int64_t step, int64_t update, float scalars[SCALAR_COUNT])
{
    for (int k = 0; k < AVERAGE_KIND_COUNT; k++)
        scalars[a->copies[k].move_attr.weight] =
            (float)averaging_weight(a->config, &a->plan, (AverageKind)k, step, update);
}

static Status run_parts(const Averages *a, OpInstance ops[PARTS], Stream *stream)
{
    for (int p = 0; p < PARTS; p++)
        if (ops[p].backend)
            TRY(executor_backend(a->executor)->v->ops[OP_LERP]->run(&ops[p], stream));
    return OK;
}

Status averages_run(Averages *a, Stream *stream)
{
    for (int k = 0; k < AVERAGE_KIND_COUNT; k++) TRY(run_parts(a, a->copies[k].moves, stream));
    return OK;
}

Status averages_swap(Averages *a, AverageKind kind)
{
    TRY(run_parts(a, a->copies[kind].swaps, executor_stream(a->executor)));
    return executor_wait(a->executor);
}

/* A weight of 1 copies. */
Status averages_start(Averages *a, const bool kinds[AVERAGE_KIND_COUNT])
{
    float scalars[SCALAR_COUNT] = { 0 };
    for (int k = 0; k < AVERAGE_KIND_COUNT; k++)
        scalars[a->copies[k].move_attr.weight] = kinds[k] ? 1 : -1;
    if (!averages_any(a)) return OK;
    TRY(executor_set_record(a->executor, "scalars", scalars));
    TRY(averages_run(a, executor_stream(a->executor)));
    return executor_wait(a->executor);
}

/* ---- checkpoints ---- */

int averages_count(const Averages *a)
{
    int count = 0;
    for (int k = 0; k < AVERAGE_KIND_COUNT; k++) count += a->copies[k].entries;
    return count;
}

/* Parameters come first in the executor's order. */
OpTensor averages_entry(const Averages *a, int i, AverageKind *kind, const char **name)
{
    int k = 0;
    for (; i >= a->copies[k].entries; k++) i -= a->copies[k].entries;
    const int part = executor_state_is_param(a->executor, i) ? 0 : 1;
    OpTensor t = *executor_state(a->executor, i);
    t.data = (char *)a->copies[k].data[part] + executor_state_offset(a->executor, i);
    *kind = (AverageKind)k;
    *name = executor_state_name(a->executor, i);
    return t;
}

const char *averages_prefix(const Averages *a, AverageKind kind)
{
    return a->copies[kind].traits.prefix;
}

void *averages_slab(const Averages *a, AverageKind kind, Slab slab)
{
    return a->copies[kind].data[slab == SLAB_PARAM ? 0 : 1];
}
