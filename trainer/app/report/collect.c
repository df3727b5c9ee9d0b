/* collect.c - see collect.h. */
#include "trainer/app/report/collect.h"

#include "base/fs.h"
#include "base/json.h"
#include "trainer/app/report/html.h"
#include "trainer/app/report/report.h"
#include <stdio.h>
#include <string.h>

#define NAME_BYTES 256

/* The last part of a path, without slashes behind it; "." and the like stay as they are. */
static void short_name(char out[NAME_BYTES], const char *dir)
{
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/') n--;
    size_t first = n;
    while (first > 0 && dir[first - 1] != '/') first--;
    snprintf(out, NAME_BYTES, "%.*s",
             (int)(n - first < NAME_BYTES - 1 ? n - first : NAME_BYTES - 1), dir + first);
}

/* A short name where no other run has it, else the whole path. */
static Status add_run(RunSet *s, const char *dir)
{
    char last[NAME_BYTES];
    const char *name = last;
    if (s->count == REPORT_RUNS_MAX)
        return fail(ERR_USAGE, "a report shows at most %d runs", REPORT_RUNS_MAX);
    short_name(last, dir);
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->runs[i].name, last) == 0) name = dir;
    TRY(report_run_read(&s->runs[s->count], dir, name));
    s->count++;
    return OK;
}

/* ---- folders of convoy scale ---- */

/* What a series is to have; its points follow. */
static Status take_series(RunSet *s, const char *dir, const JsonValue *record)
{
    const JsonValue *ranks = json_get(record, "ranks");
    const int64_t repeats = json_whole(record, "repeats");
    (void)dir;
    for (const JsonValue *r = ranks ? ranks->child : NULL; r && repeats < INT32_MAX; r = r->next)
        s->points_due += repeats;
    return OK;
}

/* A finished point: its run folder lies in the folder of the series. */
static Status take_point(RunSet *s, const char *dir, const JsonValue *record)
{
    const char *run = json_text(record, "run", "");
    char *path FREED = fs_join(dir, run);
    if (!path) return ERR_MEMORY;
    s->points_due--;
    if (run[0] == '\0' || !fs_holds(path, "metrics.jsonl")) {
        str_printf(&s->notes, "%s: the run of point %s is missing.\n", dir, run);
        return OK;
    }
    TRY(add_run(s, path));
    s->runs[s->count - 1].warmup_steps = json_whole(record, "warmup_steps");
    return OK;
}

static Prediction *prediction_of(RunSet *s, const char *fabric)
{
    for (int i = 0; i < s->prediction_count; i++)
        if (strcmp(s->predictions[i].fabric, fabric) == 0) return &s->predictions[i];
    if (s->prediction_count == PREDICTIONS_MAX) return NULL;
    Prediction *p = &s->predictions[s->prediction_count++];
    snprintf(p->fabric, sizeof p->fabric, "%s", fabric);
    return p;
}

static Status take_prediction(RunSet *s, const char *dir, const JsonValue *record)
{
    Prediction *p = prediction_of(s, json_text(record, "fabric", ""));
    (void)dir;
    if (!p || p->count == PREDICTION_POINTS_MAX) return OK;
    p->ranks[p->count] = json_whole(record, "ranks");
    p->epoch_s[p->count] = json_double(record, "epoch_s");
    p->efficiency[p->count] = json_double(record, "efficiency");
    if (p->ranks[p->count] > 0) p->count++;
    return OK;
}

/* Gives every line of dir/file with that event to take. Lines that are no JSON are left out. */
static Status each_record(RunSet *s, const char *dir, const char *file, const char *event,
                          Status (*take)(RunSet *, const char *, const JsonValue *))
{
    uint8_t *bytes FREED = NULL;
    size_t size = 0;
    Arena *arena FREED_BY(arena_destroy_at) = NULL;
    char *path FREED = fs_join(dir, file);
    if (!path) return ERR_MEMORY;
    TRY(fs_read_file(path, &bytes, &size));
    TRY(arena_create(&arena, 0));
    for (const char *p = (const char *)bytes, *end; (end = strchr(p, '\n')); p = end + 1) {
        JsonValue *record = NULL;
        Status status = json_parse(arena, p, (size_t)(end - p), &record);
        if (status == ERR_DATA) continue;
        TRY(status);
        if (strcmp(json_text(record, "event", ""), event) == 0) TRY(take(s, dir, record));
    }
    return OK;
}

static Status add_scale(RunSet *s, const char *dir)
{
    int before = s->count;
    s->scale = true;
    TRY(each_record(s, dir, "scale.jsonl", "scale", take_series));
    TRY(each_record(s, dir, "scale.jsonl", "point", take_point));
    bool predictions = fs_holds(dir, "predictions.jsonl");
    if (predictions) TRY(each_record(s, dir, "predictions.jsonl", "prediction", take_prediction));
    if (s->count > before || predictions) return OK;
    return fail(ERR_DATA, "%s: no finished point in its scale.jsonl", dir);
}

static Status add_input(RunSet *s, const char *dir)
{
    if (!fs_is_dir(dir))
        return fail(ERR_USAGE, "%s: %s", dir,
                    fs_exists(dir) ? "not a folder" : "no such run folder");
    if (fs_holds(dir, "scale.jsonl")) return add_scale(s, dir);
    if (fs_holds(dir, "metrics.jsonl")) return add_run(s, dir);
    return fail(ERR_USAGE, "%s: not a run folder: it has neither metrics.jsonl nor scale.jsonl",
                dir);
}

/* ---- all of them ---- */

/* Runs of as many ranks stay in the order in which they were named. */
static void sort_by_ranks(RunSet *s)
{
    for (int i = 1; i < s->count; i++) {
        const ReportRun moved = s->runs[i];
        int at = i;
        for (; at > 0 && s->runs[at - 1].start.world > moved.start.world; at--)
            s->runs[at] = s->runs[at - 1];
        s->runs[at] = moved;
    }
}

/* A colour a run; where numbers of ranks differ, one a number, and dashes tell its runs apart. */
static void choose_colours(RunSet *s)
{
    int group = 0, nth = 0;
    s->ranks_differ = s->count > 1 && s->runs[0].start.world != s->runs[s->count - 1].start.world;
    for (int i = 0; i < s->count; i++) {
        const bool another = i > 0 && s->runs[i].start.world != s->runs[i - 1].start.world;
        group += another;
        nth = another || i == 0 ? 0 : nth + 1;
        s->runs[i].colour =
            s->ranks_differ
                ? group % HTML_COLOURS + HTML_COLOURS * ((nth + group / HTML_COLOURS) % HTML_DASHES)
                : i;
    }
}

Status collect_runs(RunSet *out, const char *const *inputs, int count)
{
    Status status = OK;
    *out = (RunSet){ .runs = mem_calloc(REPORT_RUNS_MAX, sizeof *out->runs),
                     .predictions = mem_calloc(PREDICTIONS_MAX, sizeof *out->predictions) };
    if (!out->runs || !out->predictions) status = ERR_MEMORY;
    for (int i = 0; i < count && status == OK; i++) status = add_input(out, inputs[i]);
    sort_by_ranks(out);
    choose_colours(out);
    if (status == OK && out->notes.failed) status = fail(ERR_MEMORY, "out of memory");
    if (status != OK) collect_free(out);
    return status;
}

void collect_free(RunSet *s)
{
    for (int i = 0; s->runs && i < s->count; i++) report_run_free(&s->runs[i]);
    mem_free(s->runs);
    mem_free(s->predictions);
    str_free(&s->notes);
    *s = (RunSet){ 0 };
}
