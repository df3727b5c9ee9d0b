/* session.c - see session.h. */
#include "trainer/session/session.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "trainer/session/augment_options.h"
#include "trainer/session/memory.h"
#include "trainer/session/rank_dataset.h"
#include <string.h>

#define STAGING_BYTES ((size_t)16 << 20)

static bool is_set(const char *s)
{
    return s && s[0] != '\0';
}

/* ---- datasets ---- */

/* Labels are positions among the classes, so both sets must have the same ones. */
static Status check_names(const Dataset *train, const Dataset *val)
{
    int classes = dataset_classes(train) < dataset_classes(val) ? dataset_classes(train)
                                                                : dataset_classes(val);
    for (int i = 0; i < classes; i++) {
        const char *a = dataset_class_name(train, i), *b = dataset_class_name(val, i);
        if (strcmp(a, b) != 0)
            return fail(ERR_DATA, "data.val: class %d is %s there but %s in data.train", i, b, a);
    }
    if (dataset_classes(train) == dataset_classes(val)) return OK;
    return fail(ERR_DATA, "data.val: %d classes there but %d in data.train", dataset_classes(val),
                dataset_classes(train));
}

static Status check_classes(const Session *s)
{
    int64_t wanted = s->config->model.classes;
    const Dataset *any = s->train ? s->train : s->val;
    if (wanted > 0 && wanted < dataset_classes(any)) {
        return fail(ERR_USAGE, "model.classes: %lld, but the dataset has %d classes",
                    (long long)wanted, dataset_classes(any));
    }
    if (!s->val || !dataset_named_classes(s->val)) return OK;
    if (s->train) return dataset_named_classes(s->train) ? check_names(s->train, s->val) : OK;
    if (wanted == 0 || wanted == dataset_classes(s->val)) return OK;
    return fail(
        ERR_DATA,
        "data.val: %d class folders there, but model.classes is %lld: labels would be wrong",
        dataset_classes(s->val), (long long)wanted);
}

/* Collective. Which sets there are must not depend on the rank. */
static Status open_sets(Session *s, SessionUse use)
{
    const Config *c = s->config;
    bool has_val = is_set(c->data.val) || (c->data.format == DATA_SYNTHETIC && use == SESSION_EVAL);
    if (!comm_all_equal(s->comm, has_val))
        return fail(ERR_USAGE, "data.val is set on some ranks only");
    if (use == SESSION_TRAIN) TRY(rank_dataset_open(&s->train, c, DATA_TRAIN, s->comm));
    return use == SESSION_EVAL || has_val ? rank_dataset_open(&s->val, c, DATA_VAL, s->comm) : OK;
}

static Status count_classes(Session *s)
{
    const Config *c = s->config;
    TRY(check_classes(s));
    s->classes = c->model.classes;
    /* IDX files without the last class know fewer */
    for (int i = 0; c->model.classes == 0 && i < 2; i++) {
        const Dataset *d = i == 0 ? s->train : s->val;
        if (d && dataset_classes(d) > s->classes) s->classes = dataset_classes(d);
    }
    return OK;
}

/* ---- programs ---- */

static float list_value(const ConfigList *list, int i)
{
    return (float)list->values[list->count == 1 ? 0 : i];
}

static ModelOptions model_options(const Session *s, bool training, int64_t batch,
                                  int64_t image_size)
{
    const Config *c = s->config;
    ModelOptions o = { .stem = (Stem)c->model.stem,
                       .zero_init_last_gamma = c->model.zero_init_last_gamma,
                       .width = 1,
                       .stochastic_depth = c->model.stochastic_depth,
                       .dropout = c->model.dropout };
    o.graph = (GraphOptions){ .batch = batch,
                              .channels = c->model.in_channels,
                              .height = image_size,
                              .width = image_size,
                              .classes = s->classes,
                              .training = training,
                              .bn_frozen = c->model.bn == BN_CHOICE_FROZEN,
                              .loss_scale = training && s->device.precision == PRECISION_FP16,
                              .seed = (uint64_t)c->train.seed,
                              .label_smoothing = training ? (float)c->train.label_smoothing : 0,
                              .erase = training && augment_options_erase(c),
                              .mix = training && augment_options_mix(c),
                              .views = training || !c->data.flip_eval ? 1 : 2 };
    for (int i = 0; i < c->model.in_channels; i++) {
        o.graph.mean[i] = list_value(&c->data.mean, i);
        o.graph.std[i] = list_value(&c->data.std, i);
    }
    return o;
}

bool session_augments(const Session *s)
{
    return augment_options_erase(s->config) || augment_options_mix(s->config);
}

typedef struct ProgramOptions {
    int64_t batch, image_size;
    bool training, accumulate;
} ProgramOptions;

static Status add_program(const Session *s, Executor *x, const ProgramOptions *p, Program **out)
{
    const ModelDef *def = model_find(s->config->model.name);
    ASSERT(def);
    ModelOptions o = model_options(s, p->training, p->batch, p->image_size);
    FuseOptions fuse = { .add_into_batchnorm_bwd = s->backend->v->fusion.add_into_batchnorm_bwd,
                         .takes = s->backend->v->fusion.takes,
                         .cookie = s->backend };
    Graph *g = NULL;
    TRY(model_build(&g, def, &o));
    Status status = graph_fuse(g, &fuse);
    if (status != OK) {
        graph_destroy(g);
        return status;
    }
    return executor_add(x, g, p->accumulate, out);
}

static Status create_executor(const Session *s, Executor **out)
{
    TRY(executor_create(out, s->backend));
    executor_configure(
        *out, &(ExecutorOptions){ .side_depth = s->device.cuda ? EXECUTOR_SIDE_DEPTH : 0,
                                  .replay = s->device.cuda && s->config->device.graph,
                                  .results = SESSION_STEPS_MAX * (int)s->plan.accumulate });
    return OK;
}

typedef struct Programs {
    Program *first[PROGRESSIVE_STAGES_MAX], *more[PROGRESSIVE_STAGES_MAX], *eval;
} Programs;

/* The last stage first: it is the longest as a rule, and decides how parameters lie in memory. */
static Status add_programs(const Session *s, SessionUse use, Executor *x, int64_t batch,
                           Programs *out)
{
    for (int i = use == SESSION_TRAIN ? progressive_stage_count(s->config) - 1 : -1; i >= 0; i--) {
        ProgramOptions o = { .batch = batch,
                             .image_size = progressive_image_size(s->config, i),
                             .training = true };
        TRY(add_program(s, x, &o, &out->first[i]));
        o.accumulate = true;
        if (s->plan.accumulate > 1) TRY(add_program(s, x, &o, &out->more[i]));
    }
    const ProgramOptions eval = { .batch = batch, .image_size = s->config->data.image_size };
    return s->val ? add_program(s, x, &eval, &out->eval) : OK;
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

static void say_fusions(const Session *s)
{
    char text[512] = "";
    if (s->comm->rank != 0 || !s->backend->v->fusion.describe) return;
    s->backend->v->fusion.describe(s->backend, text, sizeof text);
    if (text[0]) log_info("fused (device.fuse): %s", text);
}

static void say_kernels(const Session *s)
{
    char text[512] = "";
    if (s->comm->rank != 0 || !s->backend->v->describe_kernels) return;
    s->backend->v->describe_kernels(s->backend, text, sizeof text);
    if (text[0]) log_info("by cuDNN (device.batchnorm, device.depthwise): %s", text);
}

static Status prepare(Session *s, SessionUse use)
{
    TRY(device_open(&s->backend, &s->device, s->config, s->threads.compute));
    TRY(create_executor(s, &s->executor));
    Programs programs = { 0 };
    Status status = add_programs(s, use, s->executor, s->plan.batch, &programs);
    memcpy(s->stage_first, programs.first, sizeof s->stage_first);
    memcpy(s->stage_more, programs.more, sizeof s->stage_more);
    s->eval = programs.eval;
    session_set_stage(s, progressive_stage_count(s->config) - 1);
    say_fusions(s);
    say_kernels(s);
    /* Trying convolutions out takes memory too, so a batch far too large may fail before it is
     * planned. */
    if (status == OK || (status == ERR_MEMORY && s->device.cuda)) return memory_check(s, status);
    return status;
}

/* Parameters and buffers in the order and at the places that they have in their slabs; gradients
 * lie as parameters. */
static uint32_t order_of_states(const Executor *x)
{
    uint32_t crc = 0;
    for (int i = 0; i < executor_state_count(x); i++) {
        const char *name = executor_state_name(x, i);
        const uint64_t offset = executor_state_offset(x, i);
        crc = crc32c_update(crc32c_update(crc, name, strlen(name) + 1), &offset, sizeof offset);
    }
    return crc;
}

/* Slabs are exchanged as they lie in memory, so all ranks must keep tensors alike: same instruction
 * set, same library.
 */
static Status check_alike(Session *s)
{
    char text[256];
    s->backend->v->describe(s->backend, text, sizeof text);
    /* the number of threads may differ */
    char *threads = s->device.cuda ? NULL : strrchr(text, ',');
    if (threads) *threads = '\0';
    if (comm_all_equal(s->comm, crc32c_update(order_of_states(s->executor), text, strlen(text))))
        return OK;
    return fail(
        ERR_ENV,
        "the ranks' processors, GPUs or libraries differ (here: %s); run on machines of one kind",
        text);
}

static uint32_t dataset_key(const Dataset *d)
{
    uint32_t crc = 0;
    size_t bytes = 0;
    if (d && dataset_index(d, &bytes)) return 1; /* all ranks have that of rank 0 */
    for (int64_t i = 0; d && i < dataset_images(d); i++) {
        int32_t label = dataset_label(d, i);
        crc = crc32c_update(crc, &label, sizeof label);
    }
    return crc;
}

/* Labels must be the same on all ranks. */
static Status check_same_data(Session *s)
{
    static const char *const keys[] = { "data.train", "data.val" };
    const Dataset *sets[] = { s->train, s->val };
    Status status = OK;
    for (int i = 0; i < 2; i++) {
        const Dataset *d = sets[i];
        if (!d || comm_all_equal(s->comm, dataset_key(d)) || status != OK) continue;
        status = fail(ERR_DATA,
                      "%s: the ranks see different images there (%lld in %d classes on rank %d)",
                      keys[i], (long long)dataset_images(d), dataset_classes(d), s->comm->rank);
    }
    return status;
}

/* ---- life ---- */

static Status plan_local(Session *s, SessionUse use)
{
    TRY(count_classes(s));
    if (use == SESSION_TRAIN)
        return train_plan_make(&s->plan, s->config, s->comm->world, dataset_images(s->train));
    s->plan = (TrainPlan){ .batch = s->config->train.batch_per_rank, .accumulate = 1 };
    return OK;
}

static Status open_data(Session *s, SessionUse use)
{
    TRY(open_sets(s, use));
    TRY(comm_agree(s->comm, plan_local(s, use)));
    return comm_agree(s->comm, check_same_data(s));
}

Status session_open(Session *s, const Config *c, Comm *comm, SessionUse use)
{
    *s = (Session){ .config = c, .comm = comm, .use = use };
    TRY(open_data(s, use));
    TRY(cache_share(&s->cache, comm, c, s->train, s->val));
    TRY(comm_agree(comm, device_choose(&s->device, c, comm->local_rank)));
    TRY(device_query(&s->device, c, comm));
    s->threads = thread_plan_choose(comm, c, s->device.cuda);
    TRY(comm_agree(comm, prepare(s, use)));
    return comm_agree(comm, check_alike(s));
}

Status session_open_data(Session *s, const Config *c, Comm *comm)
{
    *s = (Session){ .config = c, .comm = comm };
    TRY(open_data(s, SESSION_TRAIN));
    TRY(cache_share(&s->cache, comm, c, s->train, s->val));
    /* As training would have them; where what it wants is not here, nothing computes anyway. */
    bool device = device_choose(&s->device, c, comm->local_rank) == OK && s->device.cuda;
    s->threads = thread_plan_choose(comm, c, device);
    return OK;
}

static Status commit_local(Session *s)
{
    const Config *c = s->config;
    const DeviceVTable *d = s->backend->v->device;
    Executor *x = s->executor;
    TRY(executor_commit(x));
    TRY(executor_init_states(x, (uint64_t)c->train.seed));
    if (d && s->comm->world > 1) TRY(d->alloc_pinned(s->backend, STAGING_BYTES, &s->staging));
    if (s->first)
        TRY(prefetch_create(&s->train_input, x, s->plan.batch, session_image_bytes(s, DATA_TRAIN),
                            session_augments(s)));
    return s->eval ? prefetch_create(&s->eval_input, x, s->plan.batch,
                                     session_image_bytes(s, DATA_VAL), false)
                   : OK;
}

static Status join_devices(Session *s)
{
    const DeviceVTable *d = s->backend->v->device;
    DeviceCommTransport transport;
    if (!d) return OK;
    TRY(device_comm_choose(&transport, s->comm, d->device_index(s->backend)));
    if (transport == DEVICE_COMM_STAGED && s->comm->rank == 0) {
        log_info("gradients are summed through host memory (ranks share a GPU, or there is no "
                 "NCCL): steps are not "
                 "replayed");
    }
    return device_comm_create(&s->device_comm, s->comm, s->backend, transport,
                              (int)s->config->comm.max_ctas);
}

Status session_commit(Session *s)
{
    TRY(comm_agree(s->comm, commit_local(s)));
    TRY(join_devices(s));
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
    cache_destroy(s->cache);
    *s = (Session){ 0 };
}

/* Each hop of a sum rounds to its type: beyond so many ranks 16 bits lose what matters (auto). */
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
                        .max_bad_fraction = c->data.max_bad_fraction };
    augment_options_fill(&o, c, role);
    if (train) o.view.image_size = (int)progressive_image_size(c, s->stage);
    return o;
}
