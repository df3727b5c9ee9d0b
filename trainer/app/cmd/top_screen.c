/* top_screen.c - see top_screen.h. */
#include "trainer/app/cmd/top_screen.h"

#include "trainer/engine/config/units.h"
#include <math.h>

/* without a record, and SILENT_GAPS times as long as between the last ones: worth a word */
#define SILENT_S    30.0
#define SILENT_GAPS 5.0
#define UNSTEPPED_S 600.0 /* a first step has no measure: convolutions may be tried out in it */
#define BAR_COLUMNS 30
#define SMOOTH      0.1

/* ---- reading ---- */

/* A history that is full is halved: each value then stands for twice as many losses. */
static void add_history(TopScreen *t, double loss)
{
    if (isnan(loss)) return;
    t->pending_sum += loss;
    if (++t->pending < t->stride) return;
    if (t->history_count == TOP_HISTORY) {
        for (int i = 0; i < TOP_HISTORY / 2; i++)
            t->history[i] = 0.5 * (t->history[2 * i] + t->history[2 * i + 1]);
        t->history_count = TOP_HISTORY / 2;
        t->stride *= 2;
        return;
    }
    t->history[t->history_count++] = t->pending_sum / t->pending;
    t->pending = 0;
    t->pending_sum = 0;
}

/* Another start is another part of the same run: what was evaluated and saved stays, unless other
 * images are evaluated now. */
static void add_start(TopScreen *t, const RunRecord *r)
{
    if (r->kind == RECORD_RESUME && r->resume.other_val) t->seen[RECORD_EVAL] = false;
    if (r->kind != RECORD_START) return;
    t->seen[RECORD_DONE] = t->seen[RECORD_STEP] = false;
    t->seconds_per_image = 0;
}

static void add_step(TopScreen *t, const StepRecord *s)
{
    const double pace = 1 / s->images_per_s;
    if (t->seconds_per_image > 0) t->seconds_per_image += SMOOTH * (pace - t->seconds_per_image);
    else t->seconds_per_image = pace;
    add_history(t, s->loss);
}

static void add_gpu(TopScreen *t, const GpuRecord *g)
{
    if (g->gpu < 0 || g->gpu >= TOP_GPUS_MAX) return;
    if (g->gpu >= t->gpus) t->gpus = (int)g->gpu + 1;
    t->gpu_known[g->gpu] = true;
    t->gpu[g->gpu] = *g;
}

static void add_record(TopScreen *t, const RunRecord *r)
{
    if (r->kind == RECORD_KINDS) return;
    if (r->kind == RECORD_EVAL && r->eval.foreign)
        return; /* other images or weights than its own */
    add_start(t, r);
    if (r->kind == RECORD_STEP) add_step(t, &r->step);
    if (r->kind == RECORD_GPU) add_gpu(t, &r->gpu);
    if (r->kind == RECORD_EVAL &&
        (!t->seen[RECORD_EVAL] || records_better(&r->eval, records_score(&t->best))))
        t->best = r->eval;
    t->seen[r->kind] = true;
    t->last[r->kind] = *r;
}

void top_screen_init(TopScreen *t)
{
    *t = (TopScreen){ .stride = 1 };
}

void top_screen_free(TopScreen *t)
{
    arena_destroy(t->texts);
    t->texts = NULL;
}

/* Whether its texts are where they stay; those of frequent records are not shown. */
static bool keep(TopScreen *t, RunRecord *r)
{
    if (r->kind != RECORD_START && r->kind != RECORD_ON_SAVE && r->kind != RECORD_SPENT &&
        r->kind != RECORD_DONE)
        return true;
    if (!t->texts && arena_create(&t->texts, 4096) != OK) return false;
    return records_keep_texts(r, t->texts) == OK;
}

void top_screen_add_line(TopScreen *t, const char *line, size_t bytes)
{
    Arena *arena FREED_BY(arena_destroy_at) = NULL;
    JsonValue *object = NULL;
    RunRecord record;
    if (arena_create(&arena, 4096) != OK) return;
    if (json_parse(arena, line, bytes, &object) == OK && json_make_visible(arena, object) == OK) {
        records_read(&record, object);
        if (json_text(object, "event", NULL) && !isnan(record.time) && keep(t, &record)) {
            add_record(t, &record);
            double gap = t->last_time > 0 ? record.time - t->last_time : 0;
            t->gap_s = gap > 0.9 * t->gap_s ? gap : 0.9 * t->gap_s;
            t->last_time = record.time;
        }
    }
}

/* ---- telling ---- */

static void add_state(const TopScreen *t, double now_s, StrBuf *out)
{
    double silent = now_s - t->last_time;
    if (t->seen[RECORD_DONE] && t->last[RECORD_DONE].done.code == 0) str_add(out, "done");
    else if (t->seen[RECORD_DONE])
        str_printf(out, "ended with code %lld: %.200s", (long long)t->last[RECORD_DONE].done.code,
                   t->last[RECORD_DONE].done.reason);
    else if (silent > (t->seen[RECORD_STEP] ? SILENT_S : UNSTEPPED_S) &&
             silent > SILENT_GAPS * t->gap_s) {
        str_add(out, "no record for ");
        str_add_duration(out, silent);
        str_add(out, ": it hangs or was killed");
    } else str_add(out, t->seen[RECORD_STEP] ? "training" : "starting");
}

static void add_progress(const TopScreen *t, StrBuf *out)
{
    char bar[BAR_COLUMNS + 1];
    const StartRecord *start = &t->last[RECORD_START].start;
    const StepRecord *step = &t->last[RECORD_STEP].step;
    const int64_t done = step->step, all = start->steps;
    double share = all > 0 ? fmin(1, (double)done / (double)all) : 0;
    for (int i = 0; i < BAR_COLUMNS; i++) bar[i] = i < (int)(share * BAR_COLUMNS) ? '#' : '.';
    bar[BAR_COLUMNS] = '\0';
    str_printf(out, "step        %lld of %lld  [%s] %.1f %%", (long long)done, (long long)all, bar,
               100 * share);
    if (!t->seen[RECORD_DONE] && done < all) {
        str_add(out, "  ");
        str_add_duration(out, (start->epochs - step->epochs) * (double)start->images *
                                  t->seconds_per_image);
        str_add(out, " left");
    }
    str_printf(out, "\nepochs      %.2f of %.2f\n", step->epochs, start->epochs);
}

/* Losses from the first step to now, as heights. */
static void add_history_line(const TopScreen *t, StrBuf *out)
{
    static const char heights[] = "_.-=+*#";
    double least = t->history[0], most = t->history[0];
    for (int i = 1; i < t->history_count; i++) {
        least = fmin(least, t->history[i]);
        most = fmax(most, t->history[i]);
    }
    if (t->history_count < 2 || !(most > least) || isinf(most)) return;
    str_add(out, "loss trend  ");
    for (int i = 0; i < t->history_count; i++) {
        int level =
            (int)((t->history[i] - least) / (most - least) * (double)(sizeof heights - 2) + 0.5);
        str_add_n(out, &heights[level], 1);
    }
    str_printf(out, "  %.4g to %.4g\n", least, most);
}

static void add_step_lines(const TopScreen *t, StrBuf *out)
{
    const StepRecord *s = &t->last[RECORD_STEP].step;
    const int64_t world = t->last[RECORD_START].start.world;
    add_progress(t, out);
    str_printf(out, "loss        %.4f", s->loss);
    if (records_unmasked(s)) str_add(out, " (no masked word)");
    else if (s->masks) str_printf(out, "  ppl %.5g", s->ppl);
    str_printf(out, "  learning rate %.4g", s->lr);
    if (!isnan(s->grad_norm)) str_printf(out, "  gradient norm %.4g", s->grad_norm);
    str_add(out, "\n");
    add_history_line(t, out);
    const double speed = records_speed(s);
    str_printf(out, "speed       %.1f %s", speed, (s->text ? &units_text : &units_images)->speed);
    if (world > 1) str_printf(out, ", %.1f per rank", speed / (double)world);
    str_printf(out, "; step %.1f ms, data wait %.1f %%, comm wait %.1f %%", s->step_ms,
               100 * s->data_wait_ms / s->step_ms, 100 * s->comm_wait_ms / s->step_ms);
    if (!isnan(s->mfu)) str_printf(out, ", MFU %.1f %%", 100 * s->mfu);
    str_add(out, "\n");
}

static void add_money(const SpentRecord *s, StrBuf *out)
{
    const Config prices = { .cost = { .price_per_host_hour = s->price_per_host_hour,
                                      .price_per_kwh = s->price_per_kwh,
                                      .pue = s->pue,
                                      .currency = (char *)(uintptr_t)s->currency,
                                      .price_note = (char *)(uintptr_t)s->price_note } };
    cost_add_money(&prices, s->total_cost, out);
}

/* All parts of the run, as far as records tell. */
static void add_spent_line(const SpentRecord *s, StrBuf *out)
{
    if (!(s->total_host_seconds > 0)) return;
    str_add(out, "total used  ");
    if (!isnan(s->total_j)) str_printf(out, "%.4g kWh, ", s->total_j / 3.6e6);
    str_printf(out, "%.4g host hours", s->total_host_seconds / 3600);
    add_money(s, out);
    str_add(out, "\n");
}

static void add_gpu_line(const GpuRecord *g, StrBuf *out)
{
    str_printf(out, "GPU %-3d    ", (int)g->gpu);
    if (!isnan(g->utilization))
        str_printf(out, " %3.0f %% used (min %.0f)", 100 * g->utilization,
                   100 * g->utilization_min);
    if (!isnan(g->memory_used_bytes))
        str_printf(out, "  %.1f GiB", g->memory_used_bytes / (1 << 30));
    if (!isnan(g->power_w)) str_printf(out, "  %.0f W", g->power_w);
    if (!isnan(g->temperature_c)) str_printf(out, "  %.0f C", g->temperature_c);
    if (!isnan(g->sm_clock_mhz)) str_printf(out, "  %.0f MHz", g->sm_clock_mhz);
    str_add(out, "\n");
}

static void add_masked_eval_line(const TopScreen *t, const EvalRecord *e, StrBuf *out)
{
    char best[RECORDS_SCORE_BYTES];
    records_format_score(e, records_score(&t->best), best);
    str_printf(out, "evaluation  loss %.4f, ppl %.5g", e->loss, e->ppl);
    if (isfinite(e->ema_loss)) str_printf(out, " (averaged weights: loss %.4f)", e->ema_loss);
    str_printf(out, ", %.2f %% of the masked words found, at step %lld; best %s at step %lld\n",
               100 * e->top1, (long long)e->step, best, (long long)t->best.step);
}

static void add_eval_line(const TopScreen *t, StrBuf *out)
{
    const EvalRecord *e = &t->last[RECORD_EVAL].eval;
    if (e->masks) {
        add_masked_eval_line(t, e, out);
        return;
    }
    const int64_t classes = t->last[RECORD_START].start.classes;
    const double ema = records_share(e, true);
    str_printf(out, "evaluation  %s %.2f %%", records_share_name(e->multi),
               100 * records_share(e, false));
    if (e->multi) str_printf(out, " of %lld classes", (long long)e->map_classes);
    else if (classes < 0 || classes > 5) str_printf(out, ", top-5 %.2f %%", 100 * e->top5);
    if (isfinite(ema)) str_printf(out, " (averaged weights: %.2f %%)", 100 * ema);
    str_printf(out, ", loss %.4f at step %lld; best %.2f %% at step %lld\n", e->loss,
               (long long)e->step, 100 * records_score(&t->best), (long long)t->best.step);
}

void top_screen_describe(const TopScreen *t, const char *name, double now_s, StrBuf *out)
{
    str_add(out, "run         ");
    str_add_visible(out, name, "");
    str_add(out, ": ");
    if (t->seen[RECORD_START] || t->seen[RECORD_DONE]) add_state(t, now_s, out);
    else str_add(out, "has not started to train");
    if (!t->seen[RECORD_START]) {
        str_add(out, "\n");
        return;
    }
    const StartRecord *s = &t->last[RECORD_START].start;
    str_printf(out, "\nmodel       %.200s, %lld %s on %.200s, %.200s %.20s, global batch %lld\n",
               s->model, (long long)s->world, s->world == 1 ? "rank" : "ranks", s->host, s->device,
               s->precision, (long long)s->global_batch);
    if (t->seen[RECORD_STEP]) add_step_lines(t, out);
    if (t->seen[RECORD_EVAL]) add_eval_line(t, out);
    const RunRecord *saved = &t->last[RECORD_CHECKPOINT];
    const OnSaveRecord *sent = &t->last[RECORD_ON_SAVE].on_save;
    if (t->seen[RECORD_CHECKPOINT]) {
        str_printf(out, "checkpoint  step %lld, ", (long long)saved->checkpoint.step);
        str_add_duration(out, now_s - saved->time);
        str_add(out, " ago");
        if (t->seen[RECORD_ON_SAVE])
            str_printf(out, "; on_save of step %lld: %.200s", (long long)sent->step, sent->outcome);
        str_add(out, "\n");
    }
    add_spent_line(&t->last[RECORD_SPENT].spent, out);
    for (int i = 0; i < t->gpus; i++)
        if (t->gpu_known[i]) add_gpu_line(&t->gpu[i], out);
}
