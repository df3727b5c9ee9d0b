/* top_screen.c - see top_screen.h. */
#include "trainer/cmd/top_screen.h"

#include "base/arena.h"
#include "base/json.h"
#include "trainer/report/report_run.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* without a record, and SILENT_GAPS times as long as between the last ones: worth a word */
#define SILENT_S    30.0
#define SILENT_GAPS 5.0
#define UNSTEPPED_S 600.0 /* a first step has no measure: convolutions may be tried out in it */
#define BAR_COLUMNS 30
#define SMOOTH      0.1

/* ---- reading ---- */

static void text(const JsonValue *record, const char *key, char out[TOP_TEXT_BYTES])
{
    snprintf(out, TOP_TEXT_BYTES, "%s", json_text(record, key, "?"));
}

/* Passes that so many steps make; records of earlier versions do not tell, and have steps of one
 * size. */
static double epochs_of(const TopScreen *t, const JsonValue *r, double steps)
{
    const double told = json_double(r, "epochs");
    return isnan(told) ? steps * t->global_batch / t->images : told;
}

/* Another start is another part of the same run: what was evaluated and saved stays. */
static void add_start(TopScreen *t, const JsonValue *r)
{
    char precision[TOP_TEXT_BYTES];
    t->started = true;
    t->ended = t->stepped = false;
    t->seconds_per_image = 0;
    text(r, "model", t->model);
    text(r, "host", t->host);
    text(r, "device", t->device);
    text(r, "precision", precision);
    snprintf(t->device + strlen(t->device), sizeof t->device - strlen(t->device), " %.20s",
             precision);
    t->world = json_double(r, "world");
    t->classes = json_double(r, "classes");
    t->steps = json_double(r, "steps");
    t->images = json_double(r, "images");
    t->global_batch = json_double(r, "global_batch");
    t->epochs = epochs_of(t, r, t->steps);
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

static void add_step(TopScreen *t, const JsonValue *r)
{
    const double pace = 1 / json_double(r, "images_per_s");
    t->stepped = true;
    t->step = json_double(r, "step");
    t->epoch = json_double(r, "epoch");
    t->epochs_done = epochs_of(t, r, t->step);
    t->loss = json_double(r, "loss");
    t->lr = json_double(r, "lr");
    t->images_per_s = json_double(r, "images_per_s");
    t->step_ms = json_double(r, "step_ms");
    t->data_wait_ms = json_double(r, "data_wait_ms");
    t->comm_wait_ms = json_double(r, "comm_wait_ms");
    t->grad_norm = json_double(r, "grad_norm");
    t->mfu = json_double(r, "mfu");
    if (t->seconds_per_image > 0) t->seconds_per_image += SMOOTH * (pace - t->seconds_per_image);
    else t->seconds_per_image = pace;
    add_history(t, t->loss);
}

/* What was the best among other images is none any more. */
static void add_resume(TopScreen *t, const JsonValue *r)
{
    if (json_truth(r, "other_val")) t->evaluated = false;
}

static void add_eval(TopScreen *t, const JsonValue *r)
{
    if (json_truth(r, "foreign")) return; /* of other images or weights than the run's */
    t->eval_step = json_double(r, "step");
    t->eval_loss = json_double(r, "loss");
    t->eval_top1 = json_double(r, "top1");
    t->eval_top5 = json_double(r, "top5");
    t->ema_top1 = json_double(r, "ema_top1");
    const bool by_ema = json_truth(r, "ema_best");
    const double judged = by_ema ? t->ema_top1 : t->eval_top1,
                 loss = by_ema ? json_double(r, "ema_loss") : t->eval_loss;
    if (!t->evaluated || (isfinite(loss) && judged > t->best_top1)) {
        t->best_top1 = judged;
        t->best_step = t->eval_step;
    }
    t->evaluated = true;
}

static void add_checkpoint(TopScreen *t, const JsonValue *r)
{
    t->saved = true;
    t->checkpoint_step = json_double(r, "step");
    t->checkpoint_time = json_double(r, "time");
}

static void add_on_save(TopScreen *t, const JsonValue *r)
{
    t->sent = true;
    t->on_save_step = json_double(r, "step");
    text(r, "outcome", t->on_save_outcome);
}

static void add_spent(TopScreen *t, const JsonValue *r)
{
    t->joules = json_double(r, "total_j");
    t->host_s = json_double(r, "total_host_seconds");
    t->money = json_double(r, "total_cost");
    t->price_per_host_hour = json_double(r, "price_per_host_hour");
    t->price_per_kwh = json_double(r, "price_per_kwh");
    t->pue = json_double(r, "pue");
    text(r, "currency", t->currency);
    text(r, "price_note", t->price_note);
}

static void add_gpu(TopScreen *t, const JsonValue *r)
{
    double index = json_double(r, "gpu");
    if (!(index >= 0 && index < TOP_GPUS_MAX)) return;
    if ((int)index >= t->gpus) t->gpus = (int)index + 1;
    t->gpu[(int)index] = (TopGpu){ .known = true,
                                   .utilization = json_double(r, "utilization"),
                                   .utilization_min = json_double(r, "utilization_min"),
                                   .memory_bytes = json_double(r, "memory_used_bytes"),
                                   .power_w = json_double(r, "power_w"),
                                   .temperature_c = json_double(r, "temperature_c"),
                                   .clock_mhz = json_double(r, "sm_clock_mhz") };
}

static void add_done(TopScreen *t, const JsonValue *r)
{
    double code = json_double(r, "code");
    char reason[TOP_TEXT_BYTES];
    text(r, "reason", reason);
    if (strcmp(reason, REPORT_EVAL_DONE) == 0) return;
    t->ended = true;
    t->code = code >= 0 && code < 256 ? (int)code : -1;
    memcpy(t->reason, reason, sizeof reason);
}

static const struct {
    const char *event;
    void (*add)(TopScreen *t, const JsonValue *r);
} rows[] = {
    { "start", add_start },           { "step", add_step },       { "eval", add_eval },
    { "checkpoint", add_checkpoint }, { "on_save", add_on_save }, { "gpu", add_gpu },
    { "spent", add_spent },           { "done", add_done },       { "resume", add_resume },
};

void top_screen_init(TopScreen *t)
{
    *t = (TopScreen){ .stride = 1 };
}

void top_screen_add_line(TopScreen *t, const char *line, size_t bytes)
{
    Arena *arena = NULL;
    JsonValue *record = NULL;
    if (arena_create(&arena, 4096) != OK) return;
    const JsonValue *event =
        json_parse(arena, line, bytes, &record) == OK && json_make_visible(arena, record) == OK
            ? json_get(record, "event")
            : NULL;
    double time = json_double(record, "time");
    if (event && event->type == JSON_STRING && !isnan(time)) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            if (strcmp(event->string, rows[i].event) == 0) rows[i].add(t, record);
        double gap = t->last_time > 0 ? time - t->last_time : 0;
        t->gap_s = gap > 0.9 * t->gap_s ? gap : 0.9 * t->gap_s;
        t->last_time = time;
    }
    arena_destroy(arena);
}

/* ---- telling ---- */

static void add_state(const TopScreen *t, double now_s, StrBuf *out)
{
    double silent = now_s - t->last_time;
    if (t->ended && t->code == 0) str_add(out, "done");
    else if (t->ended) str_printf(out, "ended with code %d: %s", t->code, t->reason);
    else if (silent > (t->stepped ? SILENT_S : UNSTEPPED_S) && silent > SILENT_GAPS * t->gap_s) {
        str_add(out, "no record for ");
        str_add_duration(out, silent);
        str_add(out, ": it hangs or was killed");
    } else str_add(out, t->stepped ? "training" : "starting");
}

static void add_progress(const TopScreen *t, StrBuf *out)
{
    char bar[BAR_COLUMNS + 1];
    double share = t->steps > 0 ? fmin(1, t->step / t->steps) : 0;
    for (int i = 0; i < BAR_COLUMNS; i++) bar[i] = i < (int)(share * BAR_COLUMNS) ? '#' : '.';
    bar[BAR_COLUMNS] = '\0';
    str_printf(out, "step        %.0f of %.0f  [%s] %.1f %%", t->step, t->steps, bar, 100 * share);
    if (!t->ended && t->step < t->steps) {
        str_add(out, "  ");
        str_add_duration(out, (t->epochs - t->epochs_done) * t->images * t->seconds_per_image);
        str_add(out, " left");
    }
    str_printf(out, "\nepochs      %.2f of %.2f\n", t->epochs_done, t->epochs);
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
    add_progress(t, out);
    str_printf(out, "loss        %.4f  learning rate %.4g", t->loss, t->lr);
    if (!isnan(t->grad_norm)) str_printf(out, "  gradient norm %.4g", t->grad_norm);
    str_add(out, "\n");
    add_history_line(t, out);
    str_printf(out, "speed       %.1f images/s", t->images_per_s);
    if (t->world > 1) str_printf(out, ", %.1f of each rank", t->images_per_s / t->world);
    str_printf(out, "; step %.1f ms, data wait %.1f %%, comm wait %.1f %%", t->step_ms,
               100 * t->data_wait_ms / t->step_ms, 100 * t->comm_wait_ms / t->step_ms);
    if (!isnan(t->mfu)) str_printf(out, ", MFU %.1f %%", 100 * t->mfu);
    str_add(out, "\n");
}

static void add_money(const TopScreen *t, StrBuf *out)
{
    Config prices = { .cost = { .price_per_host_hour = t->price_per_host_hour,
                                .price_per_kwh = t->price_per_kwh,
                                .pue = t->pue } };
    char currency[TOP_TEXT_BYTES], note[TOP_TEXT_BYTES];
    memcpy(currency, t->currency, sizeof currency);
    memcpy(note, t->price_note, sizeof note);
    prices.cost.currency = currency;
    prices.cost.price_note = note;
    cost_add_money(&prices, t->money, out);
}

/* All parts of the run, as far as records tell. */
static void add_spent_line(const TopScreen *t, StrBuf *out)
{
    if (!(t->host_s > 0)) return;
    str_add(out, "spent       ");
    if (!isnan(t->joules)) str_printf(out, "%.4g kWh, ", t->joules / 3.6e6);
    str_printf(out, "%.4g host hours", t->host_s / 3600);
    add_money(t, out);
    str_add(out, "\n");
}

static void add_gpu_line(const TopGpu *g, int index, StrBuf *out)
{
    str_printf(out, "GPU %-3d    ", index);
    if (!isnan(g->utilization))
        str_printf(out, " %3.0f %% used (least %.0f)", 100 * g->utilization,
                   100 * g->utilization_min);
    if (!isnan(g->memory_bytes)) str_printf(out, "  %.1f GiB", g->memory_bytes / (1 << 30));
    if (!isnan(g->power_w)) str_printf(out, "  %.0f W", g->power_w);
    if (!isnan(g->temperature_c)) str_printf(out, "  %.0f C", g->temperature_c);
    if (!isnan(g->clock_mhz)) str_printf(out, "  %.0f MHz", g->clock_mhz);
    str_add(out, "\n");
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
    str_printf(out, "\nmodel       %s, %.0f %s on %s, %s, batch %.0f\n", t->model, t->world,
               t->world == 1 ? "rank" : "ranks", t->host, t->device, t->global_batch);
    if (t->stepped) add_step_lines(t, out);
    if (t->evaluated) {
        str_printf(out, "evaluation  top-1 %.2f %%", 100 * t->eval_top1);
        if (!(t->classes <= 5)) str_printf(out, ", top-5 %.2f %%", 100 * t->eval_top5);
        if (isfinite(t->ema_top1)) str_printf(out, " (averaged %.2f %%)", 100 * t->ema_top1);
        str_printf(out, ", loss %.4f at step %.0f; best %.2f %% at step %.0f\n", t->eval_loss,
                   t->eval_step, 100 * t->best_top1, t->best_step);
    }
    if (t->saved) {
        str_printf(out, "checkpoint  step %.0f, ", t->checkpoint_step);
        str_add_duration(out, now_s - t->checkpoint_time);
        str_add(out, " ago");
        if (t->sent)
            str_printf(out, "; on_save of step %.0f: %s", t->on_save_step, t->on_save_outcome);
        str_add(out, "\n");
    }
    add_spent_line(t, out);
    for (int i = 0; i < t->gpus; i++)
        if (t->gpu[i].known) add_gpu_line(&t->gpu[i], i, out);
}
