/* plot.c - see plot.h. Coordinates are SVG's: x to the right, y down, in units of a 600 x 320
 * drawing. */
#include "trainer/app/report/plot.h"

#include "trainer/app/report/axis.h"
#include "trainer/app/report/html.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH  600.0
#define HEIGHT 320.0
#define LEFT   64.0
#define RIGHT  572.0
#define TOP    34.0
#define BOTTOM 270.0
#define LEGEND 311.0

#define TICKS_MAX    14 /* values of a logarithmic axis that each have one */
#define TICK_WIDTH   26.0
#define LABELS_MAX   64
#define LABEL_WIDTH  15.0
#define LABEL_HEIGHT 11.0
#define ALIKE        1.0 /* lines nowhere further apart than that hide each other */
#define ALIKE_DASH   7
#define DOTS_MAX     30 /* points of a line that are worth one each */

typedef struct Drawing {
    StrBuf *out;
    const Plot *plot;
    Axis x, y;
    /* of the lines that are like line s: how many there are, and which of them it is */
    int alike[LABELS_MAX], turn[LABELS_MAX];
} Drawing;

/* ---- ranges ---- */

/* The different x of all points, ascending; at most TICKS_MAX, else 0. */
static int distinct_x(const Plot *p, double out[TICKS_MAX])
{
    int n = 0;
    for (int s = 0; s < p->count; s++) {
        for (int64_t i = 0; i < p->series[s].count; i++) {
            double x = p->series[s].points[i].x;
            int at = 0;
            while (at < n && out[at] < x) at++;
            if (!isfinite(x) || (at < n && out[at] == x)) continue;
            if (n == TICKS_MAX) return 0;
            for (int k = n++; k > at; k--) out[k] = out[k - 1];
            out[at] = x;
        }
    }
    return n;
}

/* Each value where they are few, else powers of two. */
static void put_ticks_of_ranks(Axis *a, const Plot *p)
{
    double x[TICKS_MAX];
    const int n = distinct_x(p, x);
    a->ticks = 0;
    a->step = 0;
    for (int i = 0; i < n; i++) a->tick[a->ticks++] = x[i];
    for (double e = ceil(log2(a->low)); n == 0 && exp2(e) <= a->high; e++)
        if (a->ticks < AXIS_TICKS_MAX) a->tick[a->ticks++] = exp2(e);
}

static bool measure_plot(Drawing *d)
{
    const Plot *p = d->plot;
    axis_init(&d->x, p->log_x ? AXIS_LOG : p->whole_x ? AXIS_WHOLE : AXIS_EXACT);
    axis_init(&d->y, p->log_y ? AXIS_LOG : AXIS_VALUES);
    for (int s = 0; s < p->count; s++) {
        for (int64_t i = 0; i < p->series[s].count; i++) {
            const PlotPoint *q = &p->series[s].points[i];
            if (!isfinite(q->x)) continue;
            axis_widen(&d->x, q->x);
            axis_widen(&d->y, q->y);
            axis_widen(&d->y, q->low);
            axis_widen(&d->y, q->high);
        }
    }
    if (axis_is_empty(&d->y) || axis_is_empty(&d->x)) return false;
    axis_widen(&d->x, p->x_low);
    axis_widen(&d->x, p->x_high);
    axis_widen(&d->y, p->y_low);
    axis_widen(&d->y, p->y_high);
    axis_finish(&d->x);
    axis_finish(&d->y);
    if (p->log_x) put_ticks_of_ranks(&d->x, p);
    return true;
}

static double at_x(const Drawing *d, double x)
{
    return LEFT + (RIGHT - LEFT) * axis_position(&d->x, x);
}

static double at_y(const Drawing *d, double y)
{
    return BOTTOM - (BOTTOM - TOP) * axis_position(&d->y, y);
}

/* ---- axes ---- */

/* kind: the class by which html.c's style knows it. */
static void text_at(StrBuf *out, double x, double y, const char *kind, const char *anchor,
                    const char *text)
{
    str_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"%s\" ", x, y, kind,
               anchor);
    html_between(out, "fill=\"var(--soft)\">", text, "</text>\n");
}

static void line(StrBuf *out, double x1, double y1, double x2, double y2, const char *style)
{
    str_printf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2,
               style);
}

static void draw_y_axis(const Drawing *d)
{
    char text[AXIS_TEXT_BYTES];
    for (int i = 0; i < d->y.ticks; i++) {
        const double y = at_y(d, d->y.tick[i]);
        line(d->out, LEFT, y, RIGHT, y, "stroke=\"var(--grid)\"");
        axis_format(&d->y, d->y.tick[i], text);
        text_at(d->out, LEFT - 7, y + 4, "y", "end", text);
    }
    for (int i = 0; i < 2; i++) {
        double v = d->plot->lines[i];
        if (isfinite(v))
            line(d->out, LEFT, at_y(d, v), RIGHT, at_y(d, v),
                 "stroke=\"var(--axis)\" stroke-dasharray=\"1 3\"");
    }
}

static void draw_x_axis(const Drawing *d)
{
    char text[AXIS_TEXT_BYTES];
    double last = -TICK_WIDTH;
    for (int i = 0; i < d->x.ticks; i++) {
        const double x = at_x(d, d->x.tick[i]);
        line(d->out, x, BOTTOM, x, BOTTOM + 4, "stroke=\"var(--axis)\"");
        if (x - last < TICK_WIDTH) continue;
        axis_format(&d->x, d->x.tick[i], text);
        text_at(d->out, x, BOTTOM + 17, "x", "middle", text);
        last = x;
    }
    line(d->out, LEFT, BOTTOM, RIGHT, BOTTOM, "stroke=\"var(--axis)\"");
    text_at(d->out, 0.5 * (LEFT + RIGHT), BOTTOM + 33, "xl", "middle", d->plot->x_label);
}

/* ---- series ---- */

static bool has_range(const PlotPoint *q)
{
    return isfinite(q->x) && isfinite(q->low) && isfinite(q->high);
}

/* One stretch of neighbours with low and high, there along the one and back along the other. */
static void draw_band_stretch(const Drawing *d, const PlotSeries *s, int64_t first, int64_t end,
                              const char *colour)
{
    str_add(d->out, "<path d=\"");
    for (int64_t i = first; i < end; i++)
        str_printf(d->out, "%s%.1f %.1f", i == first ? "M" : "L", at_x(d, s->points[i].x),
                   at_y(d, s->points[i].high));
    for (int64_t i = end; i-- > first;)
        str_printf(d->out, "L%.1f %.1f", at_x(d, s->points[i].x), at_y(d, s->points[i].low));
    str_printf(d->out, "Z\" fill=\"%s\" fill-opacity=\"0.13\"/>\n", colour);
}

static void draw_band(const Drawing *d, const PlotSeries *s, const char *colour)
{
    for (int64_t i = 0, first = -1; i <= s->count; i++) {
        bool in = i < s->count && has_range(&s->points[i]);
        if (in && first < 0) first = i;
        if (in || first < 0) continue;
        if (i - first > 1) draw_band_stretch(d, s, first, i, colour);
        first = -1;
    }
}

static void draw_bars(const Drawing *d, const PlotSeries *s, const char *colour)
{
    char style[64];
    snprintf(style, sizeof style, "stroke=\"%s\" stroke-width=\"1.5\"", colour);
    for (int64_t i = 0; i < s->count; i++) {
        const PlotPoint *q = &s->points[i];
        if (!has_range(q)) continue;
        double x = at_x(d, q->x), low = at_y(d, q->low), high = at_y(d, q->high);
        line(d->out, x, low, x, high, style);
        line(d->out, x - 5, low, x + 5, low, style);
        line(d->out, x - 5, high, x + 5, high, style);
    }
}

/* Those of lines that hide each other lie around each other. */
static void draw_points(const Drawing *d, int index, const char *colour, bool hollow)
{
    const PlotSeries *s = &d->plot->series[index];
    const int behind = index < LABELS_MAX ? d->alike[index] - 1 - d->turn[index] : 0;
    const double radius = 3.6 + 2 * (behind < 4 ? behind : 4);
    for (int64_t i = 0; i < s->count; i++) {
        const PlotPoint *q = &s->points[i];
        if (!isfinite(q->x) || !isfinite(q->y)) continue;
        str_printf(d->out,
                   "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\" stroke=\"%s\" "
                   "stroke-width=\"1.5\" data-x=\"%.10g\" data-y=\"%.10g\">",
                   at_x(d, q->x), at_y(d, q->y), radius, hollow ? "var(--page)" : colour, colour,
                   q->x, q->y);
        if (q->title) html_between(d->out, "<title>", q->title, "</title>");
        str_add(d->out, "</circle>\n");
    }
}

/* Points without a neighbour, which no line shows: a run of one step has nothing else. */
static void draw_lone_points(const Drawing *d, const PlotSeries *s, const char *colour)
{
    for (int64_t i = 0; i < s->count; i++) {
        const PlotPoint *q = &s->points[i];
        bool before = i > 0 && isfinite(q[-1].y), after = i + 1 < s->count && isfinite(q[1].y);
        if (isfinite(q->x) && isfinite(q->y) && !before && !after)
            str_printf(d->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\" fill=\"%s\"/>\n",
                       at_x(d, q->x), at_y(d, q->y), colour);
    }
}

/* Lines that hide each other take turns: every one of them shows in dashes. Returns where they
 * begin. */
static int describe_dashes(const Drawing *d, int s, char out[32])
{
    const PlotSeries *of = &d->plot->series[s];
    const int alike = s < LABELS_MAX ? d->alike[s] : 1;
    if (alike > 1) {
        snprintf(out, 32, "%d %d", ALIKE_DASH, ALIKE_DASH * (alike - 1));
        return -ALIKE_DASH * d->turn[s];
    }
    snprintf(out, 32, "%s",
             of->style == PLOT_IDEAL        ? "2 4"
             : of->style == PLOT_PREDICTION ? "6 4"
                                            : html_dashes(of->colour));
    return 0;
}

static void draw_line(const Drawing *d, int index, const char *colour)
{
    const PlotSeries *s = &d->plot->series[index];
    char dashes[32];
    const int offset = describe_dashes(d, index, dashes);
    bool down = false;
    str_add(d->out, "<path d=\"");
    for (int64_t i = 0; i < s->count; i++) {
        const PlotPoint *q = &s->points[i];
        bool here = isfinite(q->x) && isfinite(q->y);
        if (here) str_printf(d->out, "%s%.1f %.1f", down ? "L" : "M", at_x(d, q->x), at_y(d, q->y));
        down = here;
    }
    str_printf(d->out,
               "\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" stroke-dasharray=\"%s\" "
               "stroke-dashoffset=\"%d\" stroke-linejoin=\"round\"/>\n",
               colour, s->style == PLOT_LINE ? 1.6 : 1.8, dashes, offset);
}

static void draw_cross(const Drawing *d, const PlotSeries *s, const char *colour)
{
    if (!isfinite(s->marked_x)) return;
    double x = fmin(fmax(at_x(d, s->marked_x), LEFT), RIGHT), y = BOTTOM - 7;
    str_printf(d->out,
               "<path d=\"M%.1f %.1fl9 9m0 -9l-9 9\" stroke=\"%s\" stroke-width=\"2.4\" "
               "fill=\"none\"><title>not a finite number from here</title></path>\n",
               x - 4.5, y - 4.5, colour);
}

static const char *colour_of(const PlotSeries *s)
{
    return s->style == PLOT_IDEAL ? "var(--ideal)" : html_colour(s->colour);
}

static void draw_series(const Drawing *d, int index)
{
    const PlotSeries *s = &d->plot->series[index];
    const char *colour = colour_of(s);
    const bool bars = s->style == PLOT_MARKERS || s->style == PLOT_PREDICTION,
               points = bars && s->count <= DOTS_MAX;
    if (bars) draw_bars(d, s, colour);
    else draw_band(d, s, colour);
    draw_line(d, index, colour);
    if (points) draw_points(d, index, colour, s->style == PLOT_PREDICTION);
    else draw_lone_points(d, s, colour);
    draw_cross(d, s, colour);
}

/* Whether the one line hides the other. */
static bool are_alike(const Drawing *d, const PlotSeries *a, const PlotSeries *b)
{
    int64_t drawn = 0;
    if (a->count != b->count || a->style == PLOT_IDEAL || b->style == PLOT_IDEAL) return false;
    for (int64_t i = 0; i < a->count; i++) {
        const PlotPoint *p = &a->points[i], *q = &b->points[i];
        if (isfinite(p->y) != isfinite(q->y)) return false;
        if (!isfinite(p->y)) continue;
        if (fabs(at_x(d, p->x) - at_x(d, q->x)) > ALIKE ||
            fabs(at_y(d, p->y) - at_y(d, q->y)) > ALIKE)
            return false;
        drawn++;
    }
    return drawn > 1;
}

/* Every line with those that are like the first of them. */
static void find_alike(Drawing *d)
{
    const int count = d->plot->count < LABELS_MAX ? d->plot->count : LABELS_MAX;
    int first[LABELS_MAX];
    for (int s = 0; s < count; s++) {
        first[s] = s;
        for (int k = 0; k < s && first[s] == s; k++)
            if (first[k] == k && are_alike(d, &d->plot->series[k], &d->plot->series[s]))
                first[s] = k;
        d->turn[s] = d->alike[first[s]]++;
    }
    for (int s = 0; s < count; s++) d->alike[s] = d->alike[first[s]];
}

typedef struct Label {
    double x, y;
    const PlotSeries *series;
} Label;

/* Where the line of s ends; false if it has no point. */
static bool find_end(const Drawing *d, const PlotSeries *s, Label *out)
{
    int64_t i = s->count - 1;
    while (i >= 0 && !isfinite(s->points[i].y)) i--;
    if (!s->label || i < 0) return false;
    *out =
        (Label){ .x = at_x(d, s->points[i].x) + 6, .y = at_y(d, s->points[i].y) + 4, .series = s };
    return true;
}

/* Labels that would lie on each other are moved apart: down from the top, and up again from the
 * lower edge. */
static void part_labels(Label *labels, int count)
{
    for (int i = 1; i < count; i++) {
        for (int k = 0; k < i; k++)
            if (fabs(labels[i].x - labels[k].x) < LABEL_WIDTH)
                labels[i].y = fmax(labels[i].y, labels[k].y + LABEL_HEIGHT);
    }
    for (int i = count - 1; i >= 0; i--) {
        labels[i].y = fmin(labels[i].y, BOTTOM);
        for (int k = count - 1; k > i; k--)
            if (fabs(labels[i].x - labels[k].x) < LABEL_WIDTH)
                labels[i].y = fmin(labels[i].y, labels[k].y - LABEL_HEIGHT);
    }
}

static void draw_labels(const Drawing *d)
{
    Label labels[LABELS_MAX];
    int count = 0;
    for (int s = 0; s < d->plot->count && count < LABELS_MAX; s++) {
        Label label;
        if (!find_end(d, &d->plot->series[s], &label)) continue;
        int at = count++;
        for (; at > 0 && labels[at - 1].y > label.y; at--) labels[at] = labels[at - 1];
        labels[at] = label;
    }
    part_labels(labels, count);
    for (int i = 0; i < count; i++) {
        str_printf(d->out,
                   "<text class=\"label\" x=\"%.1f\" y=\"%.1f\" fill=\"%s\" stroke=\"var(--page)\" "
                   "stroke-width=\"3\" ",
                   labels[i].x, labels[i].y, html_colour(labels[i].series->colour));
        html_between(d->out, "paint-order=\"stroke\">", labels[i].series->label, "</text>\n");
    }
}

static void draw_legend(const Drawing *d)
{
    double x = LEFT;
    for (int i = 0; i < d->plot->count; i++) {
        const PlotSeries *s = &d->plot->series[i];
        char style[96], dashes[32];
        if (!s->name) continue;
        describe_dashes(d, i, dashes);
        snprintf(style, sizeof style, "stroke=\"%s\" stroke-width=\"2.4\" stroke-dasharray=\"%s\"",
                 colour_of(s), dashes);
        line(d->out, x, LEGEND + 8, x + 22, LEGEND + 8, style);
        text_at(d->out, x + 27, LEGEND + 12, "key", "start", s->name);
        x += 42 + 6.4 * (double)strlen(s->name);
    }
}

/* ---- values where one points ---- */

/* The last value of s in a strip of the width; NULL: none. */
static const PlotPoint *last_in(const Drawing *d, const PlotSeries *s, int strip)
{
    const PlotPoint *found = NULL;
    for (int64_t i = 0; i < s->count; i++) {
        const PlotPoint *q = &s->points[i];
        if (!isfinite(q->x) || !isfinite(q->y)) continue;
        const double at = axis_position(&d->x, q->x);
        if ((at < 1 ? (int)(fmax(at, 0) * PLOT_STRIPS) : PLOT_STRIPS - 1) == strip) found = q;
    }
    return found;
}

/* "steps 120", then a line a series; false where there is nothing in the strip. */
static bool describe_strip(const Drawing *d, int strip, StrBuf *out)
{
    str_clear(out);
    for (int s = 0; s < d->plot->count; s++) {
        const PlotSeries *of = &d->plot->series[s];
        const PlotPoint *q = last_in(d, of, strip);
        if (!q) continue;
        if (out->length == 0)
            str_printf(out, d->plot->whole_x ? "%s %.0f" : "%s %.5g", d->plot->x_label, q->x);
        str_printf(out, "\n%s%s%.5g", of->label ? of->label : "", of->label ? ": " : "", q->y);
        if (has_range(q) && q->low < q->high) str_printf(out, " (%.4g to %.4g)", q->low, q->high);
    }
    return out->length > 0;
}

/* From x to x2, over everything else; shown by its colour while one points at it. */
static void add_strip(const Drawing *d, double x, double x2, const char *text)
{
    str_printf(d->out, "<path d=\"M%.1f %.0fH%.1fV%.0fH%.1fz\">", x, TOP, x2, BOTTOM, x);
    html_between(d->out, "<title>", text, "</title></path>\n");
}

/* Strips with values, each out to half way to the next one. */
static void draw_strips(const Drawing *d)
{
    const double width = (RIGHT - LEFT) / PLOT_STRIPS;
    StrBuf text FREED_BY(str_free) = { 0 }, held FREED_BY(str_free) = { 0 };
    double begin = LEFT;
    int last = -1;
    str_add(d->out, "<g class=\"hover\" fill-opacity=\"0\">\n");
    for (int i = 0; i < PLOT_STRIPS; i++) {
        if (!describe_strip(d, i, &text)) continue;
        const double middle = LEFT + width * 0.5 * (last + i + 1);
        if (last >= 0) {
            add_strip(d, begin, middle, held.text);
            begin = middle;
        }
        str_clear(&held);
        str_add_n(&held, text.text, text.length);
        last = i;
    }
    if (last >= 0 && held.text) add_strip(d, begin, RIGHT, held.text);
    str_add(d->out, "</g>\n");
    if (text.failed || held.failed) d->out->failed = true;
}

void plot_svg(StrBuf *out, const Plot *p)
{
    Drawing d = { .out = out, .plot = p };
    if (!measure_plot(&d)) return;
    str_printf(out,
               "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" font-family=\"system-ui,sans-serif\" "
               "font-size=\"12\" ",
               WIDTH, HEIGHT + 10);
    html_between(out, "aria-label=\"", p->title, "\" xmlns=\"http://www.w3.org/2000/svg\">\n");
    str_printf(out, "<text x=\"%.0f\" y=\"15\" font-size=\"14\" font-weight=\"600\" ", LEFT - 50);
    html_between(out, "fill=\"var(--ink)\">", p->title,
                 "<tspan dx=\"10\" class=\"unit\" font-size=\"12\" font-weight=\"400\" ");
    html_between(out, "fill=\"var(--soft)\">", p->y_label, "</tspan></text>\n");
    draw_y_axis(&d);
    draw_x_axis(&d);
    find_alike(&d);
    for (int i = 0; i < p->count; i++) draw_series(&d, i);
    draw_labels(&d);
    draw_legend(&d);
    if (p->strips) draw_strips(&d);
    str_add(out, "</svg>\n");
}

/* ---- thinning ---- */

static void close_bin(PlotPoint *bin, int64_t values)
{
    if (values > 0) bin->y /= (double)values;
    else bin->y = bin->low = bin->high = (double)NAN;
}

int64_t plot_bin(PlotPoint *out, int64_t most, const PlotPoint *points, int64_t count)
{
    int64_t bins = 0, current = -1, values = 0;
    if (count <= most) {
        for (int64_t i = 0; i < count; i++) out[i] = points[i];
        return count;
    }
    double first = points[0].x, width = points[count - 1].x - first;
    for (int64_t i = 0; i < count; i++) {
        const PlotPoint *q = &points[i];
        int64_t bin =
            width > 0 && isfinite(q->x) ? (int64_t)((q->x - first) / width * (double)most) : 0;
        bin = bin < 0 ? 0 : bin >= most ? most - 1 : bin;
        if (bin > current || bins == 0) {
            if (bins > 0) close_bin(&out[bins - 1], values);
            out[bins++] = (PlotPoint){
                .x = q->x, .y = 0, .low = (double)INFINITY, .high = -(double)INFINITY
            };
            current = bin;
            values = 0;
        }
        if (!isfinite(q->y)) continue;
        PlotPoint *b = &out[bins - 1];
        b->x = q->x;
        b->y += q->y;
        b->low = fmin(b->low, has_range(q) ? fmin(q->low, q->y) : q->y);
        b->high = fmax(b->high, has_range(q) ? fmax(q->high, q->y) : q->y);
        values++;
    }
    close_bin(&out[bins - 1], values);
    return bins;
}

void plot_smooth(PlotPoint *points, int64_t count)
{
    PlotPoint smooth[PLOT_BINS];
    const int64_t half = count / PLOT_WINDOWS;
    if (half < 1 || count > PLOT_BINS) return;
    for (int64_t i = 0; i < count; i++) {
        const int64_t first = i < half ? 0 : i - half,
                      end = i + half < count ? i + half + 1 : count;
        double sum = 0, values = 0;
        PlotPoint *s = &smooth[i];
        *s = (PlotPoint){ points[i].x, 0, (double)INFINITY, -(double)INFINITY, points[i].title };
        for (int64_t k = first; k < end; k++) {
            const PlotPoint *q = &points[k];
            if (!isfinite(q->y)) continue;
            sum += q->y;
            values++;
            s->low = fmin(s->low, has_range(q) ? q->low : q->y);
            s->high = fmax(s->high, has_range(q) ? q->high : q->y);
        }
        s->y = sum / values;
        if (!isfinite(points[i].y)) s->y = s->low = s->high = (double)NAN;
    }
    for (int64_t i = 0; i < count; i++) points[i] = smooth[i];
}
