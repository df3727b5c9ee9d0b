/* report_run.c - see report_run.h. */
#include "trainer/app/report/report_run.h"

#include "base/fs.h"
#include "base/json.h"
#include <math.h>
#include <string.h>

#define LINES_PER_ARENA 256

/* An array that doubles, with room for one more element; NULL, and it is gone, without memory. */
static void *make_room(void *array, int64_t count, size_t size)
{
    if (count & (count - 1)) return array; /* not a power of two: there is room */
    void *larger = mem_realloc(array, (size_t)(count ? count * 2 : 1) * size);
    if (!larger) mem_free(array);
    return larger;
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

static Status take_start(ReportRun *r, RunRecord *record)
{
    int64_t world = r->start.world;
    TRY(records_keep_texts(record, r->arena));
    r->start = record->start;
    r->earlier_s = r->seconds;
    r->seconds = 0;
    if (r->starts++ > 0 && world != r->start.world) r->world_changed = true;
    r->cold = true;
    r->done = false;
    return OK;
}

static Status take_resume(ReportRun *r, RunRecord *record)
{
    r->resumes++;
    r->seconds += r->earlier_s;
    r->earlier_s = 0;
    cut_behind(r, record->resume.step);
    if (record->resume.other_val) r->first_eval = r->eval_count;
    return OK;
}

static Status take_step(ReportRun *r, RunRecord *record)
{
    StepRecord *s = &record->step;
    if (s->step < 1) {
        r->broken_lines++;
        return OK;
    }
    cut_behind(r, s->step - 1);
    if (!(r->steps = make_room(r->steps, r->step_count, sizeof *r->steps))) return ERR_MEMORY;
    s->elapsed_s = elapsed_of(r);
    r->steps[r->step_count++] = *s;
    return OK;
}

static Status take_epoch(ReportRun *r, RunRecord *record)
{
    EpochRecord *e = &record->epoch;
    TRY(records_keep_texts(record, r->arena));
    const int64_t before = r->epoch_count > 0 ? r->epochs[r->epoch_count - 1].batch : 0;
    if (!(r->epochs = make_room(r->epochs, r->epoch_count, sizeof *r->epochs))) return ERR_MEMORY;
    e->first = r->cold;
    e->steps_before = r->step_count ? r->steps[r->step_count - 1].step : 0;
    e->batch = e->steps > 0 ? e->images / e->steps : r->start.global_batch;
    e->partial = e->images + (before > e->batch ? before : e->batch) <= r->start.images;
    r->epochs[r->epoch_count++] = *e;
    r->cold = false;
    return OK;
}

/* When the run had done steps steps. */
static double elapsed_at(const ReportRun *r, int64_t steps)
{
    int64_t at = r->step_count - 1;
    while (at >= 0 && r->steps[at].step > steps) at--;
    return at >= 0 ? r->steps[at].elapsed_s : (double)NAN;
}

static Status take_eval(ReportRun *r, RunRecord *record)
{
    EvalRecord *e = &record->eval;
    if (e->foreign) return OK; /* of other images or weights */
    int64_t at = r->eval_count;
    TRY(records_keep_texts(record, r->arena));
    if (!(r->evals = make_room(r->evals, r->eval_count, sizeof *r->evals))) return ERR_MEMORY;
    /* in the order of steps: convoy eval may look at an earlier checkpoint */
    for (; at > 0 && r->evals[at - 1].step > e->step; at--) r->evals[at] = r->evals[at - 1];
    r->eval_count++;
    e->elapsed_s = e->checkpoint ? elapsed_at(r, e->step) : elapsed_of(r);
    if (r->start.classes > 0 && r->start.classes <= 5) e->top5 = (double)NAN;
    r->evals[at] = *e;
    return OK;
}

static Status take_spent(ReportRun *r, RunRecord *record)
{
    const SpentRecord *told = &record->spent;
    const Spent s = { fmax(0, told->host_seconds), fmax(0, told->gpu_j), fmax(0, told->cpu_j),
                      fmax(0, told->assumed_j) };
    int i = 0;
    while (i < COST_PARTS && strcmp(told->part, cost_part_names[i]) != 0) i++;
    if (i == COST_PARTS) return OK;
    TRY(records_keep_texts(record, r->arena));
    cost_add(&r->spent.part[i], &s);
    r->trained_images += told->images > 0 ? told->images : 0;
    r->energy_source = told->energy_source;
    for (int64_t k = 0; i == COST_EVALUATION && k < r->eval_count; k++)
        if (r->evals[k].step == told->step && !r->evals[k].checkpoint)
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
    if (!(r->looks = make_room(r->looks, r->look_count, sizeof *r->looks))) return ERR_MEMORY;
    *out = &r->looks[r->look_count++];
    const StepRecord *last = r->step_count ? &r->steps[r->step_count - 1] : NULL;
    **out = (ReportLook){ .step = last ? last->step : 0,
                          .epochs = last ? last->epochs : 0,
                          .elapsed_s = elapsed_of(r) };
    return OK;
}

static Status take_gpu(ReportRun *r, RunRecord *record)
{
    const GpuRecord *told = &record->gpu;
    const double values[REPORT_GAUGES] = { told->utilization, told->memory_used_bytes,
                                           told->power_w, told->sm_clock_mhz, told->temperature_c };
    ReportLook *look;
    if (told->gpu < 0 || told->gpu >= REPORT_GPUS_MAX) return OK;
    if (!r->gpus && !(r->gpus = mem_calloc(REPORT_GPUS_MAX, sizeof *r->gpus))) return ERR_MEMORY;
    TRY(look_of(&look, r, told->gpu));
    look->last_gpu = told->gpu;
    ReportGpu *g = &r->gpus[told->gpu];
    g->utilization_min =
        g->looks++ ? fmin(g->utilization_min, told->utilization_min) : told->utilization_min;
    for (int i = 0; i < REPORT_GAUGES; i++) {
        add_gauge(&look->gauge[i], values[i]);
        add_gauge(&g->gauge[i], values[i]);
    }
    return OK;
}

static Status take_done(ReportRun *r, RunRecord *record)
{
    TRY(records_keep_texts(record, r->arena));
    r->done = true;
    r->code = record->done.code;
    r->reason = record->done.reason;
    return OK;
}

/* NULL: tells nothing here. */
static Status (*const take[RECORD_KINDS])(ReportRun *r, RunRecord *record) = {
    [RECORD_START] = take_start,   [RECORD_STEP] = take_step, [RECORD_EPOCH] = take_epoch,
    [RECORD_EVAL] = take_eval,     [RECORD_GPU] = take_gpu,   [RECORD_SPENT] = take_spent,
    [RECORD_RESUME] = take_resume, [RECORD_DONE] = take_done,
};

/* Time counts from record to record, but not from one process to the next. */
static void take_time(ReportRun *r, const RunRecord *record)
{
    const bool starts = record->kind == RECORD_START;
    if ((r->done && !starts) || isnan(record->time)) return;
    if (record->kind == RECORD_EVAL && record->eval.checkpoint) return; /* by convoy eval */
    if (!starts && r->last_s > 0 && record->time > r->last_s)
        r->seconds += record->time - r->last_s;
    if (r->first_s == 0) r->first_s = record->time;
    r->last_s = record->time;
}

static Status take_line(ReportRun *r, Arena *arena, const char *line, size_t bytes)
{
    JsonValue *object = NULL; /* stays so where the line is none */
    RunRecord record;
    Status status = json_parse(arena, line, bytes, &object);
    if (status == ERR_MEMORY) return status;
    r->lines++;
    records_read(&record, object);
    if (record.kind == RECORD_KINDS) {
        r->broken_lines++;
        return OK;
    }
    take_time(r, &record);
    return take[record.kind] ? take[record.kind](r, &record) : OK;
}

/* ---- the files ---- */

static Status take_lines(ReportRun *r, const char *at, const char *end)
{
    Arena *arena FREED_BY(arena_destroy_at) = NULL;
    for (int64_t n = 0; at < end; n++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (n % LINES_PER_ARENA == 0) {
            arena_destroy(arena);
            TRY(arena_create(&arena, 0));
        }
        /* what is behind the last newline was being written when the run ended */
        r->torn = newline == NULL;
        if (!r->torn) TRY(take_line(r, arena, at, (size_t)(newline - at)));
        at = newline ? newline + 1 : end;
    }
    return OK;
}

static Status read_metrics(ReportRun *r)
{
    uint8_t *bytes FREED = NULL;
    size_t size = 0;
    char *path FREED = fs_join(r->dir, "metrics.jsonl");
    if (!path) return ERR_MEMORY;
    TRY(fs_read_file(path, &bytes, &size));
    return take_lines(r, (const char *)bytes, (const char *)bytes + size);
}

/* A config that is missing or broken leaves the run without one; only memory is an error. */
static Status read_config(ReportRun *r)
{
    uint8_t *bytes FREED = NULL;
    size_t size = 0;
    char *path FREED = fs_join(r->dir, "config.yaml");
    if (!path) return ERR_MEMORY;
    Status status =
        fs_exists(path) ? fs_read_limited(path, FS_TEXT_BYTES, &bytes, &size) : ERR_DATA;
    if (status == OK) {
        r->config_text = arena_strdup(r->arena, (const char *)bytes);
        status = r->config_text ? config_parse(&r->config, r->config_text) : ERR_MEMORY;
    }
    if (!r->config) r->config_text = "";
    return status == ERR_MEMORY ? status : OK;
}

Status report_run_read(ReportRun *out, const char *dir, const char *name)
{
    *out = (ReportRun){ .reason = "", .config_text = "", .energy_source = "", .warmup_steps = -1 };
    records_read_as(RECORD_START, &out->start, NULL);
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

const Units *report_run_units(const ReportRun *runs, int count)
{
    int text = 0;
    for (int i = 0; i < count; i++) text += runs[i].start.text;
    return text == 0 ? &units_images : text == count ? &units_text : &units_mixed;
}

bool report_run_all_masked(const ReportRun *runs, int count)
{
    for (int i = 0; i < count; i++)
        if (!runs[i].start.masks) return false;
    return count > 0;
}

const StepRecord *report_run_nonfinite(const ReportRun *r)
{
    for (int64_t i = 0; i < r->step_count; i++)
        if (!isfinite(r->steps[i].loss) && !records_unmasked(&r->steps[i])) return &r->steps[i];
    return NULL;
}

const EvalRecord *report_run_best(const ReportRun *r)
{
    const EvalRecord *best = NULL;
    for (int64_t i = r->first_eval; i < r->eval_count; i++) {
        const EvalRecord *e = &r->evals[i];
        if (!e->checkpoint && records_better(e, best ? records_score(best) : (double)NAN)) best = e;
    }
    return best;
}
