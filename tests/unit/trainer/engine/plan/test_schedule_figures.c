/* The learning rate as a function of the step. */
#include "tests/test.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/plan/schedule.h"
#include "trainer/engine/plan/train_plan.h"
#include <stdio.h>

/* AWS's TensorFlow example for ResNet-50 on Kubernetes trains 300 steps of 8192 images, with a rate
 * that is linear in the batch and decays to 1e-5 by the square, and prints a line for step 1 and
 * for every 50th: epoch as %5.1f, rate as %7.5f. These are the digits of (3.2 - 1e-5) (1 - s/300)^2
 * + 1e-5 and of 8192 s / 1281167, worked out in fractions. */
TEST(poly_decay_prints_the_digits_of_the_tensorflow_example)
{
    static const struct {
        int64_t step;
        const char *epoch, *lr;
    } rows[] = { { 1, "  0.0", "3.17870" },   { 50, "  0.3", "2.22223" },
                 { 100, "  0.6", "1.42223" }, { 150, "  1.0", "0.80001" },
                 { 200, "  1.3", "0.35556" }, { 250, "  1.6", "0.08890" },
                 { 300, "  1.9", "0.00001" } };
    static const char *const sets[] = { "optimizer.lr=0.1",        "optimizer.lr_scaling=linear",
                                        "schedule.name=poly",      "schedule.power=2",
                                        "schedule.min_lr=1e-5",    "schedule.warmup_epochs=0",
                                        "train.max_steps=300",     "train.batch_mode=global",
                                        "train.global_batch=8192", "train.batch_per_rank=64" };
    Config *c = NULL;
    TrainPlan plan;
    REQUIRE_OK(config_load(&c, NULL, sets, sizeof sets / sizeof sets[0]));
    REQUIRE_OK(train_plan_make(&plan, c, 128, 1281167));
    Schedule s = schedule_from_config(c, &plan, 128);
    CHECK_INT(plan.total_steps, 300);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[32];
        snprintf(text, sizeof text, "%7.5f", schedule_lr(&s, rows[i].step));
        CHECK_STR(text, rows[i].lr);
        snprintf(text, sizeof text, "%5.1f",
                 (double)train_plan_images(&plan, rows[i].step) / (double)plan.images);
        CHECK_STR(text, rows[i].epoch);
    }
    config_destroy(c);
}

TEST(warmup_rises_and_milestones_cut)
{
    Schedule s = { .name = SCHEDULE_STEP,
                   .peak_lr = 1,
                   .gamma = 0.1,
                   .milestones = { 2, { 2, 3 } },
                   .warmup_steps = 10,
                   .warmup_lr = -1,
                   .total_steps = 40,
                   .decay_start = 10,
                   .decay_steps = 30,
                   .plan = { .images = 80, .global_batch = 8, .total_steps = 40 } };
    CHECK_NEAR(schedule_lr(&s, 0), 0.1, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 9), 1, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 19), 1, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 20), 0.1, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 30), 0.01, 1e-12);
    s.name = SCHEDULE_COSINE;
    CHECK_NEAR(schedule_lr(&s, 10), 1, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 25), 0.5, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 40), 0, 1e-12);
}
