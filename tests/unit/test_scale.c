/* Scaling experiments: the points of a series, what makes one finished, and the records that a report reads. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "tests/test.h"
#include "trainer/scale/runner.h"
#include <stdio.h>
#include <string.h>

static char config_path[512];
static const char *sets[4];

static void open_series(Series *s, const char *more)
{
    static char dir[600];
    const char *text =
        "model:\n  name: resnet20\nscale:\n  ranks: [1, 2, 6]\n  repeats: 2\n  steps: 20\n  warmup_steps: 5\n";
    snprintf(config_path, sizeof config_path, "%s/c.yaml", test_scratch());
    snprintf(dir, sizeof dir, "scale.dir=%s/series", test_scratch());
    REQUIRE_OK(fs_write_atomic(config_path, text, strlen(text)));
    sets[0] = dir;
    sets[1] = more;
    REQUIRE_OK(series_open(s, config_path, sets, more ? 2 : 1));
}

/* Whether the command of p holds this word. */
static bool has_word(const Point *p, const Series *s, const char *word)
{
    Words words = { .count = 0 };
    point_command(p, s, &words);
    for (int i = 0; i < words.count; i++)
        if (strcmp(words.word[i], word) == 0) return true;
    return false;
}

TEST(repeats_are_the_outer_loop)
{
    static const char *const names[] = { "n1-r1", "n2-r1", "n6-r1", "n1-r2", "n2-r2", "n6-r2" };
    Series s;
    open_series(&s, NULL);
    CHECK_INT(s.point_count, 6);
    for (int i = 0; i < s.point_count; i++) {
        Point p;
        REQUIRE_OK(series_point(&p, &s, i));
        CHECK_STR(p.name, names[i]);
        CHECK(has_word(&p, &s, "train.max_steps=25") && has_word(&p, &s, "checkpoint.resume=none"));
        CHECK(has_word(&p, &s, "data.val=") && has_word(&p, &s, "train.batch_mode=per_rank"));
        CHECK(!has_word(&p, &s, "data.format=synthetic"));
        point_free(&p);
    }
    series_close(&s);
}

TEST(strong_scaling_keeps_the_global_batch)
{
    Series s;
    Config *c = NULL;
    Point p;
    const char *bad[] = { "scale.mode=strong", "train.global_batch=64" };
    open_series(&s, NULL);
    series_close(&s);
    CHECK_STATUS(config_load(&c, config_path, bad, 1), ERR_USAGE);
    CHECK_STATUS(config_load(&c, config_path, bad, 2), ERR_USAGE); /* not for 6 ranks */
    CHECK_CONTAINS(status_message(), "a multiple of 6 ranks");
    const char *good[] = { "scale.mode=strong", "train.global_batch=96", "scale.data=synthetic", "scale.steps=0" };
    REQUIRE_OK(series_open(&s, config_path, good, 4));
    REQUIRE_OK(series_point(&p, &s, 0));
    CHECK(has_word(&p, &s, "train.batch_mode=global") && has_word(&p, &s, "data.format=synthetic"));
    CHECK(has_word(&p, &s, "train.epochs=3") && has_word(&p, &s, "train.max_steps=0"));
    point_free(&p);
    series_close(&s);
}

TEST(ranks_must_be_whole_and_ascending)
{
    static const char *const rows[] = { "scale.ranks=1.5", "scale.ranks=2,1", "scale.ranks=2,2", "scale.ranks=0" };
    for (int i = 0; i < 4; i++) {
        Config *c = NULL;
        CHECK_STATUS(config_load(&c, NULL, &rows[i], 1), ERR_USAGE);
        CHECK_CONTAINS(status_message(), "scale.ranks");
    }
}

/* Leaves the run of a point as a run would. */
static void leave_run(const Point *p, const char *config, bool done)
{
    char path[800];
    StrBuf b = { 0 };
    str_printf(
        &b,
        "{\"event\":\"start\",\"device\":\"cpu\",\"precision\":\"fp32\",\"world\":%lld,\"hosts\":1,\"images\":1000,"
        "\"global_batch\":%lld,\"compute_threads\":1,\"oversubscribed\":false}\n",
        (long long)p->ranks, 10 * (long long)p->ranks);
    for (int i = 1; i <= 25; i++)
        str_printf(&b,
                   "{\"event\":\"step\",\"epoch\":0,\"step\":%d,\"loss\":1,\"step_ms\":%d,\"data_wait_ms\":0,"
                   "\"comm_wait_ms\":5}\n",
                   i, i <= 5 ? 1000 : 50);
    if (done) str_add(&b, "{\"event\":\"done\",\"code\":0,\"reason\":\"completed\"}\n");
    REQUIRE_OK(fs_make_dirs(p->run_dir));
    snprintf(path, sizeof path, "%s/metrics.jsonl", p->run_dir);
    REQUIRE_OK(fs_write_atomic(path, b.text, b.length));
    snprintf(path, sizeof path, "%s/config.yaml", p->run_dir);
    REQUIRE_OK(fs_write_atomic(path, config, strlen(config)));
    str_free(&b);
}

static void check_found(const Point *p, const Series *s, Status want, bool want_finished)
{
    ReportRun run;
    bool finished = false;
    CHECK_STATUS(point_find(p, s, &run, &finished), want);
    CHECK(finished == want_finished || want != OK);
    report_run_free(&run);
}

TEST(a_point_is_finished_when_its_run_says_so)
{
    Series s;
    Point p;
    Config *c = NULL;
    StrBuf config = { 0 };
    int finished = 0;
    open_series(&s, NULL);
    REQUIRE_OK(series_point(&p, &s, 1));
    const char *all[SERIES_SETS_MAX + 1] = { sets[0] };
    for (int i = 0; i < p.set_count; i++) all[i + 1] = p.sets[i];
    REQUIRE_OK(config_load(&c, config_path, all, p.set_count + 1));
    REQUIRE_OK(config_dump_yaml(c, &config));
    check_found(&p, &s, OK, false); /* nothing there */
    leave_run(&p, config.text, false);
    check_found(&p, &s, OK, false); /* killed */
    leave_run(&p, config.text, true);
    check_found(&p, &s, OK, true);
    REQUIRE_OK(series_write(&s, &finished));
    CHECK_INT(finished, 1);
    char path[700];
    uint8_t *bytes = NULL;
    size_t size;
    snprintf(path, sizeof path, "%s/scale.jsonl", s.dir);
    REQUIRE_OK(fs_read_file(path, &bytes, &size));
    CHECK_CONTAINS((char *)bytes, "\"run\":\"n2-r1\",\"warmup_steps\":5,\"epoch_s\":2.5,");
    mem_free(bytes);
    leave_run(&p, "model:\n  name: resnet18\n", true);
    check_found(&p, &s, ERR_USAGE, false);
    CHECK_CONTAINS(status_message(), "measured with other settings (model.name was \"resnet18\" and is \"resnet20\"");
    p.ranks = 3;
    leave_run(&p, config.text, true);
    p.ranks = 2;
    check_found(&p, &s, ERR_ENV, false);
    CHECK_CONTAINS(status_message(), "2 ranks were started and the run had 3");
    str_free(&config);
    config_destroy(c);
    point_free(&p);
    series_close(&s);
}

TEST(printed_lines_need_whole_nodes)
{
    Series s;
    const RunnerOptions o = { .program = "/x/convoy" };
    open_series(&s, NULL);
    CHECK_STATUS(runner_print(&s, &o, PRINT_SBATCH, 4), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "6 ranks are no multiple of 4 ranks a node");
    series_close(&s);
}
