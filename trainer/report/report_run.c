/* report_run.c - see report_run.h. */
#include "trainer/report/report_run.h"

#include "base/fs.h"
#include "base/json.h"
#include <math.h>
#include <string.h>

#define LINES_PER_ARENA 256

/* ---- fields of a record ---- */

/* Copied into the run's arena; "" where absent. */
static const char *text(ReportRun *r, const JsonValue *record, const char *key)
{
    const char *value = json_text(record, key, "");
    const char *copy = *value ? arena_strdup(r->arena, value) : "";
    return copy ? copy : "";
}

/* Room for one more element of an array that doubles. */
static Status grow(void *array, int64_t count, size_t size)
{
    void **p = array;
    if (count & (count - 1) && count > 0) return OK; /* not a power of two: there is room */
    void *larger = mem_realloc(*p, (size_t)(count ? count * 2 : 1) * size);
    if (!larger) return ERR_MEMORY;
    *p = larger;
    return OK;
}

/* Of a record of that step; those of earlier versions do not tell. */
static double epochs_of(const ReportRun *r, const JsonValue *record, int64_t step)
{
    const double told = json_double(record, "epochs");
    if (!isnan(told)) return told;
    if (r->start.images <= 0 || r->start.global_batch <= 0) return (double)NAN;
    return (double)step * (double)r->start.global_batch / (double)r->start.images;
}

/* As of a record that comes now. */
static double elapsed_of(const ReportRun *r)
{
    return r->last_s > 0 ? r->seconds : (double)NAN;
}

/* ---- one function per event ---- */

/* The run stands at this many steps: what was recorded behind them is done again. */
static void cut_behind(ReportRun *r, int64_t steps)
{
    while (r->step_count > 0 && r->steps[r->step_count - 1].step > steps) r->step_count--;
    while (r->eval_count > 0 && r->evals[r->eval_count - 1].step > steps) r->eval_count--;
    while (r->epoch_count > 0 && r->epochs[r->epoch_count - 1].steps_before > steps)
        r->epoch_count--;
    while (r->look_count > 0 && r->looks[r->look_count - 1].step > steps) r->look_count--;
    if (r->first_eval > r->eval_count) r->first_eval = r->eval_count;
}

/* NULL: nothing is known. */
static ReportStart read_start(ReportRun *r, const JsonValue *record)
{
    return (ReportStart){ .model = text(r, record, "model"),
                          .dataset = text(r, record, "dataset"),
                          .backend = text(r, record, "backend"),
                          .host = text(r, record, "host"),
                          .version = text(r, record, "version"),
                          .device = text(r, record, "device"),
                          .precision = text(r, record, "precision"),
                          .world = json_whole(record, "world"),
                          .hosts = json_whole(record, "hosts"),
                          .cpus = json_whole(record, "cpus"),
                          .compute_threads = json_whole(record, "compute_threads"),
                          .oversubscribed = json_truth(record, "oversubscribed"),
                          .images = json_whole(record, "images"),
                          .val_images = json_whole(record, "val_images"),
                          .classes = json_whole(record, "classes"),
                          .parameters = json_whole(record, "parameters"),
                          .global_batch = json_whole(record, "global_batch"),
                          .steps = json_whole(record, "steps") };
}

static Status take_start(ReportRun *r, const JsonValue *record)
{
    int64_t world = r->start.world;
    r->start = read_start(r, record);
    r->earlier_s = r->seconds;
    r->seconds = 0;
    if (r->starts++ > 0 && world != r->start.world) r->world_changed = true;
    r->cold = true;
    r->done = false;
    return OK;
}

static Status take_resume(ReportRun *r, const JsonValue *record)
{
    r->resumes++;
    r->seconds += r->earlier_s;
    r->earlier_s = 0;
    cut_behind(r, json_whole(record, "step"));
    if (json_truth(record, "other_val")) r->first_eval = r->eval_count;
    return OK;
}

static Status take_step(ReportRun *r, const JsonValue *record)
{
    int64_t step = json_whole(record, "step");
    if (step < 1) {
        r->broken_lines++;
        return OK;
    }
    cut_behind(r, step - 1);
    TRY(grow(&r->steps, r->step_count, sizeof *r->steps));
    r->steps[r->step_count++] = (ReportStep){ .epoch = json_whole(record, "epoch"),
                                              .step = step,
                                              .epochs = epochs_of(r, record, step),
                                              .elapsed_s = elapsed_of(r),
                                              .loss = json_double(record, "loss"),
                                              .lr = json_double(record, "lr"),
                                              .images_per_s = json_double(record, "images_per_s"),
                                              .step_ms = json_double(record, "step_ms"),
                                              .data_wait_ms = json_double(record, "data_wait_ms"),
                                              .comm_wait_ms = json_double(record, "comm_wait_ms"),
                                              .grad_norm = json_double(record, "grad_norm"),
                                              .mfu = json_double(record, "mfu") };
    return OK;
}

static Status take_epoch(ReportRun *r, const JsonValue *record)
{
    TRY(grow(&r->epochs, r->epoch_count, sizeof *r->epochs));
    ReportEpoch *e = &r->epochs[r->epoch_count++];
    *e = (ReportEpoch){ .epoch = json_whole(record, "epoch"),
                        .images = json_whole(record, "images"),
                        .seconds = json_double(record, "seconds"),
                        .first = r->cold,
                        .steps_before = r->step_count ? r->steps[r->step_count - 1].step : 0 };
    const int64_t steps = json_whole(record, "steps"),
                  before = r->epoch_count > 1 ? r->epochs[r->epoch_count - 2].batch : 0;
    e->batch = steps > 0 ? e->images / steps : r->start.global_batch;
    e->partial = e->images + (before > e->batch ? before : e->batch) <= r->start.images;
    r->cold = false;
    return OK;
}

/* When the run had done so many steps. */
static double elapsed_at(const ReportRun *r, int64_t steps)
{
    int64_t at = r->step_count - 1;
    while (at >= 0 && r->steps[at].step > steps) at--;
    return at >= 0 ? r->steps[at].elapsed_s : (double)NAN;
}

static Status take_eval(ReportRun *r, const JsonValue *record)
{
    int64_t step = json_whole(record, "step");
    if (json_truth(record, "foreign")) return OK; /* of other images or weights */
    const bool few = r->start.classes > 0 && r->start.classes <= 5;
    int64_t at = r->eval_count;
    TRY(grow(&r->evals, r->eval_count, sizeof *r->evals));
    /* in the order of steps: convoy eval may look at an earlier checkpoint */
    for (; at > 0 && r->evals[at - 1].step > step; at--) r->evals[at] = r->evals[at - 1];
    r->eval_count++;
    const bool by_hand = json_get(record, "checkpoint") != NULL;
    r->evals[at] = (ReportEval){ .epoch = json_whole(record, "epoch"),
                                 .step = step,
                                 .images = json_whole(record, "images"),
                                 .epochs = epochs_of(r, record, step),
                                 .elapsed_s = by_hand ? elapsed_at(r, step) : elapsed_of(r),
                                 .loss = json_double(record, "loss"),
                                 .top1 = json_double(record, "top1"),
                                 .top5 = few ? (double)NAN : json_double(record, "top5"),
                                 .ema_loss = json_double(record, "ema_loss"),
                                 .ema_top1 = json_double(record, "ema_top1"),
                                 .ema_best = json_truth(record, "ema_best"),
                                 .by_hand = by_hand };
    return OK;
}

static Status take_spent(ReportRun *r, const JsonValue *record)
{
    const Spent s = { fmax(0, json_double(record, "host_seconds")),
                      fmax(0, json_double(record, "gpu_j")), fmax(0, json_double(record, "cpu_j")),
                      fmax(0, json_double(record, "assumed_j")) };
    const char *part = json_text(record, "part", "");
    const int64_t images = json_whole(record, "images"), step = json_whole(record, "step");
    int i = 0;
    while (i < COST_PARTS && strcmp(part, cost_part_names[i]) != 0) i++;
    if (i == COST_PARTS) return OK;
    cost_add(&r->spent.part[i], &s);
    r->trained_images += images > 0 ? images : 0;
    r->energy_source = text(r, record, "energy_source");
    for (int64_t k = 0; i == COST_EVALUATION && k < r->eval_count; k++)
        if (r->evals[k].step == step && !r->evals[k].by_hand)
            r->evals[k].spent = cost_sum(&r->spent);
    return OK;
}

static void add_gauge(ReportRange *to, double value)
{
    if (!isfinite(value)) return;
    to->low = to->count ? fmin(to->low, value) : value;
    to->high = to->count ? fmax(to->high, value) : value;
    to->sum += value;
    to->count++;
}

double report_run_mean(const ReportRange *r)
{
    return r->count ? r->sum / r->count : (double)NAN;
}

/* The look that this GPU's record belongs to; GPUs of one come in the order of their numbers. */
static Status look_of(ReportLook **out, ReportRun *r, int64_t gpu)
{
    *out = r->look_count ? &r->looks[r->look_count - 1] : NULL;
    if (*out && gpu > (*out)->last_gpu) return OK;
    TRY(grow(&r->looks, r->look_count, sizeof *r->looks));
    *out = &r->looks[r->look_count++];
    const ReportStep *last = r->step_count ? &r->steps[r->step_count - 1] : NULL;
    **out = (ReportLook){ .step = last ? last->step : 0,
                          .epochs = last ? last->epochs : 0,
                          .elapsed_s = elapsed_of(r) };
    return OK;
}

static Status take_gpu(ReportRun *r, const JsonValue *record)
{
    static const char *const keys[REPORT_GAUGES] = { "utilization", "memory_used_bytes", "power_w",
                                                     "sm_clock_mhz", "temperature_c" };
    const int64_t gpu = json_whole(record, "gpu");
    const double least = json_double(record, "utilization_min");
    ReportLook *look;
    if (gpu < 0 || gpu >= REPORT_GPUS_MAX) return OK;
    if (!r->gpus && !(r->gpus = mem_calloc(REPORT_GPUS_MAX, sizeof *r->gpus))) return ERR_MEMORY;
    TRY(look_of(&look, r, gpu));
    look->last_gpu = gpu;
    ReportGpu *g = &r->gpus[gpu];
    g->utilization_min = g->looks++ ? fmin(g->utilization_min, least) : least;
    for (int i = 0; i < REPORT_GAUGES; i++) {
        add_gauge(&look->gauge[i], json_double(record, keys[i]));
        add_gauge(&g->gauge[i], json_double(record, keys[i]));
    }
    return OK;
}

static Status take_done(ReportRun *r, const JsonValue *record)
{
    const char *reason = text(r, record, "reason");
    if (strcmp(reason, REPORT_EVAL_DONE) == 0) return OK;
    r->done = true;
    r->code = json_whole(record, "code");
    r->reason = reason;
    return OK;
}

static const struct {
    const char *name;
    Status (*take)(ReportRun *r, const JsonValue *record); /* NULL: tells nothing here */
} events[] = { { "step", take_step },  { "gpu", take_gpu },     { "epoch", take_epoch },
               { "eval", take_eval },  { "start", take_start }, { "done", take_done },
               { "checkpoint", NULL }, { "on_save", NULL },     { "resume", take_resume },
               { "diverged", NULL },   { "spent", take_spent } };

/* Time counts from record to record, but not from one process to the next. */
static void take_time(ReportRun *r, const JsonValue *record, bool starts)
{
    double time = json_double(record, "time");
    if ((r->done && !starts) || json_get(record, "checkpoint")) return; /* by convoy eval */
    if (isnan(time)) return;
    if (!starts && r->last_s > 0 && time > r->last_s) r->seconds += time - r->last_s;
    if (r->first_s == 0) r->first_s = time;
    r->last_s = time;
}

static Status take_line(ReportRun *r, Arena *arena, const char *line, size_t bytes)
{
    JsonValue *record = NULL;
    Status status = json_parse(arena, line, bytes, &record);
    if (status == ERR_MEMORY) return status;
    const JsonValue *event = json_get(record, "event"); /* NULL where the line is no object */
    r->lines++;
    for (size_t i = 0; event && event->type == JSON_STRING && i < sizeof events / sizeof events[0];
         i++) {
        if (strcmp(event->string, events[i].name) != 0) continue;
        take_time(r, record, events[i].take == take_start);
        if (!events[i].take) return OK;
        return events[i].take(r, record);
    }
    r->broken_lines++;
    return OK;
}

/* ---- the files ---- */

static Status take_lines(ReportRun *r, const char *at, const char *end)
{
    Arena *arena = NULL;
    Status status = OK;
    for (int64_t n = 0; at < end && status == OK; n++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (n % LINES_PER_ARENA == 0) {
            arena_destroy(arena);
            if ((status = arena_create(&arena, 0)) != OK) return status;
        }
        /* what is behind the last newline was being written when the run ended */
        r->torn = newline == NULL;
        if (!r->torn) status = take_line(r, arena, at, (size_t)(newline - at));
        at = newline ? newline + 1 : end;
    }
    arena_destroy(arena);
    return status;
}

static Status read_metrics(ReportRun *r)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    char *path = fs_join(r->dir, "metrics.jsonl");
    Status status = path ? fs_read_file(path, &bytes, &size) : ERR_MEMORY;
    if (status == OK) status = take_lines(r, (const char *)bytes, (const char *)bytes + size);
    mem_free(bytes);
    mem_free(path);
    return status;
}

/* A config that is missing or broken leaves the run without one; only memory is an error. */
static Status read_config(ReportRun *r)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    char *path = fs_join(r->dir, "config.yaml");
    if (!path) return ERR_MEMORY;
    Status status =
        fs_exists(path) ? fs_read_limited(path, FS_TEXT_BYTES, &bytes, &size) : ERR_DATA;
    if (status == OK) {
        r->config_text = arena_strdup(r->arena, (const char *)bytes);
        status = r->config_text ? config_parse(&r->config, r->config_text) : ERR_MEMORY;
    }
    if (!r->config) r->config_text = "";
    mem_free(bytes);
    mem_free(path);
    return status == ERR_MEMORY ? status : OK;
}

Status report_run_read(ReportRun *out, const char *dir, const char *name)
{
    *out = (ReportRun){ .start = read_start(NULL, NULL),
                        .reason = "",
                        .config_text = "",
                        .energy_source = "",
                        .warmup_steps = -1 };
    Status status = arena_create(&out->arena, 0);
    if (status == OK) {
        out->dir = arena_strdup(out->arena, dir);
        out->name = arena_strdup(out->arena, name);
        status = out->dir && out->name ? read_metrics(out) : ERR_MEMORY;
    }
    if (status == OK) status = read_config(out);
    if (status != OK) report_run_free(out);
    return status;
}

void report_run_free(ReportRun *r)
{
    config_destroy(r->config);
    mem_free(r->steps);
    mem_free(r->epochs);
    mem_free(r->evals);
    mem_free(r->looks);
    mem_free(r->gpus);
    arena_destroy(r->arena);
    *r = (ReportRun){ 0 };
}

const ReportStep *report_run_nonfinite(const ReportRun *r)
{
    for (int64_t i = 0; i < r->step_count; i++)
        if (!isfinite(r->steps[i].loss)) return &r->steps[i];
    return NULL;
}

double report_run_score(const ReportEval *e)
{
    return e->ema_best ? e->ema_top1 : e->top1;
}

const ReportEval *report_run_best(const ReportRun *r)
{
    const ReportEval *best = NULL;
    for (int64_t i = r->first_eval; i < r->eval_count; i++) {
        const ReportEval *e = &r->evals[i];
        const double loss = e->ema_best ? e->ema_loss : e->loss;
        if (!e->by_hand && isfinite(loss) &&
            (!best || report_run_score(e) > report_run_score(best)))
            best = e;
    }
    return best;
}
