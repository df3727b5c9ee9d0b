/* optimizer.c - see optimizer.h. */
#include "trainer/train/optimizer.h"
#include "base/mem.h"
#include "kernels/ops/update.h"
#include <math.h>

/* torch.amp.GradScaler's; the largest scale keeps every gradient that is exact in 16 bits finite in
 * 32 */
#define SCALE_GROWTH  2.0F
#define SCALE_BACKOFF 0.5F
#define SCALE_MAX     16777216.0F

struct Optimizer {
    Executor *executor;
    Backend *backend;
    UpdateKind kind;
    double beta1, beta2;
    void *states[UPDATE_STATES_MAX];
    int state_count;
    OpInstance *ops;           /* [bucket_count] */
    OpInstance *finite_checks; /* [bucket_count]; unused without a loss scale */
    OpInstance scale_update;
    LossScaleAttr scale_update_attr;
    /* [bucket_count]; unused where nothing is measured, as are the next three */
    OpInstance *squares;
    OpInstance norm;
    GradNormAttr norm_attr;
    void *sums;              /* f64, all buckets' end to end */
    UpdateAttr *attrs;       /* [bucket_count] */
    UpdateSegment *segments; /* all buckets' segments end to end */
    int bucket_count;
};

/* One segment per parameter that lies in the bucket. */
static int add_segments(Optimizer *o, const Config *c, const Bucket *bucket, UpdateSegment *out)
{
    int count = 0;
    for (int i = 0; i < executor_state_count(o->executor); i++) {
        size_t offset = executor_state_offset(o->executor, i);
        if (!executor_state_is_param(o->executor, i)) continue;
        if (offset < bucket->offset || offset >= bucket->offset + bucket->bytes) continue;
        bool decay = c->optimizer.decay_all || executor_state_decays(o->executor, i);
        out[count++] =
            (UpdateSegment){ .first = (int64_t)(offset / sizeof(float)),
                             .count =
                                 (int64_t)(executor_state(o->executor, i)->bytes / sizeof(float)),
                             .weight_decay = decay ? (float)c->optimizer.weight_decay : 0 };
    }
    return count;
}

static OpTensor flat(void *data, size_t bytes)
{
    int64_t n = (int64_t)(bytes / sizeof(float));
    return (OpTensor){ .desc = tensor_desc(DTYPE_F32, 1, &n), .bytes = bytes, .data = data };
}

static Status prepare_and_bind(OpInstance *op)
{
    TRY(backend_prepare_op(op));
    ASSERT(op->workspace_bytes == 0);
    const OpImpl *impl = op->backend->v->ops[op->kind];
    return impl->bind ? impl->bind(op) : OK;
}

static Status make_op(Optimizer *o, const Config *c, int bucket)
{
    OpInstance *op = &o->ops[bucket];
    size_t bytes = executor_slab_bytes(o->executor, SLAB_PARAM);
    *op = (OpInstance){ .kind = OP_UPDATE, .backend = o->backend, .attr = &o->attrs[bucket] };
    op->in[UPDATE_IN_PARAM] = flat(executor_slab(o->executor, SLAB_PARAM), bytes);
    op->in[UPDATE_IN_GRAD] = flat(executor_slab(o->executor, SLAB_GRAD), bytes);
    for (int s = 0; s < o->state_count; s++)
        op->in[UPDATE_IN_STATE0 + s] = flat(o->states[s], bytes);
    op->in[UPDATE_IN_SCALARS] = *executor_scalars(o->executor);
    op->in[UPDATE_IN_LOSS_SCALE] = *executor_loss_scale(o->executor);
    if (c->optimizer.clip_norm > 0) op->in[UPDATE_IN_CLIP] = *executor_clip(o->executor);
    return prepare_and_bind(op);
}

static Status make_finite_check(Optimizer *o, int bucket, const Bucket *b)
{
    OpInstance *op = &o->finite_checks[bucket];
    *op = (OpInstance){ .kind = OP_FINITE_CHECK, .backend = o->backend };
    op->in[FINITE_CHECK_IN_X] =
        flat((char *)executor_slab(o->executor, SLAB_GRAD) + b->offset, b->bytes);
    op->in[FINITE_CHECK_IN_LOSS_SCALE] = *executor_loss_scale(o->executor);
    return prepare_and_bind(op);
}

static Status make_scale_update(Optimizer *o, const Config *c)
{
    OpInstance *op = &o->scale_update;
    o->scale_update_attr = (LossScaleAttr){ .growth = SCALE_GROWTH,
                                            .backoff = SCALE_BACKOFF,
                                            .max = SCALE_MAX,
                                            .interval = (int)c->train.loss_scale_interval };
    *op =
        (OpInstance){ .kind = OP_LOSS_SCALE, .backend = o->backend, .attr = &o->scale_update_attr };
    op->in[LOSS_SCALE_IN_STATE] = *executor_loss_scale(o->executor);
    return prepare_and_bind(op);
}

bool optimizer_needs_norm(const Config *c)
{
    return c->optimizer.clip_norm > 0 || c->log.grad_norm;
}

static OpTensor sums_of(const Optimizer *o, int64_t first, int64_t count)
{
    return (OpTensor){ .desc = tensor_desc(DTYPE_F64, 1, &count),
                       .bytes = (size_t)count * sizeof(double),
                       .data = (char *)o->sums + (size_t)first * sizeof(double) };
}

static int64_t chunks_of(const Bucket *b)
{
    return ((int64_t)(b->bytes / sizeof(float)) + GRAD_SQUARES_CHUNK - 1) / GRAD_SQUARES_CHUNK;
}

static Status make_norm(Optimizer *o, const Config *c, const Bucket *buckets)
{
    int64_t all = 0, first = 0;
    for (int k = 0; k < o->bucket_count; k++) all += chunks_of(&buckets[k]);
    TRY(o->backend->v->alloc(o->backend, (size_t)all * sizeof(double), &o->sums));
    for (int k = 0; k < o->bucket_count; first += chunks_of(&buckets[k]), k++) {
        OpInstance *op = &o->squares[k];
        *op = (OpInstance){ .kind = OP_GRAD_SQUARES, .backend = o->backend };
        op->in[GRAD_SQUARES_IN_X] = flat(
            (char *)executor_slab(o->executor, SLAB_GRAD) + buckets[k].offset, buckets[k].bytes);
        op->out[GRAD_SQUARES_OUT_SUMS] = sums_of(o, first, chunks_of(&buckets[k]));
        TRY(prepare_and_bind(op));
    }
    o->norm_attr.max_norm = (float)c->optimizer.clip_norm;
    o->norm = (OpInstance){ .kind = OP_GRAD_NORM, .backend = o->backend, .attr = &o->norm_attr };
    o->norm.in[GRAD_NORM_IN_SUMS] = sums_of(o, 0, all);
    o->norm.in[GRAD_NORM_IN_LOSS_SCALE] = *executor_loss_scale(o->executor);
    o->norm.out[GRAD_NORM_OUT_CLIP] = *executor_clip(o->executor);
    return prepare_and_bind(&o->norm);
}

static bool has_loss_scale(const Optimizer *o)
{
    return executor_loss_scale(o->executor)->desc.rank != 0;
}

static Status fill(Optimizer *o, const Config *c, const Bucket *buckets)
{
    size_t bytes = executor_slab_bytes(o->executor, SLAB_PARAM);
    for (int s = 0; s < o->state_count; s++)
        TRY(o->backend->v->alloc(o->backend, bytes, &o->states[s]));
    UpdateSegment *next = o->segments;
    for (int k = 0; k < o->bucket_count; k++) {
        int count = add_segments(o, c, &buckets[k], next);
        o->attrs[k] = (UpdateAttr){ .kind = o->kind,
                                    .momentum = (float)c->optimizer.momentum,
                                    .beta1 = o->beta1,
                                    .beta2 = o->beta2,
                                    .eps = (float)c->optimizer.eps,
                                    .nesterov = c->optimizer.nesterov,
                                    .segment_count = count,
                                    .segments = next };
        next += count;
        TRY(make_op(o, c, k));
        if (has_loss_scale(o)) TRY(make_finite_check(o, k, &buckets[k]));
    }
    if (optimizer_needs_norm(c)) TRY(make_norm(o, c, buckets));
    return has_loss_scale(o) ? make_scale_update(o, c) : OK;
}

Status optimizer_create(Optimizer **out, Executor *x, Backend *backend, const Config *c,
                        const Bucket *buckets, int bucket_count)
{
    Optimizer *o = *out = mem_calloc(1, sizeof *o);
    if (!o) return ERR_MEMORY;
    *o = (Optimizer){ .executor = x,
                      .backend = backend,
                      .kind = (UpdateKind)c->optimizer.name,
                      .beta1 = c->optimizer.betas.values[0],
                      .beta2 = c->optimizer.betas.values[1],
                      .state_count =
                          update_states((UpdateKind)c->optimizer.name, c->optimizer.momentum),
                      .bucket_count = bucket_count };
    o->ops = mem_calloc((size_t)bucket_count + 1, sizeof *o->ops);
    o->finite_checks = mem_calloc((size_t)bucket_count + 1, sizeof *o->finite_checks);
    o->squares = mem_calloc((size_t)bucket_count + 1, sizeof *o->squares);
    o->attrs = mem_calloc((size_t)bucket_count + 1, sizeof *o->attrs);
    o->segments = mem_calloc((size_t)executor_state_count(x) + 1, sizeof *o->segments);
    const bool complete = o->ops && o->finite_checks && o->squares && o->attrs && o->segments;
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
    for (int k = 0; o->ops && k < o->bucket_count; k++) {
        if (o->ops[k].backend) backend_release_op(&o->ops[k]);
        if (o->finite_checks && o->finite_checks[k].backend)
            backend_release_op(&o->finite_checks[k]);
        if (o->squares && o->squares[k].backend) backend_release_op(&o->squares[k]);
    }
    if (o->scale_update.backend) backend_release_op(&o->scale_update);
    if (o->norm.backend) backend_release_op(&o->norm);
    if (o->sums) o->backend->v->free(o->backend, o->sums);
    for (int s = 0; s < o->state_count; s++) {
        if (o->states[s]) o->backend->v->free(o->backend, o->states[s]);
    }
    mem_free(o->ops);
    mem_free(o->finite_checks);
    mem_free(o->squares);
    mem_free(o->attrs);
    mem_free(o->segments);
    mem_free(o);
}

void optimizer_scalars(const Optimizer *o, double lr, int64_t update, float scalars[SCALAR_COUNT])
{
    scalars[SCALAR_LR] = (float)lr;
    scalars[SCALAR_BIAS_CORRECTION1] = (float)(1 - pow(o->beta1, (double)update));
    scalars[SCALAR_BIAS_CORRECTION2] = (float)(1 - pow(o->beta2, (double)update));
}

Status optimizer_update(Optimizer *o, int bucket, Stream *stream)
{
    return o->backend->v->ops[OP_UPDATE]->run(&o->ops[bucket], stream);
}

Status optimizer_check_finite(Optimizer *o, int bucket, Stream *stream)
{
    return o->backend->v->ops[OP_FINITE_CHECK]->run(&o->finite_checks[bucket], stream);
}

Status optimizer_update_scale(Optimizer *o, Stream *stream)
{
    return o->backend->v->ops[OP_LOSS_SCALE]->run(&o->scale_update, stream);
}

Status optimizer_sum_squares(Optimizer *o, int bucket, Stream *stream)
{
    return o->backend->v->ops[OP_GRAD_SQUARES]->run(&o->squares[bucket], stream);
}

Status optimizer_norm(Optimizer *o, Stream *stream)
{
    return o->backend->v->ops[OP_GRAD_NORM]->run(&o->norm, stream);
}

void *optimizer_state_slab(const Optimizer *o, int s)
{
    return o->states[s];
}
int optimizer_state_count(const Optimizer *o)
{
    return o->state_count;
}

const char *optimizer_state_name(const Optimizer *o, int s)
{
    return update_traits(o->kind)->state_names[s];
}

OpTensor optimizer_state(const Optimizer *o, int s, int param)
{
    OpTensor t = *executor_state(o->executor, param);
    t.data = (char *)o->states[s] + executor_state_offset(o->executor, param);
    return t;
}
