/* optimizer.c - see optimizer.h. */
#include "trainer/engine/rules/optimizer.h"
#include "base/mem.h"
#include "kernels/ops/update.h"
#include "trainer/engine/rules/muon.h"
#include "trainer/engine/rules/param_rules.h"
#include "trainer/engine/rules/sharpness.h"
#include "trainer/engine/rules/trust.h"
#include <math.h>
#include <stdio.h>

/* torch.amp.GradScaler's; the largest scale keeps every gradient that is exact in 16 bits finite in
 * 32 */
#define SCALE_GROWTH  2.0F
#define SCALE_BACKOFF 0.5F
#define SCALE_MAX     16777216.0F
/* Gradients that are not finite even at this scale never will be: the least normal half. */
#define SCALE_LEAST 6.103515625e-5
/* torch.nn.utils.clip_grad_norm_'s; timm's Lamb clips by itself, without one */
#define CLIP_EPS 1e-6

typedef struct HostResult { /* what a step copies to the host */
    float scale[LOSS_SCALE_COUNT], clip[CLIP_COUNT];
} HostResult;

struct Optimizer {
    Executor *executor;
    Backend *backend;
    UpdateKind kind;
    double beta1, beta2;
    void *states[UPDATE_STATES_MAX];
    int state_count, bucket_count;
    struct {
        OpInstance *ops;         /* [bucket_count] */
        UpdateAttr *attrs;       /* [bucket_count] */
        UpdateSegment *segments; /* all buckets' segments end to end */
        ParamRule *rules;        /* [executor_state_count] */
        Trust *trusts;           /* [bucket_count] */
        Muon muon;
    } update;
    struct {
        const OpTensor *state;     /* NULL: there is none, and nothing here is used */
        OpInstance *finite_checks; /* [bucket_count] */
        OpInstance op;
        LossScaleAttr attr;
        int64_t skipped; /* steps, as of the last result or optimizer_state_changed() */
    } scale;
    struct {
        bool wanted;         /* else only the squares are used, by sharpness.h */
        OpInstance *squares; /* [bucket_count] */
        OpTensor sums;       /* f64, all buckets' end to end */
        OpInstance op;
        GradNormAttr attr;
        OpTensor clip; /* f32 [CLIP_COUNT]: what the op leaves for the updates */
    } norm;
    HostResult *results; /* [OPTIMIZER_RESULTS], executor_alloc_host() */
};

/* One segment per parameter that lies in the bucket. */
static int add_segments(Optimizer *o, const Config *c, const Bucket *bucket, UpdateSegment *out)
{
    const ParamRule *rules = o->update.rules;
    int count = 0;
    for (int i = 0; i < executor_state_count(o->executor); i++) {
        size_t offset = executor_state_offset(o->executor, i);
        if (!rules[i].trains) continue;
        if (offset < bucket->offset || offset >= bucket->offset + bucket->bytes) continue;
        out[count++] = (UpdateSegment){
            .first = (int64_t)(offset / sizeof(float)),
            .count = (int64_t)(executor_state(o->executor, i)->bytes / sizeof(float)),
            .weight_decay = (float)(rules[i].decay * c->optimizer.weight_decay),
            .lr = (float)rules[i].lr,
            .adapts = o->update.muon.count > 0 ? muon_has(&o->update.muon, i) : rules[i].decay > 0
        };
    }
    trust_choose(c, out, count);
    return count;
}

/* ---- operations ---- */

static StepOp step_of(const Optimizer *o, const char *name, StepWhen when, OpInstance *op)
{
    return (StepOp){ .name = name, .owner = o, .when = when, .runs = STEP_IN_LAST, .op = op };
}

static StepOp step_of_range(const Optimizer *o, const char *name, StepWhen when, OpInstance *op,
                            int bucket, const Bucket *b)
{
    StepOp s = step_of(o, name, when, op);
    s.bucket = bucket;
    s.offset = b->offset;
    s.bytes = b->bytes;
    return s;
}

static Status add_step(const Optimizer *o, const StepOp *s)
{
    TRY(backend_ready_op(s->op));
    return executor_add_step(o->executor, s);
}

/* What is frozen lies behind what has gradients. */
static Status make_op(Optimizer *o, const Config *c, int bucket, const Bucket *b)
{
    OpInstance *op = &o->update.ops[bucket];
    size_t bytes = executor_slab_bytes(o->executor, SLAB_GRAD);
    *op =
        (OpInstance){ .kind = OP_UPDATE, .backend = o->backend, .attr = &o->update.attrs[bucket] };
    op->in[UPDATE_IN_PARAM] = backend_flat(executor_slab(o->executor, SLAB_PARAM), bytes);
    op->in[UPDATE_IN_GRAD] = backend_flat(executor_slab(o->executor, SLAB_GRAD), bytes);
    for (int s = 0; s < o->state_count; s++)
        op->in[UPDATE_IN_STATE0 + s] = backend_flat(o->states[s], bytes);
    op->in[UPDATE_IN_SCALARS] = *executor_record(o->executor, "scalars");
    if (o->scale.state) op->in[UPDATE_IN_LOSS_SCALE] = *o->scale.state;
    if (c->optimizer.clip_norm > 0) op->in[UPDATE_IN_CLIP] = o->norm.clip;
    StepOp step = step_of_range(o, "update", STEP_UPDATE, op, bucket, b);
    step.updates = 1 << UPDATE_IN_PARAM | 1 << UPDATE_IN_STATE0 | 1 << UPDATE_IN_STATE1;
    TRY(trust_init(&o->update.trusts[bucket], op));
    TRY(trust_add(&o->update.trusts[bucket], o->executor, &step));
    TRY(muon_add(&o->update.muon, o->executor, &step));
    return add_step(o, &step);
}

static Status make_finite_check(Optimizer *o, int bucket, const Bucket *b)
{
    OpInstance *op = &o->scale.finite_checks[bucket];
    StepOp s = step_of_range(o, "finite check", STEP_MEASURE, op, bucket, b);
    *op = (OpInstance){ .kind = OP_FINITE_CHECK, .backend = o->backend };
    op->in[FINITE_CHECK_IN_X] =
        backend_flat((char *)executor_slab(o->executor, SLAB_GRAD) + b->offset, b->bytes);
    op->in[FINITE_CHECK_IN_LOSS_SCALE] = *o->scale.state;
    s.runs |= STEP_IN_FIRST;
    s.updates = 1 << FINITE_CHECK_IN_LOSS_SCALE;
    return add_step(o, &s);
}

static Status make_scale_update(Optimizer *o, const Config *c)
{
    const float start[LOSS_SCALE_COUNT] = { [LOSS_SCALE_SCALE] = (float)c->train.loss_scale };
    TRY(o->backend->v->import_tensor(o->backend, o->scale.state, start));
    o->scale.attr = (LossScaleAttr){ .growth = SCALE_GROWTH,
                                     .backoff = SCALE_BACKOFF,
                                     .max = SCALE_MAX,
                                     .interval = (int)c->train.loss_scale_interval };
    o->scale.op =
        (OpInstance){ .kind = OP_LOSS_SCALE, .backend = o->backend, .attr = &o->scale.attr };
    o->scale.op.in[LOSS_SCALE_IN_STATE] = *o->scale.state;
    StepOp s = step_of(o, "loss scale", STEP_END, &o->scale.op);
    s.updates = 1 << LOSS_SCALE_IN_STATE;
    return add_step(o, &s);
}

bool optimizer_needs_norm(const Config *c)
{
    return c->optimizer.clip_norm > 0 || c->log.grad_norm;
}

static OpTensor sums_of(const Optimizer *o, int64_t first, int64_t count)
{
    return (OpTensor){ .desc = tensor_desc(DTYPE_F64, 1, &count),
                       .bytes = (size_t)count * sizeof(double),
                       .data = (char *)o->norm.sums.data + (size_t)first * sizeof(double) };
}

static int64_t chunks_of(const Bucket *b)
{
    return ((int64_t)(b->bytes / sizeof(float)) + GRAD_SQUARES_CHUNK - 1) / GRAD_SQUARES_CHUNK;
}

static Status make_norm_op(Optimizer *o, const Config *c)
{
    o->norm.attr.max_norm = (float)c->optimizer.clip_norm;
    o->norm.attr.eps = o->kind == UPDATE_LAMB ? 0 : CLIP_EPS;
    o->norm.op = (OpInstance){ .kind = OP_GRAD_NORM, .backend = o->backend, .attr = &o->norm.attr };
    o->norm.op.in[GRAD_NORM_IN_SUMS] = o->norm.sums;
    if (o->scale.state) o->norm.op.in[GRAD_NORM_IN_LOSS_SCALE] = *o->scale.state;
    o->norm.op.out[GRAD_NORM_OUT_CLIP] = o->norm.clip;
    const StepOp s = step_of(o, "norm", STEP_PREPARE, &o->norm.op);
    return add_step(o, &s);
}

static Status make_norm(Optimizer *o, const Config *c, const Bucket *buckets)
{
    int64_t all = 0, first = 0;
    for (int k = 0; k < o->bucket_count; k++) all += chunks_of(&buckets[k]);
    TRY(o->backend->v->alloc(o->backend, (size_t)all * sizeof(double), &o->norm.sums.data));
    o->norm.sums = sums_of(o, 0, all);
    for (int k = 0; k < o->bucket_count; first += chunks_of(&buckets[k]), k++) {
        OpInstance *op = &o->norm.squares[k];
        *op = (OpInstance){ .kind = OP_GRAD_SQUARES, .backend = o->backend };
        op->in[GRAD_SQUARES_IN_X] = backend_flat(
            (char *)executor_slab(o->executor, SLAB_GRAD) + buckets[k].offset, buckets[k].bytes);
        op->out[GRAD_SQUARES_OUT_SUMS] = sums_of(o, first, chunks_of(&buckets[k]));
        StepOp s = step_of_range(o, "squares", STEP_MEASURE, op, k, &buckets[k]);
        s.runs = STEP_IN_FIRST | (o->norm.wanted ? STEP_IN_LAST : 0);
        TRY(add_step(o, &s));
    }
    return o->norm.wanted ? make_norm_op(o, c) : OK;
}

static UpdateAttr attr_of(const Optimizer *o, const Config *c)
{
    return (UpdateAttr){ .kind = o->kind,
                         .momentum = (float)c->optimizer.momentum,
                         .beta1 = o->beta1,
                         .beta2 = o->beta2,
                         .trust_coefficient = c->optimizer.trust_coefficient,
                         .trust_clip = c->optimizer.trust_clip,
                         .eps = (float)c->optimizer.eps,
                         .nesterov = c->optimizer.nesterov };
}

int optimizer_states(const Config *c, StateDef *out)
{
    const UpdateTraits *t = update_traits((UpdateKind)c->optimizer.name);
    const int count = update_states((UpdateKind)c->optimizer.name, c->optimizer.momentum);
    for (int s = 0; s < count; s++) {
        out[s] = (StateDef){ .kind = STATE_OPTIMIZER, .saved = true, .start = t->state_start[s] };
        snprintf(out[s].prefix, sizeof out[s].prefix, "optimizer.%s.", t->state_names[s]);
    }
    return count;
}

/* A run that goes on in fp16 but did not begin in it starts with the configured scale. */
static Status add_states(Optimizer *o, const Config *c)
{
    static const StateDef scale = { .kind = STATE_LOSS_SCALE,
                                    .shape = STATE_RECORD,
                                    .lack = STATE_STAYS,
                                    .saved = true,
                                    .prefix = "optimizer.loss_scale" };
    StateDef defs[UPDATE_STATES_MAX];
    o->state_count = optimizer_states(c, defs);
    for (int s = 0; s < o->state_count; s++) TRY(state_add(o->executor, &defs[s], &o->states[s]));
    return o->scale.state ? state_add_record(o->executor, &scale, o->scale.state) : OK;
}

static Status add_result(const Optimizer *o, void *to, const OpTensor *from)
{
    StepOp s = step_of(o, "result", STEP_RESULT, NULL);
    s.need = STEP_NEEDS_NOTHING;
    s.copy.to = to;
    s.copy.from = from->data;
    s.copy.bytes = from->bytes;
    s.copy.stride = sizeof *o->results;
    return executor_add_step(o->executor, &s);
}

static Status add_results(Optimizer *o)
{
    void *results = NULL;
    TRY(executor_alloc_host(o->executor, OPTIMIZER_RESULTS * sizeof *o->results, &results));
    o->results = results;
    if (o->norm.wanted) TRY(add_result(o, o->results->clip, &o->norm.clip));
    return o->scale.state ? add_result(o, o->results->scale, o->scale.state) : OK;
}

static Status fill(Optimizer *o, const Config *c, const Bucket *buckets)
{
    TRY(param_rules_make(o->update.rules, o->executor, c));
    TRY(add_states(o, c));
    if (o->norm.wanted)
        TRY(o->backend->v->alloc(o->backend, o->norm.clip.bytes, &o->norm.clip.data));
    TRY(muon_init(&o->update.muon, o->executor, o->backend, c, o->states[0],
                  c->optimizer.clip_norm > 0 ? &o->norm.clip : NULL, o->scale.state));
    UpdateSegment *next = o->update.segments;
    for (int k = 0; k < o->bucket_count; k++) {
        int count = add_segments(o, c, &buckets[k], next);
        o->update.attrs[k] = attr_of(o, c);
        o->update.attrs[k].segment_count = count;
        o->update.attrs[k].segments = next;
        next += count;
        TRY(make_op(o, c, k, &buckets[k]));
        if (o->scale.state) TRY(make_finite_check(o, k, &buckets[k]));
    }
    if (o->norm.wanted || sharpness_wanted(c)) TRY(make_norm(o, c, buckets));
    if (o->scale.state) TRY(make_scale_update(o, c));
    return add_results(o);
}

Status optimizer_create(Optimizer **out, Executor *x, Backend *backend, const Config *c,
                        const Bucket *buckets, int bucket_count)
{
    Optimizer *o = *out = mem_calloc(1, sizeof *o);
    if (!o) return ERR_MEMORY;
    *o =
        (Optimizer){ .executor = x,
                     .backend = backend,
                     .kind = (UpdateKind)c->optimizer.name,
                     .beta1 = c->optimizer.betas.values[0],
                     .beta2 = c->optimizer.name == UPDATE_RMSPROP_TF ? c->optimizer.alpha
                                                                     : c->optimizer.betas.values[1],
                     .bucket_count = bucket_count };
    o->scale.state = executor_record(x, "loss_scale");
    o->norm.wanted = optimizer_needs_norm(c);
    o->norm.clip = backend_flat(NULL, CLIP_COUNT * sizeof(float));
    size_t count = (size_t)bucket_count + 1;
    o->update.ops = mem_calloc(count, sizeof *o->update.ops);
    o->update.attrs = mem_calloc(count, sizeof *o->update.attrs);
    o->update.segments =
        mem_calloc((size_t)executor_state_count(x) + 1, sizeof *o->update.segments);
    o->update.rules = mem_calloc((size_t)executor_state_count(x) + 1, sizeof *o->update.rules);
    o->update.trusts = mem_calloc(count, sizeof *o->update.trusts);
    o->scale.finite_checks = mem_calloc(count, sizeof *o->scale.finite_checks);
    o->norm.squares = mem_calloc(count, sizeof *o->norm.squares);
    const bool complete = o->update.ops && o->update.attrs && o->update.segments &&
                          o->update.rules && o->update.trusts && o->scale.finite_checks &&
                          o->norm.squares;
    Status status = complete ? fill(o, c, buckets) : ERR_MEMORY;
    if (status != OK) {
        optimizer_destroy(o);
        *out = NULL;
    }
    return status;
}

void optimizer_destroy(Optimizer *o)
{
    if (!o) return;
    const BackendVTable *v = o->backend->v;
    executor_remove_steps(o->executor, o);
    for (int k = 0; k < o->bucket_count; k++) {
        if (o->update.ops) backend_release_op(&o->update.ops[k]);
        if (o->update.trusts) trust_deinit(&o->update.trusts[k]);
        if (o->scale.finite_checks) backend_release_op(&o->scale.finite_checks[k]);
        if (o->norm.squares) backend_release_op(&o->norm.squares[k]);
    }
    muon_deinit(&o->update.muon);
    backend_release_op(&o->scale.op);
    backend_release_op(&o->norm.op);
    if (o->norm.sums.data) v->free(o->backend, o->norm.sums.data);
    if (o->norm.clip.data) v->free(o->backend, o->norm.clip.data);
    for (int s = 0; s < o->state_count; s++) state_remove(o->executor, o->states[s]);
    if (o->scale.state) state_remove(o->executor, o->scale.state->data);
    executor_free_host(o->executor, o->results);
    mem_free(o->update.ops);
    mem_free(o->update.attrs);
    mem_free(o->update.segments);
    mem_free(o->update.rules);
    mem_free(o->update.trusts);
    mem_free(o->scale.finite_checks);
    mem_free(o->norm.squares);
    mem_free(o);
}

void optimizer_scalars(const Optimizer *o, double lr, int64_t step, float scalars[SCALAR_COUNT])
{
    const double update = (double)(step - o->scale.skipped);
    scalars[SCALAR_LR] = (float)lr;
    scalars[SCALAR_BIAS_CORRECTION1] = (float)(1 - pow(o->beta1, update));
    scalars[SCALAR_BIAS_CORRECTION2] = (float)(1 - pow(o->beta2, update));
}

int64_t optimizer_skipped(const Optimizer *o)
{
    return o->scale.skipped;
}

bool optimizer_awaits_result(const Optimizer *o)
{
    return o->scale.state && update_traits(o->kind)->counts_updates;
}

int optimizer_rule_passes(UpdateKind kind, int states, bool ratios)
{
    const bool by_update = update_traits(kind)->trust == TRUST_BY_UPDATE;
    return 3 + 2 * states + (!ratios ? 0 : by_update ? 4 : 2);
}

OpTensor optimizer_squares(const Optimizer *o)
{
    return o->norm.sums;
}

OptimizerResult optimizer_take_result(Optimizer *o, int result)
{
    const HostResult *r = &o->results[result];
    OptimizerResult out = { .measured = o->norm.wanted };
    if (out.measured) out.grad_norm = (double)r->clip[CLIP_NORM];
    if (!o->scale.state) return out;
    out.loss_scale = (double)r->scale[LOSS_SCALE_SCALE];
    out.skipped = (int64_t)r->scale[LOSS_SCALE_SKIPPED];
    out.exhausted = out.skipped > o->scale.skipped && out.loss_scale <= SCALE_LEAST;
    o->scale.skipped = out.skipped;
    return out;
}

const OpTensor *optimizer_loss_scale(const Optimizer *o)
{
    return o->scale.state;
}

Status optimizer_state_changed(Optimizer *o)
{
    float scale[LOSS_SCALE_COUNT];
    if (!o->scale.state) return OK;
    TRY(o->backend->v->export_tensor(o->backend, o->scale.state, scale));
    o->scale.skipped = (int64_t)scale[LOSS_SCALE_SKIPPED];
    return OK;
}
