/* test_top_screen.c - what convoy top says of a run's records. */
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/app/cmd/top_screen.h"
#include <stdio.h>
#include <string.h>

#define START                                                                                      \
    "{\"event\":\"start\",\"time\":1000,\"model\":\"resnet50\",\"device\":\"cuda\",\"precision\":" \
    "\"bf16\","                                                                                    \
    "\"host\":\"n1\",\"world\":4,\"images\":12800,\"global_batch\":128,\"steps\":1000,"            \
    "\"epochs\":10}"

static void add(TopScreen *t, const char *line)
{
    top_screen_add_line(t, line, strlen(line));
}

static void add_step(TopScreen *t, int step, double time, double loss)
{
    char line[512];
    snprintf(line, sizeof line,
             "{\"event\":\"step\",\"time\":%.3f,\"epoch\":%d,\"step\":%d,\"epochs\":%g,"
             "\"loss\":%.17g,\"lr\":0.5,"
             "\"images_per_s\":640,\"step_ms\":200,\"data_wait_ms\":10,\"comm_wait_ms\":4}",
             time, step / 100, step, step / 100.0, loss);
    add(t, line);
}

static void check_says(const TopScreen *t, double now_s, const char *const *parts, int count)
{
    StrBuf text = { 0 };
    top_screen_describe(t, "runs/x", now_s, &text);
    for (int i = 0; i < count; i++) CHECK_CONTAINS(text.text, parts[i]);
    str_free(&text);
}
#define SAYS(now_s, ...)                                                                           \
    check_says(&t, now_s, (const char *const[]){ __VA_ARGS__ },                                    \
               (int)(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *)))

/* The second is worse by its weights, but the average chooses the best. */
TEST(an_averaged_evaluation_decides_where_the_run_says_so)
{
    TopScreen t;
    top_screen_init(&t);
    add(&t, START);
    add_step(&t, 2, 1001, 1);
    add(&t, "{\"event\":\"eval\",\"time\":1002,\"step\":1,\"loss\":2,\"top1\":0.5,\"ema_loss\":1,"
            "\"ema_top1\":0.25,\"ema_best\":true}");
    add(&t,
        "{\"event\":\"eval\",\"time\":1002,\"step\":2,\"loss\":null,\"top1\":0.4,\"ema_loss\":1,"
        "\"ema_top1\":0.75,\"ema_best\":true}");
    SAYS(1002, " (averaged weights: 75.00 %), loss ", "best 75.00 % at step 2");
    add(&t, "{\"event\":\"eval\",\"time\":1002,\"step\":3,\"loss\":1,\"top1\":0.875,\"ema_loss\":1,"
            "\"ema_top1\":0.5,\"ema_best\":false}");
    SAYS(1002, "best 87.50 % at step 3");
    top_screen_free(&t);
}

TEST(a_run_from_start_to_end)
{
    TopScreen t;
    top_screen_init(&t);
    SAYS(1000, "runs/x: has not started");
    add(&t, START);
    SAYS(1001, "runs/x: starting\n", "resnet50, 4 ranks on n1, cuda bf16, global batch 128");
    for (int i = 1; i <= 250; i++) add_step(&t, i, 1000 + 0.2 * i, 5 - 0.01 * i);
    SAYS(1051, "runs/x: training\n",
         "step        250 of 1000  [#######.......................] 25.0 %  2:30 left\n",
         "epochs      2.50 of 10.00\n", "loss        2.5000  learning rate 0.5\n",
         "640.0 images/s, 160.0 per rank; step 200.0 ms, data wait 5.0 %, comm wait 2.0 %");
    add(&t,
        "{\"event\":\"eval\",\"time\":1052,\"step\":200,\"loss\":2.5,\"top1\":0.5,\"top5\":0.75}");
    add(&t,
        "{\"event\":\"eval\",\"time\":1053,\"step\":250,\"loss\":2.6,\"top1\":0.4,\"top5\":0.7}");
    add(&t, "{\"event\":\"checkpoint\",\"time\":1053,\"step\":250,\"path\":\"x\"}");
    add(&t, "{\"event\":\"on_save\",\"time\":1054,\"step\":250,\"outcome\":\"failed\",\"code\":1,"
            "\"seconds\":1}");
    add(&t,
        "{\"event\":\"gpu\",\"time\":1054,\"gpu\":2,\"utilization\":0.97,\"utilization_min\":0.9,"
        "\"memory_used_bytes\":1073741824,\"power_w\":300}");
    SAYS(1060, "top-1 40.00 %, top-5 70.00 %, loss 2.6000 at step 250; best 50.00 % at step 200",
         "checkpoint  step 250, 7 s ago; on_save of step 250: failed",
         "GPU 2        97 % used (min 90)  1.0 GiB  300 W\n");
    SAYS(1060 + 7200, "no record for 2:00:06: it hangs or was killed");
    add(&t, "{\"event\":\"step\",\"time\":1060,\"step\":251,\"images_per_s\":640,\"step_ms\":200,"
            "\"data_wait_ms\":10,\"comm_wait_ms\":4,\"mfu\":0.4125}");
    SAYS(1060, "comm wait 2.0 %, MFU 41.2 %\n");
    add(&t, "{\"event\":\"spent\",\"time\":1060,\"part\":\"train\",\"total_host_seconds\":1800}");
    SAYS(1060, "total used  0.5 host hours\n");
    add(&t, "{\"event\":\"spent\",\"time\":1060,\"part\":\"train\",\"total_host_seconds\":5400,"
            "\"total_j\":9e6,\"total_cost\":12.5,\"currency\":\"USD\",\"pue\":1,"
            "\"price_per_host_hour\":8,\"price_per_kwh\":0.2,\"price_note\":\"list\"}");
    SAYS(1060, "total used  2.5 kWh, 1.5 host hours, 12.5 USD (8 per host hour, 0.2 per kWh, "
               "PUE 1; list)\n");
    add(&t, "{\"event\":\"done\",\"time\":1060,\"code\":75,\"reason\":\"stopped\"}");
    SAYS(99999, "ended with code 75: stopped");
    add(&t, START);
    SAYS(1001, "runs/x: starting", "best 50.00 %");
    add(&t, "{\"event\":\"done\",\"time\":1060,\"code\":0,\"reason\":\"completed\"}");
    SAYS(1e9, "runs/x: done\n");
    /* evaluations come later: no end of another kind */
    add(&t, "{\"event\":\"eval\",\"time\":1070,\"epoch\":0,\"step\":1,\"top1\":0.5,\"checkpoint\":"
            "\"x\"}");
    SAYS(1e9, "runs/x: done\n");
    top_screen_free(&t);
}

TEST(a_start_that_failed_says_why)
{
    TopScreen t;
    top_screen_init(&t);
    SAYS(1, "runs/x: has not started to train\n");
    add(&t, "{\"event\":\"done\",\"time\":2,\"code\":65,\"reason\":\"data.train: /x: no such "
            "folder\"}");
    SAYS(3, "runs/x: ended with code 65: data.train: /x: no such folder\n");
    add(&t, START);
    SAYS(1001, "runs/x: starting\n");
    top_screen_free(&t);
}

TEST(silence_is_judged_by_the_usual_gap)
{
    TopScreen t;
    top_screen_init(&t);
    add(&t, START);
    for (int i = 1; i <= 5; i++) add_step(&t, i, 1000 + 60 * i, 3);
    SAYS(1300 + 250, "runs/x: training\n");
    SAYS(1300 + 310, "no record for 5:10");
    top_screen_free(&t);
}

/* What is no record, and numbers that are not numbers, harm nothing. */
TEST(junk_and_nulls_are_passed_over)
{
    static const char *const junk[] = { "",
                                        "{",
                                        "[1]",
                                        "{\"event\":7,\"time\":1}",
                                        "{\"event\":\"step\"}",
                                        "nul",
                                        "{\"event\":\"gpu\",\"time\":1,\"gpu\":1e30}",
                                        "{\"event\":\"gpu\",\"time\":1,\"gpu\":-1}",
                                        "{\"event\":\"other\",\"time\":2000}" };
    TopScreen t;
    StrBuf text = { 0 };
    top_screen_init(&t);
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++) add(&t, junk[i]);
    SAYS(1, "has not started");
    add(&t, "{\"event\":\"start\",\"time\":1}");
    add(&t, "{\"event\":\"step\",\"time\":2,\"step\":1,\"loss\":null}");
    add(&t, "{\"event\":\"eval\",\"time\":2}");
    add(&t, "{\"event\":\"start\",\"time\":2,\"host\":\"a\\nb\\u001b\"}"); /* makes no line */
    SAYS(3, " on a\\nb\\x1b, ");
    add(&t, "{\"event\":\"done\",\"time\":2}");
    top_screen_describe(&t, "x", 3, &text);
    CHECK_CONTAINS(text.text, "x: ended with code");
    str_free(&text);
    top_screen_free(&t);
}

/* However many losses: few columns, from the first to the last. */
TEST(history_keeps_its_size)
{
    TopScreen t;
    top_screen_init(&t);
    add(&t, START);
    for (int i = 1; i <= 10000; i++) add_step(&t, i, 1000 + i, 10000 - i);
    CHECK(t.history_count > TOP_HISTORY / 2 - 1 && t.history_count <= TOP_HISTORY);
    CHECK_INT((int64_t)t.stride * t.history_count + t.pending, 10000);
    for (int i = 1; i < t.history_count; i++)
        CHECK_NEAR(t.history[i - 1] - t.history[i], t.stride, 1e-6);
    CHECK_NEAR(t.history[0], 9999 - 0.5 * (t.stride - 1), 1e-6);
    SAYS(11000, "loss trend  ##", "__  ");
    top_screen_free(&t);
}

TEST(masked_words_are_told_in_tokens)
{
    TopScreen t;
    top_screen_init(&t);
    add(&t, "{\"event\":\"start\",\"time\":1000,\"model\":\"roberta_base\",\"world\":4,"
            "\"sequences\":12800,\"global_batch\":128,\"steps\":1000,\"epochs\":10,\"tokens\":512,"
            "\"words\":50265}");
    add(&t,
        "{\"event\":\"step\",\"time\":1001,\"epoch\":0,\"step\":100,\"epochs\":1,\"loss\":6.412,"
        "\"lr\":0.5,\"sequences_per_s\":64,\"step_ms\":200,\"data_wait_ms\":10,"
        "\"comm_wait_ms\":4,\"tokens_per_s\":12340,\"masked\":0.15,\"ppl\":609.1}");
    add(&t, "{\"event\":\"eval\",\"time\":1002,\"step\":50,\"loss\":2.1,\"top1\":0.2,\"top5\":0.5,"
            "\"masked\":0.15,\"ppl\":8.1662}");
    add(&t,
        "{\"event\":\"eval\",\"time\":1003,\"step\":100,\"loss\":2.5,\"top1\":0.25,\"top5\":0.5,"
        "\"ema_loss\":2.25,\"masked\":0.15,\"ppl\":12.182}");
    SAYS(1004, "loss        6.4120  ppl 609.1  learning rate 0.5",
         "speed       12340.0 tokens/s, 3085.0 per rank; step 200.0 ms, ", "  30:00 left\n",
         "evaluation  loss 2.5000, ppl 12.182 (averaged weights: loss 2.2500), 25.00 % of the "
         "masked words "
         "found, at step 100; best loss 2.1000 (ppl 8.1662) at step 50\n");
    add(&t, "{\"event\":\"step\",\"time\":1004,\"epoch\":0,\"step\":101,\"epochs\":1,\"loss\":null,"
            "\"lr\":0.5,\"sequences_per_s\":64,\"step_ms\":200,\"data_wait_ms\":10,"
            "\"comm_wait_ms\":4,\"tokens_per_s\":12340,\"masked\":0,\"ppl\":null}");
    SAYS(1005, "loss        nan (no masked word)  learning rate 0.5");
    top_screen_free(&t);
}
