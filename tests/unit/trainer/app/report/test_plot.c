/* test_plot.c - plots as SVG: what must fit together whatever is drawn. */
#include "base/str.h"
#include "tests/test.h"
#include "trainer/app/report/plot.h"
#include "trainer/app/report/sections.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A plot of nothing but these series. */
static void draw(StrBuf *out, const PlotSeries *series, int count)
{
    const Plot plot = { .title = "t",
                        .x_label = "x",
                        .y_label = "y",
                        .series = series,
                        .count = count,
                        .y_low = 0,
                        .y_high = (double)NAN,
                        .lines = { (double)NAN, (double)NAN } };
    plot_svg(out, &plot);
    REQUIRE(!out->failed);
}

TEST(axes_of_a_plot_share_a_frame)
{
    const PlotPoint points[] = { { .x = 1, .y = 2 }, { .x = 2, .y = 4 }, { .x = 8, .y = 3 } };
    const PlotSeries series = { .points = points, .count = 3, .marked_x = (double)NAN };
    StrBuf b = { 0 };
    double x1, y1, x2, y2, first[2] = { 0, 0 }, lowest = 0, axis_y = -1;
    int lines = 0;
    draw(&b, &series, 1);
    for (const char *at = b.text; (at = strstr(at, "<line ")) != NULL; at++) {
        REQUIRE(sscanf(at, "<line x1=\"%lf\" y1=\"%lf\" x2=\"%lf\" y2=\"%lf\"", &x1, &y1, &x2,
                       &y2) == 4);
        if (x2 - x1 < 100) continue; /* a tick */
        if (lines++ == 0) first[0] = x1, first[1] = x2;
        CHECK_NEAR(x1, first[0], 0);
        CHECK_NEAR(x2, first[1], 0);
        CHECK_NEAR(y1, y2, 0);
        lowest = fmax(lowest, y1);
        axis_y = y1; /* drawn last */
    }
    CHECK(lines >= 4);
    CHECK_NEAR(axis_y, lowest, 0);
    str_free(&b);
}

/* Where these points lie, by the circles that mark them. */
static void find_points(const char *svg, int count, double *x, double *y)
{
    for (int i = 0; i < count; i++) {
        svg = strstr(svg, "<circle ");
        REQUIRE(svg && sscanf(svg, "<circle cx=\"%lf\" cy=\"%lf\"", &x[i], &y[i]) == 2);
        svg++;
    }
}

static void check_line(const char *svg, double x1, double y1, double x2, double y2)
{
    char want[120];
    snprintf(want, sizeof want, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" ", x1, y1,
             x2, y2);
    CHECK_CONTAINS(svg, want);
}

/* Lows and highs are values of these points themselves, so that their circles tell where they lie:
 * that of point i at point low_of[i], high_of[i]. */
enum { RANGES = 4 };
static const PlotPoint ranges[RANGES] = { { .x = 1, .y = 2, .low = 2, .high = 8 },
                                          { .x = 2, .y = 5, .low = 2, .high = 5 },
                                          { .x = 4, .y = 6, .low = 5, .high = 6 },
                                          { .x = 8, .y = 8, .low = 6, .high = 8 } };
static const int low_of[RANGES] = { 0, 0, 1, 2 }, high_of[RANGES] = { 3, 1, 2, 3 };

TEST(error_bars_end_at_low_and_high)
{
    const PlotSeries series = {
        .points = ranges, .count = RANGES, .style = PLOT_MARKERS, .marked_x = (double)NAN
    };
    StrBuf b = { 0 };
    double x[RANGES] = { 0 }, y[RANGES] = { 0 };
    draw(&b, &series, 1);
    find_points(b.text, RANGES, x, y);
    for (int i = 0; i < RANGES; i++) {
        double low = y[low_of[i]], high = y[high_of[i]];
        check_line(b.text, x[i], low, x[i], high);
        check_line(b.text, x[i] - 5, low, x[i] + 5, low);
        check_line(b.text, x[i] - 5, high, x[i] + 5, high);
    }
    str_free(&b);
}

/* There along what is highest, back along what is lowest; not across a point without a range. */
TEST(a_band_lies_between_low_and_high)
{
    PlotPoint broken[2 * RANGES + 1];
    double x[RANGES] = { 0 }, y[RANGES] = { 0 };
    StrBuf b = { 0 }, want = { 0 };
    const PlotSeries series[] = {
        { .points = ranges, .count = RANGES, .style = PLOT_MARKERS, .marked_x = (double)NAN },
        { .points = ranges, .count = RANGES, .marked_x = (double)NAN },
    };
    draw(&b, series, 2);
    find_points(b.text, RANGES, x, y);
    for (int i = 0; i < RANGES; i++)
        str_printf(&want, "%s%.1f %.1f", i ? "L" : "<path d=\"M", x[i], y[high_of[i]]);
    for (int i = RANGES; i-- > 0;) str_printf(&want, "L%.1f %.1f", x[i], y[low_of[i]]);
    str_add(&want, "Z\" ");
    CHECK_CONTAINS(b.text, want.text);
    for (int i = 0; i <= 2 * RANGES; i++) {
        broken[i] = ranges[i < RANGES ? i : i - RANGES - (i > RANGES)];
        broken[i].x = i;
        if (i == RANGES) broken[i].high = (double)NAN;
    }
    str_clear(&b);
    draw(&b, &(PlotSeries){ .points = broken, .count = 2 * RANGES + 1, .marked_x = (double)NAN },
         1);
    int bands = 0;
    for (const char *at = b.text; (at = strstr(at, "Z\" fill=")) != NULL; at++) bands++;
    CHECK_INT(bands, 2);
    str_free(&b);
    str_free(&want);
}

/* ---- the curves of a run ---- */

enum { STEPS = 9, EVALS = 3 };

/* Each quantity is high in one record, and that is another for each of them. */
static double high_at(int record, int which)
{
    return record == which ? 0.9 : 0.1;
}

static void fill_run(ReportRun *r, StepRecord steps[STEPS], EvalRecord evals[EVALS])
{
    for (int i = 0; i < STEPS; i++)
        steps[i] = (StepRecord){ .step = i + 1,
                                 .epochs = 0.1 * (i + 1),
                                 .step_ms = 1,
                                 .loss = high_at(i, 0),
                                 .images_per_s = high_at(i, 1),
                                 .data_wait_ms = high_at(i, 2),
                                 .comm_wait_ms = high_at(i, 3),
                                 .lr = high_at(i, 4),
                                 .grad_norm = high_at(i, 5) };
    for (int i = 0; i < EVALS; i++)
        evals[i] = (EvalRecord){ .step = 3 * i + 2,
                                 .epochs = 0.3 * i,
                                 .top1 = high_at(i, 0),
                                 .loss = high_at(i, 1),
                                 .top5 = high_at(i, 2) };
    *r = (ReportRun){ .dir = "r",
                      .name = "r",
                      .steps = steps,
                      .step_count = STEPS,
                      .evals = evals,
                      .eval_count = EVALS };
}

/* The highest point of the line in the plot of that title, and how many there are. */
static int highest(const char *page, const char *title, int *count)
{
    char label[80];
    double top = INFINITY, x, y;
    int at = -1, bytes = 0;
    snprintf(label, sizeof label, "aria-label=\"%s\"", title);
    const char *p = strstr(page, label), *end = p ? strstr(p, "</svg>") : NULL, *tag = p;
    *count = 0;
    while (tag && (tag = strstr(tag, "<path d=\"")) && tag < end) {
        p = tag + strlen("<path d=\"");
        tag = strchr(p, '>');
        const char *line = strstr(p, "stroke-linejoin");
        if (line && line < tag) break;
    }
    for (; p && sscanf(p, "%*[ML]%lf %lf%n", &x, &y, &bytes) == 2; p += bytes, (*count)++) {
        if (y < top) at = *count;
        top = fmin(top, y);
    }
    return at;
}

TEST(each_curve_shows_its_own_numbers)
{
    static const struct {
        const char *title;
        int records, high;
    } rows[] = { { "Training loss", STEPS, 0 },     { "Speed", STEPS, 1 },
                 { "Waiting for data", STEPS, 2 },  { "Waiting for gradient sums", STEPS, 3 },
                 { "Learning rate", STEPS, 4 },     { "Gradient norm", STEPS, 5 },
                 { "Evaluation: top-1", EVALS, 0 }, { "Evaluation: loss", EVALS, 1 },
                 { "Evaluation: top-5", EVALS, 2 } };
    StepRecord steps[STEPS];
    EvalRecord evals[EVALS];
    ReportRun run;
    StrBuf page = { 0 };
    fill_run(&run, steps, evals);
    REQUIRE_OK(section_curves(&page, &(RunSet){ .runs = &run, .count = 1 }));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int count = 0;
        CHECK_INT(highest(page.text, rows[i].title, &count), rows[i].high);
        CHECK_INT(count, rows[i].records);
    }
    str_free(&page);
}
