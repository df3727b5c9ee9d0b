/* test_console.c - what log.format prints, to the last character, and the files of log.file. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "tests/test.h"
#include "tests/tools/golden.h"
#include "tests/tools/network.h"
#include "trainer/app/log/console.h"
#include "trainer/app/log/runlog.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/plan/schedule.h"
#include "trainer/engine/rules/penalty.h"
#include <stdio.h>
#include <string.h>

#define IMAGENET_IMAGES 1281167

TEST(table_has_the_columns_of_tensorflows_example)
{
    /* the recipe of the example: 32 GPUs of 256 images, 300 steps of polynomial decay from 0.1 *
     * 8192 / 256 */
    const char *const sets[] = { "optimizer.lr=0.1",        "optimizer.lr_scaling=linear",
                                 "schedule.name=poly",      "schedule.power=2",
                                 "schedule.min_lr=0.00001", "schedule.warmup_epochs=0",
                                 "train.max_steps=300" };
    Config *c = NULL;
    char text[CONSOLE_TEXT_BYTES];
    CHECK_STR(console_table_header, "  Step Epoch Speed   Loss  FinLoss   LR");
    REQUIRE_OK(config_load(&c, NULL, sets, (int)(sizeof sets / sizeof sets[0])));
    const TrainPlan plan = { .images = IMAGENET_IMAGES, .global_batch = 8192, .total_steps = 300 };
    Schedule s = schedule_from_config(c, &plan, 32);
    static const struct {
        int64_t step;
        const char *text;
    } rows[] = { { 0, "     0   0.0 20000.5  6.930  8.214 3.20000" },
                 { 1, "     1   0.0 20000.5  6.930  8.214 3.17870" },
                 { 150, "   150   1.0 20000.5  6.930  8.214 0.80001" } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const ConsoleRow row = { .step = rows[i].step,
                                 .epochs = (double)rows[i].step * 8192 / IMAGENET_IMAGES,
                                 .speed = 20000.54,
                                 .loss = 6.93,
                                 .penalty = 1.284,
                                 .lr = schedule_lr(&s, rows[i].step) };
        console_table_row(&row, text);
        CHECK_STR(text, rows[i].text);
    }
    config_destroy(c);
}

TEST(epoch_has_the_line_of_rays_example)
{
    char text[CONSOLE_TEXT_BYTES];
    console_epoch_line(0, 1, &(RankEpoch){ .seconds = 17.658, .device = 0 }, 128, 235, text);
    CHECK_STR(
        text,
        "[Epoch 0 | GPU0: Process rank 1 | Batchsize: 128 | Steps: 235 | Total epoch time: 17.66]");
    console_epoch_line(9, 0, &(RankEpoch){ .seconds = 3, .device = -1 }, 8, 1, text);
    CHECK_STR(text,
              "[Epoch 9 | CPU: Process rank 0 | Batchsize: 8 | Steps: 1 | Total epoch time: 3.00]");
}

#define SIDE    "\u2502"
#define RULE_5  "\u2500\u2500\u2500\u2500\u2500"
#define RULE_10 RULE_5 RULE_5
#define RULE_31 RULE_10 RULE_10 RULE_10 "\u2500"

/* What the example printed of its two GPUs and ten epochs; where a checkpoint has a name, as Ray
 * draws that. */
TEST(results_are_drawn_as_rays)
{
    static const char *const published[] = { "\u256d" RULE_31 "\u256e",
                                             SIDE " Training result               " SIDE,
                                             "\u251c" RULE_31 "\u2524",
                                             SIDE " checkpoint_dir_name           " SIDE,
                                             SIDE " time_this_iter_s      182.976 " SIDE,
                                             SIDE " time_total_s          182.976 " SIDE,
                                             SIDE " training_iteration          1 " SIDE,
                                             SIDE " accuracy               0.8852 " SIDE,
                                             SIDE " loss                  0.41928 " SIDE,
                                             "\u2570" RULE_31 "\u256f" };
    char table[CONSOLE_RESULT_LINES][CONSOLE_TEXT_BYTES];
    ConsoleResult r = { .checkpoint = "",
                        .this_s = 182.976,
                        .total_s = 182.976,
                        .iteration = 1,
                        .evaluated = true,
                        .accuracy = 0.8852,
                        .loss = 0.4192830347106792 };
    REQUIRE(console_result_table(&r, table) == 10);
    for (int i = 0; i < 10; i++) CHECK_STR(table[i], published[i]);
    r.checkpoint = "checkpoint_000000";
    r.evaluated = false;
    r.total_s = 10;
    REQUIRE(console_result_table(&r, table) == 8);
    CHECK_STR(table[0], "\u256d" RULE_10 RULE_31 "\u256e");
    CHECK_STR(table[3], SIDE " checkpoint_dir_name   checkpoint_000000 " SIDE);
    CHECK_STR(table[5], SIDE " time_total_s                         10 " SIDE);
}

/* Every parameter 0.5: a quarter of the number of elements that decay. */
TEST(penalty_counts_what_decays)
{
    const char *const sets[] = { "optimizer.weight_decay=0.01" }, *const all[] = {
        sets[0], "optimizer.decay_skip=none"
    };
    const char *const adamw[] = { sets[0], "optimizer.name=adamw" };
    ModelOptions o = golden_options("resnet20", true, 1);
    Network n;
    Config *c = NULL;
    double got = -1, want = 0, want_all = 0;
    REQUIRE_OK(network_open(&n, NETWORK_CPU, "resnet20", &o));
    for (int i = 0; i < executor_state_count(n.executor); i++) {
        if (!executor_state_is_param(n.executor, i)) continue;
        int64_t count = tensor_elements(&executor_state(n.executor, i)->desc);
        float *values = mem_alloc((size_t)count * sizeof *values);
        REQUIRE(values != NULL);
        for (int64_t k = 0; k < count; k++) values[k] = 0.5F;
        REQUIRE_OK(executor_import_state(n.executor, i, values));
        mem_free(values);
        want_all += 0.25 * (double)count;
        if (executor_state_tensor(n.executor, i)->decay) want += 0.25 * (double)count;
    }
    CHECK(want > 0 && want < want_all);
    REQUIRE_OK(config_load(&c, NULL, sets, 1));
    CHECK_OK(penalty_of_parameters(n.executor, c, &got));
    CHECK_NEAR(got, 0.005 * want, 1e-9 * want);
    config_destroy(c);
    REQUIRE_OK(config_load(&c, NULL, all, 2));
    CHECK_OK(penalty_of_parameters(n.executor, c, &got));
    CHECK_NEAR(got, 0.005 * want_all, 1e-9 * want_all);
    config_destroy(c);
    REQUIRE_OK(config_load(&c, NULL, adamw, 2));
    CHECK_OK(penalty_of_parameters(n.executor, c, &got));
    CHECK_NEAR(got, 0, 0);
    config_destroy(c);
    network_close(&n);
}

static void check_name(const char *pattern, int world, const char *want)
{
    char *name = NULL;
    CHECK_OK(config_file_name(&name, "log.file", pattern, 3, world));
    CHECK_STR(name, want);
    mem_free(name);
}

TEST(file_names_by_pattern)
{
    char *name = NULL, want[300];
    snprintf(want, sizeof want, "%s/3%%", process_host());
    check_name("train.%r.%w.log", 16, "train.3.16.log");
    check_name("%h/%r%%", 16, want);
    check_name("one.log", 1, "one.log");
    CHECK_STATUS(config_file_name(&name, "log.file", "a%", 0, 2), ERR_USAGE);
    CHECK_STATUS(config_file_name(&name, "log.file", "%d%r", 0, 2), ERR_USAGE);
    CHECK_STATUS(config_file_name(&name, "log.file", "%w.log", 0, 2), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "log.file");
}

/* What a rank's own file holds after three steps with log.format table; mem_free. */
static char *after_three_steps(int rank)
{
    char dir[512], path[600];
    const char *sets[] = { "log.file=%r.txt", "log.format=table", dir };
    Config *c = NULL;
    RunLog *r = NULL;
    uint8_t *text = NULL;
    size_t bytes;
    snprintf(dir, sizeof dir, "run.dir=%s", test_scratch());
    CHECK_OK(config_load(&c, NULL, sets, 3));
    CHECK_OK(runlog_open(&r, c->run.dir, rank, c));
    CHECK_OK(runlog_begin(r, c, 2));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(runlog_record(r, RECORD_STEP, &(StepRecord){ .step = i + 1, .loss = 1.5 }));
        runlog_row(r, &(ConsoleRow){ .step = i, .loss = 1.5, .penalty = 0.25 });
    }
    runlog_close(r);
    snprintf(path, sizeof path, "%s/%d.txt", test_scratch(), rank);
    CHECK_OK(fs_read_file(path, &text, &bytes));
    config_destroy(c);
    return (char *)text;
}

TEST(rank_0_alone_prints_the_table)
{
    char *first = after_three_steps(0), *second = after_three_steps(1);
    const char *header = strstr(first, console_table_header);
    REQUIRE(header != NULL);
    CHECK(strstr(header + 1, console_table_header) == NULL);
    CHECK_CONTAINS(header, "     0   0.0     0.0  1.500  1.750 0.00000");
    CHECK_CONTAINS(header, "     2   0.0     0.0  1.500  1.750 0.00000");
    CHECK_CONTAINS(second, "step 3 loss 1.5");
    CHECK(strstr(second, "1.750") == NULL && strstr(second, console_table_header) == NULL);
    mem_free(first);
    mem_free(second);
}

TEST(a_rank_has_its_own_file)
{
    char dir[512], path[600];
    const char *sets[] = { "log.file=logs/%r.%w.txt", dir };
    Config *c = NULL;
    RunLog *r = NULL;
    uint8_t *text = NULL;
    size_t bytes;
    snprintf(dir, sizeof dir, "run.dir=%s", test_scratch());
    REQUIRE_OK(config_load(&c, NULL, sets, 2));
    REQUIRE_OK(runlog_open(&r, c->run.dir, 1, c));
    REQUIRE_OK(runlog_begin(r, c, 2));
    CHECK_OK(
        runlog_record(r, RECORD_STEP,
                      &(StepRecord){ .epoch = 4, .step = 77, .loss = 1.5, .comm_wait_ms = 12.25 }));
    runlog_close(r);
    log_note("after it is closed");
    snprintf(path, sizeof path, "%s/logs/1.2.txt", test_scratch());
    REQUIRE_OK(fs_read_file(path, &text, &bytes));
    CHECK_CONTAINS((const char *)text, "info rank 1: epoch 5 step 77 loss 1.5");
    CHECK_CONTAINS((const char *)text, "comm wait 12.2");
    CHECK(text[bytes - 1] == '\n' && strchr((char *)text, '\n') == (char *)text + bytes - 1);
    mem_free(text);
    config_destroy(c);
}
