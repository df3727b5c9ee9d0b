/* epochs.c - how epoch time scales: two plots, a table, a CSV. */
#include "trainer/app/report/csv.h"
#include "trainer/app/report/html.h"
#include "trainer/app/report/plot.h"
#include "trainer/app/report/sections.h"
#include <math.h>
#include <stdio.h>

#define SERIES_MAX (2 + PREDICTIONS_MAX)

typedef struct Room { /* points of one plot */
    PlotPoint measured[SCALING_ROWS_MAX], oversubscribed[SCALING_ROWS_MAX],
        ideal[SCALING_ROWS_MAX + 1];
    PlotPoint predicted[PREDICTIONS_MAX][PREDICTION_POINTS_MAX];
    char titles[SCALING_ROWS_MAX][120];
    PlotSeries series[SERIES_MAX + 1];
    int series_count;
} Room;

static void add_series(Room *room, const PlotPoint *points, int count, PlotStyle style, int colour,
                       const char *name)
{
    if (count == 0) return;
    room->series[room->series_count++] = (PlotSeries){ .points = points,
                                                       .count = count,
                                                       .style = style,
                                                       .colour = colour,
                                                       .name = name,
                                                       .marked_x = (double)NAN };
}

/* Measured points, those with more ranks than hardware apart. value: y with its interval. */
static void add_measured(Room *room, const Scaling *s, Ratio (*value)(const ScalingRow *r),
                         const char *unit)
{
    int measured = 0, over = 0;
    for (int i = 0; i < s->count; i++) {
        const ScalingRow *r = &s->rows[i];
        Ratio v = value(r);
        snprintf(room->titles[i], sizeof room->titles[i], "%lld ranks%s: %.4g %s",
                 (long long)r->ranks, r->oversubscribed ? ", oversubscribed" : "", v.value, unit);
        PlotPoint *p =
            r->oversubscribed ? &room->oversubscribed[over++] : &room->measured[measured++];
        *p = (PlotPoint){ (double)r->ranks, v.value, v.low, v.high, room->titles[i] };
    }
    add_series(room, room->measured, measured, PLOT_MARKERS, 0, "measured, 95 % interval");
    add_series(room, room->oversubscribed, over, PLOT_MARKERS, 4, "oversubscribed");
}

static void add_predictions(Room *room, const RunSet *set)
{
    for (int i = 0; i < set->prediction_count; i++) {
        const Prediction *p = &set->predictions[i];
        for (int k = 0; k < p->count; k++) {
            const double no = (double)NAN;
            room->predicted[i][k] =
                (PlotPoint){ (double)p->ranks[k], 100 * p->efficiency[k], no, no, NULL };
        }
        add_series(room, room->predicted[i], p->count, PLOT_PREDICTION, i + 1,
                   i == 0 ? "prediction" : NULL);
        if (p->count > 0) {
            static const char *const letters[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
            room->series[room->series_count - 1].label = letters[i];
        }
    }
}

static Ratio time_of(const ScalingRow *r)
{
    return (Ratio){ r->epoch_s.mean, r->epoch_s.mean - r->epoch_s.half,
                    r->epoch_s.mean + r->epoch_s.half };
}

static Ratio efficiency_of(const ScalingRow *r)
{
    return (Ratio){ 100 * r->efficiency.value, 100 * r->efficiency.low, 100 * r->efficiency.high };
}

/* T(n0) n0 / n, with the interval of the base as a band. */
static void add_ideal(Room *room, const Scaling *s)
{
    Ratio base = time_of(&s->rows[0]);
    for (int i = 0; i < s->count; i++) {
        double share = (double)s->rows[0].ranks / (double)s->rows[i].ranks;
        room->ideal[i] = (PlotPoint){ (double)s->rows[i].ranks, base.value * share,
                                      base.low * share, base.high * share, NULL };
    }
    add_series(room, room->ideal, s->count, PLOT_IDEAL, 0, "ideal");
}

static void draw_times(StrBuf *out, const Scaling *s, Room *room)
{
    *room = (Room){ .series_count = 0 };
    add_ideal(room, s);
    add_measured(room, s, time_of, "s");
    const Plot plot = { .title = "Epoch time",
                        .x_label = "ranks",
                        .y_label = "seconds per epoch",
                        .series = room->series,
                        .count = room->series_count,
                        .log_x = true,
                        .log_y = true,
                        .y_low = (double)NAN,
                        .y_high = (double)NAN,
                        .lines = { (double)NAN, (double)NAN } };
    plot_svg(out, &plot);
}

static void draw_efficiency(StrBuf *out, const RunSet *set, const Scaling *s, Room *room)
{
    *room = (Room){ .series_count = 0 };
    if (s->count >= 2) add_measured(room, s, efficiency_of, "%");
    add_predictions(room, set);
    const Plot plot = { .title = "Efficiency",
                        .x_label = "ranks",
                        .y_label = "% of the ideal",
                        .series = room->series,
                        .count = room->series_count,
                        .log_x = true,
                        .y_low = 0,
                        .y_high = 100,
                        .lines = { 100, 90 } };
    plot_svg(out, &plot);
}

/* ---- table ---- */

/* Three digits that count. */
static int digits_for(double value)
{
    return value >= 100 ? 1 : value >= 10 ? 2 : 3;
}

static void add_row(StrBuf *out, const ScalingRow *r)
{
    int digits = digits_for(r->epoch_s.mean);
    const Ratio *e = &r->efficiency;
    char ranks[64], half[40] = "", range[48] = "";
    snprintf(ranks, sizeof ranks, "%s%lld", r->oversubscribed ? "oversubscribed: " : "",
             (long long)r->ranks);
    if (isfinite(r->epoch_s.half))
        snprintf(half, sizeof half, "\xC2\xB1 %.*f", digits, r->epoch_s.half);
    if (isfinite(e->low))
        snprintf(range, sizeof range, "%.1f .. %.1f", 100 * e->low, 100 * e->high);
    html_row(out);
    html_figure(out, ranks);
    html_whole(out, r->hosts);
    html_whole(out, r->compute_threads);
    html_number(out, (double)r->global_batch / (double)r->ranks, 0);
    html_whole(out, r->global_batch);
    html_whole(out, r->runs);
    html_whole(out, r->epoch_s.count);
    html_number(out, r->cold_s, digits);
    html_number(out, r->epoch_s.mean, digits);
    html_figure(out, half);
    html_number(out, scaling_speed(r), 1);
    html_number(out, scaling_speed(r) / (double)r->ranks, 1);
    html_number(out, r->speedup, 3);
    html_number(out, 100 * e->value, 1);
    html_figure(out, range);
    html_number(out, 100 * r->data_share, 2);
    html_number(out, 100 * r->comm_share, 2);
    html_number(out, r->loss, 4);
    html_row_end(out);
}

/* Energy and cost, where any is known. */
static void add_spent_table(StrBuf *out, const Scaling *s)
{
    char joules[32];
    const char *const heads[] = { "ranks", joules, "cost per epoch", "relative cost" };
    bool any = false;
    for (int i = 0; i < s->count; i++)
        any = any || isfinite(s->rows[i].joules_per_image) || isfinite(s->rows[i].epoch_cost);
    if (!any) return;
    snprintf(joules, sizeof joules, "J/%s", s->units->one);
    html_table(out, heads, sizeof heads / sizeof heads[0]);
    for (int i = 0; i < s->count; i++) {
        const ScalingRow *r = &s->rows[i];
        html_row(out);
        html_whole(out, r->ranks);
        html_number(out, r->joules_per_image, 3);
        html_number(out, r->epoch_cost, 4);
        html_number(out, r->epoch_cost / s->rows[0].epoch_cost, 3);
        html_row_end(out);
    }
    html_table_end(out);
    html_note(out, "Costs use the prices (cost.*) in each run's config.yaml.");
}

static void add_table(StrBuf *out, const Scaling *s)
{
    char of_rank[32];
    const char *const heads[] = { "ranks",        "hosts",        "threads",       "batch/rank",
                                  "global batch", "runs",         "values",        "first epoch s",
                                  "epoch s",      "95 %",         s->units->speed, of_rank,
                                  "speed-up",     "efficiency %", "95 %",          "data wait %",
                                  "comm wait %",  "last loss" };
    snprintf(of_rank, sizeof of_rank, "%s/rank", s->units->speed);
    html_table(out, heads, sizeof heads / sizeof heads[0]);
    for (int i = 0; i < s->count; i++) add_row(out, &s->rows[i]);
    html_table_end(out);
    add_spent_table(out, s);
}

static void explain(StrBuf *out, const Scaling *s)
{
    const ScalingRow *base = &s->rows[0], *last = &s->rows[s->most_fitted];
    const char *batch = s->same_rank_batch ? "each rank has the same batch (weak scaling)"
                        : s->same_global_batch
                            ? "all ranks together have the same batch (strong scaling)"
                            : "batches follow neither weak nor strong scaling";
    bool epochs = false;
    for (int i = 0; i < s->count; i++) epochs = epochs || !s->rows[i].by_run;
    const char *values =
        epochs ? "one epoch, or one run if three or more have an equal number of ranks" : "one run";
    html_notef(out,
               "Time to train on the %lld %s of an epoch; %s. A value is %s. 95 %% confidence "
               "intervals (Student's t) need three values. Speed-up and efficiency are relative to "
               "%lld %s; the interval of the efficiency is Fieller's. %s",
               (long long)s->images, s->units->many, batch, values, (long long)base->ranks,
               base->ranks == 1 ? "rank" : "ranks",
               s->from_steps
                   ? "The time of a run is its mean step time after the warm-up, times the steps "
                     "of an epoch."
                   : "The first epoch of a process is in a separate column and does not count.");
    if (s->fitted < 3) return;
    html_notef(out,
               "Least-squares fit of T = a + b/n: a = %.4g s, b = %.4g s. The part that does not "
               "scale, a/T, is %.1f %% at %lld ranks.",
               s->fit.constant, s->fit.slope, 100 * s->fit.constant / last->epoch_s.mean,
               (long long)last->ranks);
}

/* ---- predictions ---- */

/* A letter for each fabric, as in the plot. */
static void add_fabrics(StrBuf *out, const RunSet *set)
{
    StrBuf text FREED_BY(str_free) = { 0 };
    str_add(&text,
            "Predictions, not measurements: a model of the step (computation as on one rank, ring "
            "all-reduce by the fabric's latency and bandwidth, overlapped bucket by bucket). "
            "Dashed in the plot:");
    for (int i = 0; i < set->prediction_count; i++)
        str_printf(&text, "%s %c is %s", i ? "," : "", 'a' + i, set->predictions[i].fabric);
    str_add(&text, ".");
    if (text.failed) out->failed = true;
    else html_note(out, text.text);
}

/* A row a number of ranks; the predictions of all fabrics are for the same ones. */
static void add_prediction_table(StrBuf *out, const RunSet *set)
{
    char names[2 * PREDICTIONS_MAX][32];
    const char *heads[1 + 2 * PREDICTIONS_MAX] = { "ranks" };
    int columns = 1;
    for (int i = 0; i < 2 * set->prediction_count; i++) {
        snprintf(names[i], sizeof names[i], "%c: %s", 'a' + i / 2,
                 i % 2 ? "epoch s" : "efficiency %");
        heads[columns++] = names[i];
    }
    add_fabrics(out, set);
    html_table(out, heads, columns);
    for (int k = 0; k < set->predictions[0].count; k++) {
        html_row(out);
        html_whole(out, set->predictions[0].ranks[k]);
        for (int i = 0; i < set->prediction_count; i++) {
            const Prediction *p = &set->predictions[i];
            bool same = k < p->count && p->ranks[k] == set->predictions[0].ranks[k];
            html_number(out, same ? 100 * p->efficiency[k] : (double)NAN, 1);
            html_number(out, same ? p->epoch_s[k] : (double)NAN, digits_for(p->epoch_s[k]));
        }
        html_row_end(out);
    }
    html_table_end(out);
}

void section_scaling(StrBuf *out, const RunSet *set, const Scaling *scaling)
{
    Room *room FREED = mem_calloc(1, sizeof *room);
    if (!room) {
        out->failed = true;
        return;
    }
    const bool measured = scaling->count >= 2;
    html_heading(out, measured ? "Epoch time against ranks" : "Predicted efficiency");
    str_add(out, "<div class=\"plots\">\n");
    if (measured) draw_times(out, scaling, room);
    draw_efficiency(out, set, scaling, room);
    str_add(out, "</div>\n");
    if (measured) {
        explain(out, scaling);
        add_table(out, scaling);
    } else {
        html_note(out, "Scaling needs runs on at least two different numbers of ranks.");
    }
    if (set->prediction_count > 0) add_prediction_table(out, set);
}

void section_scaling_csv(StrBuf *out, const Scaling *s)
{
    const bool text = s->units == &units_text;
    str_printf(out,
               "ranks,hosts,compute_threads,oversubscribed,global_batch,runs,values,value_is,"
               "cold_s,epoch_s,epoch_half_s,%s,speedup,efficiency,efficiency_low,"
               "efficiency_high,data_share,comm_share,loss,%s,epoch_cost%s\n",
               records_name("images_per_s", text), records_name("joules_per_image", text),
               text ? ",tokens_per_s" : "");
    for (int i = 0; i < s->count; i++) {
        const ScalingRow *r = &s->rows[i];
        const double values[] = {
            r->cold_s,     r->epoch_s.mean,     r->epoch_s.half,   r->images_per_s,
            r->speedup,    r->efficiency.value, r->efficiency.low, r->efficiency.high,
            r->data_share, r->comm_share,       r->loss,           r->joules_per_image,
            r->epoch_cost
        };
        csv_whole(out, r->ranks);
        csv_whole(out, r->hosts);
        csv_whole(out, r->compute_threads);
        csv_text(out, r->oversubscribed ? "yes" : "no");
        csv_whole(out, r->global_batch);
        csv_whole(out, r->runs);
        csv_whole(out, r->epoch_s.count);
        csv_text(out, r->by_run ? "run" : "epoch");
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) csv_number(out, values[k]);
        if (text) csv_number(out, r->tokens_per_s);
        str_add(out, "\n");
    }
}
