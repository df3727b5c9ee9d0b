/* curves.c - what a run recorded, step by step, as lines. One table row a plot. */
#include "trainer/report/html.h"
#include "trainer/report/plot.h"
#include "trainer/report/sections.h"
#include <math.h>
#include <stdio.h>

#define CURVES_MAX 28 /* runs that can be told apart by colour and dashes */
#define BANDS_MAX  3  /* more of them would hide each other */

typedef enum Source { FROM_STEPS, FROM_EVALS } Source;

typedef struct Curve {
    const char *title, *unit;
    Source source;
    double (*value)(const void *record); /* of a ReportStep or a ReportEval */
    /* the axis reaches these at least; NaN: where the values are */
    double low, high;
    bool optional; /* not drawn where no run has a value */
} Curve;

static double step_loss(const void *p)
{
    return ((const ReportStep *)p)->loss;
}

static double step_speed(const void *p)
{
    return ((const ReportStep *)p)->images_per_s;
}

static double step_data(const void *p)
{
    const ReportStep *s = p;
    return 100 * s->data_wait_ms / s->step_ms;
}

static double step_comm(const void *p)
{
    const ReportStep *s = p;
    return 100 * s->comm_wait_ms / s->step_ms;
}

static double step_lr(const void *p)
{
    return ((const ReportStep *)p)->lr;
}

static double step_norm(const void *p)
{
    return ((const ReportStep *)p)->grad_norm;
}

static double eval_loss(const void *p)
{
    return ((const ReportEval *)p)->loss;
}

static double eval_top1(const void *p)
{
    return 100 * ((const ReportEval *)p)->top1;
}

static double eval_ema_top1(const void *p)
{
    return 100 * ((const ReportEval *)p)->ema_top1;
}

static double eval_top5(const void *p)
{
    return 100 * ((const ReportEval *)p)->top5;
}

static const Curve curves[] = {
    { "Training loss", "loss", FROM_STEPS, step_loss, NAN, NAN, false },
    { "Evaluation: top-1", "% of the images", FROM_EVALS, eval_top1, NAN, NAN, false },
    { "Evaluation: top-1 of averaged weights", "% of the images", FROM_EVALS, eval_ema_top1, NAN,
      NAN, true },
    { "Evaluation: loss", "loss", FROM_EVALS, eval_loss, NAN, NAN, true },
    { "Evaluation: top-5", "% of the images", FROM_EVALS, eval_top5, NAN, NAN, true },
    { "Speed", "images/s over all ranks", FROM_STEPS, step_speed, 0, NAN, false },
    { "Waiting for data", "% of the step time", FROM_STEPS, step_data, 0, 1, false },
    { "Waiting for gradient sums", "% of the step time", FROM_STEPS, step_comm, 0, 1, false },
    { "Learning rate", "learning rate", FROM_STEPS, step_lr, 0, NAN, false },
    { "Gradient norm", "norm before clipping", FROM_STEPS, step_norm, 0, NAN, true },
};

/* Steps mean the same in all runs; else curves are drawn against passes over the data. */
static bool same_steps(const RunSet *set)
{
    const ReportStart *base = &set->runs[0].start;
    for (int i = 0; i < set->count; i++) {
        const ReportStart *s = &set->runs[i].start;
        bool known = s->images > 0 && s->global_batch > 0;
        if (!known) return true; /* there is nothing else to go by */
        if (s->images != base->images || s->global_batch != base->global_batch) return false;
    }
    return true;
}

static int64_t records_of(const ReportRun *r, Source source)
{
    return source == FROM_STEPS ? r->step_count : r->eval_count;
}

/* All points of a curve of a run. */
static void fill(PlotPoint *out, const ReportRun *r, const Curve *c, bool by_step)
{
    for (int64_t i = 0; i < records_of(r, c->source); i++) {
        const ReportStep *s = c->source == FROM_STEPS ? &r->steps[i] : NULL;
        const ReportEval *e = s ? NULL : &r->evals[i];
        double x = s         ? (by_step ? (double)s->step : s->epochs)
                   : by_step ? (double)e->step
                             : e->epochs;
        double y = s ? c->value(s) : c->value(e);
        out[i] = (PlotPoint){
            .x = x, .y = isfinite(y) ? y : (double)NAN, .low = (double)NAN, .high = (double)NAN
        };
    }
}

/* Where the curve is no number for the first time; NaN: nowhere. */
static double first_nonfinite(const PlotPoint *points, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(points[i].y)) return points[i].x;
    return (double)NAN;
}

typedef struct Room { /* for one plot: bins of each run, and all points of one */
    PlotPoint *all, *bins;
    PlotSeries series[CURVES_MAX];
    char labels[CURVES_MAX][12];
} Room;

static bool any_value(const Room *room, int count)
{
    for (int s = 0; s < count; s++)
        for (int64_t i = 0; i < room->series[s].count; i++)
            if (isfinite(room->series[s].points[i].y)) return true;
    return false;
}

static void draw(StrBuf *out, const RunSet *set, const Curve *c, bool by_step, Room *room)
{
    int count = set->count < CURVES_MAX ? set->count : CURVES_MAX;
    for (int i = 0; i < count; i++) {
        const ReportRun *r = &set->runs[i];
        int64_t n = records_of(r, c->source);
        PlotPoint *bins = room->bins + (int64_t)i * PLOT_BINS;
        fill(room->all, r, c, by_step);
        bool marked = c->value == step_loss || c->value == eval_loss;
        room->series[i] =
            (PlotSeries){ .points = bins,
                          .count = n ? plot_bin(bins, room->all, n) : 0,
                          .style = c->source == FROM_EVALS ? PLOT_MARKERS : PLOT_LINE,
                          .colour = i,
                          .label = set->count > 1 ? room->labels[i] : NULL,
                          .marked_x = marked ? first_nonfinite(room->all, n) : (double)NAN };
        for (int64_t k = 0;
             (set->count > BANDS_MAX || c->source == FROM_EVALS) && k < room->series[i].count; k++)
            bins[k].low = bins[k].high = (double)NAN;
    }
    if (c->optional && !any_value(room, count)) return;
    const Plot plot = { .title = c->title,
                        .x_label = by_step ? "steps" : "epochs",
                        .y_label = c->unit,
                        .series = room->series,
                        .count = count,
                        .whole_x = by_step,
                        .y_low = c->low,
                        .y_high = c->high,
                        .lines = { NAN, NAN } };
    plot_svg(out, &plot);
}

Status section_curves(StrBuf *out, const RunSet *set)
{
    Room room = { .bins = mem_calloc((size_t)CURVES_MAX * PLOT_BINS, sizeof *room.bins) };
    int64_t most = 1;
    for (int i = 0; i < set->count; i++) {
        most = set->runs[i].step_count > most ? set->runs[i].step_count : most;
        most = set->runs[i].eval_count > most ? set->runs[i].eval_count : most;
        if (i < CURVES_MAX) snprintf(room.labels[i], sizeof room.labels[i], "%d", i + 1);
    }
    room.all = mem_calloc((size_t)most, sizeof *room.all);
    if (!room.bins || !room.all) {
        mem_free(room.bins);
        mem_free(room.all);
        return ERR_MEMORY;
    }
    html_heading(out, "Curves");
    if (set->count > CURVES_MAX) html_note(out, "Only the first 28 runs are drawn.");
    if (most > PLOT_BINS) html_note(out, "Lines of many steps show means of neighbouring ones.");
    if (most > PLOT_BINS && set->count <= BANDS_MAX)
        html_note(out, "A band shows the smallest and largest of them.");
    bool by_step = same_steps(set);
    str_add(out, "<div class=\"plots\">\n");
    for (size_t i = 0; i < sizeof curves / sizeof curves[0]; i++)
        draw(out, set, &curves[i], by_step, &room);
    str_add(out, "</div>\n");
    mem_free(room.bins);
    mem_free(room.all);
    return OK;
}
