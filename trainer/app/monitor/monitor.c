/* monitor.c - see monitor.h. */
#include "trainer/app/monitor/monitor.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "base/thread.h"
#include "base/version.h"
#include "trainer/app/monitor/event_file.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_PERIOD_S 1.0

struct Monitor {
    double period_s;
    char *run, *model, *prometheus_path, *emf_path, *tensorboard_dir;
    EventFile *events; /* the training thread's */
    bool events_broken, prometheus_broken, emf_broken;
    Nvml *nvml;                        /* the Monitor's thread's, as are the looks */
    GpuSamples looks[GAUGES_GPUS_MAX]; /* since the last period's end */
    bool has_looked;
    ThreadWatcher watcher; /* whose lock guards the rest */
    bool fresh_gpus;
    Energy *energy; /* NULL: not told */
    Gauges gauges;
};

static void complain(bool *broken)
{
    if (!*broken) log_warning_here("%s: no longer written", status_message());
    *broken = true;
}

/* ---- the Monitor's thread ---- */

static void look_at_gpus(Monitor *m)
{
    GpuState state;
    for (int i = 0; m->nvml && i < m->gauges.gpu_count; i++) {
        nvml_state(m->nvml, i, &state);
        pthread_mutex_lock(&m->watcher.lock);
        gauges_add_sample(&m->gauges.gpu[i], &m->looks[i], &state);
        pthread_mutex_unlock(&m->watcher.lock);
    }
    m->has_looked = true;
}

/* Line by line: a pipe that others write to as well keeps each whole, up to PIPE_BUF. */
static Status append_lines(const char *path, const char *text)
{
    int fd FREED_BY(fs_close) = -1;
    TRY(fs_open(&fd, path, O_WRONLY | O_CREAT | O_APPEND));
    for (size_t bytes; *text; text += bytes) {
        bytes = strcspn(text, "\n") + 1;
        const ssize_t n = write(fd, text, bytes);
        if (n != (ssize_t)bytes)
            return fail(ERR_IO, "%s: cannot write: %s", path, strerror(n < 0 ? errno : ENOSPC));
    }
    return OK;
}

static void write_emf(Monitor *m, const Gauges *g)
{
    StrBuf text FREED_BY(str_free) = { 0 };
    gauges_add_emf(g, clock_unix_s(), &text);
    Status status = OK;
    if (text.failed) status = fail(ERR_MEMORY, "monitor.emf: out of memory");
    else if (text.length > 0 && strcmp(m->emf_path, "-") == 0) status = log_print(text.text);
    else if (text.length > 0) status = append_lines(m->emf_path, text.text);
    if (status != OK) complain(&m->emf_broken);
}

static void end_period(Monitor *m)
{
    StrBuf text = { 0 };
    Gauges *copy FREED = mem_alloc(sizeof *copy);
    if (!copy) return;
    pthread_mutex_lock(&m->watcher.lock);
    energy_read(m->energy, &m->gauges.spent);
    *copy = m->gauges;
    m->fresh_gpus = m->gauges.gpu_count > 0;
    pthread_mutex_unlock(&m->watcher.lock);
    memset(m->looks, 0, sizeof m->looks);
    m->has_looked = false;
    if (m->prometheus_path && !m->prometheus_broken) {
        gauges_add_prometheus(copy, &text);
        if (fs_write_text(OK, m->prometheus_path, &text) != OK) complain(&m->prometheus_broken);
    }
    if (m->emf_path && !m->emf_broken) write_emf(m, copy);
}

/* Until until_s or the end. False: the end. */
static bool sleep_until(Monitor *m, double until_s)
{
    pthread_mutex_lock(&m->watcher.lock);
    bool goes_on = !m->watcher.stop;
    for (double left; goes_on && (left = until_s - clock_s()) > 0;)
        goes_on = thread_watcher_sleep(&m->watcher, left);
    pthread_mutex_unlock(&m->watcher.lock);
    return goes_on;
}

static void *watch(void *arg)
{
    Monitor *m = arg;
    double look_s = clock_s(), end_s = look_s + m->period_s;
    do {
        look_at_gpus(m);
        /* after a pause */
        for (look_s += LOOK_PERIOD_S; look_s < clock_s();) look_s += LOOK_PERIOD_S;
        if (end_s < look_s && sleep_until(m, end_s)) {
            end_period(m);
            for (end_s += m->period_s; end_s < clock_s();) end_s += m->period_s;
        }
    } while (sleep_until(m, look_s));
    if (!m->has_looked) look_at_gpus(m);
    end_period(m);
    return NULL;
}

/* ---- life ---- */

static Status open_gpus(Monitor *m, const Config *c)
{
    Status status = nvml_open(&m->nvml, NULL);
    if (status != OK && c->monitor.gpu == MONITOR_GPU_ON) return fail_note(status, "monitor.gpu");
    if (status != OK) {
        log_info("GPUs are not monitored: %s", status_message());
        return OK;
    }
    int count = nvml_gpus(m->nvml);
    m->gauges.gpu_count = count < GAUGES_GPUS_MAX ? count : GAUGES_GPUS_MAX;
    for (int i = 0; i < m->gauges.gpu_count; i++) {
        m->gauges.gpu[i].index = i;
        nvml_facts(m->nvml, i, &m->gauges.gpu[i].facts);
    }
    return OK;
}

/* "-" is rank 0's alone: launchers forward what ranks print in parts (mpirun 4 by 4096 bytes, srun
 * by 1024) and mix those of several ranks, in the middle of lines. */
static Status open_emf(Monitor *m, const Config *c, const Comm *comm)
{
    if (strcmp(c->monitor.emf, "-") == 0 && comm->local_world < comm->world)
        log_warning("monitor.emf: - only has the GPUs of this host; a file has those of every host "
                    "(/proc/1/fd/1 is the log of a container)");
    return config_file_name(&m->emf_path, "monitor.emf", c->monitor.emf, 0, 1);
}

static Status fill_monitor(Monitor *m, const Config *c, const Comm *comm, bool gpus)
{
    const bool main_rank = comm->rank == 0;
    char whole[PATH_MAX]; /* runs of one name in two folders are two series */
    m->run = mem_strdup(realpath(c->run.dir, whole) ? whole : c->run.dir);
    m->model = mem_strdup(c->model.name);
    if (!m->run || !m->model) return ERR_MEMORY;
    m->period_s = c->monitor.every_s;
    m->gauges.run = m->run;
    m->gauges.model = m->model;
    m->gauges.host = process_host();
    m->gauges.version = version_text();
    m->gauges.trains = main_rank;
    m->gauges.text = config_is_text(c);
    m->gauges.start_unix_s = clock_unix_s();
    m->gauges.world = comm->world;
    m->gauges.prices = c;
    TRY(config_file_name(&m->prometheus_path, "monitor.prometheus", c->monitor.prometheus, 0, 1));
    TRY(open_emf(m, c, comm));
    if (main_rank && c->monitor.tensorboard) {
        m->tensorboard_dir = fs_join(c->run.dir, "tensorboard");
        if (!m->tensorboard_dir) return ERR_MEMORY;
    }
    if (gpus) TRY(open_gpus(m, c));
    if (!m->nvml && !m->prometheus_path && !m->emf_path) return OK;
    return thread_watcher_start(&m->watcher, "monitor", watch, m);
}

Status monitor_create(Monitor **out, const Config *c, const Comm *comm, bool gpu)
{
    const bool main_rank = comm->rank == 0;
    const bool gpus =
        c->monitor.gpu == MONITOR_GPU_ON || (c->monitor.gpu == MONITOR_GPU_AUTO && gpu);
    const bool files = c->monitor.prometheus[0] || c->monitor.emf[0];
    *out = NULL;
    if (comm->local_rank != 0 || !(files || gpus || (main_rank && c->monitor.tensorboard)))
        return OK;
    Monitor *m = mem_calloc(1, sizeof *m);
    if (!m) return ERR_MEMORY;
    thread_watcher_init(&m->watcher);
    gauges_init(&m->gauges);
    Status status = fill_monitor(m, c, comm, gpus);
    if (status != OK) monitor_destroy(m);
    else *out = m;
    return status;
}

void monitor_destroy(Monitor *m)
{
    if (!m) return;
    thread_watcher_end(&m->watcher);
    event_file_close(m->events);
    nvml_close(m->nvml);
    mem_free(m->run);
    mem_free(m->model);
    mem_free(m->prometheus_path);
    mem_free(m->emf_path);
    mem_free(m->tensorboard_dir);
    mem_free(m);
}

/* ---- the training thread ---- */

static void add_event(Monitor *m, int64_t step, const EventScalar *scalars, int count)
{
    if (!m->events || m->events_broken) return;
    if (event_file_add(m->events, clock_unix_s(), step, scalars, count) != OK)
        complain(&m->events_broken);
}

void monitor_run(Monitor *m, int64_t total_steps, Energy *energy)
{
    if (!m) return;
    pthread_mutex_lock(&m->watcher.lock);
    m->gauges.total_steps = (double)total_steps;
    m->energy = energy;
    pthread_mutex_unlock(&m->watcher.lock);
}

Status monitor_begin(Monitor *m, bool resumed, int64_t step)
{
    if (!m || !m->tensorboard_dir) return OK;
    TRY(event_file_create(&m->events, m->tensorboard_dir, process_host(), clock_unix_s()));
    /* at the first start too: TensorBoard's Python server goes by the second and later ones */
    monitor_go_back(m, resumed ? step : -1);
    return OK;
}

void monitor_go_back(Monitor *m, int64_t step)
{
    if (!m || !m->events || m->events_broken) return;
    if (event_file_restart(m->events, clock_unix_s(), step + 1) != OK) complain(&m->events_broken);
}

void monitor_step(Monitor *m, const StepRecord *s)
{
    if (!m) return;
    StepRecord known = *s;
    if (!s->measured) known.grad_norm = (double)NAN;
    if (!(s->recent_mfu > 0)) known.recent_mfu = (double)NAN;
    if (!s->masks) known.ppl = known.masked = (double)NAN;
    pthread_mutex_lock(&m->watcher.lock);
    Gauges *g = &m->gauges;
    g->step = (double)s->step;
    g->epoch = (double)s->epoch;
    g->update_unix_s = clock_unix_s();
    g->images += (double)s->images;
    g->tokens += (double)s->tokens;
    g->step_seconds += 1e-3 * s->step_ms;
    g->data_wait_seconds += 1e-3 * s->data_wait_ms;
    g->comm_wait_seconds += 1e-3 * s->comm_wait_ms;
    if (s->recorded) g->recorded = known;
    pthread_mutex_unlock(&m->watcher.lock);
    EventScalar scalars[10] = { { "train/loss", s->loss },
                                { "train/lr", s->lr },
                                { s->text ? "train/sequences_per_s" : "train/images_per_s",
                                  s->recent_images_per_s },
                                { "time/step_s", 1e-3 * s->step_ms },
                                { "time/data_wait_s", 1e-3 * s->data_wait_ms },
                                { "time/comm_wait_s", 1e-3 * s->comm_wait_ms } };
    int count = 6, first = records_unmasked(s) ? 1 : 0; /* without a loss */
    if (s->text) scalars[count++] = (EventScalar){ "train/tokens_per_s", s->recent_tokens_per_s };
    if (s->masks && first == 0) scalars[count++] = (EventScalar){ "train/ppl", s->ppl };
    if (!isnan(known.grad_norm))
        scalars[count++] = (EventScalar){ "train/grad_norm", known.grad_norm };
    if (!isnan(known.recent_mfu)) scalars[count++] = (EventScalar){ "train/mfu", known.recent_mfu };
    if (s->recorded) add_event(m, s->step, scalars + first, count - first);
}

static void add_metrics(Monitor *m, const EvalRecord *e, const char *prefix)
{
    char tags[RECORD_METRICS][64];
    EventScalar scalars[RECORD_METRICS];
    int count = 0;
    for (int i = 0; i < RECORD_METRICS; i++) {
        snprintf(tags[i], sizeof tags[i], "eval/%s%s", prefix, metric_defs[i].name);
        const double value = records_number(RECORD_EVAL, e, tags[i] + 5);
        if (i == 0 || !isnan(value)) scalars[count++] = (EventScalar){ tags[i], value };
    }
    add_event(m, e->step, scalars, count);
}

void monitor_eval(Monitor *m, const EvalRecord *e)
{
    if (!m) return;
    pthread_mutex_lock(&m->watcher.lock);
    m->gauges.eval = *e;
    m->gauges.eval_step = (double)e->step;
    if (!e->has_ema) m->gauges.eval.ema_top1 = m->gauges.eval.ema_map = (double)NAN;
    if (!e->multi) m->gauges.eval.map = (double)NAN;
    if (!e->masks) m->gauges.eval.ppl = (double)NAN;
    pthread_mutex_unlock(&m->watcher.lock);
    add_metrics(m, e, "");
    if (e->masks) add_event(m, e->step, &(EventScalar){ "eval/ppl", e->ppl }, 1);
    if (e->has_ema) add_metrics(m, e, "ema_");
}

void monitor_checkpoint(Monitor *m, int64_t step)
{
    if (!m) return;
    pthread_mutex_lock(&m->watcher.lock);
    m->gauges.checkpoint_step = (double)step;
    m->gauges.checkpoint_unix_s = clock_unix_s();
    pthread_mutex_unlock(&m->watcher.lock);
}

static void add_gpu_events(Monitor *m, const GpuRecord *gpus, int count, int64_t step)
{
    static const char *const names[4] = { "utilization", "memory_gb", "power_w", "sm_clock_mhz" };
    char tags[4][32];
    for (int i = 0; i < count; i++) {
        const GpuRecord *g = &gpus[i];
        const double values[4] = { g->utilization, 1e-9 * g->memory_used_bytes, g->power_w,
                                   g->sm_clock_mhz };
        EventScalar scalars[4];
        int known = 0;
        for (int k = 0; k < 4; k++) {
            if (isnan(values[k])) continue;
            snprintf(tags[known], sizeof tags[known], "gpu%lld/%s", (long long)g->gpu, names[k]);
            scalars[known] = (EventScalar){ tags[known], values[k] };
            known++;
        }
        if (known > 0) add_event(m, step, scalars, known);
    }
}

static GpuRecord record_of(const GpuGauges *g)
{
    return (GpuRecord){ .gpu = g->index,
                        .uuid = g->facts.uuid,
                        .utilization = g->state.utilization,
                        .utilization_min = g->utilization_min,
                        .utilization_max = g->utilization_max,
                        .memory_used_bytes = g->state.memory_used_bytes,
                        .power_w = g->state.power_w,
                        .temperature_c = g->state.temperature_c,
                        .sm_clock_mhz = g->state.sm_clock_mhz,
                        .throttle_reasons = (int64_t)g->state.throttle_reasons };
}

bool monitor_take_gpus(Monitor *m, GpuRecord out[GAUGES_GPUS_MAX], int *count)
{
    if (!m) return false;
    pthread_mutex_lock(&m->watcher.lock);
    bool fresh = m->fresh_gpus;
    double step = m->gauges.step;
    m->fresh_gpus = false;
    *count = fresh ? m->gauges.gpu_count : 0;
    for (int i = 0; i < *count; i++) out[i] = record_of(&m->gauges.gpu[i]);
    pthread_mutex_unlock(&m->watcher.lock);
    add_gpu_events(m, out, *count, isnan(step) ? 0 : (int64_t)step);
    return fresh;
}
