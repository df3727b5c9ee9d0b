/* test_plot.c - plots as SVG: what must fit together whatever is drawn. */
#include "base/str.h"
#include "tests/test.h"
#include "trainer/report/plot.h"
#include "trainer/report/sections.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

TEST(axes_of_a_plot_share_a_frame)
{
    const PlotPoint points[] = { { .x = 1, .y = 2 }, { .x = 2, .y = 4 }, { .x = 8, .y = 3 } };
    const PlotSeries series = { .points = points, .count = 3, .marked_x = (double)NAN };
    const Plot plot = { .title = "t",
                        .x_label = "x",
                        .y_label = "y",
                        .series = &series,
                        .count = 1,
                        .y_low = 0,
                        .y_high = (double)NAN,
                        .lines = { (double)NAN, (double)NAN } };
    StrBuf b = { 0 };
    double x1, y1, x2, y2, first[2] = { 0, 0 }, lowest = 0, axis_y = -1;
    int lines = 0;
    plot_svg(&b, &plot);
    REQUIRE(!b.failed);
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

/* ---- the curves of a run ---- */

enum { STEPS = 9, EVALS = 3 };

/* Each quantity is high in one record, and that is another for each of them. */
static double high_at(int record, int which)
{
    return record == which ? 0.9 : 0.1;
}

static void fill_run(ReportRun *r, ReportStep steps[STEPS], ReportEval evals[EVALS])
{
    for (int i = 0; i < STEPS; i++)
        steps[i] = (ReportStep){ .step = i + 1,
                                 .epochs = 0.1 * (i + 1),
                                 .step_ms = 1,
                                 .loss = high_at(i, 0),
                                 .images_per_s = high_at(i, 1),
                                 .data_wait_ms = high_at(i, 2),
                                 .comm_wait_ms = high_at(i, 3),
                                 .lr = high_at(i, 4),
                                 .grad_norm = high_at(i, 5) };
    for (int i = 0; i < EVALS; i++)
        evals[i] = (ReportEval){ .step = 3 * i + 2,
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
    ReportStep steps[STEPS];
    ReportEval evals[EVALS];
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
