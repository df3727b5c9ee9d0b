/* test_report.c - what is read of run folders, epoch times against ranks by their definitions, and
 * pages of runs that are unfinished, torn, without finite losses, or of one step. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "tests/test.h"
#include "trainer/app/report/csv.h"
#include "trainer/app/report/html.h"
#include "trainer/app/report/plot.h"
#include "trainer/app/report/report.h"
#include "trainer/app/report/report_run.h"
#include "trainer/app/report/scaling.h"
#include "trainer/app/report/sections.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- run folders ---- */

static void in_scratch(char out[512], const char *name)
{
    snprintf(out, 512, "%s/%s", test_scratch(), name);
}

static void write_run(const char *name, const char *metrics, const char *config)
{
    char dir[512], path[600];
    in_scratch(dir, name);
    REQUIRE_OK(fs_make_dirs(dir));
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    REQUIRE_OK(fs_write_atomic(path, metrics, strlen(metrics)));
    snprintf(path, sizeof path, "%s/config.yaml", dir);
    if (config) REQUIRE_OK(fs_write_atomic(path, config, strlen(config)));
}

static void add_start(StrBuf *b, int world, int batch)
{
    str_printf(b,
               "{\"event\":\"start\",\"time\":1,\"model\":\"resnet20\",\"dataset\":\"synthetic\","
               "\"backend\":\"b<&>\",\"device\":\"cpu\",\"precision\":\"fp32\",\"host\":\"h\","
               "\"version\":\"0.1.0\",\"world\":%d,\"hosts\":1,\"cpus\":2,\"compute_threads\":1,"
               "\"oversubscribed\":%s,\"images\":1000,\"val_images\":0,\"classes\":10,"
               "\"parameters\":5,\"global_batch\":%d,\"steps\":100}\n",
               world, world > 2 ? "true" : "false", batch);
}

static void add_step(StrBuf *b, int step, const char *loss, double ms)
{
    str_printf(b,
               "{\"event\":\"step\",\"epoch\":%d,\"step\":%d,\"epochs\":%g,\"loss\":%s,\"lr\":0.1,"
               "\"images_per_"
               "s\":100,\"step_ms\":%g,\"data_wait_ms\":1,\"comm_wait_ms\":2}\n",
               step / 10, step, step / 10.0, loss, ms);
}

static void add_epoch(StrBuf *b, int epoch, double seconds, int images)
{
    str_printf(
        b, "{\"event\":\"epoch\",\"epoch\":%d,\"seconds\":%g,\"images\":%d,\"images_per_s\":1}\n",
        epoch, seconds, images);
}

static void read_run(ReportRun *r, const char *name)
{
    char dir[512];
    in_scratch(dir, name);
    REQUIRE_OK(report_run_read(r, dir, name));
}

TEST(steps_that_are_done_again_count_once)
{
    StrBuf b = { 0 };
    ReportRun r;
    add_start(&b, 1, 100);
    for (int s = 1; s <= 8; s++) add_step(&b, s, "1.5", 10);
    add_start(&b, 1, 100);
    str_add(&b, "{\"event\":\"resume\",\"step\":4,\"path\":\"p\"}\n");
    for (int s = 5; s <= 6; s++) add_step(&b, s, "0.5", 10);
    write_run("resumed", b.text, NULL);
    read_run(&r, "resumed");
    CHECK_INT(r.step_count, 6);
    CHECK_NEAR(r.steps[3].loss, 1.5, 0);
    CHECK_NEAR(r.steps[4].loss, 0.5, 0);
    CHECK_NEAR(r.steps[5].epochs, 0.6, 1e-12);
    CHECK_INT(r.resumes, 1);
    CHECK(!r.done && !r.world_changed && !r.config);
    report_run_free(&r);
    /* a run that starts afresh in the same folder replaces everything */
    add_start(&b, 2, 200);
    add_step(&b, 1, "3", 10);
    str_add(&b, "{\"event\":\"done\",\"code\":0,\"reason\":\"completed\"}\n");
    write_run("resumed", b.text, NULL);
    read_run(&r, "resumed");
    CHECK_INT(r.step_count, 1);
    CHECK(r.done && r.code == 0 && r.world_changed);
    report_run_free(&r);
    str_free(&b);
}

TEST(time_and_best_are_of_all_parts)
{
    static const char text[] =
        "{\"event\":\"start\",\"time\":100,\"classes\":5}\n"
        "{\"event\":\"eval\",\"time\":110,\"step\":4,\"epoch\":0,\"loss\":1,\"top1\":0.5,\"top5\":"
        "1}\n"
        "{\"event\":\"checkpoint\",\"time\":115,\"step\":4,\"path\":\"p\"}\n" /* and killed */
        "{\"event\":\"start\",\"time\":1000,\"classes\":5}\n"
        "{\"event\":\"resume\",\"time\":1001,\"step\":4,\"path\":\"p\"}\n"
        "{\"event\":\"eval\",\"time\":1020,\"step\":8,\"epoch\":1,\"loss\":1,\"top1\":0.5}\n"
        "{\"event\":\"eval\",\"time\":1022,\"step\":9,\"loss\":null,\"top1\":0.6}\n"
        "{\"event\":\"eval\",\"time\":1025,\"step\":8,\"top1\":0.75,\"checkpoint\":\"x\"}\n"
        "{\"event\":\"done\",\"time\":1030,\"code\":0,\"reason\":\"completed\"}\n"
        "{\"event\":\"eval\",\"time\":9000,\"step\":8,\"top1\":0.9,\"checkpoint\":\"x\"}\n";
    static const char anew[] = "{\"event\":\"start\",\"time\":5000,\"classes\":6}\n"
                               "{\"event\":\"eval\",\"time\":5003,\"step\":1,\"top5\":0.5}\n";
    StrBuf b = { 0 };
    ReportRun r;
    str_add(&b, text);
    write_run("parts", b.text, NULL);
    read_run(&r, "parts");
    CHECK_NEAR(r.seconds, 15 + 30, 1e-9);
    REQUIRE(report_run_best(&r) != NULL);
    CHECK_INT(report_run_best(&r)->step, 4); /* the first of equal ones, and not by hand */
    CHECK(isnan(r.evals[0].top5));           /* five of five */
    report_run_free(&r);
    str_add(&b, anew); /* nothing was resumed: another run */
    write_run("parts", b.text, NULL);
    read_run(&r, "parts");
    CHECK_NEAR(r.seconds, 3, 1e-9);
    CHECK_NEAR(r.evals[0].top5, 0.5, 0);
    report_run_free(&r);
    str_free(&b);
}

static void add_eval(StrBuf *b, int step, double top1, const char *more)
{
    str_printf(b, "{\"event\":\"eval\",\"step\":%d,\"images\":10,\"top1\":%g%s}\n", step, top1,
               more);
}

TEST(an_evaluation_ends_no_training)
{
    static const char *const ends[] = {
        "", "{\"event\":\"done\",\"code\":75,\"reason\":\"stopped\"}\n"
    };
    static const int steps[] = { 4, 4, 6, 8 };
    for (int ended = 0; ended < 2; ended++) {
        StrBuf b = { 0 };
        ReportRun r;
        add_start(&b, 1, 100);
        add_eval(&b, 4, 0.25, "");
        add_eval(&b, 8, 0.5, "");
        str_add(&b, ends[ended]);
        /* of an earlier checkpoint */
        add_eval(&b, 4, 0.125, ",\"checkpoint\":\"x\"");
        add_eval(&b, 6, 0.75, "");
        write_run("evaluated", b.text, NULL);
        read_run(&r, "evaluated");
        CHECK(r.done == ended && r.code == (ended ? 75 : 0));
        REQUIRE(r.eval_count == 4);
        for (int i = 0; i < 4; i++) CHECK_INT(r.evals[i].step, steps[i]);
        CHECK_NEAR(r.evals[1].top1, 0.125, 0);
        report_run_free(&r);
        str_free(&b);
    }
}

TEST(the_best_is_by_the_average_where_the_run_says_so)
{
    for (int by_average = 0; by_average < 2; by_average++) {
        StrBuf b = { 0 };
        ReportRun r;
        add_start(&b, 1, 100);
        add_eval(&b, 4, 0.25,
                 by_average ? ",\"loss\":1,\"ema_loss\":1,\"ema_top1\":0.75,"
                              "\"ema_best\":true"
                            : ",\"loss\":1,\"ema_loss\":1,\"ema_top1\":0.75,"
                              "\"ema_best\":false");
        add_eval(&b, 8, 0.5, ",\"loss\":1");
        add_eval(&b, 9, 0.9, ",\"loss\":1,\"ema_loss\":null,\"ema_top1\":0.8,\"ema_best\":true");
        write_run("averaged", b.text, NULL);
        read_run(&r, "averaged");
        const EvalRecord *best = report_run_best(&r);
        REQUIRE(best && r.eval_count == 3);
        CHECK_INT(best->step, by_average ? 4 : 8);
        CHECK_NEAR(records_score(best), by_average ? 0.75 : 0.5, 0);
        report_run_free(&r);
        str_free(&b);
    }
}

TEST(broken_lines_and_losses_are_told)
{
    StrBuf b = { 0 };
    ReportRun r;
    str_add(&b, "not json\n[1]\n{\"event\":\"step\"}\n");
    add_start(&b, 1, 100);
    add_step(&b, 1, "2", 10);
    add_step(&b, 2, "null", 10);
    str_add(&b, "{\"event\":\"step\",\"epoch\":0,\"st");
    write_run("broken", b.text, NULL);
    read_run(&r, "broken");
    CHECK_INT(r.broken_lines, 3);
    CHECK(r.torn);
    CHECK_INT(r.step_count, 2);
    REQUIRE(report_run_nonfinite(&r) != NULL);
    CHECK_INT(report_run_nonfinite(&r)->step, 2);
    report_run_free(&r);
    str_free(&b);
    CHECK_STATUS(report_run_read(&r, test_scratch(), "x"), ERR_DATA);
    CHECK_CONTAINS(status_message(), "metrics.jsonl");
}

/* Every event that trainer/app/log/runlog.c writes: one that is not shown is no broken line. */
TEST(records_that_are_not_shown_are_records)
{
    static const char *const others[] = {
        "{\"event\":\"checkpoint\",\"step\":1,\"path\":\"p\"}\n",
        "{\"event\":\"on_save\",\"step\":1,\"outcome\":\"done\",\"code\":0,\"seconds\":1.5}\n",
        "{\"event\":\"gpu\",\"gpu\":0,\"uuid\":\"GPU-1\",\"utilization\":0.5}\n",
    };
    StrBuf b = { 0 };
    ReportRun r;
    add_start(&b, 1, 100);
    add_step(&b, 1, "2", 10);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) str_add(&b, others[i]);
    str_add(&b, "{\"event\":\"done\",\"code\":0,\"reason\":\"completed\"}\n");
    /* a copy may end later */
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) str_add(&b, others[i]);
    write_run("others", b.text, NULL);
    read_run(&r, "others");
    CHECK_INT(r.lines, 9);
    CHECK_INT(r.broken_lines, 0);
    CHECK_INT(r.step_count, 1);
    CHECK(r.done);
    report_run_free(&r);
    str_free(&b);
}

/* ---- what was spent ---- */

static void add_spent(StrBuf *b, const char *part, int step, int images, double seconds, double gpu)
{
    str_printf(b, "{\"event\":\"spent\",\"part\":\"%s\",\"step\":%d,", part, step);
    if (images > 0) str_printf(b, "\"images\":%d,", images);
    str_printf(b,
               "\"host_seconds\":%g,\"gpu_j\":%g,\"cpu_j\":0,\"assumed_j\":%g,"
               "\"energy_source\":\"counters\"}\n",
               seconds, gpu, gpu / 3);
}

/* A run that was killed behind step 20 and went on from step 10: what was lost was spent too. */
TEST(spent_is_what_was_recorded)
{
    StrBuf b = { 0 }, page = { 0 };
    ReportRun r;
    add_start(&b, 1, 100);
    add_spent(&b, "start", 0, 0, 5, 30);
    add_step(&b, 10, "2", 10);
    add_spent(&b, "wait", 10, 0, 10, 60);
    add_spent(&b, "train", 10, 1000, 90, 540);
    str_add(&b, "{\"event\":\"eval\",\"epoch\":0,\"step\":10,\"images\":10,\"loss\":1,"
                "\"top1\":0.5,\"top5\":0.9}\n");
    add_spent(&b, "evaluation", 10, 0, 15, 90);
    add_step(&b, 20, "2", 10);
    add_spent(&b, "train", 20, 1000, 100, 600);
    add_start(&b, 1, 100);
    str_add(&b, "{\"event\":\"resume\",\"step\":10,\"path\":\"p\"}\n");
    add_step(&b, 20, "2", 10);
    add_spent(&b, "train", 20, 1000, 100, 600);
    add_spent(&b, "tea", 20, 0, 1e6, 1e6);
    write_run("spent", b.text,
              "cost:\n  price_per_host_hour: 36\n  currency: USD\n  price_note: made <up>\n");
    read_run(&r, "spent");
    const Spent sum = cost_sum(&r.spent);
    CHECK_NEAR(sum.host_s, 320, 1e-9);
    CHECK_NEAR(cost_joules(&sum), 320 * 8, 1e-9);
    CHECK_INT(r.trained_images, 3000);
    CHECK_STR(r.energy_source, "counters");
    REQUIRE(r.eval_count == 1);
    CHECK_NEAR(r.evals[0].spent.host_s, 120, 1e-9);
    RunSet set = { .runs = &r, .count = 1 };
    section_spent(&page, &set);
    REQUIRE(page.text != NULL);
    CHECK_CONTAINS(page.text, "Energy and cost");
    CHECK_CONTAINS(page.text, "3.2 USD (36 per host hour; made &lt;up&gt;)");
    CHECK_CONTAINS(page.text, "1.2 USD (36 per host hour; made &lt;up&gt;)"); /* to the target */
    CHECK_CONTAINS(page.text, "Target: top-1 of 50.00 %");
    CHECK_CONTAINS(page.text, ">25.0<");
    report_run_free(&r);
    str_free(&page);
    str_free(&b);
}

/* ---- epoch time against ranks ---- */

/* A run whose epochs behind the first take these seconds. */
static void write_scaled(const char *name, int ranks, const double *seconds, int count,
                         const char *config)
{
    StrBuf b = { 0 };
    add_start(&b, ranks, 100);
    add_step(&b, 1, "1", 50);
    add_epoch(&b, 0, 99, 1000);
    add_step(&b, 20, "1", 50);
    for (int i = 0; i < count; i++) add_epoch(&b, i + 1, seconds[i], 1000);
    str_add(&b, "{\"event\":\"done\",\"code\":0,\"reason\":\"completed\"}\n");
    write_run(name, b.text, config ? config : "train:\n  seed: 1\n");
    str_free(&b);
}

/* Epoch times of 8, 16 and 24 GPUs: 24, 12, 8 is ideal; 24, 12.6, 8.7 is 0.952 and 0.920. */
static void check_published(const double t[3], double second, double third)
{
    ReportRun runs[3];
    Scaling s;
    for (int i = 0; i < 3; i++) {
        const double seconds[] = { t[i], t[i] * 0.99, t[i] * 1.01 };
        char name[16];
        snprintf(name, sizeof name, "gpu%d", i);
        write_scaled(name, 8 * (i + 1), seconds, 3, NULL);
        read_run(&runs[i], name);
    }
    REQUIRE_OK(scaling_make(&s, runs, 3));
    REQUIRE(s.count == 3);
    CHECK_NEAR(s.rows[0].cold_s, 99, 1e-9);
    CHECK_NEAR(s.rows[0].efficiency.value, 1, 0);
    CHECK_NEAR(s.rows[1].efficiency.value, second, 5e-4);
    CHECK_NEAR(s.rows[2].efficiency.value, third, 5e-4);
    CHECK_NEAR(s.rows[2].speedup, t[0] / t[2], 1e-9);
    CHECK(s.rows[1].efficiency.low < second && s.rows[1].efficiency.high > second);
    CHECK_INT(s.rows[2].epoch_s.count, 3);
    CHECK_NEAR(s.rows[1].images_per_s, 1000 / t[1], 1e-6);
    CHECK(!s.rows[2].by_run && s.rows[2].oversubscribed);
    CHECK_INT(s.fitted, 0); /* oversubscribed all of them */
    CHECK_NEAR(s.rows[0].data_share, 0.02, 1e-9);
    scaling_free(&s);
    for (int i = 0; i < 3; i++) report_run_free(&runs[i]);
}

TEST(efficiency_is_that_of_the_definition)
{
    check_published((const double[]){ 24, 12, 8 }, 1, 1);
    check_published((const double[]){ 24, 12.6, 8.7 }, 0.952, 0.920);
}

TEST(runs_are_the_unit_where_there_are_three)
{
    ReportRun runs[4];
    Scaling s;
    const double first[] = { 10, 20 }, other[] = { 6, 8 };
    write_scaled("r0", 1, first, 2, NULL);
    write_scaled("r1", 2, other, 2, NULL);
    for (int i = 0; i < 4; i++) read_run(&runs[i], i ? "r1" : "r0");
    REQUIRE_OK(scaling_make(&s, runs, 4));
    REQUIRE(s.count == 2);
    CHECK(!s.rows[0].by_run && s.rows[1].by_run);
    CHECK_INT(s.rows[0].epoch_s.count, 2);
    CHECK(isnan(s.rows[0].epoch_s.half));
    CHECK_INT(s.rows[1].epoch_s.count, 3);
    CHECK_NEAR(s.rows[1].epoch_s.half, 0, 1e-12);
    CHECK_INT(s.fitted, 2);
    CHECK_NEAR(s.fit.constant + s.fit.slope, 15, 1e-9);
    CHECK(!s.from_steps);
    CHECK_CONTAINS(s.notes.text, "1 rank: 2 values, no interval");
    scaling_free(&s);
    for (int i = 0; i < 4; i++) report_run_free(&runs[i]);
}

TEST(what_cannot_be_compared_is_left_out)
{
    ReportRun runs[4];
    Scaling s;
    const double seconds[] = { 10, 10 };
    write_scaled("base", 1, seconds, 2, NULL);
    write_scaled("seed", 2, seconds, 2, "train:\n  seed: 9\n");
    write_scaled("other", 4, seconds, 2, "model:\n  name: resnet18\n");
    write_scaled("short", 8, seconds, 0, NULL);
    const char *const names[] = { "base", "seed", "other", "short" };
    for (int i = 0; i < 4; i++) read_run(&runs[i], names[i]);
    REQUIRE_OK(scaling_make(&s, runs, 4));
    CHECK_INT(s.count, 2);
    CHECK_INT(s.rows[1].ranks, 2);
    CHECK_CONTAINS(s.notes.text,
                   "other is left out of the epoch times: compared with base, model.name was ");
    CHECK_CONTAINS(
        s.notes.text,
        "short is left out of the epoch times: it has no whole epoch after its first one");
    scaling_free(&s);
    for (int i = 0; i < 4; i++) report_run_free(&runs[i]);
}

/* 10 steps of 100 ms behind 2 of warm-up, 100 images a step of 1000: an epoch takes a second. */
TEST(points_that_count_steps_use_those_behind_the_warmup)
{
    StrBuf b = { 0 };
    ReportRun runs[2];
    Scaling s;
    for (int n = 1; n <= 2; n++) {
        str_clear(&b);
        add_start(&b, n, 100);
        for (int step = 1; step <= 12; step++)
            add_step(&b, step, "1", step <= 2 ? 9999 : 100.0 / n);
        write_run(n == 1 ? "p1" : "p2", b.text, "train:\n  seed: 1\n");
        read_run(&runs[n - 1], n == 1 ? "p1" : "p2");
        runs[n - 1].warmup_steps = 2;
    }
    REQUIRE_OK(scaling_make(&s, runs, 2));
    REQUIRE(s.count == 2);
    CHECK(s.from_steps);
    CHECK_NEAR(s.rows[0].epoch_s.mean, 1, 1e-9);
    CHECK_NEAR(s.rows[1].efficiency.value, 1, 1e-9);
    CHECK_NEAR(s.rows[1].comm_share, 0.04, 1e-9);
    scaling_free(&s);
    for (int i = 0; i < 2; i++) report_run_free(&runs[i]);
    str_free(&b);
}

/* ---- pages ---- */

/* Every tag is closed, the last one opened first. */
static void check_tags(const char *page)
{
    enum { DEPTH = 40 };
    char open[DEPTH][16], name[16];
    int depth = 0;
    for (const char *at = page; (at = strchr(at, '<')) != NULL; at++) {
        const char *end = strchr(at, '>');
        REQUIRE(end != NULL && depth < DEPTH);
        bool closes = at[1] == '/';
        if (at[1] == '!' || end[-1] == '/') continue;
        REQUIRE(sscanf(at + 1 + closes, "%15[a-z0-9]", name) == 1);
        if (strcmp(name, "meta") == 0) continue;
        if (!closes) memcpy(open[depth++], name, sizeof name);
        else {
            REQUIRE(depth > 0);
            CHECK_STR(name, open[--depth]);
        }
    }
    CHECK_INT(depth, 0);
}

/* Writes a report of these runs of the scratch folder; the page is returned to caller. */
static char *page_of(const char *const *names, int count)
{
    char dirs[12][512], out[512];
    const char *inputs[12];
    uint8_t *bytes = NULL;
    size_t size;
    for (int i = 0; i < count; i++) {
        in_scratch(dirs[i], names[i]);
        inputs[i] = dirs[i];
    }
    in_scratch(out, "page.html");
    CHECK_OK(report_write(out, inputs, count));
    CHECK_OK(fs_read_file(out, &bytes, &size));
    char *page = (char *)bytes;
    if (!page) return NULL;
    CHECK(!strstr(page, "<script") && !strstr(page, "=\"nan") && !strstr(page, "nan ") &&
          !strstr(page, "inf\""));
    CHECK(!strstr(page, "src=") && !strstr(page, "<link"));
    for (const char *p = page; (p = strstr(p, "http")); p += 4)
        CHECK(str_starts_with(p, "http://www.w3.org/2000/svg"));
    CHECK_CONTAINS(page, "</html>");
    check_tags(page);
    CHECK(!strstr(page, "b<&>")); /* the start record's backend, escaped */
    return page;
}

TEST(a_page_for_every_kind_of_run)
{
    StrBuf b = { 0 };
    add_start(&b, 1, 100);
    add_step(&b, 1, "2", 10);
    write_run("one", b.text, NULL);
    for (int s = 2; s < 900; s++) add_step(&b, s, s < 500 ? "1.25" : "null", 10);
    write_run("nans", b.text, NULL);
    write_run("nothing", "", NULL);
    static const struct {
        const char *name, *says;
    } rows[] = { { "one", "no end was recorded" },
                 { "nans", "not a finite number at step 500" },
                 { "nothing", "holds no record yet" } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *page = page_of(&rows[i].name, 1);
        CHECK_CONTAINS(page, rows[i].says);
        mem_free(page);
    }
    str_free(&b);
}

TEST(ten_runs_are_told_apart)
{
    StrBuf b = { 0 };
    char names[10][16];
    const char *list[10];
    for (int i = 0; i < 10; i++) {
        str_clear(&b);
        add_start(&b, 1, 100);
        for (int s = 1; s < 5; s++) add_step(&b, s, "1", 10);
        snprintf(names[i], sizeof names[i], "many%d", i);
        write_run(names[i], b.text, NULL);
        list[i] = names[i];
    }
    char *page = page_of(list, 10);
    for (int i = 0; i < 10 && page; i++) CHECK_CONTAINS(page, names[i]);
    for (int i = 0; i < 10; i++)
        for (int k = 0; k < i; k++)
            CHECK(strcmp(html_colour(i), html_colour(k)) != 0 ||
                  strcmp(html_dashes(i), html_dashes(k)) != 0);
    mem_free(page);
    str_free(&b);
}

TEST(the_page_says_why_runs_are_not_compared)
{
    static const char *const names[] = { "apart1", "apart2" };
    const double seconds[] = { 10, 10 };
    write_scaled("apart1", 1, seconds, 2, NULL);
    write_scaled("apart2", 2, seconds, 2, "model:\n  name: resnet18\n");
    char *page = page_of(names, 2);
    CHECK_CONTAINS(page, "apart2 is left out of the epoch times");
    CHECK(page && !strstr(page, "Epoch time against ranks"));
    mem_free(page);
    write_scaled("apart2", 3, seconds, 2, NULL);
    page = page_of(names, 2);
    CHECK_CONTAINS(page, "Epoch time against ranks");
    CHECK_CONTAINS(page, ">3</text>"); /* a tick at three ranks */
    mem_free(page);
}

TEST(a_folder_without_a_run_is_one_clear_error)
{
    const char *input = test_scratch();
    char out[512];
    in_scratch(out, "x.html");
    CHECK_STATUS(report_write(out, &input, 1), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "not a run folder");
    CHECK_CONTAINS(status_message(), input);
    CHECK(!fs_exists(out));
}

TEST(bins_keep_means_ends_and_gaps)
{
    enum { N = PLOT_BINS * 10 };
    PlotPoint *points = mem_calloc(N, sizeof *points), out[PLOT_BINS];
    REQUIRE(points != NULL);
    for (int i = 0; i < N; i++) points[i] = (PlotPoint){ .x = i, .y = i % 10 };
    for (int i = N / 2; i < N / 2 + 40; i++) points[i].y = (double)NAN;
    int64_t n = plot_bin(out, PLOT_BINS, points, N);
    CHECK(n > PLOT_BINS - 3 && n <= PLOT_BINS);
    CHECK_NEAR(out[5].y, 4.5, 0.5);
    CHECK_NEAR(out[5].low, 0, 0);
    CHECK_NEAR(out[5].high, 9, 0);
    int gaps = 0;
    for (int64_t i = 0; i < n; i++) gaps += isnan(out[i].y);
    CHECK(gaps >= 2 && gaps <= 4);
    CHECK_INT(plot_bin(out, PLOT_BINS, points, 7), 7);
    mem_free(points);
}

/* A table's program computes what begins like a formula. */
TEST(cells_are_no_formulas)
{
    static const char *const rows[][2] = {
        { "=1+1", "'=1+1" },
        { "+a", "'+a" },
        { "-a", "'-a" },
        { "@a", "'@a" },
        { "'=a", "''=a" },
        { "a=b", "a=b" },
        { "", "" },
        { "=HYPERLINK(\"u\",\"x\")", "\"'=HYPERLINK(\"\"u\"\",\"\"x\"\")\"" },
        { "a\n=b\033", "a\\n=b\\x1b" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        StrBuf b = { 0 };
        csv_text(&b, rows[i][0]);
        CHECK_STR(b.text ? b.text : "", rows[i][1]);
        str_free(&b);
    }
}

TEST(text_from_outside_is_harmless)
{
    StrBuf b = { 0 };
    html_text(&b, "<b a=\"x\">'&\x01\xFF\xC3\xA9");
    CHECK_STR(b.text, "&lt;b a=&quot;x&quot;&gt;&#39;&amp;\xEF\xBF\xBD\xEF\xBF\xBD\xC3\xA9");
    str_clear(&b);
    csv_text(&b, "a,\"b\"");
    csv_number(&b, (double)NAN);
    csv_whole(&b, 7);
    CHECK_STR(b.text, "\"a,\"\"b\"\"\",,7");
    str_clear(&b);
    html_text(&b, "\xC2\x9B\xE2\x80\xAE\t\xF4\x90\x80\x80");
    CHECK_STR(b.text, "\xEF\xBF\xBD\xEF\xBF\xBD\t\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    str_free(&b);
}
