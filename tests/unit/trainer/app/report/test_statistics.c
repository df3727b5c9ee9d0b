/* test_statistics.c - the statistics of reports against tables and definitions. */
#include "tests/test.h"
#include "trainer/app/report/statistics.h"
#include <math.h>
#include <stddef.h>

TEST(quantiles_of_student_are_those_of_tables)
{
    static const struct {
        double degrees, t;
    } rows[] = { { 1, 12.7062 },  { 2, 4.30265 },  { 3, 3.18245 },    { 5, 2.57058 },
                 { 10, 2.22814 }, { 30, 2.04227 }, { 1000, 1.96234 }, { 2.5, 3.57465 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK_NEAR(statistics_t(rows[i].degrees), rows[i].t, 2e-4);
    CHECK(isnan(statistics_t(0.5)));
}

TEST(intervals_need_three_values)
{
    const double values[] = { 10, 12, 14 };
    StatisticsSample s = statistics_sample(values, 3);
    CHECK_NEAR(s.mean, 12, 1e-12);
    CHECK_NEAR(s.deviation, 2, 1e-12);
    CHECK_NEAR(s.half, 4.30265 * 2 / sqrt(3), 1e-4);
    CHECK(isnan(statistics_sample(values, 2).half) &&
          isnan(statistics_sample(values, 1).deviation));
    CHECK(isnan(statistics_sample(values, 0).mean));
}

TEST(ratios_have_intervals_of_fieller)
{
    StatisticsSample a = { .count = 4, .mean = 10, .deviation = 1 },
                     b = { .count = 4, .mean = 5, .deviation = 0.4 };
    double va = 0.25, vb = 0.04, ratio = 2, sum = va + ratio * ratio * vb;
    double degrees = sum * sum / (va * va / 3 + ratio * ratio * vb * ratio * ratio * vb / 3);
    double t = statistics_t(degrees), g = t * t * vb / 25;
    Ratio r = statistics_ratio(&a, &b, 0.5);
    CHECK_NEAR(r.value, 1, 1e-12);
    /* the ends are where a - x b is t standard errors away from zero */
    for (int end = 0; end < 2; end++) {
        double x = (end ? r.high : r.low) / 0.5;
        CHECK_NEAR(fabs(10 - x * 5) / sqrt(va + x * x * vb), t, 1e-9);
    }
    CHECK(g < 1 && r.low < 1 && r.high > 1);
    b.deviation = 5; /* the denominator might be zero */
    r = statistics_ratio(&a, &b, 1);
    CHECK(isnan(r.low) && isnan(r.high));
}

TEST(line_and_median)
{
    const double x[] = { 1, 0.5, 0.25 }, y[] = { 10, 6, 4 };
    Line l = statistics_line(x, y, 3);
    CHECK_NEAR(l.constant, 2, 1e-12);
    CHECK_NEAR(l.slope, 8, 1e-12);
    CHECK(isnan(statistics_line(x, y, 1).slope));
    double values[] = { 5, (double)NAN, 1, 3, 2 };
    CHECK_NEAR(statistics_median(values, 5), 2.5, 0);
    CHECK(isnan(statistics_median(values, 0)));
}
