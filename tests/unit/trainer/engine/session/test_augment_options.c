/* test_augment_options.c - what the keys of augmentation become for the loader. */
#include "tests/test.h"
#include "trainer/engine/session/augment_options.h"

TEST(every_key_arrives)
{
    static const char *const sets[] = {
        "data.auto_augment=augmix",
        "data.min_crop_area=0.35",
        "data.autoaugment_policy=svhn",
        "data.randaugment_ops=5",
        "data.randaugment_magnitude=12",
        "data.magnitude_bins=17",
        "data.augmix_severity=7",
        "data.auto_augment_interpolation=nearest",
        "data.auto_augment_fill=10,20,30",
        "data.color_jitter=0.1,0.2,0.3,0.4",
        "data.random_erase=0.25",
        "data.randaugment_std=0.75",
        "data.mixup=0.5",
        "data.mixup_prob=0.6",
        "data.mixup_switch_prob=0.7",
        "data.mixup_off_epoch=80",
        "data.cutmix=2",
        "data.repeated_augmentation=3",
    };
    Config *c = NULL;
    LoaderOptions o = { 0 };
    REQUIRE_OK(config_load(&c, NULL, sets, sizeof sets / sizeof sets[0]));
    augment_options_fill(&o, c, DATA_TRAIN);
    CHECK(o.view.policy.policy == POLICY_AUGMIX && o.view.policy.table == AUTOAUGMENT_SVHN &&
          o.view.policy.sampling == SAMPLING_NEAREST);
    CHECK_NEAR(o.view.min_crop_area, 0.35, 0);
    CHECK_INT(o.view.policy.ops, 5);
    CHECK_INT(o.view.policy.magnitude, 12);
    CHECK_INT(o.view.policy.bins, 17);
    CHECK_INT(o.view.policy.severity, 7);
    for (int i = 0; i < 3; i++) CHECK_INT(o.view.policy.fill[i], 10 * (i + 1));
    for (int i = 0; i < 4; i++) CHECK_NEAR(o.view.policy.jitter[i], 0.1 * (i + 1), 1e-12);
    CHECK_NEAR(o.view.policy.erase, 0.25, 0);
    CHECK_NEAR(o.mix.mixup, 0.5, 0);
    CHECK_NEAR(o.mix.cutmix, 2, 0);
    CHECK_NEAR(o.mix.prob, 0.6, 0);
    CHECK_NEAR(o.mix.switch_prob, 0.7, 0);
    CHECK_INT(o.mix.off_epoch, 80);
    CHECK_NEAR(o.view.policy.deviation, 0.75, 0);
    CHECK_INT(o.repeats, 3);
    CHECK(augment_options_erase(c) && augment_options_mix(c));
    config_destroy(c);
}

TEST(one_fill_is_for_all_channels_and_nothing_is_on_by_itself)
{
    static const char *const sets[] = { "data.auto_augment_fill=9" };
    Config *c = NULL;
    LoaderOptions o = { 0 };
    REQUIRE_OK(config_load(&c, NULL, sets, 1));
    augment_options_fill(&o, c, DATA_TRAIN);
    for (int i = 0; i < 3; i++) CHECK_INT(o.view.policy.fill[i], 9);
    for (int i = 0; i < 4; i++) CHECK_NEAR(o.view.policy.jitter[i], 0, 0);
    CHECK(o.view.policy.policy == POLICY_NONE && o.view.policy.erase == 0 && o.mix.mixup == 0 &&
          o.mix.cutmix == 0);
    CHECK_INT(o.repeats, 1);
    CHECK(!augment_options_erase(c) && !augment_options_mix(c));
    config_destroy(c);
}
