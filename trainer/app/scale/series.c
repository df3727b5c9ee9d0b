/* series.c - see series.h. */
#include "trainer/app/scale/series.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "trainer/app/report/scaling.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the series ---- */

static Status choose_dir(Series *s)
{
    StrBuf text FREED_BY(str_free) = { 0 };
    const Config *c = s->config;
    if (c->scale.dir[0]) str_add(&text, c->scale.dir);
    else str_printf(&text, "%s-scale", c->run.dir);
    s->dir = text.failed ? NULL : mem_strdup(text.text);
    return s->dir ? OK : ERR_MEMORY;
}

Status series_open(Series *out, const char *config_path, const char *const *sets, int set_count)
{
    *out = (Series){ .config_path = config_path, .sets = sets, .set_count = set_count };
    Status status = config_load(&out->config, config_path, sets, set_count);
    if (status == OK) status = choose_dir(out);
    if (status != OK) {
        series_close(out);
        return status;
    }
    out->point_count = out->config->scale.ranks.count * (int)out->config->scale.repeats;
    return OK;
}

void series_close(Series *s)
{
    config_destroy(s->config);
    mem_free(s->dir);
    *s = (Series){ 0 };
}

/* ---- a point ---- */

static void set(Point *p, StrBuf *b)
{
    ASSERT(p->set_count < SERIES_SETS_MAX);
    p->sets[p->set_count] = b->failed ? NULL : mem_strdup(b->text);
    if (p->sets[p->set_count]) p->set_count++;
    else b->failed = true;
    if (!b->failed) str_clear(b);
}

static void set_word(Point *p, StrBuf *b, const char *key, const char *value)
{
    str_printf(b, "%s=%s", key, value);
    set(p, b);
}

static void set_whole(Point *p, StrBuf *b, const char *key, int64_t value)
{
    str_printf(b, "%s=%lld", key, (long long)value);
    set(p, b);
}

/* What makes a training run a measurement: no evaluation, nor an average that would want one, no
 * checkpoint on the way, no resume, every step recorded. */
static void add_sets(Point *p, const Config *c, StrBuf *b)
{
    set_word(p, b, "run.dir", p->run_dir);
    /* what data.dir stands for is resolved */
    set_word(p, b, "data.dir", "");
    set_word(p, b, "data.train", c->data.train);
    set_word(p, b, "data.val", "");
    set_word(p, b, "data.val_split", "0");
    set_whole(p, b, "train.patience", 0);
    set_whole(p, b, "ema.decay", 0);
    set_whole(p, b, "ema.half_life", 0);
    set_word(p, b, "checkpoint.resume", "none");
    set_whole(p, b, "checkpoint.every_epochs", 0);
    set_whole(p, b, "checkpoint.every_steps", 0);
    set_whole(p, b, "log.every", 1);
    if (c->scale.steps > 0) {
        set_whole(p, b, "train.epochs", 1000000);
        set_whole(p, b, "train.max_steps", c->scale.warmup_steps + c->scale.steps);
    } else {
        set_whole(p, b, "train.epochs", c->scale.epochs);
        set_whole(p, b, "train.max_steps", 0);
    }
    set_word(p, b, "train.batch_mode", c->scale.mode == SCALE_STRONG ? "global" : "per_rank");
    if (c->scale.data == SCALE_SYNTHETIC) {
        set_word(p, b, "data.format", "synthetic");
        set_word(p, b, "data.train", "synthetic");
    }
}

Status series_point(Point *out, const Series *s, int index)
{
    const ConfigList *ranks = &s->config->scale.ranks;
    StrBuf text FREED_BY(str_free) = { 0 };
    *out = (Point){ .ranks = (int64_t)ranks->values[index % ranks->count],
                    .repeat = index / ranks->count + 1 };
    snprintf(out->name, sizeof out->name, "n%lld-r%lld", (long long)out->ranks,
             (long long)out->repeat);
    out->run_dir = fs_join(s->dir, out->name);
    if (out->run_dir) add_sets(out, s->config, &text);
    bool failed = text.failed || !out->run_dir;
    if (!failed) return OK;
    series_point_free(out);
    return fail(ERR_MEMORY, "out of memory");
}

void series_point_free(Point *p)
{
    for (int i = 0; i < p->set_count; i++) mem_free(p->sets[i]);
    mem_free(p->run_dir);
    *p = (Point){ 0 };
}

void series_point_command(const Point *p, const Series *s, Words *out)
{
    words_add(out, "train");
    words_add(out, s->config_path);
    for (int i = 0; i < s->set_count + p->set_count; i++) {
        if (i < s->set_count && str_starts_with(s->sets[i], "scale."))
            continue; /* the series' own */
        words_add(out, "--set");
        words_add(out, i < s->set_count ? s->sets[i] : p->sets[i - s->set_count]);
    }
}

/* ---- what is finished ---- */

/* The configuration that this point's run has. */
static Status point_config(const Point *p, const Series *s, Config **out)
{
    Words all = { .count = 0 };
    for (int i = 0; i < s->set_count; i++) words_add(&all, s->sets[i]);
    for (int i = 0; i < p->set_count; i++) words_add(&all, p->sets[i]);
    if (all.full) return fail(ERR_USAGE, "more than %d times --set", WORDS_MAX);
    return config_load(out, s->config_path, all.word, all.count);
}

static Status check_settings(const Point *p, const Series *s, ReportRun *run)
{
    Config *wanted FREED_BY(config_destroy_at) = NULL;
    StrBuf text FREED_BY(str_free) = { 0 };
    if (!run->config)
        return fail(ERR_USAGE, "%s: a run without a readable config.yaml; remove it", p->run_dir);
    TRY(point_config(p, s, &wanted));
    /* a run's folder tells what auto was in it (command_run.c) */
    if (wanted->train.precision == CONFIG_OTHER && wanted->train.precision_auto == CONFIG_OTHER)
        wanted->train.precision_auto = run->config->train.precision_auto;
    TRY(config_difference(run->config, wanted, &text));
    if (text.length > 0)
        return fail(ERR_USAGE,
                    "%s was measured with other settings (%.600s): set scale.dir to another "
                    "folder, or remove that one",
                    p->run_dir, text.text);
    if (run->start.world != p->ranks)
        return fail(ERR_ENV,
                    "%s: %lld ranks were started and the run had %lld; does this build have MPI?",
                    p->run_dir, (long long)p->ranks, (long long)run->start.world);
    /* the same but for prices: those of now count */
    Config *then = run->config;
    run->config = wanted;
    wanted = then;
    return OK;
}

Status series_point_find(const Point *p, const Series *s, ReportRun *run, bool *finished)
{
    *run = (ReportRun){ 0 };
    *finished = false;
    if (!fs_holds(p->run_dir, "metrics.jsonl")) return OK;
    TRY(report_run_read(run, p->run_dir, p->name));
    if (s->config->scale.steps > 0) run->warmup_steps = s->config->scale.warmup_steps;
    *finished = run->done && run->code == 0;
    Status status = *finished ? check_settings(p, s, run) : OK;
    if (status != OK || !*finished) report_run_free(run);
    return status;
}

/* ---- the finished ones together ---- */

typedef struct Finished {
    ReportRun *runs; /* [count] */
    Point *points;
    int count;
} Finished;

static void finished_free(Finished *f)
{
    for (int i = 0; i < f->count; i++) {
        report_run_free(&f->runs[i]);
        series_point_free(&f->points[i]);
    }
    mem_free(f->runs);
    mem_free(f->points);
}

static Status find_all(Finished *f, const Series *s)
{
    *f = (Finished){ .runs = mem_calloc((size_t)s->point_count, sizeof *f->runs),
                     .points = mem_calloc((size_t)s->point_count, sizeof *f->points) };
    if (!f->runs || !f->points) return ERR_MEMORY;
    for (int i = 0; i < s->point_count; i++) {
        bool finished = false;
        TRY(series_point(&f->points[f->count], s, i));
        Status status = series_point_find(&f->points[f->count], s, &f->runs[f->count], &finished);
        if (status == OK && finished) f->count++;
        else series_point_free(&f->points[f->count]);
        TRY(status);
    }
    return OK;
}

static void add_series_record(StrBuf *out, const Series *s)
{
    static const char *const modes[] = { "weak", "strong" }, *const data[] = { "real",
                                                                               "synthetic" };
    JsonWriter w = { .out = out };
    const Config *c = s->config;
    json_begin_object(&w, NULL);
    json_string(&w, "event", "scale");
    json_number(&w, "time", clock_unix_s());
    json_string(&w, "config", s->config_path);
    json_string(&w, "mode", modes[c->scale.mode]);
    json_string(&w, "data", data[c->scale.data]);
    json_int(&w, "repeats", c->scale.repeats);
    json_int(&w, "steps", c->scale.steps);
    json_int(&w, "warmup_steps", c->scale.warmup_steps);
    json_int(&w, "epochs", c->scale.epochs);
    json_begin_array(&w, "ranks");
    for (int i = 0; i < c->scale.ranks.count; i++) json_number(&w, NULL, c->scale.ranks.values[i]);
    json_end_array(&w);
    json_end_object(&w);
    str_add(out, "\n");
}

static Status add_point_record(StrBuf *out, const Point *p, const ReportRun *r)
{
    JsonWriter w = { .out = out };
    Scaling one FREED_BY(scaling_free) = { 0 };
    TRY(scaling_make(&one, r, 1));
    json_begin_object(&w, NULL);
    json_string(&w, "event", "point");
    json_int(&w, "ranks", p->ranks);
    json_int(&w, "repeat", p->repeat);
    json_string(&w, "run", p->name);
    if (r->warmup_steps >= 0) json_int(&w, "warmup_steps", r->warmup_steps);
    if (one.count == 1) {
        json_number(&w, "epoch_s", one.rows[0].epoch_s.mean);
        json_number(&w, records_name("images_per_s", r->start.text), one.rows[0].images_per_s);
        if (r->start.text) json_number(&w, "tokens_per_s", one.rows[0].tokens_per_s);
        json_number(&w, "data_share", one.rows[0].data_share);
        json_number(&w, "comm_share", one.rows[0].comm_share);
    }
    json_int(&w, "global_batch", r->start.global_batch);
    json_int(&w, "hosts", r->start.hosts);
    json_int(&w, "compute_threads", r->start.compute_threads);
    json_bool(&w, "oversubscribed", r->start.oversubscribed);
    json_end_object(&w);
    str_add(out, "\n");
    return OK;
}

static Status write_records(const Series *s, const Finished *f)
{
    StrBuf text FREED_BY(str_free) = { 0 };
    add_series_record(&text, s);
    for (int i = 0; i < f->count; i++) TRY(add_point_record(&text, &f->points[i], &f->runs[i]));
    char *path FREED = fs_join(s->dir, "scale.jsonl");
    if (!path) return ERR_MEMORY;
    return fs_write_text(fs_make_dirs(s->dir), path, &text);
}

Status series_write(const Series *s, int *finished)
{
    Finished f FREED_BY(finished_free) = { 0 };
    TRY(find_all(&f, s));
    *finished = f.count;
    return write_records(s, &f);
}

static void print_row(const ScalingRow *r)
{
    char half[32] = "-", range[48] = "-";
    if (isfinite(r->epoch_s.half)) snprintf(half, sizeof half, "%.3f", r->epoch_s.half);
    if (isfinite(r->efficiency.low))
        snprintf(range, sizeof range, "%.1f .. %.1f", 100 * r->efficiency.low,
                 100 * r->efficiency.high);
    log_info("%6lld %6lld %10.3f %9s %10.1f %8.3f %8.1f %16s%s", (long long)r->ranks,
             (long long)r->epoch_s.count, r->epoch_s.mean, half, scaling_speed(r), r->speedup,
             100 * r->efficiency.value, range, r->oversubscribed ? "  oversubscribed" : "");
}

/* What an epoch costs on each number of ranks, where prices or joules are known. */
static void print_costs(const Scaling *s, const Config *c)
{
    const ScalingRow *base = &s->rows[0];
    StrBuf text FREED_BY(str_free) = { 0 };
    for (int i = 0; i < s->count; i++) {
        const ScalingRow *r = &s->rows[i];
        if (isnan(r->epoch_cost) && isnan(r->joules_per_image)) continue;
        str_clear(&text);
        str_printf(&text, "%6lld ranks: one epoch", (long long)r->ranks);
        if (!isnan(r->joules_per_image))
            str_printf(&text, ", %.4g J per %s", r->joules_per_image, s->units->one);
        cost_add_money(c, r->epoch_cost, &text);
        if (!isnan(r->epoch_cost) && i > 0)
            str_printf(&text, ", %.3f times that of %lld", r->epoch_cost / base->epoch_cost,
                       (long long)base->ranks);
        if (!text.failed) log_info("%s", text.text);
    }
}

static void print_notes(const StrBuf *notes)
{
    for (const char *p = notes->text; p && *p;) {
        size_t n = strcspn(p, "\n");
        log_info("%.*s", (int)n, p);
        p += n + (p[n] == '\n');
    }
}

Status series_print(const Series *s)
{
    Finished f FREED_BY(finished_free) = { 0 };
    Scaling scaling FREED_BY(scaling_free) = { 0 };
    TRY(find_all(&f, s));
    TRY(scaling_make(&scaling, f.runs, f.count));
    if (scaling.count >= 2) {
        log_info("%6s %6s %10s %9s %10s %8s %8s %16s", "ranks", "values", "epoch s", "+- 95 %",
                 scaling.units->speed, "speed-up", "effic. %", "95 %");
        for (int i = 0; i < scaling.count; i++) print_row(&scaling.rows[i]);
        print_costs(&scaling, s->config);
    }
    print_notes(&scaling.notes);
    return OK;
}
