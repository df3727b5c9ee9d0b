/* curves.c - what a run recorded, step by step, as lines. One table row a plot; all plots against
 * steps, passes over the data or time, of which a reader chooses one without a script, and all with
 * the same ends. */
#include "trainer/app/report/html.h"
#include "trainer/app/report/plot.h"
#include "trainer/app/report/sections.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define CURVES_MAX 28  /* runs that can be told apart by colour and dashes */
#define BANDS_MAX  3   /* more of them would hide each other */
#define MANY_BINS  100 /* points of a line where there are more of them: pages are mailed */

typedef enum Source { FROM_STEPS, FROM_EVALS, FROM_LOOKS, SOURCES } Source;
typedef enum Against { AGAINST_STEPS, AGAINST_EPOCHS, AGAINST_TIME, AGAINST_COUNT } Against;

/* Which runs a curve is of. */
typedef enum Kind { OF_IMAGES = 1, OF_CLASSES = 2, OF_MASKED = 4, OF_ANY = 7 } Kind;
#define OF_LABELS (OF_IMAGES | OF_CLASSES)

typedef struct Curve {
    int kinds;
    const char *title, *unit;
    Source source;
    size_t value; /* where it is in a record; of a look it is a range */
    double scale; /* in which unit */
    size_t of;    /* 0, or where that is which it is a share of */
    /* the axis reaches these at least; NaN: where the values are */
    double low, high;
    bool exact; /* not smoothed */
} Curve;

#define STEPS(value, scale) FROM_STEPS, offsetof(StepRecord, value), scale, 0
#define EVALS(value, scale) FROM_EVALS, offsetof(EvalRecord, value), scale, 0
#define LOOKS(at, scale)                                                                           \
    FROM_LOOKS, offsetof(ReportLook, gauge) + (at) * sizeof(ReportRange), scale, 0

/* of the time of a step */
#define SHARES(part) FROM_STEPS, offsetof(StepRecord, part), 100, offsetof(StepRecord, step_ms)
static const Curve curves[] = {
    { OF_LABELS, "Training loss", "loss", STEPS(loss, 1), NAN, NAN, false },
    { OF_MASKED, "Training loss", "loss in nats", STEPS(loss, 1), NAN, NAN, false },
    { OF_MASKED, "Training perplexity", "perplexity", STEPS(ppl, 1), NAN, NAN, false },
    { OF_IMAGES, "Evaluation: top-1", "% of the images", EVALS(top1, 100), NAN, NAN, true },
    { OF_CLASSES, "Evaluation: top-1", "% of the sequences", EVALS(top1, 100), NAN, NAN, true },
    { OF_LABELS, "Evaluation: top-1 of averaged weights", "%", EVALS(ema_top1, 100), NAN, NAN,
      true },
    { OF_IMAGES, "Evaluation: mAP", "%", EVALS(map, 100), NAN, NAN, true },
    { OF_IMAGES, "Evaluation: mAP of averaged weights", "%", EVALS(ema_map, 100), NAN, NAN, true },
    { OF_LABELS, "Evaluation: loss", "loss", EVALS(loss, 1), NAN, NAN, true },
    { OF_MASKED, "Evaluation: loss", "loss in nats", EVALS(loss, 1), NAN, NAN, true },
    { OF_MASKED, "Evaluation: loss of averaged weights", "loss in nats", EVALS(ema_loss, 1), NAN,
      NAN, true },
    { OF_MASKED, "Evaluation: perplexity", "perplexity", EVALS(ppl, 1), NAN, NAN, true },
    { OF_MASKED, "Evaluation: words found", "% of the masked words", EVALS(top1, 100), NAN, NAN,
      true },
    { OF_IMAGES, "Evaluation: top-5", "% of the images", EVALS(top5, 100), NAN, NAN, true },
    { OF_CLASSES, "Evaluation: top-5", "% of the sequences", EVALS(top5, 100), NAN, NAN, true },
    { OF_IMAGES, "Speed", "images/s over all ranks", STEPS(images_per_s, 1), 0, NAN, false },
    { OF_CLASSES | OF_MASKED, "Speed", "tokens/s over all ranks", STEPS(tokens_per_s, 1), 0, NAN,
      false },
    { OF_ANY, "Model FLOPs utilisation", "% of the peak", STEPS(mfu, 100), 0, NAN, false },
    { OF_ANY, "Waiting for data", "% of the step time", SHARES(data_wait_ms), 0, 1, false },
    { OF_ANY, "Waiting for gradient sums", "% of the step time", SHARES(comm_wait_ms), 0, 1,
      false },
    { OF_ANY, "Learning rate", "learning rate", STEPS(lr, 1), 0, NAN, true },
    { OF_ANY, "Gradient norm", "norm before clipping", STEPS(grad_norm, 1), 0, NAN, false },
    { OF_ANY, "GPU utilisation", "% of the time", LOOKS(0, 100), 0, 100, false },
    { OF_ANY, "GPU memory", "GiB", LOOKS(1, 1.0 / (1 << 30)), 0, NAN, true },
    { OF_ANY, "GPU power", "W", LOOKS(2, 1), 0, NAN, false },
    { OF_ANY, "GPU clock", "MHz", LOOKS(3, 1), NAN, NAN, false },
    { OF_ANY, "GPU temperature", "degrees Celsius", LOOKS(4, 1), NAN, NAN, false },
};

/* Steps mean the same in all runs; else curves are drawn against passes over the data. */
static bool same_steps(const RunSet *set)
{
    const StartRecord *base = &set->runs[0].start;
    for (int i = 0; i < set->count; i++) {
        const StartRecord *s = &set->runs[i].start;
        bool known = s->images > 0 && s->global_batch > 0;
        if (!known) return true; /* there is nothing else to go by */
        if (s->images != base->images || s->global_batch != base->global_batch) return false;
    }
    return true;
}

typedef struct Records { /* of one source, and where places are in each */
    const void *first;
    int64_t count;
    size_t bytes, step, epochs, elapsed_s;
} Records;

#define RECORDS(list, count, Type)                                                                 \
    r->list, r->count, sizeof(Type), offsetof(Type, step), offsetof(Type, epochs),                 \
        offsetof(Type, elapsed_s)
static Records records_of(const ReportRun *r, Source source)
{
    const Records all[SOURCES] = { { RECORDS(steps, step_count, StepRecord) },
                                   { RECORDS(evals, eval_count, EvalRecord) },
                                   { RECORDS(looks, look_count, ReportLook) } };
    return all[source];
}

static const void *record_at(const Records *r, int64_t i)
{
    return (const char *)r->first + (size_t)i * r->bytes;
}

static double place_of(const Records *r, int64_t i, Against against)
{
    const void *record = record_at(r, i);
    if (against != AGAINST_STEPS)
        return records_number_at(record, against == AGAINST_TIME ? r->elapsed_s : r->epochs);
    return (double)*(const int64_t *)(const void *)((const char *)record + r->step);
}

/* What plots are drawn against, and where all of them begin and end. */
typedef struct Ground {
    Against against;
    const char *name, *key;
    double unit, low, high;
} Ground;

/* Seconds to the unit that suits a time of this length. */
static void choose_time_unit(Ground *g)
{
    g->name = g->high < 300 ? "seconds" : g->high < 300 * 60 ? "minutes" : "hours";
    g->unit = g->high < 300 ? 1 : g->high < 300 * 60 ? 60 : 3600;
    g->low /= g->unit;
    g->high /= g->unit;
}

/* False where no record tells, or all tell the same. */
static bool find_ground(Ground *g, const RunSet *set, Against against)
{
    static const char *const names[AGAINST_COUNT] = { "steps", "epochs", "time" };
    *g = (Ground){ against, names[against], names[against], 1, (double)INFINITY, 0 };
    for (int i = 0; i < set->count; i++) {
        for (int source = 0; source < SOURCES; source++) {
            const Records records = records_of(&set->runs[i], (Source)source);
            for (int64_t k = 0; k < records.count; k++) {
                const double x = place_of(&records, k, against);
                if (!isfinite(x)) continue;
                g->low = fmin(g->low, x);
                g->high = fmax(g->high, x);
            }
        }
    }
    const bool found = g->high > 0 && (against == AGAINST_STEPS || g->low < g->high);
    if (g->low < 0.1 * g->high) g->low = 0;
    if (against == AGAINST_TIME) choose_time_unit(g);
    return found;
}

static double value_of(const Curve *c, const void *record)
{
    const double value = c->scale * records_number_at(record, c->value);
    if (c->of == 0) return value;
    const double share = value / records_number_at(record, c->of);
    return share > 100 ? 100 : share; /* clocks of several threads told the parts: a little more */
}

/* All points of a curve of a run. */
static void fill_curves(PlotPoint *out, const ReportRun *r, const Curve *c, const Ground *g)
{
    const double no = (double)NAN;
    const Records records = records_of(r, c->source);
    for (int64_t i = 0; i < records.count; i++) {
        const void *record = record_at(&records, i);
        const ReportRange *range =
            c->source == FROM_LOOKS ? (const void *)((const char *)record + c->value) : NULL;
        double y = range ? c->scale * report_run_mean(range) : value_of(c, record);
        out[i] = (PlotPoint){ .x = place_of(&records, i, g->against) / g->unit,
                              .y = isfinite(y) ? y : no,
                              .low = range && range->count > 1 ? c->scale * range->low : no,
                              .high = range && range->count > 1 ? c->scale * range->high : no };
    }
}

/* Where the curve is no number for the first time but should be one; NaN: nowhere. */
static double first_nonfinite(const PlotPoint *points, int64_t count, const StepRecord *steps)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(points[i].y) && !(steps && records_unmasked(&steps[i]))) return points[i].x;
    return (double)NAN;
}

typedef struct Room { /* for one plot: bins of each run, and all points of one */
    PlotPoint *all, *bins;
    PlotSeries series[CURVES_MAX];
    char labels[CURVES_MAX][12];
} Room;

static Kind kind_of(const ReportRun *r)
{
    return r->start.masks ? OF_MASKED : r->start.text ? OF_CLASSES : OF_IMAGES;
}

static void draw(StrBuf *out, const RunSet *set, const Curve *c, const Ground *g, Room *room)
{
    const int count = set->count < CURVES_MAX ? set->count : CURVES_MAX;
    const int64_t most = count > BANDS_MAX ? MANY_BINS : PLOT_BINS;
    for (int i = 0; i < count; i++) {
        const ReportRun *r = &set->runs[i];
        const bool drawn = (c->kinds & kind_of(r)) != 0;
        const int64_t n = drawn ? records_of(r, c->source).count : 0;
        PlotPoint *bins = room->bins + (int64_t)i * PLOT_BINS;
        if (n > 0) fill_curves(room->all, r, c, g);
        bool marked = str_starts_with(c->unit, "loss");
        const StepRecord *steps = c->source == FROM_STEPS ? r->steps : NULL;
        room->series[i] =
            (PlotSeries){ .points = bins,
                          .count = n ? plot_bin(bins, most, room->all, n) : 0,
                          .style = c->source == FROM_EVALS ? PLOT_MARKERS : PLOT_LINE,
                          .colour = r->colour,
                          .label = set->count > 1 ? room->labels[i] : NULL,
                          .marked_x = marked ? first_nonfinite(room->all, n, steps) : (double)NAN };
        if (!c->exact) plot_smooth(bins, room->series[i].count);
        for (int64_t k = 0;
             (set->count > BANDS_MAX || c->source == FROM_EVALS) && k < room->series[i].count; k++)
            bins[k].low = bins[k].high = (double)NAN;
    }
    const Plot plot = { .title = c->title,
                        .x_label = g->name,
                        .y_label = c->unit,
                        .series = room->series,
                        .count = count,
                        .whole_x = g->against == AGAINST_STEPS,
                        .strips = true,
                        .x_low = g->low,
                        .x_high = g->high,
                        .y_low = c->low,
                        .y_high = c->high,
                        .lines = { NAN, NAN } };
    plot_svg(out, &plot);
}

static void explain(StrBuf *out, const RunSet *set, int64_t most)
{
    if (set->count > CURVES_MAX) html_note(out, "Only the first 28 runs are drawn.");
    if (most >= PLOT_WINDOWS)
        html_note(out,
                  set->count > BANDS_MAX
                      ? "Lines with many steps are smoothed."
                      : "Lines with many steps are smoothed: each point is a mean, and the band "
                        "spans the smallest to the largest value in that mean.");
}

/* Plots against one of them, under the choice of all. */
static void draw_against(StrBuf *out, const RunSet *set, const Ground *grounds, int count, int at,
                         Room *room)
{
    str_printf(out, "<section id=\"by-%s\" class=\"by%s\">\n<p>plotted against", grounds[at].key,
               at == 0 ? " first" : "");
    for (int i = 0; i < count; i++) {
        if (i == at) str_printf(out, " <b>%s</b>", grounds[i].name);
        else str_printf(out, " <a href=\"#by-%s\">%s</a>", grounds[i].key, grounds[i].name);
    }
    str_add(out, "</p>\n<div class=\"plots\">\n");
    for (size_t k = 0; k < sizeof curves / sizeof curves[0]; k++)
        draw(out, set, &curves[k], &grounds[at], room);
    str_add(out, "</div>\n</section>\n");
}

/* One shows at a time: that which the address names, which lasts when a live page is loaded anew;
 * else the first, which a rule of the style hides where one before it shows. */
static void draw_all(StrBuf *out, const RunSet *set, Room *room)
{
    static const Against orders[][AGAINST_COUNT] = {
        { AGAINST_EPOCHS, AGAINST_TIME, AGAINST_STEPS },
        { AGAINST_STEPS, AGAINST_EPOCHS, AGAINST_TIME },
    };
    Ground grounds[AGAINST_COUNT];
    int count = 0;
    for (int i = 0; i < AGAINST_COUNT; i++)
        count += find_ground(&grounds[count], set, orders[same_steps(set)][i]);
    if (count == 0) html_note(out, "Nothing was recorded yet.");
    str_add(out, "<div>\n");
    for (int i = count; i-- > 0;) draw_against(out, set, grounds, count, i, room);
    str_add(out, "</div>\n");
}

Status section_curves(StrBuf *out, const RunSet *set)
{
    PlotPoint *bins FREED = mem_calloc((size_t)CURVES_MAX * PLOT_BINS, sizeof *bins);
    Room room = { .bins = bins };
    int64_t most = 1;
    for (int i = 0; i < set->count; i++) {
        for (int source = 0; source < SOURCES; source++) {
            const int64_t n = records_of(&set->runs[i], (Source)source).count;
            most = n > most ? n : most;
        }
        if (i < CURVES_MAX) snprintf(room.labels[i], sizeof room.labels[i], "%d", i + 1);
    }
    PlotPoint *all FREED = mem_calloc((size_t)most, sizeof *all);
    if (!bins || !all) return ERR_MEMORY;
    room.all = all;
    html_heading(out, "Curves");
    explain(out, set, most);
    draw_all(out, set, &room);
    return OK;
}
