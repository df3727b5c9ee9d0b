/* memory.c - see memory.h. */
#include "trainer/engine/session/memory.h"
#include "base/process/process.h"
#include "kernels/backend_cuda.h"
#include "trainer/engine/config/units.h"
#include "trainer/engine/rules/muon.h"
#include "trainer/engine/rules/rules.h"
#include <stdio.h>
#include <string.h>

#define PROBES_DESCRIBED 16 /* plans tried for the largest batch */
#define PROBES_PRESENT   5  /* where each of them tries convolutions out on the device */
/* Of a rank's reserve, what its context may have taken when free memory was looked at. */
#define CONTEXT_BYTES ((size_t)1 << 29)
/* Of a host's free memory, one part in this many stays free: for what no plan knows (stacks,
 * libraries, MPI's and decoders' buffers), and because the kernel's own estimate of it is a little
 * too good. */
#define HOST_MARGIN 16
#define GIB         (double)(1 << 30)

static const char *const item_names[MEMORY_ITEM_COUNT] = {
    [MEMORY_PARAMS] = "parameters",
    [MEMORY_TEACHER] = "teacher",
    [MEMORY_COPIES] = "parameters, compute type",
    [MEMORY_GRADS] = "gradients",
    [MEMORY_OPTIMIZER] = "optimizer state",
    [MEMORY_SHARPNESS] = "parameters kept by sam_rho",
    [MEMORY_AVERAGES] = "averaged copies",
    [MEMORY_BUFFERS] = "running statistics",
    [MEMORY_ACTIVATIONS] = "activations",
    [MEMORY_WORKSPACE] = "workspace",
    [MEMORY_SIDE_WORKSPACE] = "workspace, side lane",
    [MEMORY_INPUTS] = "batches on the device",
    [MEMORY_ALLREDUCE] = "gradients, type of sums",
    [MEMORY_SLOTS] = "batch slots",
    [MEMORY_READ_AHEAD] = "files read ahead, at most",
    [MEMORY_HOST_REDUCE] = "gradients summed by the host",
    [MEMORY_CHECKPOINT] = "checkpoint staging (rank 0)",
};

const char *memory_item_name(MemoryItem item)
{
    return item_names[item];
}

/* ---- sizes ---- */

static size_t slot_bytes(const Session *s, int64_t batch)
{
    LoaderOptions o = session_loader_options(s, DATA_VAL);
    size_t bytes = s->use == SESSION_TRAIN ? session_image_bytes(s, DATA_TRAIN) : 0;
    if (s->val) bytes += session_image_bytes(s, DATA_VAL);
    return (size_t)prefetch_loader_slots(s->backend, &o) * (size_t)batch * bytes;
}

static size_t read_ahead_bytes(const Session *s)
{
    LoaderOptions o = session_loader_options(s, DATA_VAL);
    int from_files = (s->use == SESSION_TRAIN && !dataset_in_memory(s->train)) +
                     (s->val && !dataset_in_memory(s->val));
    return o.read_ahead_bytes * (size_t)from_files;
}

static size_t staging_bytes(const Session *s)
{
    StateDef defs[RULES_STATES_MAX];
    const int count = rules_states(s->config, defs);
    size_t bytes = 0, of_params = 1, of_buffers = 1; /* the weights themselves */
    for (int k = 0; k < count; k++) {
        of_params += defs[k].saved && defs[k].shape == STATE_PARAMS;
        of_buffers += defs[k].saved && defs[k].shape == STATE_BUFFERS;
    }
    for (int i = 0; i < executor_state_count(s->executor); i++) {
        size_t plain = tensor_plain_bytes(&executor_state(s->executor, i)->desc);
        bytes += plain * (executor_state_is_param(s->executor, i) ? of_params : of_buffers);
    }
    return bytes;
}

static void add_states(const Session *s, const ExecutorMemory *m, size_t bytes[MEMORY_ITEM_COUNT])
{
    static const MemoryItem items[STATE_KIND_COUNT] = { [STATE_OPTIMIZER] = MEMORY_OPTIMIZER,
                                                        [STATE_AVERAGES] = MEMORY_AVERAGES,
                                                        [STATE_KEPT] = MEMORY_SHARPNESS };
    StateDef defs[RULES_STATES_MAX];
    const int count = rules_states(s->config, defs);
    for (int k = 0; k < count; k++)
        bytes[items[defs[k].kind]] += defs[k].shape == STATE_PARAMS ? m->params : m->buffers;
}

/* What lies where the programs compute. */
static void add_plan(const Session *s, const Executor *x, int64_t batch,
                     size_t bytes[MEMORY_ITEM_COUNT])
{
    ExecutorMemory m;
    executor_memory(x, &m);
    bytes[MEMORY_PARAMS] = m.params;
    bytes[MEMORY_TEACHER] = m.teacher;
    bytes[MEMORY_COPIES] = m.param_copies;
    bytes[MEMORY_GRADS] = m.grads;
    bytes[MEMORY_BUFFERS] = m.buffers;
    bytes[MEMORY_ACTIVATIONS] = m.activations;
    bytes[MEMORY_WORKSPACE] = m.workspace;
    bytes[MEMORY_SIDE_WORKSPACE] = m.side_workspace;
    if (s->use == SESSION_TRAIN)
        bytes[MEMORY_INPUTS] +=
            prefetch_device_bytes(s->backend, session_batch_bytes(s, DATA_TRAIN, batch));
    if (s->val)
        bytes[MEMORY_INPUTS] +=
            prefetch_device_bytes(s->backend, session_batch_bytes(s, DATA_VAL, batch));
    if (s->use == SESSION_TRAIN) add_states(s, &m, bytes);
    if (s->use == SESSION_TRAIN)
        bytes[MEMORY_WORKSPACE] += muon_workspace_bytes(x, s->backend, s->config);
    bytes[MEMORY_ALLREDUCE] = session_allreduce_bytes(s, m.grads);
}

static MemoryReport report_of(const Session *s, const Executor *x, int64_t batch)
{
    MemoryReport r = { 0 };
    ExecutorMemory m;
    executor_memory(x, &m);
    add_plan(s, x, batch, r.bytes);
    for (int i = 0; s->backend->v->device && i < MEMORY_ITEM_COUNT; i++) r.device += r.bytes[i];
    r.bytes[MEMORY_SLOTS] = slot_bytes(s, batch);
    r.bytes[MEMORY_READ_AHEAD] = read_ahead_bytes(s);
    if (s->device_comm && s->use == SESSION_TRAIN &&
        device_comm_transport(s->device_comm) == DEVICE_COMM_STAGED)
        r.bytes[MEMORY_HOST_REDUCE] = m.grads + m.buffers;
    if (s->use == SESSION_TRAIN && s->comm->rank == 0)
        r.bytes[MEMORY_CHECKPOINT] = staging_bytes(s);
    r.activations_naive = m.activations_naive;
    for (int i = 0; i < MEMORY_ITEM_COUNT; i++) r.total += r.bytes[i];
    return r;
}

MemoryReport memory_report(const Session *s)
{
    return report_of(s, s->executor, s->plan.batch);
}

/* ---- what fits ---- */

/* Memory of the device that is not this run's. */
static size_t held_by_others(const Session *s)
{
    const DeviceChoice *c = &s->device;
    const size_t all = s->backend->v->device ? s->backend->v->device->memory_bytes(s->backend) : 0;
    const size_t ours = c->free_bytes + (size_t)c->sharers * CONTEXT_BYTES;
    return c->free_bytes > 0 && ours < all ? all - ours : 0;
}

/* What the plan takes of what memory_budget() tells. The staging of rank 0 is shared by the ranks
 * of its host, since they share the memory. */
static size_t plan_bytes(const Session *s, const Executor *x, int64_t batch)
{
    MemoryReport r = report_of(s, x, batch);
    const size_t staging = r.bytes[MEMORY_CHECKPOINT];
    return s->backend->v->device ? r.device
                                 : r.total - staging + staging / (size_t)s->comm->local_world;
}

size_t memory_budget(const Session *s)
{
    const DeviceVTable *d = s->backend->v->device;
    if (!d) {
        const size_t left = (size_t)process_available_bytes() / (size_t)s->comm->local_world;
        return left - left / HOST_MARGIN;
    }
    const size_t share =
        (d->memory_bytes(s->backend) - held_by_others(s)) / (size_t)s->device.sharers;
    return share > MEMORY_RESERVE ? share - MEMORY_RESERVE : 0;
}

typedef struct Probe {
    int64_t batch;
    double bytes;
} Probe;

/* A device that is too small to prepare on is too small to run on, and so is one without a
 * convolution that makes do with its scratch, where a smaller batch had one. One image alone is not
 * enough for a batch norm on 1x1: no plan. */
static Status try_batch(Session *s, int64_t batch, bool smaller_fits, Probe *out)
{
    Executor *x = NULL;
    Status status = session_try_batch(s, batch, &x);
    *out = (Probe){ .batch = batch, .bytes = 1e18 };
    if (status == ERR_MEMORY || (status == ERR_ENV && smaller_fits)) return OK;
    if (status == ERR_USAGE && batch == 1) return OK;
    if (status == OK) out->bytes = (double)plan_bytes(s, x, batch);
    executor_destroy(x);
    return status;
}

/* Where the line through two probes meets the budget. Memory is close to linear in the batch. */
static int64_t meet(Probe a, Probe b, double budget)
{
    double slope = (b.bytes - a.bytes) / (double)(b.batch - a.batch);
    double at = slope > 0 ? (double)a.batch + (budget - a.bytes) / slope : 2.0 * (double)b.batch;
    return at < 1 ? 1 : at > 1e6 ? 1000000 : (int64_t)at;
}

Status memory_largest_batch(Session *s, size_t budget, int64_t *out)
{
    const bool tries = s->backend->v->device && !s->config->device.properties;
    const int probes = tries ? PROBES_PRESENT : PROBES_DESCRIBED;
    int64_t fits = 0, exceeds = INT64_MAX, next = 2;
    Probe last[2] = { { 0, 0 }, { 0, 0 } };
    for (int i = 0; i < probes && exceeds - fits > 1; i++) {
        Probe p;
        TRY(try_batch(s, next, fits > 0, &p));
        if (p.bytes <= (double)budget) fits = p.batch;
        else exceeds = p.batch;
        last[0] = last[1];
        last[1] = p;
        next = i == 0 ? 8 : meet(last[0], last[1], (double)budget);
        /* not linear after all */
        if (exceeds != INT64_MAX && i > 4) next = fits + (exceeds - fits) / 2;
        if (next <= fits) next = fits + 1;
        if (next >= exceeds) next = exceeds - 1;
    }
    *out = fits;
    return OK;
}

/* "; all fit with train.recompute: norms": the first setting that is enough; "": none is. */
static Status find_recompute(const Session *s, size_t budget, char *out, size_t bytes)
{
    Session other = *s; /* borrows all that it has */
    out[0] = '\0';
    if (s->use != SESSION_TRAIN || s->config->device.batchnorm != KERNELS_OWN) return OK;
    for (int how = (int)s->recompute + 1; how < RECOMPUTE_COUNT && out[0] == '\0'; how++) {
        Probe p;
        other.recompute = (Recompute)how;
        TRY(try_batch(&other, s->plan.batch, false, &p));
        if (p.bytes <= (double)budget)
            snprintf(out, bytes, "; all fit with train.recompute: %s", recompute_names[how]);
    }
    return OK;
}

static Status fail_host(const Session *s, size_t needed, size_t budget, int64_t largest,
                        const char *all)
{
    return fail(
        ERR_MEMORY,
        "train.batch_per_rank: %lld %s need %.2f GiB on this host, where a rank has %.2f GiB "
        "(its share of %.2f GiB of free memory, less a sixteenth); at most %lld fit%s",
        (long long)s->plan.batch, units_of(s->config)->many, (double)needed / GIB,
        (double)budget / GIB, (double)process_available_bytes() / GIB, (long long)largest, all);
}

Status memory_check(Session *s, Status prepared)
{
    const size_t budget = memory_budget(s), others = held_by_others(s);
    int64_t largest = 0;
    char held[64] = "", all[64];
    if (budget == 0 && others == 0) return prepared;
    size_t needed = prepared == OK ? plan_bytes(s, s->executor, s->plan.batch) : 0;
    if (prepared == OK && needed <= budget) return OK;
    TRY(memory_largest_batch(s, budget, &largest));
    if (largest >= s->plan.batch) return prepared;
    TRY(find_recompute(s, budget, all, sizeof all));
    if (!s->backend->v->device) return fail_host(s, needed, budget, largest, all);
    if (others > 0)
        snprintf(held, sizeof held, ", other programs use %.2f GiB", (double)others / GIB);
    return fail(ERR_MEMORY,
                "train.batch_per_rank: %lld %s need %s%.2f GiB on this GPU, where a rank has "
                "%.2f GiB (%.2f GiB are reserved for CUDA and its libraries%s); at most %lld fit%s",
                (long long)s->plan.batch, units_of(s->config)->many,
                prepared == OK ? "" : "more than ",
                (double)(prepared == OK ? needed : budget) / GIB, (double)budget / GIB,
                MEMORY_RESERVE / GIB, held, (long long)largest, all);
}
