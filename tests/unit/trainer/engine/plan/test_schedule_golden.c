/* test_schedule_golden.c - learning rates of published recipes, said by config keys, against
 * tests/golden/schedules.txt. */
#include "base/fs.h"
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/golden.h"
#include "trainer/engine/plan/schedule.h"
#include "trainer/engine/plan/train_plan.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMAGENET_IMAGES 1281167
#define SETS            10

/* Every value of the line within 1e-12 of the larger of the two; those of rate 0 exactly. */
static void check_line(const char *name, const Schedule *s, int pairs)
{
    double values[GOLDEN_VALUES];
    CHECK_INT(golden_read("schedules", name, values), 2 * pairs);
    for (int i = 0; i < pairs; i++) {
        const double want = values[2 * i + 1];
        CHECK_NEAR(schedule_lr(s, (int64_t)values[2 * i]), want, 1e-12 * want);
    }
}

static Schedule make(const char *const *sets, int count, int64_t batch, int64_t images,
                     int64_t steps)
{
    Config *c = NULL;
    Schedule s = { .name = SCHEDULE_CONSTANT };
    CHECK_OK(config_load(&c, NULL, sets, count));
    const TrainPlan plan = { .images = images, .global_batch = batch, .total_steps = steps };
    if (c) s = schedule_from_config(c, &plan, 1);
    config_destroy(c);
    return s;
}

/* The reference's rates, with the decay steps of its table. */
TEST(the_schedules_of_mlperf)
{
    static const struct {
        int64_t batch;
        const char *lr;
        int epochs, decay;
    } rows[] = { { 1632, "7.4", 2, 27476 },     { 3264, "10.5", 2, 14523 },
                 { 4096, "10", 5, 13137 },      { 8192, "17", 5, 6095 },
                 { 13056, "12.8", 9, 4710 },    { 32768, "21.2", 16, 2267 },
                 { 49152, "19.405", 24, 1846 }, { 58880, "23.246", 29, 1785 },
                 { 65536, "24.699", 31, 1133 }, { 67840, "24.699", 31, 1133 } };
    char name[32], lr[32], warmup[64], decay[64];
    const char *sets[] = { "schedule.name=poly",
                           "schedule.power=2",
                           "schedule.min_lr=1e-4",
                           "schedule.warmup_lr=0",
                           "optimizer.lr_scaling=none",
                           lr,
                           warmup,
                           decay };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int64_t batch = rows[i].batch, per_epoch = (IMAGENET_IMAGES + batch - 1) / batch;
        const int64_t warmup_steps = rows[i].epochs * per_epoch;
        snprintf(name, sizeof name, "mlperf_%lld", (long long)batch);
        snprintf(lr, sizeof lr, "optimizer.lr=%s", rows[i].lr);
        snprintf(warmup, sizeof warmup, "schedule.warmup_steps=%lld", (long long)warmup_steps);
        snprintf(decay, sizeof decay, "schedule.decay_steps=%d", rows[i].decay);
        Schedule s = make(sets, 8, batch, IMAGENET_IMAGES, 90 * per_epoch);
        check_line(name, &s, 7);
        if (batch != 3264) continue;
        /* and with the formula's: steps of the run less those of warm-up, and one */
        sets[7] = "schedule.decay_steps=13756";
        s = make(sets, 8, batch, IMAGENET_IMAGES, 37 * per_epoch);
        check_line("mlperf_formula", &s, 7);
        sets[7] = decay;
    }
}

/* Fields of a row of the recipe's table. */
enum { BATCH, IMAGES, EPOCHS, LR, WARMUP, DECAY, WEIGHT_DECAY, MOMENTUM, REACHED, FIELDS };

static void check_row(const char *path, char field[FIELDS][16])
{
    static const char *const keys[FIELDS] = { [BATCH] = "train.global_batch",
                                              [IMAGES] = "train.batch_per_rank",
                                              [EPOCHS] = "train.epochs",
                                              [LR] = "optimizer.lr",
                                              [WARMUP] = "schedule.warmup_steps",
                                              [DECAY] = "schedule.decay_steps",
                                              [WEIGHT_DECAY] = "optimizer.weight_decay",
                                              [MOMENTUM] = "optimizer.momentum" };
    char text[REACHED][64], line[32];
    const char *sets[REACHED];
    Config *c = NULL;
    TrainPlan plan;
    for (int i = 0; i < REACHED; i++) {
        snprintf(text[i], sizeof text[i], "%s=%s", keys[i], field[i]);
        sets[i] = text[i];
    }
    REQUIRE_OK(config_load(&c, path, sets, REACHED));
    const int ranks = (int)(c->train.global_batch / c->train.batch_per_rank);
    REQUIRE_OK(train_plan_make(&plan, c, ranks, IMAGENET_IMAGES));
    CHECK(plan.accumulate == 1 && plan.batch * ranks == c->train.global_batch);
    /* It runs to the end of the decay, for more epochs than it reached its goal in. */
    CHECK(plan.total_steps >= c->schedule.warmup_steps + c->schedule.decay_steps - 1);
    CHECK(c->train.epochs > strtod(field[REACHED], NULL));
    const Schedule s = schedule_from_config(c, &plan, ranks);
    snprintf(line, sizeof line, "mlperf_%.15s", field[BATCH]);
    check_line(line, &s, 7);
    config_destroy(c);
}

/* The file says the same, in its own keys and in the table of its comment. */
TEST(the_recipe_of_mlperf_has_its_schedules)
{
    static const char path[] = "configs/recipes/resnet50-mlperf.yaml";
    uint8_t *text = NULL;
    size_t bytes = 0;
    int rows = 0;
    Config *c = NULL;
    REQUIRE_OK(fs_read_file(path, &text, &bytes));
    for (const char *at = (const char *)text; (at = strstr(at, "\n#= ")); at++) {
        char f[FIELDS][16];
        REQUIRE(sscanf(at, "\n#= %15s %15s %15s %15s %15s %15s %15s %15s %15s", f[0], f[1], f[2],
                       f[3], f[4], f[5], f[6], f[7], f[8]) == FIELDS);
        check_row(path, f);
        rows++;
    }
    CHECK_INT(rows, 10);
    mem_free(text);
    REQUIRE_OK(config_load(&c, path, NULL, 0));
    const TrainPlan plan = { .images = IMAGENET_IMAGES,
                             .global_batch = 3264,
                             .total_steps = 15309 };
    const Schedule s = schedule_from_config(c, &plan, 16);
    check_line("mlperf_3264", &s, 7);
    config_destroy(c);
}

TEST(the_schedules_of_other_trainers)
{
    static const struct {
        const char *name;
        int pairs;
        int64_t batch, images, steps;
        int set_count;
        const char *sets[SETS];
    } rows[] = {
        { "tf_efficientnet",
          9,
          4096,
          313 * 4096,
          350 * 313,
          7,
          { "optimizer.lr=0.016", "optimizer.lr_scaling=linear", "schedule.name=exponential",
            "schedule.warmup_lr=0", "schedule.warmup_epochs=5", "schedule.gamma=0.97",
            "schedule.decay_epochs=2.4" } },
        { "timm_cosine",
          6,
          10,
          1000,
          30000,
          6,
          { "optimizer.lr=0.005", "optimizer.lr_scaling=none", "schedule.warmup_epochs=5",
            "schedule.warmup_lr=1e-4", "schedule.min_lr=1e-6", "schedule.decay_from=start" } },
        { "timm_prefix",
          7,
          10,
          1000,
          30500,
          5,
          { "optimizer.lr=0.005", "optimizer.lr_scaling=none", "schedule.warmup_epochs=5",
            "schedule.warmup_lr=1e-4", "schedule.min_lr=1e-6" } },
        { "ffcv_16",
          7,
          4096,
          312 * 4096,
          16 * 312,
          5,
          { "optimizer.lr=1.7", "optimizer.lr_scaling=none", "schedule.name=triangular",
            "schedule.warmup_epochs=2", "schedule.warmup_lr=1.7e-4" } },
        { "airbench94",
          7,
          1024,
          50000,
          476,
          6,
          { "optimizer.lr=1", "optimizer.lr_scaling=none", "schedule.name=triangular",
            "schedule.warmup_steps=109", "schedule.warmup_lr=0.2", "schedule.min_lr=0.07" } },
        { "fairseq",
          8,
          1024,
          50000,
          500,
          6,
          { "optimizer.lr=6e-4", "optimizer.lr_scaling=none", "schedule.name=poly",
            "schedule.warmup_steps=24000", "schedule.warmup_lr=0", "schedule.decay_steps=476000" } }
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Schedule s =
            make(rows[i].sets, rows[i].set_count, rows[i].batch, rows[i].images, rows[i].steps);
        check_line(rows[i].name, &s, rows[i].pairs);
    }
}

/* 57 steps of 10 images are 60 tenths of an epoch of 95, which in floats is a little less. */
TEST(stairs_fall_where_fractions_do)
{
    static const char *const sets[] = {
        "optimizer.lr=1",      "optimizer.lr_scaling=none", "schedule.name=exponential",
        "schedule.gamma=0.99", "schedule.decay_epochs=0.1", "schedule.warmup_epochs=0"
    };
    Schedule s = make(sets, 6, 10, 95, 100);
    CHECK_NEAR(schedule_lr(&s, 56), pow(0.99, 58), 1e-12);
    CHECK_NEAR(schedule_lr(&s, 57), pow(0.99, 60), 1e-12);
}

/* min_lr holds for stairs too. */
TEST(stairs_end_at_their_floor)
{
    static const char *const sets[] = {
        "optimizer.lr=1",          "optimizer.lr_scaling=none", "schedule.name=exponential",
        "schedule.gamma=0.5",      "schedule.decay_epochs=1",   "schedule.min_lr=0.2",
        "schedule.warmup_epochs=0"
    };
    Schedule s = make(sets, 7, 10, 95, 100);
    CHECK_NEAR(schedule_lr(&s, 9), 1, 0); /* the pass ends within this step */
    CHECK_NEAR(schedule_lr(&s, 10), 0.5, 0);
    CHECK_NEAR(schedule_lr(&s, 19), 0.25, 0); /* and the second at its very end */
    CHECK_NEAR(schedule_lr(&s, 99), 0.2, 0);
}

TEST(a_warm_up_in_steps_stands_in_for_epochs)
{
    static const char *const sets[] = { "schedule.warmup_steps=7" }, *const epochs[] = {
        "schedule.warmup_epochs=2"
    };
    Config *c = NULL;
    REQUIRE_OK(config_load(&c, NULL, sets, 1));
    CHECK_NEAR(c->schedule.warmup_epochs, 0, 0);
    CHECK_STATUS(config_override(c, epochs, 1), ERR_USAGE);
    CHECK_STR(status_message(), "schedule.warmup_steps cannot be combined with "
                                "schedule.warmup_epochs; set one of them to 0");
    config_destroy(c);
    REQUIRE_OK(config_load(&c, NULL, NULL, 0));
    REQUIRE_OK(config_override(c, sets, 1));
    CHECK_NEAR(c->schedule.warmup_epochs, 0, 0);
    config_destroy(c);
}

TEST(schedules_that_cannot_be_name_the_key)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        { "warmup_epochs=2 warmup_steps=10",
          "schedule.warmup_steps cannot be combined with schedule.warmup" },
        { "warmup_lr=-0.5", "schedule.warmup_lr is below 0; set a learning rate, or -1" },
        { "warmup_epochs=0 warmup_lr=0", "schedule.warmup_lr requires schedule.warmup_epochs or" },
        { "name=triangular warmup_epochs=0",
          "schedule.name: triangular requires schedule.warmup_epochs" },
        { "name=triangular", "schedule.name: triangular requires schedule.warmup_lr" },
        { "name=step decay_steps=9",
          "schedule.decay_steps requires schedule.name: cosine, poly or triangular" },
        { "name=triangular warmup_lr=0 decay_from=start",
          "schedule.decay_from requires schedule.name: cosine or poly" },
        { "decay_from=end", "it must be one of warmup, start" },
        { "decay_epochs=0", "schedule.decay_epochs is \"0\"" },
        { "warmup_steps=1.5", "schedule.warmup_steps is \"1.5\"" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char words[128], sets[3][64];
        const char *list[3];
        int count = 0;
        Config *c = NULL;
        snprintf(words, sizeof words, "%s", rows[i].text);
        for (char *at = words, *blank; at; at = blank ? blank + 1 : NULL) {
            blank = strchr(at, ' ');
            if (blank) *blank = '\0';
            snprintf(sets[count], sizeof sets[count], "schedule.%.48s", at);
            list[count] = sets[count];
            count++;
            if (!blank) break;
        }
        CHECK_STATUS(config_load(&c, NULL, list, count), ERR_USAGE);
        CHECK_CONTAINS(status_message(), rows[i].part);
        config_destroy(c);
    }
}
