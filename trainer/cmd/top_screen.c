/* top_screen.c - see top_screen.h. */
#include "trainer/cmd/top_screen.h"

#include "trainer/report/report_run.h"
#include <math.h>

/* without a record, and SILENT_GAPS times as long as between the last ones: worth a word */
#define SILENT_S    30.0
#define SILENT_GAPS 5.0
#define UNSTEPPED_S 600.0 /* a first step has no measure: convolutions may be tried out in it */
#define BAR_COLUMNS 30
#define SMOOTH      0.1

/* ---- reading ---- */

/* Another start is another part of the same run: what was evaluated and saved stays. */
static void add_start(TopScreen *t, const RunRecord *r)
{
    t->started = true;
    t->ended = t->stepped = false;
    t->seconds_per_image = 0;
    t->start = r->start;
}

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

static void add_step(TopScreen *t, const RunRecord *r)
{
    const double pace = 1 / r->step.images_per_s;
    t->stepped = true;
    t->step = r->step;
    if (t->seconds_per_image > 0) t->seconds_per_image += SMOOTH * (pace - t->seconds_per_image);
    else t->seconds_per_image = pace;
    add_history(t, t->step.loss);
}

/* What was the best among other images is none any more. */
static void add_resume(TopScreen *t, const RunRecord *r)
{
    if (r->resume.other_val) t->evaluated = false;
}

static void add_eval(TopScreen *t, const RunRecord *r)
{
    const EvalRecord *e = &r->eval;
    if (e->foreign) return; /* of other images or weights than the run's */
    t->eval = *e;
    if (!t->evaluated ||
        (isfinite(e->ema_best ? e->ema_loss : e->loss) && report_run_score(e) > t->best_top1)) {
        t->best_top1 = report_run_score(e);
        t->best_step = e->step;
    }
    t->evaluated = true;
}

static void add_checkpoint(TopScreen *t, const RunRecord *r)
{
    t->saved = true;
    t->checkpoint = r->checkpoint;
    t->checkpoint_time = r->time;
}

static void add_on_save(TopScreen *t, const RunRecord *r)
{
    t->sent = true;
    t->on_save = r->on_save;
}

static void add_spent(TopScreen *t, const RunRecord *r)
{
    t->spent = r->spent;
}

static void add_gpu(TopScreen *t, const RunRecord *r)
{
    const int64_t index = r->gpu.gpu;
    if (index < 0 || index >= TOP_GPUS_MAX) return;
    if (index >= t->gpus) t->gpus = (int)index + 1;
    t->gpu_known[index] = true;
    t->gpu[index] = r->gpu;
}

static void add_done(TopScreen *t, const RunRecord *r)
{
    t->ended = true;
    t->done = r->done;
}

static const struct {
    void (*add)(TopScreen *t, const RunRecord *r); /* NULL: tells nothing here */
    bool texts;                                    /* they are shown */
} rows[RECORD_KINDS] = {
    [RECORD_START] = { add_start, true },     [RECORD_STEP] = { add_step, false },
    [RECORD_EVAL] = { add_eval, false },      [RECORD_CHECKPOINT] = { add_checkpoint, false },
    [RECORD_ON_SAVE] = { add_on_save, true }, [RECORD_GPU] = { add_gpu, false },
    [RECORD_SPENT] = { add_spent, true },     [RECORD_RESUME] = { add_resume, false },
    [RECORD_DONE] = { add_done, true },
};

void top_screen_init(TopScreen *t)
{
    *t = (TopScreen){ .stride = 1 };
}

void top_screen_free(TopScreen *t)
{
    arena_destroy(t->texts);
    t->texts = NULL;
}

/* Whether its texts are where they stay. */
static bool keep(TopScreen *t, RunRecord *r)
{
    if (r->kind == RECORD_KINDS || !rows[r->kind].texts) return true;
    if (!t->texts && arena_create(&t->texts, 4096) != OK) return false;
    return records_keep_texts(r, t->texts) == OK;
}

static void add_record(TopScreen *t, const RunRecord *r)
{
    if (r->kind < RECORD_KINDS && rows[r->kind].add) rows[r->kind].add(t, r);
    double gap = t->last_time > 0 ? r->time - t->last_time : 0;
    t->gap_s = gap > 0.9 * t->gap_s ? gap : 0.9 * t->gap_s;
    t->last_time = r->time;
}

void top_screen_add_line(TopScreen *t, const char *line, size_t bytes)
{
    Arena *arena = NULL;
    JsonValue *object = NULL;
    RunRecord record;
    if (arena_create(&arena, 4096) != OK) return;
    if (json_parse(arena, line, bytes, &object) == OK && json_make_visible(arena, object) == OK) {
        records_read(&record, object);
        if (json_text(object, "event", NULL) && !isnan(record.time) && keep(t, &record))
            add_record(t, &record);
    }
    arena_destroy(arena);
}

/* ---- telling ---- */

static void add_state(const TopScreen *t, double now_s, StrBuf *out)
{
    double silent = now_s - t->last_time;
    if (t->ended && t->done.code == 0) str_add(out, "done");
    else if (t->ended)
        str_printf(out, "ended with code %lld: %.200s", (long long)t->done.code, t->done.reason);
    else if (silent > (t->stepped ? SILENT_S : UNSTEPPED_S) && silent > SILENT_GAPS * t->gap_s) {
        str_add(out, "no record for ");
        str_add_duration(out, silent);
        str_add(out, ": it hangs or was killed");
    } else str_add(out, t->stepped ? "training" : "starting");
}

static void add_progress(const TopScreen *t, StrBuf *out)
{
    char bar[BAR_COLUMNS + 1];
    const int64_t done = t->step.step, all = t->start.steps;
    double share = all > 0 ? fmin(1, (double)done / (double)all) : 0;
    for (int i = 0; i < BAR_COLUMNS; i++) bar[i] = i < (int)(share * BAR_COLUMNS) ? '#' : '.';
    bar[BAR_COLUMNS] = '\0';
    str_printf(out, "step        %lld of %lld  [%s] %.1f %%", (long long)done, (long long)all, bar,
               100 * share);
    if (!t->ended && done < all) {
        str_add(out, "  ");
        str_add_duration(out, (t->start.epochs - t->step.epochs) * (double)t->start.images *
                                  t->seconds_per_image);
        str_add(out, " left");
    }
    str_printf(out, "\nepochs      %.2f of %.2f\n", t->step.epochs, t->start.epochs);
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
    str_add(out, "            ");
    for (int i = 0; i < t->history_count; i++) {
        int level =
            (int)((t->history[i] - least) / (most - least) * (double)(sizeof heights - 2) + 0.5);
        str_add_n(out, &heights[level], 1);
    }
    str_printf(out, "  %.4g to %.4g\n", least, most);
}

static void add_step_lines(const TopScreen *t, StrBuf *out)
{
    const StepRecord *s = &t->step;
    add_progress(t, out);
    str_printf(out, "loss        %.4f  learning rate %.4g", s->loss, s->lr);
    if (!isnan(s->grad_norm)) str_printf(out, "  gradient norm %.4g", s->grad_norm);
    str_add(out, "\n");
    add_history_line(t, out);
    str_printf(out, "speed       %.1f images/s", s->images_per_s);
    if (t->start.world > 1)
        str_printf(out, ", %.1f of each rank", s->images_per_s / (double)t->start.world);
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
    str_add(out, "spent       ");
    if (!isnan(s->total_j)) str_printf(out, "%.4g kWh, ", s->total_j / 3.6e6);
    str_printf(out, "%.4g host hours", s->total_host_seconds / 3600);
    add_money(s, out);
    str_add(out, "\n");
}

static void add_gpu_line(const GpuRecord *g, StrBuf *out)
{
    str_printf(out, "GPU %-3d    ", (int)g->gpu);
    if (!isnan(g->utilization))
        str_printf(out, " %3.0f %% used (least %.0f)", 100 * g->utilization,
                   100 * g->utilization_min);
    if (!isnan(g->memory_used_bytes))
        str_printf(out, "  %.1f GiB", g->memory_used_bytes / (1 << 30));
    if (!isnan(g->power_w)) str_printf(out, "  %.0f W", g->power_w);
    if (!isnan(g->temperature_c)) str_printf(out, "  %.0f C", g->temperature_c);
    if (!isnan(g->sm_clock_mhz)) str_printf(out, "  %.0f MHz", g->sm_clock_mhz);
    str_add(out, "\n");
}

static void add_eval_line(const TopScreen *t, StrBuf *out)
{
    const EvalRecord *e = &t->eval;
    str_printf(out, "evaluation  top-1 %.2f %%", 100 * e->top1);
    if (t->start.classes < 0 || t->start.classes > 5)
        str_printf(out, ", top-5 %.2f %%", 100 * e->top5);
    if (isfinite(e->ema_top1)) str_printf(out, " (averaged %.2f %%)", 100 * e->ema_top1);
    str_printf(out, ", loss %.4f at step %lld; best %.2f %% at step %lld\n", e->loss,
               (long long)e->step, 100 * t->best_top1, (long long)t->best_step);
}

void top_screen_describe(const TopScreen *t, const char *name, double now_s, StrBuf *out)
{
    str_add(out, "run         ");
    str_add_visible(out, name, "");
    str_add(out, ": ");
    if (!t->started) {
        str_add(out, "has not started to train\n");
        return;
    }
    add_state(t, now_s, out);
    const StartRecord *s = &t->start;
    str_printf(out, "\nmodel       %.200s, %lld %s on %.200s, %.200s %.20s, batch %lld\n", s->model,
               (long long)s->world, s->world == 1 ? "rank" : "ranks", s->host, s->device,
               s->precision, (long long)s->global_batch);
    if (t->stepped) add_step_lines(t, out);
    if (t->evaluated) add_eval_line(t, out);
    if (t->saved) {
        str_printf(out, "checkpoint  step %lld, ", (long long)t->checkpoint.step);
        str_add_duration(out, now_s - t->checkpoint_time);
        str_add(out, " ago");
        if (t->sent)
            str_printf(out, "; on_save of step %lld: %.200s", (long long)t->on_save.step,
                       t->on_save.outcome);
        str_add(out, "\n");
    }
    add_spent_line(&t->spent, out);
    for (int i = 0; i < t->gpus; i++)
        if (t->gpu_known[i]) add_gpu_line(&t->gpu[i], out);
}
