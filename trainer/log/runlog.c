/* runlog.c - writes a run's records: JSON lines for programs, log lines for people.
 *
 * Records go to metrics.jsonl as jsonl.h says, through a buffer that runlog_open() sizes. */
#include "trainer/log/runlog.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/jsonl.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/guard/signals.h"
#include "trainer/log/kept_config.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#define LOCK_WAIT_S   30.0
#define LOCK_PERIOD_S 0.2
#define LINE_BYTES    32768 /* a sentence of 1 KiB or a path of 4 KiB, each byte escaped to six */

struct RunLog {
    int rank;
    LogFormat format;
    bool is_new, begun;
    bool titled; /* the table has its header */
    bool evaluated;
    EvalRecord last;
    char checkpoint[64];                /* the newest one's name */
    double host_s, total_host_s, hosts; /* since this start; by the run */
    char *dir;                          /* NULL: none, or another rank's */
    Jsonl metrics;                      /* not open: no file */
    StrBuf held;                        /* records until the run begins */
};

/* ---- opening ---- */

static Status make_checkpoints(const char *dir)
{
    char *path = fs_join(dir, "checkpoints");
    Status status = path ? fs_make_dirs(path) : ERR_MEMORY;
    mem_free(path);
    return status;
}

static LogLevel console_level(const RunLog *r)
{
    return r->rank == 0 && r->format == LOG_FORMAT_JSON ? LOG_WARNING : LOG_INFO;
}

static Status open_log_file(const RunLog *r)
{
    char *path = fs_join(r->dir, "log.txt");
    Status status = path ? log_open(path, r->rank, console_level(r)) : ERR_MEMORY;
    mem_free(path);
    return status;
}

/* So long a rank of an earlier start, on a host that was cut off, may take to see that it is alone.
 * Less than the time after which the other ranks would take this one for lost. */
static double patience_s(const Config *config)
{
    double timeout_s = config ? config->comm.timeout_s : 0;
    if (!config) return 0;
    return timeout_s > 0 ? fmin(LOCK_WAIT_S, timeout_s / 2) : LOCK_WAIT_S;
}

static Status take_lock(int fd, const char *dir, double wait_s)
{
    for (double start = clock_s(), said = 0;; clock_sleep_s(LOCK_PERIOD_S)) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return OK;
        if (clock_s() - start >= wait_s || signals_stop_requested())
            return fail(ERR_IO, "%s: another convoy is writing to this run folder", dir);
        if (said++ > 0) continue;
        log_info("%s: another convoy is writing to this run folder: waiting %.0f s for its end",
                 dir, wait_s);
    }
}

/* Grows the line buffer to its final size. */
static Status reserve_line(RunLog *r)
{
    StrBuf *line = &r->metrics.line;
    for (int i = 0; i < LINE_BYTES / 64; i++) str_printf(line, "%64s", "");
    bool failed = line->failed;
    str_clear(line);
    return failed ? fail(ERR_MEMORY, "out of memory for the run log") : OK;
}

static Status open_folder(RunLog *r, const char *dir, const Config *config)
{
    if (!(r->dir = mem_strdup(dir))) return ERR_MEMORY;
    TRY(fs_make_dirs(dir));
    TRY(jsonl_open(&r->metrics, dir, "metrics.jsonl"));
    TRY(take_lock(r->metrics.fd, dir, patience_s(config)));
    r->metrics.held = &r->held;
    /* those that failed before their start, any number, have at most said so */
    r->is_new = jsonl_count(&r->metrics, "{\"event\":\"start\"", 1) == 0;
    return OK;
}

Status runlog_open(RunLog **out, const char *dir, int rank, const Config *config)
{
    *out = NULL;
    RunLog *r = mem_calloc(1, sizeof *r);
    if (!r) return ERR_MEMORY;
    r->rank = rank;
    r->metrics.fd = -1;
    r->format = config ? config->log.format : LOG_FORMAT_LINE;
    Status status = rank == 0 && dir ? open_folder(r, dir, config) : OK;
    if (status == OK) status = log_open(NULL, rank, console_level(r));
    if (config) log_hold();
    else if (status == OK) status = runlog_begin(r, NULL, 1);
    if (status != OK) runlog_close(r);
    else *out = r;
    return status;
}

bool runlog_is_new(const RunLog *r)
{
    return r->is_new;
}

void runlog_close(RunLog *r)
{
    if (!r) return;
    jsonl_close(&r->metrics);
    /* Closes log.txt; the console stays open for what main may still have to say, and silent on
     * other ranks. Cannot fail without a path. */
    log_open(NULL, r->rank, LOG_INFO);
    log_release();
    str_free(&r->held);
    mem_free(r->dir);
    mem_free(r);
}

/* ---- a rank's own file ---- */

static Status open_own(const char *path)
{
    Status status = OK;
    char *folder = mem_strdup(path), *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash) *slash = '\0';
    if (slash && slash != folder) status = fs_make_dirs(folder);
    mem_free(folder);
    if (status == OK) status = log_add_file(path);
    return status == OK ? OK : fail_note(status, "log.file");
}

Status runlog_file_name(char **out, const Config *config, int rank, int world)
{
    char *name;
    *out = NULL;
    TRY(config_file_name(&name, "log.file", config->log.file, rank, world));
    if (!name) return OK;
    *out = fs_join(name[0] == '/' ? "" : config->run.dir, name);
    mem_free(name);
    return *out ? OK : ERR_MEMORY;
}

/* ---- beginning ---- */

static Status begin_folder(RunLog *r, const Config *config)
{
    TRY(jsonl_cut_torn_line(&r->metrics));
    if (config) TRY(make_checkpoints(r->dir));
    if (config) TRY(kept_config_write(r->dir, config, r->is_new));
    TRY(open_log_file(r));
    TRY(reserve_line(r));
    int error = jsonl_append(&r->metrics, &r->held);
    r->metrics.held = NULL;
    return error ? fail(ERR_IO, "%s: cannot write: %s", r->metrics.path, strerror(error)) : OK;
}

Status runlog_begin(RunLog *r, const Config *config, int world)
{
    char *own = NULL;
    if (r->begun) return OK;
    Status status = config ? runlog_file_name(&own, config, r->rank, world) : OK;
    if (status == OK && r->metrics.fd >= 0) status = begin_folder(r, config);
    if (status == OK && own) status = open_own(own);
    mem_free(own);
    if (status != OK) return status;
    log_release();
    str_free(&r->held);
    r->begun = true;
    return OK;
}

/* ---- records ---- */

/* Starts a record; NULL where nothing is written. */
static JsonWriter *begin(RunLog *r, const char *event)
{
    return r && r->metrics.fd >= 0 ? jsonl_begin(&r->metrics, event) : NULL;
}

/* Ends and writes the record: 0 or an errno. */
static int write_record(RunLog *r)
{
    int error = jsonl_end(&r->metrics);
    if (r->format == LOG_FORMAT_JSON && !r->metrics.line.failed)
        (void)log_print(r->metrics.line.text);
    return error;
}

static Status end(RunLog *r)
{
    int error = write_record(r);
    return error ? fail(ERR_IO, "%s: cannot write: %s", r->metrics.path, strerror(error)) : OK;
}

/* People count epochs from 1, records from 0. */
static long long shown(int64_t epoch)
{
    return (long long)epoch + 1;
}

Status runlog_start(RunLog *r, const StartRecord *s)
{
    log_info("%s, %lld parameters, %lld classes; %s with %lld training and %lld validation images",
             s->model, (long long)s->parameters, (long long)s->classes, s->dataset,
             (long long)s->images, (long long)s->val_images);
    r->hosts = s->hosts;
    log_info("%d %s on %s (%s), global batch %lld, %lld steps", s->world,
             s->world == 1 ? "rank" : "ranks", s->host, s->backend, (long long)s->global_batch,
             (long long)s->steps);
    log_info("%s", s->device_reason);
    JsonWriter *w = begin(r, "start");
    if (!w) return OK;
    json_string(w, "model", s->model);
    json_string(w, "dataset", s->dataset);
    json_string(w, "backend", s->backend);
    json_string(w, "device", s->device);
    json_string(w, "precision", s->precision);
    json_string(w, "host", s->host);
    json_string(w, "version", s->version);
    json_int(w, "world", s->world);
    json_int(w, "hosts", s->hosts);
    json_int(w, "cpus", s->cpus);
    json_int(w, "compute_threads", s->compute_threads);
    json_bool(w, "oversubscribed", s->oversubscribed);
    json_int(w, "images", s->images);
    json_int(w, "val_images", s->val_images);
    json_int(w, "classes", s->classes);
    json_int(w, "parameters", s->parameters);
    json_int(w, "global_batch", s->global_batch);
    json_int(w, "steps", s->steps);
    json_number(w, "epochs", s->epochs);
    json_number(w, "data_seconds", s->data_s);
    json_number(w, "plans_seconds", s->plans_s);
    if (s->peak_flops > 0) {
        json_number(w, "peak_tflops", 1e-12 * s->peak_flops);
        json_string(w, "peak_source", s->peak_source);
        json_number(w, "image_gflops", 1e-9 * s->image_flops);
    }
    return end(r);
}

void runlog_row(RunLog *r, const ConsoleRow *row)
{
    char text[CONSOLE_TEXT_BYTES];
    if (r->rank != 0) return;
    if (!r->titled) log_info("%s", console_table_header);
    r->titled = true;
    console_table_row(row, text);
    log_info("%s", text);
}

Status runlog_step(RunLog *r, const StepRecord *s)
{
    log_note("epoch %lld step %lld loss %.6g lr %.6g %.1f images/s, %.1f ms: data wait %.1f, comm "
             "wait %.1f",
             shown(s->epoch), (long long)s->step, s->loss, s->lr, s->images_per_s, s->step_ms,
             s->data_wait_ms, s->comm_wait_ms);
    JsonWriter *w = begin(r, "step");
    if (!w) return OK;
    json_int(w, "epoch", s->epoch);
    json_int(w, "step", s->step);
    json_number(w, "epochs", s->epochs);
    json_number(w, "loss", s->loss);
    json_number(w, "lr", s->lr);
    json_number(w, "images_per_s", s->images_per_s);
    json_number(w, "step_ms", s->step_ms);
    json_number(w, "data_wait_ms", s->data_wait_ms);
    json_number(w, "comm_wait_ms", s->comm_wait_ms);
    if (s->mfu > 0) json_number(w, "mfu", s->mfu);
    if (s->loss_scale > 0) {
        json_number(w, "loss_scale", s->loss_scale);
        json_int(w, "skipped", s->skipped);
    }
    if (s->measured) json_number(w, "grad_norm", s->grad_norm);
    return end(r);
}

static void add_input(JsonWriter *w, const InputReport *i)
{
    json_number(w, "data_wait_percent", 100 * i->wait_share);
    json_number(w, "ready_batches", i->ready);
    json_number(w, "decode_p50_ms", 1e3 * i->decode_p50_s);
    json_number(w, "decode_p99_ms", 1e3 * i->decode_p99_s);
    json_number(w, "read_p50_ms", 1e3 * i->read_p50_s);
    json_number(w, "read_p99_ms", 1e3 * i->read_p99_s);
    json_number(w, "read_mb_per_s", 1e-6 * i->read_bytes_per_s);
    json_int(w, "cache_hits", i->cache_hits);
    json_int(w, "replaced", i->replaced);
    json_int(w, "decode_threads", i->decode_threads);
    json_int(w, "readers", i->readers);
}

static void print_rank_epochs(const EpochRecord *e)
{
    char text[CONSOLE_TEXT_BYTES];
    for (int i = 0; i < e->world; i++) {
        console_epoch_line(e->epoch, i, &e->ranks[i], e->rank_batch, e->steps, text);
        log_info("%s", text);
    }
}

Status runlog_epoch(RunLog *r, const EpochRecord *e)
{
    char input[512];
    if (e->ranks && r->rank == 0) print_rank_epochs(e);
    log_info("epoch %lld done: %lld images in %.1f s, %.1f images/s", shown(e->epoch),
             (long long)e->images, e->seconds, e->images_per_s);
    const double joules = e->trained_j + e->waited_j;
    if (joules > 0)
        log_info("epoch %lld energy: %.4g kJ, %.4g J/image, %.1f %% of it waiting for data",
                 shown(e->epoch), 1e-3 * joules, joules / (double)e->images,
                 100 * e->waited_j / joules);
    if (e->input) {
        input_report_describe(e->input, input, sizeof input);
        log_info("epoch %lld input: %s", shown(e->epoch), input);
    }
    JsonWriter *w = begin(r, "epoch");
    if (!w) return OK;
    json_int(w, "epoch", e->epoch);
    json_number(w, "seconds", e->seconds);
    json_int(w, "images", e->images);
    json_int(w, "steps", e->steps);
    json_number(w, "images_per_s", e->images_per_s);
    if (e->input) add_input(w, e->input);
    if (e->energy_source && e->energy_source[0]) {
        json_number(w, "energy_j", joules);
        json_number(w, "wait_energy_j", e->waited_j);
        json_number(w, "joules_per_image", joules / (double)e->images);
        json_string(w, "energy_source", e->energy_source);
    }
    return end(r);
}

static void add_energy(JsonWriter *w, const Spent *s)
{
    json_number(w, "gpu_j", s->gpu_j);
    json_number(w, "cpu_j", s->cpu_j);
    json_number(w, "assumed_j", s->assumed_j);
}

Status runlog_spent(RunLog *r, const SpentRecord *s)
{
    const Config *c = s->config;
    const double money = cost_money(c, &s->spent);
    r->host_s += s->spent.host_s;
    r->total_host_s = s->total.host_s;
    JsonWriter *w = begin(r, "spent");
    if (!w) return OK;
    json_string(w, "part", cost_part_names[s->part]);
    json_int(w, "step", s->step);
    if (s->images > 0) json_int(w, "images", s->images);
    json_number(w, "host_seconds", s->spent.host_s);
    if (s->source[0]) add_energy(w, &s->spent);
    json_number(w, "total_host_seconds", s->total.host_s);
    if (s->source[0]) {
        json_number(w, "total_j", cost_joules(&s->total));
        json_string(w, "energy_source", s->source);
    }
    if (!isnan(money)) {
        json_number(w, "cost", money);
        json_number(w, "total_cost", cost_money(c, &s->total));
        json_string(w, "currency", c->cost.currency);
        json_number(w, "price_per_host_hour", c->cost.price_per_host_hour);
        json_number(w, "price_per_kwh", c->cost.price_per_kwh);
        json_number(w, "pue", c->cost.pue);
        json_string(w, "price_note", c->cost.price_note);
    }
    return end(r);
}

Status runlog_eval(RunLog *r, const EvalRecord *e)
{
    r->evaluated = true;
    r->last = *e;
    char where[64] = "", top5[32] = ""; /* weights of others are of no step */
    if (e->step > 0)
        snprintf(where, sizeof where, "epoch %lld step %lld ", shown(e->epoch), (long long)e->step);
    if (e->classes > 5) snprintf(top5, sizeof top5, ", top-5 %.2f %%", 100 * e->top5);
    log_info("%seval: loss %.4f, top-1 %.2f %%%s of %lld images", where, e->loss, 100 * e->top1,
             top5, (long long)e->images);
    if (e->has_ema)
        log_info("%seval of averaged weights: loss %.4f, top-1 %.2f %%", where, e->ema_loss,
                 100 * e->ema_top1);
    JsonWriter *w = begin(r, "eval");
    if (!w) return OK;
    json_int(w, "epoch", e->epoch);
    json_int(w, "step", e->step);
    json_number(w, "epochs", e->epochs);
    json_int(w, "images", e->images);
    json_number(w, "loss", e->loss);
    json_number(w, "top1", e->top1);
    json_number(w, "top5", e->top5);
    if (e->has_ema) {
        json_number(w, "ema_loss", e->ema_loss);
        json_number(w, "ema_top1", e->ema_top1);
        json_number(w, "ema_top5", e->ema_top5);
        json_bool(w, "ema_best", e->ema_best);
    }
    if (e->checkpoint) json_string(w, "checkpoint", e->checkpoint);
    if (e->foreign) json_bool(w, "foreign", true);
    return end(r);
}

/* checkpoint and resume: a step and a file; changed NULL: no such field. */
static Status position_record(RunLog *r, const char *event, int64_t step, const char *path,
                              const char *changed, bool other_val)
{
    const char *slash = strrchr(path, '/');
    snprintf(r->checkpoint, sizeof r->checkpoint, "%s", slash ? slash + 1 : path);
    JsonWriter *w = begin(r, event);
    if (!w) return OK;
    json_int(w, "step", step);
    json_string(w, "path", path);
    if (changed) json_string(w, "changed", changed);
    if (other_val) json_bool(w, "other_val", true);
    return end(r);
}

Status runlog_checkpoint(RunLog *r, int64_t step, const char *path)
{
    if (r->rank == 0) log_info("step %lld: saved %s", (long long)step, path);
    return position_record(r, "checkpoint", step, path, NULL, false);
}

Status runlog_on_save(RunLog *r, const OnSaveResult *result)
{
    JsonWriter *w = begin(r, "on_save");
    if (!w) return OK;
    json_int(w, "step", result->step);
    json_string(w, "outcome", on_save_outcome_name(result->outcome));
    json_int(w, "code", result->code);
    json_number(w, "seconds", result->seconds);
    return end(r);
}

static void add_known(JsonWriter *w, const char *key, double value)
{
    if (!isnan(value)) json_number(w, key, value);
}

Status runlog_gpus(RunLog *r, const GpuGauges *gpus, int count)
{
    for (int i = 0; i < count; i++) {
        const GpuGauges *g = &gpus[i];
        JsonWriter *w = begin(r, "gpu");
        if (!w) return OK;
        json_int(w, "gpu", g->index);
        json_string(w, "uuid", g->facts.uuid);
        add_known(w, "utilization", g->state.utilization);
        add_known(w, "utilization_min", g->utilization_min);
        add_known(w, "utilization_max", g->utilization_max);
        add_known(w, "memory_used_bytes", g->state.memory_used_bytes);
        add_known(w, "power_w", g->state.power_w);
        add_known(w, "temperature_c", g->state.temperature_c);
        add_known(w, "sm_clock_mhz", g->state.sm_clock_mhz);
        json_int(w, "throttle_reasons", (int64_t)g->state.throttle_reasons);
        TRY(end(r));
    }
    return OK;
}

Status runlog_resume(RunLog *r, int64_t step, const char *path, const char *changed, bool other_val)
{
    return position_record(r, "resume", step, path, changed, other_val);
}

Status runlog_diverged(RunLog *r, const DivergedRecord *d)
{
    JsonWriter *w = begin(r, "diverged");
    if (!w) return OK;
    json_int(w, "step", d->step);
    json_number(w, "loss", d->loss);
    json_string(w, "tensor", d->tensor);
    json_string(w, "then", d->back ? "rollback" : "stop");
    json_number(w, "lr_factor", d->lr_factor);
    json_int(w, "rollbacks", d->rollbacks);
    return end(r);
}

static void print_result(const RunLog *r)
{
    char lines[CONSOLE_RESULT_LINES][CONSOLE_TEXT_BYTES];
    static const char ended[] = "\"code\":0,\"reason\":\"completed\"}";
    const ConsoleResult result = { .checkpoint = r->checkpoint,
                                   .this_s = r->host_s / r->hosts,
                                   .total_s = r->total_host_s / r->hosts,
                                   .iteration = 1 + jsonl_count(&r->metrics, ended, INT64_MAX - 1),
                                   .evaluated = r->evaluated,
                                   .accuracy = r->last.top1,
                                   .loss = r->last.loss };
    const int count = console_result_table(&result, lines);
    for (int i = 0; i < count; i++) log_info("%s", lines[i]);
}

void runlog_done(RunLog *r, int code, const char *reason)
{
    if (r && r->format == LOG_FORMAT_EPOCH && code == 0 && r->metrics.fd >= 0 && r->host_s > 0)
        print_result(r);
    JsonWriter *w = begin(r, "done");
    if (!w) return;
    json_int(w, "code", code);
    json_string(w, "reason", reason);
    /* No fail() here: the run has its outcome, and the sentence of that must still be there for
     * main to print. */
    int error = write_record(r);
    if (error)
        log_warning("%s: cannot write the last record: %s", r->metrics.path, strerror(error));
}

/* "45 s", "3:20", "1:02:03"; "?" where nothing is known yet. */
static void format_eta(char *out, size_t bytes, double seconds)
{
    if (!(seconds >= 0 && seconds < 1e9)) {
        snprintf(out, bytes, "?");
        return;
    }
    long long s = (long long)(seconds + 0.5);
    if (s < 60) snprintf(out, bytes, "%lld s", s);
    else if (s < 3600) snprintf(out, bytes, "%lld:%02lld", s / 60, s % 60);
    else snprintf(out, bytes, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
}

void runlog_progress(RunLog *r, const StepRecord *s, int64_t total_steps, double eta_s)
{
    char eta[48];
    if (r->rank != 0 || r->format != LOG_FORMAT_LINE) return;
    format_eta(eta, sizeof eta, eta_s);
    double wait = s->step_ms > 0 ? 100 * s->data_wait_ms / s->step_ms : 0;
    log_progress(
        "epoch %lld step %lld/%lld loss %.4f lr %.4g %.1f images/s data wait %.1f %% ETA %s",
        shown(s->epoch), (long long)s->step, (long long)total_steps, s->loss, s->lr,
        s->images_per_s, wait, eta);
}

void runlog_last_words(const RunLog *r, int code, const char *reason)
{
    StrBuf line = { 0 };
    JsonWriter w = { .out = &line };
    if (!r || !r->begun || r->metrics.fd < 0) return;
    json_begin_object(&w, NULL);
    json_string(&w, "event", "done");
    json_number(&w, "time", clock_unix_s());
    json_int(&w, "code", code);
    json_string(&w, "reason", reason);
    json_end_object(&w);
    str_add(&line, "\n");
    if (jsonl_append(&r->metrics, &line) != 0)
        log_warning("%s: done could not be written", r->metrics.path);
    str_free(&line);
}
