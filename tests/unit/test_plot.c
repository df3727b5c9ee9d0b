/* test_plot.c - plots as SVG: what must fit together whatever is drawn. */
#include "base/str.h"
#include "tests/test.h"
#include "trainer/report/plot.h"
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
