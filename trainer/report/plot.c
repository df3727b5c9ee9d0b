/* plot.c - see plot.h. Coordinates are SVG's: x to the right, y down, in units of a 600 x 320
 * drawing. */
#include "trainer/report/plot.h"

#include "trainer/report/html.h"
#include <math.h>
#include <stdio.h>

#define WIDTH  600.0
#define HEIGHT 320.0
#define LEFT   64.0
#define RIGHT  572.0
#define TOP    34.0
#define BOTTOM 270.0
#define LEGEND 306.0
#define TICKS  6 /* about so many on an axis */

#define TICKS_MAX    14 /* values of a logarithmic axis that each have one */
#define LABELS_MAX   64
#define LABEL_WIDTH  15.0
#define LABEL_HEIGHT 11.0

typedef struct Axis {
    double low, high, step;
    bool logarithmic;
} Axis;

typedef struct Drawing {
    StrBuf *out;
    const Plot *plot;
    Axis x, y;
} Drawing;

/* ---- ranges ---- */

static void widen(Axis *a, double value)
{
    if (!isfinite(value)) return;
    a->low = fmin(a->low, value);
    a->high = fmax(a->high, value);
}

/* 1, 2 or 5 times a power of ten: the distance of about so many ticks. */
static double round_step(double range, int ticks)
{
    double raw = range / ticks, power = pow(10, floor(log10(raw))), lead = raw / power;
    return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

/* Gives an axis ends on ticks; a single value gets room around it. */
static void finish_axis(Axis *a)
{
    if (a->high - a->low < 1e-9 * fmax(1e-3, fabs(a->high))) {
        double room = a->high != 0 ? 0.1 * fabs(a->high) : 1;
        a->low -= room;
        a->high += room;
    }
    a->step = round_step(a->high - a->low, TICKS);
    a->low = a->step * floor(a->low / a->step + 1e-9);
    a->high = a->step * ceil(a->high / a->step - 1e-9);
}

static void finish_x(Axis *a, bool logarithmic, bool whole)
{
    a->logarithmic = logarithmic;
    if (logarithmic) {
        a->low = log2(a->low) - 0.25;
        a->high = log2(a->high) + 0.25;
        return;
    }
    double low = a->low, high = a->high;
    if (whole && low == high) {
        a->low -= 1;
        a->high += 1;
    }
    finish_axis(a);
    if (whole) a->step = fmax(1, a->step);
    if (low < high) { /* lines use the whole width; ticks lie inside it */
        a->low = low;
        a->high = high;
    }
}

static bool measure(Drawing *d)
{
    const Plot *p = d->plot;
    d->x = d->y = (Axis){ .low = (double)INFINITY, .high = -(double)INFINITY };
    for (int s = 0; s < p->count; s++) {
        for (int64_t i = 0; i < p->series[s].count; i++) {
            const PlotPoint *q = &p->series[s].points[i];
            if (!isfinite(q->x)) continue;
            widen(&d->x, q->x);
            widen(&d->y, q->y);
            widen(&d->y, q->low);
            widen(&d->y, q->high);
        }
    }
    if (!(d->y.low <= d->y.high)) return false;
    widen(&d->y, p->y_low);
    widen(&d->y, p->y_high);
    finish_x(&d->x, p->log2_x, p->whole_x);
    finish_axis(&d->y);
    return true;
}

static double at_x(const Drawing *d, double x)
{
    double v = d->x.logarithmic ? log2(x) : x;
    return LEFT + (RIGHT - LEFT) * (v - d->x.low) / (d->x.high - d->x.low);
}

static double at_y(const Drawing *d, double y)
{
    return BOTTOM - (BOTTOM - TOP) * (y - d->y.low) / (d->y.high - d->y.low);
}

/* ---- axes ---- */

static void text_at(StrBuf *out, double x, double y, const char *anchor, const char *colour,
                    const char *text)
{
    str_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">", x, y, anchor,
               colour);
    html_text(out, text);
    str_add(out, "</text>\n");
}

static void line(StrBuf *out, double x1, double y1, double x2, double y2, const char *style)
{
    str_printf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2,
               style);
}

/* As many digits as the distance of ticks needs. */
static void format_tick(char out[32], double value, double step)
{
    int digits = (int)fmax(0, -floor(log10(step) + 1e-9));
    if (fabs(value) < step * 1e-6) value = 0;
    if (fabs(value) >= 1e5 || digits > 5) snprintf(out, 32, "%.4g", value);
    else snprintf(out, 32, "%.*f", digits, value);
}

static void draw_y_axis(const Drawing *d)
{
    char text[32];
    for (double v = d->y.low; v <= d->y.high + 0.5 * d->y.step; v += d->y.step) {
        line(d->out, LEFT, at_y(d, v), RIGHT, at_y(d, v), "stroke=\"#e2e2e2\"");
        format_tick(text, v, d->y.step);
        text_at(d->out, LEFT - 7, at_y(d, v) + 4, "end", "#444", text);
    }
    for (int i = 0; i < 2; i++) {
        double v = d->plot->lines[i];
        if (isfinite(v))
            line(d->out, LEFT, at_y(d, v), RIGHT, at_y(d, v),
                 "stroke=\"#999\" stroke-dasharray=\"1 3\"");
    }
}

static void draw_x_tick(const Drawing *d, double v, const char *text)
{
    double x = at_x(d, v);
    line(d->out, x, BOTTOM, x, BOTTOM + 4, "stroke=\"#888\"");
    text_at(d->out, x, BOTTOM + 17, "middle", "#444", text);
}

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
static void draw_log2_ticks(const Drawing *d)
{
    char text[32];
    double x[TICKS_MAX];
    int n = distinct_x(d->plot, x);
    for (int i = 0; i < n; i++) {
        snprintf(text, sizeof text, "%.6g", x[i]);
        draw_x_tick(d, x[i], text);
    }
    for (double e = ceil(d->x.low); n == 0 && e <= d->x.high; e++) {
        snprintf(text, sizeof text, "%.6g", exp2(e));
        draw_x_tick(d, exp2(e), text);
    }
}

static void draw_x_axis(const Drawing *d)
{
    char text[32];
    double first = d->x.step * ceil(d->x.low / d->x.step - 1e-9),
           end = d->x.high * (1 + 1e-12) + 1e-12;
    if (d->x.logarithmic) draw_log2_ticks(d);
    for (double v = first; !d->x.logarithmic && v <= end; v += d->x.step) {
        format_tick(text, v, d->x.step);
        draw_x_tick(d, v, text);
    }
    line(d->out, LEFT, BOTTOM, RIGHT, BOTTOM, "stroke=\"#888\"");
    text_at(d->out, 0.5 * (LEFT + RIGHT), BOTTOM + 33, "middle", "#444", d->plot->x_label);
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

static void draw_points(const Drawing *d, const PlotSeries *s, const char *colour, bool hollow)
{
    for (int64_t i = 0; i < s->count; i++) {
        const PlotPoint *q = &s->points[i];
        if (!isfinite(q->x) || !isfinite(q->y)) continue;
        str_printf(d->out,
                   "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.6\" fill=\"%s\" stroke=\"%s\" "
                   "stroke-width=\"1.5\" data-x=\"%.10g\" data-y=\"%.10g\">",
                   at_x(d, q->x), at_y(d, q->y), hollow ? "#fff" : colour, colour, q->x, q->y);
        if (q->title) {
            str_add(d->out, "<title>");
            html_text(d->out, q->title);
            str_add(d->out, "</title>");
        }
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

static void draw_line(const Drawing *d, const PlotSeries *s, const char *colour, const char *dashes,
                      double width)
{
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
               "stroke-linejoin=\"round\" stroke-linecap=\"round\"/>\n",
               colour, width, dashes);
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

static void draw_series(const Drawing *d, const PlotSeries *s)
{
    const char *colour = s->style == PLOT_IDEAL ? "#c00000" : html_colour(s->colour);
    const char *broken = s->style == PLOT_IDEAL        ? "2 4"
                         : s->style == PLOT_PREDICTION ? "6 4"
                                                       : html_dashes(s->colour);
    bool points = s->style == PLOT_MARKERS || s->style == PLOT_PREDICTION;
    if (points) draw_bars(d, s, colour);
    else draw_band(d, s, colour);
    draw_line(d, s, colour, broken, s->style == PLOT_LINE ? 1.6 : 1.8);
    if (points) draw_points(d, s, colour, s->style == PLOT_PREDICTION);
    else draw_lone_points(d, s, colour);
    draw_cross(d, s, colour);
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
                   "<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\" stroke=\"#fff\" stroke-width=\"3\" "
                   "paint-order=\"stroke\">",
                   labels[i].x, labels[i].y, html_colour(labels[i].series->colour));
        html_text(d->out, labels[i].series->label);
        str_add(d->out, "</text>\n");
    }
}

static void draw_legend(const Drawing *d)
{
    double x = LEFT;
    for (int i = 0; i < d->plot->count; i++) {
        const PlotSeries *s = &d->plot->series[i];
        char style[96];
        if (!s->name) continue;
        snprintf(style, sizeof style, "stroke=\"%s\" stroke-width=\"2.4\" stroke-dasharray=\"%s\"",
                 s->style == PLOT_IDEAL ? "#c00000" : html_colour(s->colour),
                 s->style == PLOT_IDEAL        ? "2 4"
                 : s->style == PLOT_PREDICTION ? "6 4"
                                               : html_dashes(s->colour));
        line(d->out, x, LEGEND + 8, x + 22, LEGEND + 8, style);
        text_at(d->out, x + 27, LEGEND + 12, "start", "#222", s->name);
        double letters = 0;
        for (const char *p = s->name; *p; p++) letters += 1;
        x += 42 + 6.4 * letters;
    }
}

void plot_svg(StrBuf *out, const Plot *p)
{
    Drawing d = { .out = out, .plot = p };
    str_printf(out,
               "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" font-family=\"system-ui,sans-serif\" "
               "font-size=\"12\" aria-label=\"",
               WIDTH, HEIGHT + 4);
    html_text(out, p->title);
    str_add(out, "\" xmlns=\"http://www.w3.org/2000/svg\">\n");
    str_printf(out, "<text x=\"%.0f\" y=\"15\" font-size=\"14\" font-weight=\"600\">", LEFT - 50);
    html_text(out, p->title);
    str_add(out, "<tspan dx=\"10\" font-size=\"12\" font-weight=\"400\" fill=\"#555\">");
    html_text(out, p->y_label);
    str_add(out, "</tspan></text>\n");
    if (measure(&d)) {
        draw_y_axis(&d);
        draw_x_axis(&d);
        for (int i = 0; i < p->count; i++) draw_series(&d, &p->series[i]);
        draw_labels(&d);
        draw_legend(&d);
    } else {
        text_at(out, 0.5 * WIDTH, 0.5 * HEIGHT, "middle", "#555", "no value to draw");
    }
    str_add(out, "</svg>\n");
}

/* ---- thinning ---- */

static void close_bin(PlotPoint *bin, int64_t values)
{
    if (values > 0) bin->y /= (double)values;
    else bin->y = bin->low = bin->high = (double)NAN;
}

int64_t plot_bin(PlotPoint *out, const PlotPoint *points, int64_t count)
{
    int64_t bins = 0, current = -1, values = 0;
    if (count <= PLOT_BINS) {
        for (int64_t i = 0; i < count; i++) out[i] = points[i];
        return count;
    }
    double first = points[0].x, width = points[count - 1].x - first;
    for (int64_t i = 0; i < count; i++) {
        const PlotPoint *q = &points[i];
        int64_t bin = width > 0 ? (int64_t)((q->x - first) / width * PLOT_BINS) : 0;
        bin = bin < 0 ? 0 : bin >= PLOT_BINS ? PLOT_BINS - 1 : bin;
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
        b->low = fmin(b->low, q->y);
        b->high = fmax(b->high, q->y);
        values++;
    }
    close_bin(&out[bins - 1], values);
    return bins;
}
