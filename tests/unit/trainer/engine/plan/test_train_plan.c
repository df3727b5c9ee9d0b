/* test_train_plan.c - steps and images where train.accumulate is a list: against a walk through the
 * stream, step by step. */
#include "tests/test.h"
#include "trainer/engine/plan/schedule.h"
#include <math.h>

enum { IMAGES = 100, BATCH = 3, WORLD = 2 };

static TrainPlan make(Config **c, const char *accumulate, const char *more)
{
    TrainPlan p = { 0 };
    const char *sets[] = { "train.batch_per_rank=3",
                           "optimizer.lr_scaling=none",
                           "train.epochs=6",
                           "schedule.warmup_epochs=0.5",
                           accumulate,
                           more };
    CHECK_OK(config_load(c, NULL, sets, more ? 6 : 5));
    if (*c) CHECK_OK(train_plan_make(&p, *c, WORLD, IMAGES));
    return p;
}

/* values: of the epochs, the last one of all further ones too. */
static void walk(const TrainPlan *p, const int *values, int count)
{
    int64_t image = 0, step = 0;
    TrainPlan at = *p;
    for (; step < p->total_steps; step++) {
        const int64_t epoch = image / IMAGES, value = values[epoch < count ? epoch : count - 1],
                      batch = value * BATCH * WORLD, before = image - 1;
        const bool turns = (image + batch) / IMAGES > epoch;
        CHECK_INT(train_plan_images(p, step), image);
        CHECK_INT(train_plan_epoch(p, step), epoch);
        CHECK_INT(train_plan_step_at(p, image), step);
        if (step > 0) CHECK_INT(train_plan_step_at(p, before), step);
        CHECK_NEAR(train_plan_steps(p, (double)image / IMAGES), (double)step, 1e-9);
        CHECK_INT(train_plan_due(p, step, 1), turns);
        train_plan_enter(&at, step);
        CHECK_INT(at.accumulate, value);
        CHECK_INT(at.global_batch, batch);
        image += batch;
    }
    /* the first step to complete the last epoch is the last */
    CHECK(image >= 6 * IMAGES && image - at.global_batch < 6 * IMAGES);
    CHECK_INT(train_plan_images(p, step), image);
}

TEST(steps_have_the_batch_of_their_epoch)
{
    static const struct {
        const char *set;
        int values[6], count, phases;
        int64_t least, most;
    } rows[] = {
        { "train.accumulate=2", { 2 }, 1, 0, 2, 2 },
        { "train.accumulate=4, 2, 1", { 4, 2, 1 }, 3, 3, 1, 4 },
        { "train.accumulate=1, 16", { 1, 16 }, 2, 2, 1, 16 },
        { "train.accumulate=2, 2, 5, 5, 3, 2", { 2, 2, 5, 5, 3, 2 }, 6, 4, 2, 5 },
        { "train.accumulate=3, 3", { 3 }, 1, 1, 3, 3 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Config *c = NULL;
        int64_t least, most, ends = 0;
        const TrainPlan p = make(&c, rows[i].set, NULL);
        walk(&p, rows[i].values, rows[i].count);
        CHECK_INT(p.phase_count, rows[i].phases);
        train_plan_micros(&p, &least, &most);
        CHECK_INT(least, rows[i].least);
        CHECK_INT(most, rows[i].most);
        for (int64_t s = 0; s < p.total_steps; s = train_plan_phase_end(&p, s)) ends++;
        CHECK_INT(ends, rows[i].phases > 0 ? rows[i].phases : 1);
        config_destroy(c);
    }
}

/* 100 images: epoch 0 is 5 steps of 24 (to 120), epoch 1 is 7 of 12 (to 204), then steps of 6. */
TEST(rates_go_by_epochs_of_any_length)
{
    Config *c = NULL;
    const TrainPlan p = make(&c, "train.accumulate=4, 2, 1", "schedule.name=step");
    REQUIRE(c);
    c->schedule.milestones = (ConfigList){ 2, { 1, 2 } };
    const Schedule s = schedule_from_config(c, &p, WORLD);
    CHECK_NEAR(s.warmup_steps, 50.0 / 24, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 4) / s.peak_lr, 1, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 5) / s.peak_lr, 0.1, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 11) / s.peak_lr, 0.1, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 12) / s.peak_lr, 0.01, 1e-12);
    CHECK_INT(p.total_steps, 12 + (600 - 204) / 6);
    config_destroy(c);
}

TEST(lists_that_cannot_be_are_refused)
{
    static const struct {
        const char *sets[2], *sentence;
    } rows[] = {
        { { "train.accumulate=4, 20", "train.epochs=2" },
          "a global batch of 120 images is larger than the dataset of 100" },
        { { "train.accumulate=1, 2", "optimizer.lr_scaling=linear" }, "optimizer.lr_scaling" },
        { { "train.accumulate=[]", "train.epochs=2" }, "train.accumulate is empty" },
        { { "train.accumulate=1.5", "train.epochs=2" }, "train.accumulate must be whole numbers" },
        { { "train.accumulate=1, 2", "train.batch_mode=global" },
          "train.accumulate cannot be a list" },
        { { "train.batch_per_rank=51", "train.epochs=2" },
          "train.batch_per_rank: a global batch of 102 images is larger than the dataset of 100" },
        { { "train.epochs=2", "data.repeated_augmentation=5" },
          "data.repeated_augmentation: a global batch of 6 images (train.accumulate: 1)" },
        { { "train.accumulate=2, 3", "data.repeated_augmentation=4" },
          "data.repeated_augmentation: a global batch of 18 images (train.accumulate: 3)" },
        { { "train.accumulate=1, 2", "optimizer.sam_rho=0.1" },
          "optimizer.sam_rho: a step would be 2 micro-batches" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Config *c = NULL;
        TrainPlan p;
        const char *sets[] = { "train.batch_per_rank=3", "train.global_batch=8",
                               "optimizer.lr_scaling=none", rows[i].sets[0], rows[i].sets[1] };
        Status status = config_load(&c, NULL, sets, 5);
        if (status == OK) status = train_plan_make(&p, c, WORLD, IMAGES);
        CHECK_INT(status, ERR_USAGE);
        CHECK_CONTAINS(status_message(), rows[i].sentence);
        config_destroy(c);
    }
}
