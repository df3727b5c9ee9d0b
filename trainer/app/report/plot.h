/* plot.h - a line plot as inline SVG: axes with round ticks and units, lines that break where a
 * value is missing, bands, error bars, and the number of each series at the end of its line. */
#ifndef CONVOY_TRAINER_APP_REPORT_PLOT_H
#define CONVOY_TRAINER_APP_REPORT_PLOT_H
#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>

#define PLOT_BINS    300 /* points of a line at most */
#define PLOT_WINDOWS 50  /* what is smoothed shows means over so manieth parts of its width */
#define PLOT_STRIPS  40  /* parts of the width that tell their values to who points there */

typedef struct PlotPoint {
    double x, y, low, high; /* y NaN: a gap; low, high NaN: no error bar, no band */
    const char *title;      /* shown by a browser that points at it; NULL: none */
} PlotPoint;

typedef enum PlotStyle {
    PLOT_LINE,      /* low and high make a band */
    PLOT_MARKERS,   /* a line with points; low and high make error bars */
    PLOT_IDEAL,     /* red, dotted; low and high make a band */
    PLOT_PREDICTION /* dashed, hollow points */
} PlotStyle;

typedef struct PlotSeries {
    const PlotPoint *points; /* ascending in x; borrowed */
    int64_t count;
    PlotStyle style;
    int colour;        /* of html_colour() */
    const char *label; /* at the end of the line; NULL: none */
    const char *name;  /* in the legend; NULL: not there */
    double marked_x;   /* where the series stopped being a number: a cross; NaN: nowhere */
} PlotSeries;

typedef struct Plot {
    const char *title, *x_label, *y_label;
    const PlotSeries *series;
    int count;
    bool log_x; /* ticks at the values, or where they are many at powers of two */
    bool log_y;
    bool whole_x;         /* no ticks between whole numbers */
    bool strips;          /* a browser shows the values where one points */
    double x_low, x_high; /* as the next two */
    double y_low;         /* the axis begins here or lower; NaN: where the values are */
    double y_high;        /* the same for its end */
    double lines[2];      /* horizontal lines for orientation; NaN: none */
} Plot;

/* Nothing at all where no value is finite. Lines that would hide each other are drawn in dashes by
 * turns. */
void plot_svg(StrBuf *out, const Plot *p);

/* Means of neighbouring points in at most this many equal parts of the range of x, with the
 * smallest and largest as low and high; as many as there are if they are few. Values that are not
 * finite do not count; a part that holds nothing else is a gap. out: room for most. Returns how
 * many. */
int64_t plot_bin(PlotPoint *out, int64_t most, const PlotPoint *points, int64_t count);
/* Makes each value the mean of those around it, and low and high the smallest and largest of them;
 * gaps stay. At most PLOT_BINS points; few stay as they are. */
void plot_smooth(PlotPoint *points, int64_t count);
#endif
