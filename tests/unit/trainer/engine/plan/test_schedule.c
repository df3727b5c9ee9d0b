/* test_schedule.c - learning rates step by step: warm-up, the shapes after it, the scaling by the
 * batch. */
#include "tests/test.h"
#include "trainer/engine/plan/schedule.h"
#include <math.h>

/* Of 100 steps, ten to an epoch, at a peak of 0.8 unless sets say otherwise. */
static Schedule make(const char *const *sets, int count)
{
    const char *all[8] = { "optimizer.lr=0.8", "optimizer.lr_scaling=none",
                           "schedule.warmup_epochs=2" };
    Config *c = NULL;
    for (int i = 0; i < count; i++) all[3 + i] = sets[i];
    CHECK_OK(config_load(&c, NULL, all, 3 + count));
    const TrainPlan plan = { .images = 320, .global_batch = 32, .total_steps = 100 };
    Schedule s = schedule_from_config(c, &plan, 1);
    config_destroy(c);
    return s;
}

TEST(warm_up_rises_to_the_peak)
{
    static const char *const sets[] = { "schedule.name=constant" };
    Schedule s = make(sets, 1);
    CHECK_NEAR(schedule_lr(&s, 0), 0.8 / 20, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 9), 0.4, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 19), 0.8, 1e-12);
    for (int64_t step = 20; step < 100; step += 13) CHECK_NEAR(schedule_lr(&s, step), 0.8, 0);
}

TEST(cosine_falls_to_its_end)
{
    static const char *const sets[] = { "schedule.name=cosine", "schedule.min_lr=0.1" };
    Schedule s = make(sets, 2);
    CHECK_NEAR(schedule_lr(&s, 20), 0.8, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 40), 0.1 + 0.7 * 0.5 * (1 + sqrt(0.5)), 1e-12);
    CHECK_NEAR(schedule_lr(&s, 60), 0.45, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 100), 0.1, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 1000), 0.1, 1e-12);
}

TEST(poly_has_its_power)
{
    static const char *const sets[] = { "schedule.name=poly", "schedule.power=2",
                                        "schedule.min_lr=0.1" };
    Schedule s = make(sets, 3);
    CHECK_NEAR(schedule_lr(&s, 20), 0.8, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 60), 0.1 + 0.7 * 0.25, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 100), 0.1, 1e-12);
}

TEST(step_falls_at_its_milestones)
{
    static const char *const sets[] = { "schedule.name=step", "schedule.milestones=3,5.5",
                                        "schedule.gamma=0.2" };
    Schedule s = make(sets, 3);
    CHECK_NEAR(schedule_lr(&s, 29), 0.8, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 30), 0.16, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 54), 0.16, 1e-12);
    CHECK_NEAR(schedule_lr(&s, 55), 0.032, 1e-12);
}

TEST(rates_are_scaled_by_batch_or_world)
{
    static const struct {
        const char *set;
        double want;
    } rows[] = { { "optimizer.lr_scaling=none", 0.8 },
                 { "optimizer.lr_scaling=linear", 0.8 * 1024 / 256 },
                 { "optimizer.lr_scaling=sqrt", 0.8 * 2 },
                 { "optimizer.lr_scaling=world_size", 0.8 * 4 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *sets[] = { "optimizer.lr=0.8", "schedule.warmup_epochs=0",
                               "schedule.name=constant", rows[i].set };
        Config *c = NULL;
        REQUIRE_OK(config_load(&c, NULL, sets, 4));
        const TrainPlan plan = { .images = 4096, .global_batch = 1024, .total_steps = 10 };
        Schedule s = schedule_from_config(c, &plan, 4);
        CHECK_NEAR(schedule_lr(&s, 0), rows[i].want, 1e-12);
        config_destroy(c);
    }
}
