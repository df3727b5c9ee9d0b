/* test_axis.c - ranges of plots, where their ticks lie and what they say. */
#include "tests/test.h"
#include "trainer/app/report/axis.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static Axis axis_of(AxisKind kind, double low, double high)
{
    Axis a;
    axis_init(&a, kind);
    CHECK(axis_is_empty(&a));
    axis_widen(&a, (double)NAN);
    axis_widen(&a, low);
    axis_widen(&a, high);
    CHECK(!axis_is_empty(&a));
    axis_finish(&a);
    return a;
}

/* "0 20k 40k" */
static void check_ticks(const Axis *a, const char *want)
{
    char all[AXIS_TICKS_MAX * (AXIS_TEXT_BYTES + 1)] = "", text[AXIS_TEXT_BYTES];
    for (int i = 0; i < a->ticks; i++) {
        axis_format(a, a->tick[i], text);
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? " " : "", text);
    }
    CHECK_STR(all, want);
}

TEST(ticks_are_round_and_told_in_thousands)
{
    static const struct {
        AxisKind kind;
        double low, high;
        const char *ticks;
    } rows[] = {
        { AXIS_VALUES, 0, 98000, "0 20k 40k 60k 80k 100k" },
        { AXIS_VALUES, 0, 1.2e5, "0 20k 40k 60k 80k 100k 120k" },
        { AXIS_VALUES, 9500, 12100, "9.5k 10.0k 10.5k 11.0k 11.5k 12.0k 12.5k" },
        { AXIS_VALUES, 0, 3.1e6, "0 0.5M 1.0M 1.5M 2.0M 2.5M 3.0M 3.5M" },
        { AXIS_VALUES, 0, 4.1e7, "0 10M 20M 30M 40M 50M" },
        { AXIS_VALUES, 0, 7900, "0 2000 4000 6000 8000" },
        { AXIS_EXACT, 0, 72,
          "0 10 20 30 40 50 60 70" }, /* a sixth is 1.2, 2.4 or 6 times a round */
        { AXIS_EXACT, 0, 144, "0 20 40 60 80 100 120 140" },
        { AXIS_EXACT, 0, 36, "0 5 10 15 20 25 30 35" },
        { AXIS_VALUES, 0.02, 0.301, "0.00 0.05 0.10 0.15 0.20 0.25 0.30" },
        { AXIS_VALUES, 0, 3.2, "0.0 0.5 1.0 1.5 2.0 2.5 3.0 3.5" },
        { AXIS_EXACT, 0, 90, "0 20 40 60 80" },
        { AXIS_WHOLE, 1, 4, "1 2 3 4" },
        { AXIS_LOG, 5, 78, "5 10 20 50" },
        { AXIS_LOG, 1, 9000, "1 10 100 1000 10k" },
        { AXIS_LOG, 100, 210, "100 120 140 160 180 200 220" },
        { AXIS_LOG, 3, 3.4, "3.0 3.2 3.4" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const Axis a = axis_of(rows[i].kind, rows[i].low, rows[i].high);
        check_ticks(&a, rows[i].ticks);
    }
}

TEST(values_lie_inside_their_axis)
{
    static const double ends[][2] = { { 0, 1 },     { 3, 3 },        { 0, 0 },     { 1, 1e9 },
                                      { 2, 100.1 }, { 1e-7, 2e-7 },  { 5e4, 5e4 }, { 0.3, 0.9 },
                                      { 1, 2 },     { 99.9, 100.2 }, { 1e3, 1024 } };
    for (int kind = 0; kind <= AXIS_LOG; kind++) {
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
            if (kind == AXIS_LOG && ends[i][0] <= 0) continue;
            if (kind == AXIS_WHOLE && fmod(ends[i][1], 1) != 0) continue;
            const Axis a = axis_of((AxisKind)kind, ends[i][0], ends[i][1]);
            CHECK(axis_position(&a, ends[i][0]) >= -1e-9);
            CHECK(axis_position(&a, ends[i][1]) <= 1 + 1e-9);
            CHECK(a.ticks >= 2 && a.ticks <= 14);
            for (int k = 0; k < a.ticks; k++) {
                CHECK(axis_position(&a, a.tick[k]) >= -1e-9);
                CHECK(axis_position(&a, a.tick[k]) <= 1 + 1e-9);
                CHECK(k == 0 || a.tick[k] > a.tick[k - 1]);
            }
        }
    }
}

/* T(n) = T(1) / n is straight where both axes are logarithmic. */
TEST(the_ideal_line_is_straight)
{
    const Axis x = axis_of(AXIS_LOG, 1, 256), y = axis_of(AXIS_LOG, 100.0 / 256, 100);
    const double slope = (axis_position(&y, 100.0 / 256) - axis_position(&y, 100)) /
                         (axis_position(&x, 256) - axis_position(&x, 1));
    for (double n = 2; n < 256; n *= 1.7)
        CHECK_NEAR(axis_position(&y, 100 / n),
                   axis_position(&y, 100) + slope * (axis_position(&x, n) - axis_position(&x, 1)),
                   1e-9);
    CHECK_NEAR(axis_position(&y, 0), 0, 0);
    CHECK_NEAR(axis_position(&y, -3), 0, 0);
}

/* Files say anything: distances stay numbers, and texts short. */
TEST(whatever_values_there_are)
{
    static const double ends[][2] = { { -1e308, 1e308 }, { 0, 1e308 },        { 1e-308, 1e308 },
                                      { 1e308, 1e308 },  { -1e-308, 1e-308 }, { 1e16, 1e16 + 2 } };
    for (int kind = 0; kind <= AXIS_LOG; kind++) {
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
            Axis a;
            char text[AXIS_TEXT_BYTES];
            axis_init(&a, (AxisKind)kind);
            axis_widen(&a, ends[i][0]);
            axis_widen(&a, ends[i][1]);
            if (axis_is_empty(&a)) continue;
            axis_finish(&a);
            for (int k = 0; k < 2; k++) {
                const double at = axis_position(&a, ends[i][k]);
                CHECK(at >= -10 && at <= 1 + 1e-9);
            }
            for (int k = 0; k < a.ticks; k++) {
                axis_format(&a, a.tick[k], text);
                CHECK(strlen(text) < 24 && !strstr(text, "nan") && !strstr(text, "inf"));
            }
        }
    }
}
