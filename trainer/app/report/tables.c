/* tables.c - the parts of a report that are text: the runs, what is missing, where they ran, how
 * they were configured; and all records as CSV. */
#include "base/clock.h"
#include "trainer/app/report/csv.h"
#include "trainer/app/report/html.h"
#include "trainer/app/report/report.h"
#include "trainer/app/report/sections.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define DIFFERENCES_MAX 40 /* keys that are shown side by side */

/* ---- the runs ---- */

static void describe_end(const ReportRun *r, char out[160])
{
    if (!r->done) snprintf(out, 160, "%s", r->lines ? "unfinished" : "nothing recorded");
    else if (r->code == 0) snprintf(out, 160, "done");
    else if (r->code == 75) snprintf(out, 160, "stopped, checkpoint saved (75)");
    else snprintf(out, 160, "ended with code %lld: %.100s", (long long)r->code, r->reason);
}

/* The median of a value of the steps, by its place in them; NaN for none. */
static Status median_of(const ReportRun *r, size_t at, double *out)
{
    double *values FREED = mem_calloc((size_t)r->step_count + 1, sizeof *values);
    if (!values) return ERR_MEMORY;
    for (int64_t i = 0; i < r->step_count; i++) values[i] = records_number_at(&r->steps[i], at);
    *out = statistics_median(values, r->step_count);
    return OK;
}

/* A sum over steps as a share of their time, in percent. */
static double share_of(const ReportRun *r, size_t at)
{
    double part = 0, whole = 0;
    for (int64_t i = 0; i < r->step_count; i++) {
        part += records_number_at(&r->steps[i], at);
        whole += r->steps[i].step_ms;
    }
    return part < whole ? 100 * part / whole : whole > 0 ? 100 : (double)NAN;
}

/* In percent; a loss where masked says so. The best of all evaluations, or the last. */
static double score_of(const ReportRun *r, bool masked, bool best)
{
    double score = (double)NAN;
    for (int64_t i = best ? r->first_eval : r->eval_count - 1; i >= 0 && i < r->eval_count; i++) {
        EvalRecord e = r->evals[i];
        e.ema_best = e.ema_best && best;
        e.masks = masked;
        const double own = records_score(&e);
        score = masked ? fmin(score, own) : fmax(score, own);
    }
    return masked ? score : 100 * score;
}

static Status add_run_row(StrBuf *out, const RunSet *set, int k)
{
    const ReportRun *r = &set->runs[k];
    const bool masked = report_run_all_masked(set->runs, set->count);
    const bool tokens = report_run_units(set->runs, set->count) == &units_text;
    char end[160], began[32] = "";
    double speed, mfu;
    StrBuf took FREED_BY(str_free) = { 0 };
    const StepRecord *last = r->step_count ? &r->steps[r->step_count - 1] : NULL;
    TRY(median_of(r,
                  tokens ? offsetof(StepRecord, tokens_per_s) : offsetof(StepRecord, images_per_s),
                  &speed));
    TRY(median_of(r, offsetof(StepRecord, mfu), &mfu));
    describe_end(r, end);
    if (r->first_s > 0) clock_format_unix(r->first_s, began, sizeof began);
    char *parts = strchr(began, 'T'); /* where a narrow column is broken */
    if (parts) *parts = ' ';
    if (r->last_s > 0) str_add_duration(&took, r->seconds);
    html_run_row(out, r->colour, k + 1, r->name);
    html_cell(out, end);
    html_cell(out, began);
    html_figure(out, took.text ? took.text : "");
    html_cell(out, r->start.model);
    html_whole(out, r->start.world);
    html_whole(out, r->start.global_batch);
    html_whole(out, last ? last->step : 0);
    html_whole(out, r->start.steps);
    html_number(out, last ? last->epochs : (double)NAN, 2);
    html_number(out, last ? last->loss : (double)NAN, 4);
    html_number(out, score_of(r, masked, false), masked ? 4 : 2);
    html_number(out, score_of(r, masked, true), masked ? 4 : 2);
    html_number(out, speed, 1);
    html_number(out, 100 * mfu, 1);
    html_number(out, share_of(r, offsetof(StepRecord, data_wait_ms)), 2);
    html_number(out, share_of(r, offsetof(StepRecord, comm_wait_ms)), 2);
    html_row_end(out);
    if (took.failed) out->failed = true;
    return OK;
}

/* "last top-1 %": what the runs were evaluated by. */
static void name_score(const RunSet *set, const char *which, char out[32])
{
    bool multi = false, single = false;
    for (int i = 0; i < set->count; i++) {
        const ReportRun *r = &set->runs[i];
        if (r->eval_count == 0) continue;
        multi |= r->evals[r->eval_count - 1].multi;
        single |= !r->evals[r->eval_count - 1].multi;
    }
    if (report_run_all_masked(set->runs, set->count)) snprintf(out, 32, "%s val loss", which);
    else
        snprintf(out, 32, "%s %s%s %%", which, multi ? "mAP" : "top-1",
                 multi && single ? " or top-1" : "");
}

Status section_runs(StrBuf *out, const RunSet *set)
{
    char last[32], best[32];
    const Units *units = report_run_units(set->runs, set->count);
    const char *const heads[] = {
        "",      "<run",         "<status",    "<started", "duration",    "<network",
        "ranks", "global batch", "steps",      "planned",  "epochs",      "last loss",
        last,    best,           units->speed, "MFU %",    "data wait %", "comm wait %"
    };
    name_score(set, "last", last);
    name_score(set, "best", best);
    html_heading(out, set->count == 1 ? "Run" : "Runs");
    html_table(out, heads, sizeof heads / sizeof heads[0]);
    for (int i = 0; i < set->count; i++) TRY(add_run_row(out, set, i));
    html_table_end(out);
    html_notef(
        out,
        "started: start of the first process, in UTC. duration: time of all processes, without "
        "pauses between them. planned: steps of the whole run. %s: median over the recorded "
        "steps. Waits: share of the time of all recorded steps; comm wait is the time of gradient "
        "sums that does not overlap with computation. Loss: at the last recorded step.",
        units->speed);
    return OK;
}

/* ---- what is missing ---- */

static PRINTF_LIKE(4, 5) void add_item(StrBuf *out, int *items, const char *name,
                                       const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if ((*items)++ == 0) {
        html_heading(out, "Notes on the data");
        str_add(out, "<ul>\n");
    }
    html_between(out, "<li>", name, name[0] ? ": " : "");
    html_between(out, "", text, "</li>\n");
}

static void add_run_items(StrBuf *out, int *items, const ReportRun *r)
{
    const StepRecord *nonfinite = report_run_nonfinite(r);
    if (r->lines == 0) add_item(out, items, r->name, "metrics.jsonl holds no record yet.");
    if (r->lines > 0 && r->starts == 0)
        add_item(out, items, r->name, "no start record: network, ranks and batch are not known.");
    if (r->lines > 0 && !r->done)
        add_item(out, items, r->name,
                 "no end was recorded: the run is still running, or was killed.");
    if (r->done && r->code != 0)
        add_item(out, items, r->name, "ended with exit code %lld: %.300s", (long long)r->code,
                 r->reason);
    if (r->torn)
        add_item(out, items, r->name,
                 "the last line of metrics.jsonl is incomplete and was left out.");
    if (r->broken_lines > 0)
        add_item(out, items, r->name, "%lld %s of metrics.jsonl %s not valid and left out.",
                 (long long)r->broken_lines, r->broken_lines == 1 ? "line" : "lines",
                 r->broken_lines == 1 ? "is" : "are");
    if (nonfinite)
        add_item(out, items, r->name,
                 "the loss is not a finite number at step %lld (a cross in the plot; such steps "
                 "are gaps).",
                 (long long)nonfinite->step);
    if (r->resumes > 0)
        add_item(out, items, r->name,
                 "continued %d %s from a checkpoint; repeated steps count once.", r->resumes,
                 r->resumes == 1 ? "time" : "times");
    bool evaluates = !r->config || (r->config->data.val && r->config->data.val[0]) ||
                     r->config->data.val_split > 0;
    if (r->step_count > 0 && r->eval_count == 0 && evaluates)
        add_item(out, items, r->name, "no evaluation was recorded.");
    if (!r->config) add_item(out, items, r->name, "there is no readable config.yaml.");
    if (r->start.oversubscribed && r->warmup_steps < 0)
        add_item(out, items, r->name,
                 "oversubscribed: more ranks than CPUs or GPUs; its speed is not a measurement.");
}

/* Each line of notes is an item. */
static void add_lines(StrBuf *out, int *items, const StrBuf *notes)
{
    for (const char *p = notes->text; p && *p;) {
        size_t n = strcspn(p, "\n");
        add_item(out, items, "", "%.*s", (int)n, p);
        p += n + (p[n] == '\n');
    }
}

void section_missing(StrBuf *out, const RunSet *set, const Scaling *scaling)
{
    int items = 0;
    add_lines(out, &items, &set->notes);
    if (scaling) add_lines(out, &items, &scaling->notes);
    for (int i = 0; i < set->count; i++) add_run_items(out, &items, &set->runs[i]);
    if (items > 0) str_add(out, "</ul>\n");
}

/* ---- environment ---- */

void section_environment(StrBuf *out, const RunSet *set)
{
    const char *many = report_run_units(set->runs, set->count)->many;
    const char *const heads[] = { "",      "<run", "<convoy",    "<host",      "hosts",
                                  "ranks", "CPUs", "threads",    "<precision", "<device",
                                  "<data", many,   "validation", "parameters", "<folder" };
    html_heading(out, "Environment");
    html_table(out, heads, sizeof heads / sizeof heads[0]);
    for (int i = 0; i < set->count; i++) {
        const StartRecord *s = &set->runs[i].start;
        html_run_row(out, set->runs[i].colour, i + 1, set->runs[i].name);
        html_cell(out, s->version);
        html_cell(out, s->host);
        html_whole(out, s->hosts);
        html_whole(out, s->world);
        html_whole(out, s->cpus);
        html_whole(out, s->compute_threads);
        html_cell(out, s->precision);
        html_cell(out, s->backend);
        html_cell(out, s->dataset);
        html_whole(out, s->images);
        html_whole(out, s->val_images);
        html_whole(out, s->parameters);
        html_cell(out, set->runs[i].dir);
        html_row_end(out);
    }
    html_table_end(out);
    html_note(out, "host: rank 0's host. CPUs: CPUs that rank 0 may use. threads: compute threads "
                   "per rank.");
}

/* ---- configuration ---- */

static void add_values(StrBuf *out, const ReportRun *r, int number, const int *keys, int count)
{
    html_run_row(out, r->colour, number, r->name);
    for (int i = 0; i < count; i++) {
        StrBuf value FREED_BY(str_free) = { 0 };
        if (r->config) config_add_key(r->config, keys[i], &value);
        html_cell(out, value.text ? value.text : "");
        if (value.failed) out->failed = true;
    }
    html_row_end(out);
}

void section_differences(StrBuf *out, const RunSet *set)
{
    const Config *configs[REPORT_RUNS_MAX];
    char heads[DIFFERENCES_MAX][64];
    const char *pointers[DIFFERENCES_MAX + 2] = { "", "<run" };
    const char *name;
    int keys[DIFFERENCES_MAX], count = 0;
    if (set->count < 2) return;
    for (int i = 0; i < set->count; i++) configs[i] = set->runs[i].config;
    for (int at = -1; count < DIFFERENCES_MAX; count++) {
        at = config_next_difference(configs, set->count, at + 1, &name);
        if (at < 0) break;
        keys[count] = at;
        snprintf(heads[count], sizeof heads[count], "<%s", name);
        pointers[count + 2] = heads[count];
    }
    html_heading(out, "Differences");
    if (count == 0) html_note(out, "All known configurations are the same.");
    if (count == 0) return;
    html_table(out, pointers, count + 2);
    for (int i = 0; i < set->count; i++) add_values(out, &set->runs[i], i + 1, keys, count);
    html_table_end(out);
    if (count == DIFFERENCES_MAX) html_notef(out, "At most %d keys are shown.", DIFFERENCES_MAX);
}

void section_config(StrBuf *out, const RunSet *set)
{
    bool any = false;
    for (int i = 0; i < set->count; i++) any = any || set->runs[i].config;
    if (!any) return;
    html_heading(out, "Configuration");
    for (int i = 0; i < set->count; i++) {
        if (!set->runs[i].config) continue;
        html_between(out, "<details><summary>", set->runs[i].name, ": config.yaml</summary>");
        html_between(out, "<pre>", set->runs[i].config_text, "</pre></details>\n");
    }
}

/* ---- CSV ---- */

static const char *const columns[] = {
    "loss", "lr",   "images_per_s", "step_ms", "data_wait_ms", "comm_wait_ms", "grad_norm",
    "top1", "top5", "seconds",      "images",  "tokens_per_s", "masked",       "ppl"
};
/* The last are of runs on text alone; one more is of runs with any number of labels. */
enum { COLUMNS = sizeof columns / sizeof columns[0], IMAGE_COLUMNS = COLUMNS - 3 };

static int choose_columns(const RunSet *set, const char *out[COLUMNS + 1])
{
    const bool images = report_run_units(set->runs, set->count) == &units_images;
    int count = images ? IMAGE_COLUMNS : COLUMNS, multi = 0;
    memcpy(out, columns, sizeof columns);
    for (int i = 0; i < set->count; i++)
        for (int64_t k = 0; k < set->runs[i].eval_count; k++) multi |= set->runs[i].evals[k].multi;
    if (multi) out[count++] = "map";
    return count;
}

/* The fields of a record that have a column; others are empty. */
static void csv_record(StrBuf *out, const ReportRun *r, const char *const *names, int count,
                       RecordKind kind, int64_t epoch, int64_t step, const void *record)
{
    csv_text(out, r->name);
    csv_text(out, record_defs[kind].event);
    csv_whole(out, epoch);
    csv_whole(out, step);
    for (int i = 0; i < count; i++) csv_number(out, records_number(kind, record, names[i]));
    str_add(out, "\n");
}

void section_records_csv(StrBuf *out, const RunSet *set)
{
    const Units *units = report_run_units(set->runs, set->count);
    const char *names[COLUMNS + 1];
    const int count = choose_columns(set, names);
    str_add(out, "run,event,epoch,step");
    for (int i = 0; i < count; i++)
        str_printf(out, ",%s", records_name(names[i], units == &units_text));
    str_add(out, "\n");
    for (int i = 0; i < set->count; i++) {
        const ReportRun *r = &set->runs[i];
        for (int64_t k = 0; k < r->step_count; k++)
            csv_record(out, r, names, count, RECORD_STEP, r->steps[k].epoch, r->steps[k].step,
                       &r->steps[k]);
        for (int64_t k = 0; k < r->epoch_count; k++) {
            EpochRecord e = r->epochs[k];
            e.images_per_s = e.tokens_per_s = (double)NAN; /* steps have them */
            csv_record(out, r, names, count, RECORD_EPOCH, e.epoch, e.steps_before, &e);
        }
        for (int64_t k = 0; k < r->eval_count; k++)
            csv_record(out, r, names, count, RECORD_EVAL, r->evals[k].epoch, r->evals[k].step,
                       &r->evals[k]);
    }
}
