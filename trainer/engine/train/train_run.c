/* train_run.c - see train_run.h. */
#include "trainer/engine/train/train_run.h"
#include "base/log.h"
#include "base/process/process.h"
#include "base/version.h"
#include "trainer/engine/files/learnt.h"
#include "trainer/engine/session/memory.h"
#include "trainer/engine/session/session_open.h"
#include "trainer/engine/session/utilization.h"
#include "trainer/engine/train/loop.h"

/* Ranks share what they compute with: their CPUs, or a GPU. */
static bool oversubscribed(const Session *s)
{
    return s->device.cuda ? s->device.sharers > 1 : s->threads.sharers > s->threads.allowed;
}

/* Collective. */
static int count_hosts(Comm *comm)
{
    int64_t hosts = comm->local_rank == 0;
    comm_allreduce(comm, &hosts, 1, COMM_I64, COMM_SUM, "hosts");
    return (int)hosts;
}

static Status tell_start(const RunEvents *events, const Session *s, int hosts, Energy *energy)
{
    char backend[256];
    s->backend->v->describe(s->backend, backend, sizeof backend);
    StartRecord r = { .model = s->config->model.name,
                      .dataset = dataset_format_name(s->train),
                      .backend = backend,
                      .host = process_host(),
                      .version = version_text(),
                      .device = s->backend->v->name,
                      .precision = precision_names[s->device.precision],
                      .device_reason = s->device.reason,
                      .world = s->comm->world,
                      .hosts = hosts,
                      .cpus = s->threads.allowed,
                      .compute_threads = s->threads.compute,
                      .oversubscribed = oversubscribed(s),
                      .text = config_is_text(s->config),
                      .masks = config_is_masked(s->config),
                      .words = s->classes,
                      .tokens = s->words > 0 ? s->config->data.tokens : 0,
                      .images = s->plan.images,
                      .val_images = s->val ? dataset_images(s->val) : 0,
                      .classes = s->classes,
                      .parameters = graph_parameter_elements(program_graph(s->first)),
                      .global_batch = s->plan.global_batch,
                      .steps = s->plan.total_steps,
                      .image_gflops = 1e-9 * utilization_image_flops(s),
                      .epochs = (double)train_plan_images(&s->plan, s->plan.total_steps) /
                                (double)s->plan.images,
                      .data_seconds = s->data_s,
                      .plans_seconds = s->plans_s };
    r.peak_tflops = 1e-12 * utilization_peak_flops(s, &r.peak_source);
    if (events->start) TRY(events->start(events->self, &r, energy));
    if (s->device.plan_cache[0] && s->comm->rank == 0)
        log_detail("convolution plans are saved in %s (device.plan_cache)", s->device.plan_cache);
    return OK;
}

/* What the plan is worth: the same bytes that convoy inspect memory says, and those that this rank
 * has really taken. */
static void log_memory(const Session *s, int64_t rss_at_start)
{
    MemoryReport r = memory_report(s);
    if (r.device > 0) log_detail("memory of the device: planned %zu bytes", r.device);
    log_detail("memory: peak %lld bytes above start, planned %zu bytes",
               (long long)(process_peak_rss_bytes() - rss_at_start), r.total - r.device);
}

/* By the classes of the checkpoint that the run goes on from, where it does: their labels stay. */
static Status open_session(Session *s, Comm *comm, const Config *c)
{
    Learnt learnt = { .text = NULL };
    StrBuf remedy = { 0 };
    Status status = comm->rank == 0 ? learnt_open_run(&learnt, c) : OK;
    str_printf(&remedy, " (%sfor other classes, start a new run: a new run.dir with model.init=%s)",
               config_is_text(c) ? "" : "data.class_map can rename it; ",
               learnt.path ? learnt.path : "");
    learnt.list.may_lack = c->data.allow_empty_classes;
    learnt.list.remedy = remedy.text;
    status = comm_agree(comm, status == OK && remedy.failed ? ERR_MEMORY : status);
    if (status == OK)
        status = session_open(s, c, comm, SESSION_TRAIN, learnt.names ? &learnt.list : NULL);
    if (status == OK) status = comm_agree(comm, learnt_check_words(&learnt, s->train));
    str_free(&remedy);
    learnt_close(&learnt);
    return status;
}

/* With the session open: start to end. */
static Status run_session(Session *s, const RunEvents *events, Energy *energy)
{
    Comm *comm = s->comm;
    Status status = comm_agree(comm, tell_start(events, s, count_hosts(comm), energy));
    if (status == OK) status = session_commit_empty(s);
    return status == OK ? loop_run(s, events, energy) : status;
}

Status train_run(Comm *comm, const Config *c, const RunEvents *events)
{
    int64_t rss_at_start = process_rss_bytes();
    Session session = { 0 };
    Energy *energy = NULL;
    Status status = comm_agree(comm, energy_open(&energy, c, comm));
    if (status == OK) status = open_session(&session, comm, c);
    if (status == OK) status = run_session(&session, events, energy);
    if (events->end) events->end(events->self);
    energy_close(energy);
    if (status == OK) log_memory(&session, rss_at_start);
    session_close(&session);
    return status;
}
