/* test_report_page.c - what a page about runs draws: the order and colours of runs, GPUs, what runs
 * are drawn against, what is left out, what shows where one points. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "tests/test.h"
#include "trainer/app/report/collect.h"
#include "trainer/app/report/html.h"
#include "trainer/app/report/plot.h"
#include "trainer/app/report/report.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RUNS_MAX = 8, RECORDS = 20 };

typedef struct Made { /* a run of made-up records */
    const char *name, *config;
    int world, gpus;
    double loss; /* of the first step */
    bool evaluates;
    int memory_gib; /* of each GPU in use; 0: not told */
} Made;

static double time_of(const Made *m, int step)
{
    return 1.79e9 + 4 + 60.0 * step * 100 / (100 + m->world);
}

static void write_made(const Made *m)
{
    char dir[512], path[600];
    StrBuf b = { 0 };
    str_printf(&b,
               "{\"event\":\"start\",\"time\":1790000000,\"model\":\"resnet20\",\"world\":%d,"
               "\"images\":1000,\"global_batch\":100,\"classes\":10,\"steps\":20}\n",
               m->world);
    for (int s = 1; s <= RECORDS; s++) {
        for (int g = 0; g < m->gpus; g++)
            str_printf(&b,
                       "{\"event\":\"gpu\",\"time\":%.1f,\"gpu\":%d,\"utilization\":%g,"
                       "\"utilization_min\":0.5,\"power_w\":%d,\"sm_clock_mhz\":%d%s%.0f}\n",
                       time_of(m, s) - 1, g, 0.9 - 0.1 * g, 300 + 100 * g, 1980 - 200 * g,
                       m->memory_gib ? ",\"memory_used_bytes\":" : ",\"none\":",
                       (double)m->memory_gib * (1 << 30));
        str_printf(&b,
                   "{\"event\":\"step\",\"time\":%.1f,\"epoch\":%d,\"step\":%d,\"epochs\":%g,"
                   "\"loss\":%g,\"lr\":0.1,\"images_per_s\":%d,\"step_ms\":10,\"data_wait_ms\":%d,"
                   "\"comm_wait_ms\":1}\n",
                   time_of(m, s), s / 10, s, 0.1 * s, m->loss - 0.1 * s, 20000 * m->world,
                   s == 1 ? 11 : 1);
        if (m->evaluates && s % 10 == 0)
            str_printf(&b,
                       "{\"event\":\"eval\",\"time\":%.1f,\"epoch\":%d,\"step\":%d,\"epochs\":%g,"
                       "\"images\":10,\"loss\":1,\"top1\":0.5,\"top5\":0.9}\n",
                       time_of(m, s) + 1, s / 10, s, 0.1 * s);
    }
    snprintf(dir, sizeof dir, "%s/%s", test_scratch(), m->name);
    REQUIRE_OK(fs_make_dirs(dir));
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    REQUIRE_OK(fs_write_atomic(path, b.text, b.length));
    snprintf(path, sizeof path, "%s/config.yaml", dir);
    REQUIRE_OK(fs_write_atomic(path, m->config, strlen(m->config)));
    str_free(&b);
}

static void collect_made(RunSet *set, const Made *made, int count)
{
    char dirs[RUNS_MAX][512];
    const char *inputs[RUNS_MAX];
    for (int i = 0; i < count; i++) {
        write_made(&made[i]);
        snprintf(dirs[i], sizeof dirs[i], "%s/%s", test_scratch(), made[i].name);
        inputs[i] = dirs[i];
    }
    REQUIRE_OK(collect_runs(set, inputs, count));
}

/* The page about them; mem_free. */
static char *page_of(const Made *made, int count)
{
    char dirs[RUNS_MAX][512], out[512];
    const char *inputs[RUNS_MAX];
    uint8_t *bytes = NULL;
    size_t size;
    for (int i = 0; i < count; i++) {
        write_made(&made[i]);
        snprintf(dirs[i], sizeof dirs[i], "%s/%s", test_scratch(), made[i].name);
        inputs[i] = dirs[i];
    }
    snprintf(out, sizeof out, "%s/page.html", test_scratch());
    CHECK_OK(report_write(out, inputs, count));
    CHECK_OK(fs_read_file(out, &bytes, &size));
    return (char *)bytes;
}

static int occurrences(const char *text, const char *what)
{
    int n = 0;
    for (; text && (text = strstr(text, what)); text += strlen(what)) n++;
    return n;
}

TEST(runs_are_in_the_order_of_their_ranks)
{
    static const Made made[] = { { "n1-r1", "", 1, 0, 2, true, 0 },
                                 { "n16-r1", "", 16, 0, 2, true, 0 },
                                 { "n16-r2", "", 16, 0, 2, true, 0 },
                                 { "n2-r1", "", 2, 0, 2, true, 0 },
                                 { "n2-r2", "", 2, 0, 2, true, 0 } };
    static const char *const want[] = { "n1-r1", "n2-r1", "n2-r2", "n16-r1", "n16-r2" };
    RunSet set;
    collect_made(&set, made, 5);
    for (int i = 0; i < 5; i++) CHECK_STR(set.runs[i].name, want[i]);
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < i; k++) {
            const ReportRun *a = &set.runs[i], *b = &set.runs[k];
            /* one colour a number of ranks; runs of as many are told apart by their dashes */
            CHECK_INT(strcmp(html_colour(a->colour), html_colour(b->colour)) == 0,
                      a->start.world == b->start.world);
            CHECK(a->colour != b->colour);
        }
    }
    collect_free(&set);
    collect_made(&set, made + 1, 2); /* of as many ranks: a colour a run */
    CHECK(strcmp(html_colour(set.runs[0].colour), html_colour(set.runs[1].colour)) != 0);
    collect_free(&set);
}

TEST(gpus_are_read_look_by_look)
{
    static const Made made = { "gpus", "", 2, 3, 2, true, 0 };
    RunSet set;
    collect_made(&set, &made, 1);
    const ReportRun *r = &set.runs[0];
    CHECK_INT(r->look_count, RECORDS);
    CHECK_INT(r->looks[4].step, 4);
    CHECK_NEAR(r->looks[4].elapsed_s, time_of(&made, 5) - 1 - 1.79e9, 0.06);
    CHECK_NEAR(report_run_mean(&r->looks[4].gauge[0]), 0.8, 1e-12);
    CHECK_NEAR(r->looks[4].gauge[0].low, 0.7, 1e-12);
    CHECK_NEAR(r->looks[4].gauge[2].high, 500, 0);
    CHECK(isnan(report_run_mean(&r->looks[4].gauge[1]))); /* no record tells of memory */
    REQUIRE(r->gpus != NULL);
    CHECK_INT(r->gpus[2].looks, RECORDS);
    CHECK_NEAR(report_run_mean(&r->gpus[2].gauge[3]), 1580, 1e-9);
    CHECK_INT(r->gpus[3].looks, 0);
    collect_free(&set);
    char *page = page_of(&made, 1);
    CHECK_INT(occurrences(page, "aria-label=\"GPU utilisation\""), 3);
    CHECK_INT(occurrences(page, "aria-label=\"GPU power\""), 3);
    CHECK_INT(occurrences(page, "aria-label=\"GPU clock\""), 3);
    CHECK_INT(occurrences(page, "aria-label=\"GPU memory\""), 0);
    CHECK_CONTAINS(page, "<td>1580</td>");
    mem_free(page);
}

TEST(memory_of_gpus_is_drawn_in_gib)
{
    static const Made made = { "gpus", "", 1, 1, 2, true, 40 };
    char *page = page_of(&made, 1), *from = strstr(page, "aria-label=\"GPU memory\"");
    REQUIRE(from != NULL);
    *strstr(from, "</svg>") = '\0';
    CHECK_CONTAINS(from, ">40</text>");
    mem_free(page);
}

TEST(nothing_is_drawn_of_what_nobody_recorded)
{
    static const Made made = { "plain", "", 1, 0, 2, false, 0 };
    char *page = page_of(&made, 1);
    CHECK_INT(occurrences(page, "aria-label=\"Training loss\""), 3);
    CHECK_INT(occurrences(page, "aria-label=\"Evaluation: top-1\""), 0);
    CHECK_INT(occurrences(page, "aria-label=\"GPU power\""), 0);
    CHECK_INT(occurrences(page, "no value to draw"), 0);
    CHECK_INT(occurrences(page, "Nothing was recorded yet."), 0);
    mem_free(page);
}

TEST(a_run_that_has_just_begun_has_a_page)
{
    static const char start[] = "{\"event\":\"start\",\"time\":1790000000,\"model\":\"resnet20\","
                                "\"world\":1,\"images\":1000,\"global_batch\":100,\"classes\":10,"
                                "\"steps\":20}\n";
    char dir[512], path[600], out[600];
    const char *const inputs[] = { dir };
    uint8_t *page = NULL;
    size_t size;
    snprintf(dir, sizeof dir, "%s/new", test_scratch());
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    snprintf(out, sizeof out, "%s/page.html", test_scratch());
    REQUIRE_OK(fs_make_dirs(dir));
    REQUIRE_OK(fs_write_atomic(path, start, strlen(start)));
    REQUIRE_OK(report_write(out, inputs, 1));
    REQUIRE_OK(fs_read_file(out, &page, &size));
    CHECK_INT(occurrences((char *)page, "Nothing was recorded yet."), 1);
    mem_free(page);
}

/* Where the ticks of x of a drawing lie and what they say. */
static void add_ticks(const char *svg, StrBuf *out)
{
    const char *end = strstr(svg, "</svg>");
    while ((svg = strstr(svg, "<text x=")) && svg < end) {
        const char *behind = strstr(svg, "</text>"), *kind = strstr(svg, "class=\"x\"");
        if (kind && kind < behind) str_add_n(out, svg, (size_t)(behind - svg));
        svg = behind;
    }
}

/* Steps, epochs and time; every plot against one of them has the same ends. */
TEST(plots_share_what_they_are_drawn_against)
{
    static const Made made = { "axes", "", 1, 2, 2, true, 0 };
    static const char *const grounds[][3] = { { "by-steps", ">steps</text>", ">20" },
                                              { "by-epochs", ">epochs</text>", ">2.0" },
                                              { "by-time", ">minutes</text>", ">15" } };
    char *page = page_of(&made, 1);
    REQUIRE(page != NULL);
    for (int i = 0; i < 3; i++) {
        StrBuf first = { 0 }, ticks = { 0 };
        char begin[64];
        int plots = 0;
        snprintf(begin, sizeof begin, "<section id=\"%s\"", grounds[i][0]);
        char *from = strstr(page, begin), *end = from ? strstr(from, "</section>") : NULL;
        REQUIRE(end != NULL);
        *end = '\0';
        for (const char *at = from; (at = strstr(at, "<svg ")); at++, plots++) {
            str_clear(&ticks);
            add_ticks(at, plots ? &ticks : &first);
            if (plots > 0) CHECK_STR(ticks.text, first.text);
        }
        CHECK(plots >= 8);
        CHECK_CONTAINS(first.text, grounds[i][2]);
        CHECK_INT(occurrences(from, grounds[i][1]), plots);
        *end = '<';
        str_free(&first);
        str_free(&ticks);
    }
    CHECK_CONTAINS(page, "started");
    CHECK_CONTAINS(page, "2026-09-21 14:13:20Z");
    CHECK_CONTAINS(page, "<td>19:53</td>"); /* how long it took */
    CHECK_CONTAINS(page, "prefers-color-scheme:dark");
    mem_free(page);
}

TEST(values_show_where_one_points)
{
    static const Made made[] = { { "hover1", "", 1, 0, 2, false, 0 },
                                 { "hover2", "", 1, 0, 3, false, 0 } };
    char *page = page_of(made, 2);
    CHECK_CONTAINS(page, "<title>steps 10\n1: 1\n2: 2</title>");
    CHECK_CONTAINS(page, "<title>steps 7\n1: 20000\n2: 20000</title>");
    /* more than the whole step is told as the whole step */
    CHECK_CONTAINS(page, "<title>steps 1\n1: 100\n2: 100</title>");
    CHECK_CONTAINS(page, ">20k</text>");
    mem_free(page);
}

TEST(lines_that_hide_each_other_take_turns)
{
    static const Made made[] = { { "same1", "", 1, 0, 2, true, 0 },
                                 { "same2", "", 1, 0, 2, true, 0 },
                                 { "same3", "", 1, 0, 2.5, false, 0 } };
    char *page = page_of(made, 3);
    char *from = page ? strstr(page, "aria-label=\"Training loss\"") : NULL,
         *end = from ? strstr(from, "</svg>") : NULL;
    REQUIRE(end != NULL);
    *end = '\0';
    CHECK_INT(occurrences(from, "stroke-dasharray=\"7 7\" stroke-dashoffset=\"0\""), 1);
    CHECK_INT(occurrences(from, "stroke-dasharray=\"7 7\" stroke-dashoffset=\"-7\""), 1);
    CHECK_INT(occurrences(from, "stroke-dasharray=\"none\""), 1);
    *end = '<';
    /* and so do dots: the second lies in the first */
    from = strstr(page, "aria-label=\"Evaluation: top-1\"");
    REQUIRE(from != NULL && (end = strstr(from, "</svg>")) != NULL);
    *end = '\0';
    CHECK_INT(occurrences(from, "r=\"5.6\" fill=\"var(--c0)\""), 2);
    CHECK_INT(occurrences(from, "r=\"3.6\" fill=\"var(--c1)\""), 2);
    *end = '<';
    /* all three are as fast */
    from = strstr(page, "aria-label=\"Speed\"");
    REQUIRE(from != NULL);
    CHECK_CONTAINS(from, "stroke-dasharray=\"7 14\" stroke-dashoffset=\"-14\"");
    mem_free(page);
}

TEST(what_differs_is_side_by_side)
{
    static const Made made[] = { { "lr1", "optimizer:\n  lr: 0.5\n", 1, 0, 2, false, 0 },
                                 { "lr2", "optimizer:\n  lr: 0.25\n", 1, 0, 2, false, 0 } };
    char *page = page_of(made, 2);
    CHECK_CONTAINS(page, "Differences");
    CHECK_CONTAINS(page, ">optimizer.lr</th></tr>");
    CHECK_CONTAINS(page, ">0.5</td>");
    CHECK_CONTAINS(page, ">0.25</td>");
    mem_free(page);
    static const Made twins[] = { { "twin1", "", 1, 0, 2, false, 0 },
                                  { "twin2", "", 1, 0, 2, false, 0 } };
    page = page_of(twins, 2);
    CHECK_CONTAINS(page, "All known configurations are the same.");
    mem_free(page);
}

TEST(smoothing_keeps_means_extremes_and_gaps)
{
    PlotPoint p[100];
    for (int i = 0; i < 100; i++)
        p[i] = (PlotPoint){ .x = i, .y = i % 2 ? 3 : 1, .low = (double)NAN, .high = (double)NAN };
    p[50].y = (double)NAN;
    plot_smooth(p, 100);
    CHECK_NEAR(p[10].y, (1 + 3 + 1 + 3 + 1) / 5.0, 1e-12);
    CHECK_NEAR(p[10].low, 1, 0);
    CHECK_NEAR(p[10].high, 3, 0);
    CHECK(isnan(p[50].y) && isnan(p[50].low));
    CHECK_NEAR(p[49].y, (3 + 1 + 3 + 3) / 4.0, 1e-12); /* passes over the gap */
    PlotPoint few[3] = { { .y = 1 }, { .y = 5 }, { .y = 9 } };
    plot_smooth(few, 3);
    CHECK_NEAR(few[1].y, 5, 0);
}

TEST(a_run_of_a_table_has_its_number_beside_its_line)
{
    StrBuf out = { 0 };
    html_run_row(&out, 0, 7, "a & b");
    CHECK_CONTAINS(out.text, " aria-label=\"7\"><line ");
    CHECK_CONTAINS(out.text, ">7</text></svg></td>");
    CHECK_CONTAINS(out.text, "a &amp; b");
    str_free(&out);
}
