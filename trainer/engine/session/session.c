/* session.c - see session.h. */
#include "trainer/engine/session/session.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/engine/session/augment_options.h"
#include <string.h>

#define STAGING_BYTES ((size_t)16 << 20)

/* ---- programs ---- */

static int views_of(const Config *c)
{
    static const int views[TTA_CHOICE_COUNT] = {
        [TTA_NONE] = VIEWS_ONE, [TTA_FLIP] = VIEWS_MIRRORED, [TTA_AIRBENCH] = VIEWS_SHIFTED
    };
    return views[c->data.tta];
}

int session_bn_ranks(const Session *s)
{
    const Config *c = s->config;
    if (c->model.bn != BN_CHOICE_SYNC) return 1;
    return c->model.bn_group > 0 ? (int)c->model.bn_group : s->comm->world;
}

static ModelOptions model_options(const Session *s, bool training, int64_t batch,
                                  int64_t image_size)
{
    const Config *c = s->config;
    ModelOptions o = config_model_options(c, image_size, s->classes);
    GraphOptions *g = &o.graph;
    config_set_batch(c, batch, g);
    g->words = s->words;
    g->training = training;
    g->bn_frozen = c->model.bn == BN_CHOICE_FROZEN;
    g->bn_ranks = session_bn_ranks(s);
    g->loss_scale = training && s->device.precision == PRECISION_FP16;
    g->seed = (uint64_t)c->train.seed;
    g->freeze = c->model.freeze;
    g->label_smoothing = training ? (float)c->train.label_smoothing : 0;
    g->loss = c->train.loss;
    g->multi = c->data.labels == LABELS_MULTI;
    g->bce_threshold = (float)c->train.bce_threshold;
    g->bce_sum = c->train.bce_sum;
    g->class_weights = c->train.class_weights[0] != '\0';
    g->distill_temperature = (float)c->train.distill_temperature;
    g->distill_weight = (float)c->train.distill_weight;
    g->erase = training && augment_options_erase(c);
    g->erase_mode = c->data.erase_mode;
    g->mix = training && augment_options_mix(c);
    g->views = training ? VIEWS_ONE : views_of(c);
    return o;
}

typedef struct ProgramOptions {
    int64_t batch, image_size, places;
    bool training, accumulate;
} ProgramOptions;

/* Each sequence of n tokens has at most rate n + 1 masked ones. most: with room for all tokens. */
static int64_t masked_rows(const Config *c, const ProgramOptions *p, int64_t most)
{
    const int64_t rows = (int64_t)(c->data.mask * (double)p->places) + p->batch;
    return rows < most ? rows : most;
}

static Status add_program(const Session *s, Executor *x, const ProgramOptions *p, Program **out)
{
    const ModelDef *def = model_find(s->config->model.name);
    ASSERT(def);
    ModelOptions o = model_options(s, p->training, p->batch, p->image_size);
    o.graph.places = p->places;
    o.graph.masked = masked_rows(s->config, p, o.graph.masked);
    FuseOptions fuse = { .add_into_batchnorm_bwd = s->backend->v->fusion.add_into_batchnorm_bwd,
                         .takes = s->backend->v->fusion.takes,
                         .cookie = s->backend,
                         .recompute = p->training ? s->recompute : RECOMPUTE_NONE };
    Graph *g = NULL, *teacher = NULL;
    if (p->training && s->teacher.config) TRY(teacher_graph(&teacher, &s->teacher, &o.graph));
    o.teacher = teacher;
    Status status = model_build(&g, def, &o);
    graph_destroy(teacher);
    if (status == OK) status = graph_fuse(g, &fuse);
    if (status != OK) {
        graph_destroy(g);
        return status;
    }
    return executor_add(x, g, p->accumulate, out);
}

static Status create_executor(const Session *s, Executor **out)
{
    int64_t least, most;
    const int depth = (int)s->config->device.side_depth;
    train_plan_micros(&s->plan, &least, &most);
    TRY(executor_create(out, s->backend));
    executor_configure(*out,
                       &(ExecutorOptions){ .side_depth = s->device.cuda ? depth : 0,
                                           .replay = s->device.cuda && s->config->device.cuda_graph,
                                           .results = SESSION_STEPS_MAX * (int)most });
    return OK;
}

typedef struct Programs {
    Program *first[SESSION_STAGES_MAX], *more[SESSION_STAGES_MAX], *eval[SESSION_STAGES_MAX];
    int64_t places[SESSION_STAGES_MAX];
    int stages;
} Programs;

static void choose_stages(const Session *s, int64_t batch, Programs *out)
{
    const Config *c = s->config;
    out->stages = config_is_text(c) ? canvas_choose(s->train ? s->train : s->val, batch,
                                                    c->data.tokens, out->places)
                                    : progressive_stage_count(c);
}

static Status add_training(const Session *s, Executor *x, int64_t batch, int stage, Programs *out)
{
    int64_t least, most;
    const bool text = config_is_text(s->config);
    ProgramOptions o = { .batch = batch,
                         .image_size = text ? 1 : progressive_image_size(s->config, stage),
                         .places = out->places[stage],
                         .training = true };
    train_plan_micros(&s->plan, &least, &most);
    TRY(add_program(s, x, &o, &out->first[stage]));
    o.accumulate = true;
    return most > 1 ? add_program(s, x, &o, &out->more[stage]) : OK;
}

/* The last stage first: it is the longest as a rule, and decides how parameters lie in memory.
 * Evaluation has one program, but of text one for each number of places. */
static Status add_programs(const Session *s, SessionUse use, Executor *x, int64_t batch,
                           Programs *out)
{
    const bool text = config_is_text(s->config);
    choose_stages(s, batch, out);
    for (int i = use == SESSION_TRAIN ? out->stages - 1 : -1; i >= 0; i--)
        TRY(add_training(s, x, batch, i, out));
    for (int i = s->val ? out->stages - 1 : -1; i >= (text ? 0 : out->stages - 1); i--) {
        const ProgramOptions o = { .batch = batch,
                                   .image_size = text ? 1 : s->config->data.image_size,
                                   .places = out->places[i] };
        TRY(add_program(s, x, &o, &out->eval[i]));
    }
    return OK;
}

Status session_try_batch(const Session *s, int64_t batch, Executor **out)
{
    Programs programs = { 0 };
    TRY(create_executor(s, out));
    Status status = add_programs(s, s->use, *out, batch, &programs);
    if (status != OK) {
        executor_destroy(*out);
        *out = NULL;
    }
    return status;
}

void session_set_stage(Session *s, int stage)
{
    s->stage = stage;
    s->first = s->stage_first[stage];
    s->more = s->stage_more[stage];
}

Program *session_program(Program *const stages[], const Session *s, Program *one, int64_t tokens)
{
    if (!config_is_text(s->config)) return one;
    int i = 0;
    while (i + 1 < s->stages && s->places[i] < tokens) i++;
    return stages[i];
}

/* Validation masks the same tokens every time. */
static Status check_masked(const Session *s)
{
    if (!s->val || !config_is_masked(s->config)) return OK;
    const uint64_t seed = (uint64_t)s->config->train.seed;
    if (sequences_count(s->val, seed, 0, dataset_images(s->val)).masked > 0) return OK;
    return fail(ERR_DATA,
                "data.val: not one of its tokens is masked; raise data.mask (it is %g), or give "
                "more text",
                s->config->data.mask);
}

Status session_add_programs(Session *s)
{
    Programs programs = { 0 };
    TRY(check_masked(s));
    TRY(create_executor(s, &s->executor));
    Status status = add_programs(s, s->use, s->executor, s->plan.batch, &programs);
    memcpy(s->stage_first, programs.first, sizeof s->stage_first);
    memcpy(s->stage_more, programs.more, sizeof s->stage_more);
    memcpy(s->stage_eval, programs.eval, sizeof s->stage_eval);
    memcpy(s->places, programs.places, sizeof s->places);
    s->stages = programs.stages;
    s->eval = s->stage_eval[s->stages - 1];
    session_set_stage(s, s->stages - 1);
    return status;
}

/* ---- life ---- */

/* What is summed: the gradients themselves, or where they travel in 16 bits copies of them. */
static Status place_grads(Session *s)
{
    ExecutorMemory m;
    void *memory = NULL;
    if (!s->first || !session_sums_registered(s) || session_allreduce_dtype(s) != DTYPE_F32)
        return OK;
    executor_memory(s->executor, &m);
    TRY(device_comm_alloc(s->device_comm, m.grads, &memory));
    executor_borrow_grads(s->executor, memory);
    return OK;
}

static Status commit_local(Session *s)
{
    const DeviceVTable *d = s->backend->v->device;
    Executor *x = s->executor;
    TRY(place_grads(s));
    TRY(executor_commit(x));
    if (s->first && s->class_weights)
        TRY(executor_set_record(x, "class_weights", s->class_weights));
    if (d && s->comm->world > 1) TRY(d->alloc_pinned(s->backend, STAGING_BYTES, &s->staging));
    if (s->first)
        TRY(prefetch_create(&s->train_input, x, session_batch_bytes(s, DATA_TRAIN, s->plan.batch)));
    return s->eval
               ? prefetch_create(&s->eval_input, x, session_batch_bytes(s, DATA_VAL, s->plan.batch))
               : OK;
}

static Status join_devices(Session *s)
{
    const DeviceVTable *d = s->backend->v->device;
    DeviceCommTransport transport;
    if (!d) return OK;
    TRY(device_comm_choose(&transport, s->comm, d->device_index(s->backend)));
    if (transport == DEVICE_COMM_STAGED && s->comm->rank == 0) {
        log_detail("gradients are summed through host memory (ranks share a GPU, or NCCL is "
                   "missing); CUDA graphs are not used");
    }
    return device_comm_create(&s->device_comm, s->comm, s->backend, transport,
                              (int)s->config->comm.max_ctas);
}

/* Of ranks that share the statistics of batch norms, where these are not all ranks. */
static Status join_groups(Session *s)
{
    const int ranks = session_bn_ranks(s);
    if (!s->first || ranks == 1) return OK;
    if (s->device_comm && device_comm_transport(s->device_comm) == DEVICE_COMM_STAGED)
        return fail(ERR_USAGE, "model.bn: sync on GPUs requires NCCL and one GPU per rank");
    if (ranks == s->comm->world) return OK;
    if (s->device_comm) return device_comm_group(s->device_comm, ranks);
    comm_group(s->comm, ranks);
    return OK;
}

static Status place_teacher(Session *s)
{
    Executor *x = s->executor;
    const bool reads = s->comm->rank == 0;
    if (!s->first || !s->teacher.config) return OK;
    TRY(comm_agree(s->comm, reads ? teacher_place(&s->teacher, s->backend, s->first) : OK));
    TRY(session_broadcast_memory(s, executor_slab(x, SLAB_TEACHER),
                                 executor_slab_bytes(x, SLAB_TEACHER), "the teacher"));
    return comm_agree(s->comm, executor_params_changed(x));
}

Status session_commit_empty(Session *s)
{
    TRY(join_devices(s));
    TRY(comm_agree(s->comm, commit_local(s)));
    TRY(place_teacher(s));
    return join_groups(s);
}

Status session_draw(Session *s)
{
    return executor_init_states(s->executor, (uint64_t)s->config->train.seed);
}

Status session_commit(Session *s)
{
    TRY(session_commit_empty(s));
    TRY(comm_agree(s->comm, s->comm->rank == 0 ? session_draw(s) : OK));
    return session_broadcast(s);
}

/* Every rank takes part in every broadcast, whatever happened to it. */
Status session_broadcast_memory(Session *s, void *data, size_t bytes, const char *name)
{
    const DeviceVTable *d = s->backend->v->device;
    Stream *stream = executor_stream(s->executor);
    Status status = OK;
    if (!d) comm_broadcast(s->comm, data, bytes, 0, name);
    for (size_t at = 0; d && s->comm->world > 1 && at < bytes; at += STAGING_BYTES) {
        size_t n = bytes - at < STAGING_BYTES ? bytes - at : STAGING_BYTES;
        char *place = (char *)data + at;
        if (status == OK && s->comm->rank == 0)
            status = d->copy_out(s->backend, s->staging, place, n, stream);
        if (status == OK) status = s->backend->v->stream_wait(s->backend, stream);
        comm_broadcast(s->comm, s->staging, n, 0, name);
        if (status == OK && s->comm->rank != 0)
            status = d->copy_in(s->backend, place, s->staging, n, stream);
        if (status == OK) status = s->backend->v->stream_wait(s->backend, stream);
    }
    return comm_agree(s->comm, status);
}

Status session_broadcast(Session *s)
{
    Executor *x = s->executor;
    TRY(session_broadcast_memory(s, executor_slab(x, SLAB_PARAM),
                                 executor_slab_bytes(x, SLAB_PARAM), "parameters"));
    TRY(session_broadcast_memory(s, executor_slab(x, SLAB_BUFFER),
                                 executor_slab_bytes(x, SLAB_BUFFER), "statistics"));
    return comm_agree(s->comm, executor_params_changed(x));
}

void session_close(Session *s)
{
    prefetch_destroy(s->train_input);
    prefetch_destroy(s->eval_input);
    if (s->staging) s->backend->v->device->free_pinned(s->backend, s->staging);
    executor_destroy(s->executor);
    device_comm_destroy(s->device_comm);
    backend_destroy(s->backend);
    dataset_close(s->train);
    dataset_close(s->val);
    mem_free(s->class_weights);
    teacher_close(&s->teacher);
    cache_destroy(s->cache);
    *s = (Session){ 0 };
}

/* Each hop of a sum rounds to its type: beyond this many ranks 16 bits lose what matters (auto). */
#define SUM_16_BIT_RANKS_MAX 16

DType session_allreduce_dtype(const Session *s)
{
    const int wanted = s->config->comm.grad_dtype, world = s->comm->world;
    const bool computes_16 =
        s->device.precision == PRECISION_BF16 || s->device.precision == PRECISION_FP16;
    if (!s->device.cuda || world == 1) return DTYPE_F32;
    if (s->device_comm && device_comm_transport(s->device_comm) != DEVICE_COMM_NCCL)
        return DTYPE_F32;
    if (wanted == GRAD_DTYPE_AUTO)
        return computes_16 && world <= SUM_16_BIT_RANKS_MAX ? DTYPE_BF16 : DTYPE_F32;
    return wanted == GRAD_DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F32;
}

size_t session_allreduce_bytes(const Session *s, size_t gradient_bytes)
{
    return session_allreduce_dtype(s) == DTYPE_F32
               ? 0
               : gradient_bytes / sizeof(float) * dtype_bytes(DTYPE_BF16);
}

bool session_sums_registered(const Session *s)
{
    return s->config->comm.zero_copy && s->device_comm &&
           device_comm_transport(s->device_comm) == DEVICE_COMM_NCCL;
}

size_t session_image_bytes(const Session *s, DataRole role)
{
    const int64_t size =
        role == DATA_TRAIN ? progressive_largest_size(s->config) : s->config->data.image_size;
    return (size_t)(size * size * s->config->model.in_channels);
}

LoaderOptions session_loader_options(const Session *s, DataRole role)
{
    const Config *c = s->config;
    const bool train = role == DATA_TRAIN;
    LoaderOptions o = { .seed = (uint64_t)c->train.seed,
                        .threads = s->threads.decode,
                        .readers = (int)c->data.readers,
                        .read_ahead_bytes = (size_t)(c->data.read_ahead_mb * (1 << 20)) + 1,
                        .slots = 3,
                        .batch = s->plan.batch,
                        .rank = s->comm->rank,
                        .world = s->comm->world,
                        .global_batch = s->plan.global_batch,
                        .last_step = train ? s->plan.total_steps : -1,
                        .max_bad_fraction = c->data.max_bad_fraction,
                        .classes = c->data.labels == LABELS_MULTI ? s->classes : 0 };
    augment_options_fill(&o, c, role);
    if (train && !config_is_text(c)) o.view.image_size = (int)progressive_image_size(c, s->stage);
    config_fill_text(s->config, &o);
    return o;
}

size_t session_batch_bytes(const Session *s, DataRole role, int64_t batch)
{
    LoaderOptions o = session_loader_options(s, role);
    o.batch = batch;
    config_fill_text(s->config, &o);
    if (role == DATA_TRAIN) o.view.image_size = (int)progressive_largest_size(s->config);
    return loader_layout(&o).bytes;
}
