/* test_balance.c - data.order balanced: classes come equally often, and a position says which
 * sample. */
#include "base/both.h"
#include "data/load/balance.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include <math.h>
#include <stdio.h>

enum { DRAWS = 30000, CLASSES = 3 };

/* 1, 5 and 20 samples. */
static Status open_tree(Dataset **out)
{
    static const int samples[CLASSES] = { 1, 5, 20 };
    const DatasetOptions o = { .path = test_scratch(), .format = DATA_AUTO, .role = DATA_TRAIN };
    for (int c = 0; c < CLASSES; c++)
        for (int i = 0; i < samples[c]; i++) {
            char path[64];
            snprintf(path, sizeof path, "class%d/%03d.jpg", c, i);
            tree_write(test_scratch(), path, "x", 1);
        }
    return dataset_open(out, &o);
}

TEST(classes_and_their_samples_come_equally_often)
{
    Dataset *d = NULL;
    Balance *b = NULL;
    int of_class[CLASSES] = { 0 }, of_sample[26] = { 0 };
    REQUIRE_OK(open_tree(&d));
    REQUIRE_OK(balance_create(&b, d));
    for (int64_t at = 0; at < DRAWS; at++) {
        const int64_t id = balance_id(b, 7, at);
        REQUIRE(id >= 0 && id < dataset_images(d));
        of_class[dataset_label(d, id)]++;
        of_sample[id]++;
    }
    /* five standard deviations of a binomial count */
    for (int c = 0; c < CLASSES; c++) CHECK_NEAR(of_class[c], DRAWS / 3.0, 5 * 82);
    for (int64_t id = 0; id < 26; id++) {
        const double share = 1.0 / CLASSES / (double)dataset_class_images(d, dataset_label(d, id));
        CHECK_NEAR(of_sample[id], DRAWS * share, 5 * sqrt(DRAWS * share * (1 - share)));
    }
    balance_destroy(b);
    dataset_close(d);
}

TEST(position_and_seed_say_which)
{
    Dataset *d = NULL;
    Balance *b = NULL;
    int same_seed = 0, same_place = 0;
    REQUIRE_OK(open_tree(&d));
    REQUIRE_OK(balance_create(&b, d));
    for (int64_t at = 0; at < 1000; at++) {
        const int64_t id = balance_id(b, 7, at);
        CHECK_INT(balance_id(b, 7, at), id);
        same_seed += balance_id(b, 8, at) == id;
        /* far positions differ in the upper word */
        same_place += balance_id(b, 7, at + ((int64_t)1 << 32)) == id;
    }
    CHECK(same_seed < 400 && same_place < 400); /* about 0.14 of them agree by chance */
    balance_destroy(b);
    dataset_close(d);
}

/* Of any number of labels an image is drawn for each; those without one are a class more. */
TEST(images_are_drawn_for_each_of_their_labels)
{
    enum { IMAGES = 48, KNOWN = 4 };
    const DatasetOptions o = { .format = DATA_SYNTHETIC,
                               .labels = LABELS_MULTI,
                               .synthetic_images = IMAGES,
                               .synthetic_classes = KNOWN };
    Dataset *d = NULL;
    Balance *b = NULL;
    double expected[IMAGES] = { 0 };
    int drawn[IMAGES] = { 0 };
    REQUIRE_OK(dataset_open(&d, &o));
    REQUIRE_OK(balance_create(&b, d));
    for (int64_t id = 0; id < IMAGES; id++)
        for (int c = 0; c < KNOWN; c++)
            if (both_bit(dataset_labels(d, id), c))
                expected[id] += 1.0 / (KNOWN + 1) / (double)dataset_class_images(d, c);
    for (int64_t id = 7; id < IMAGES; id += 8) expected[id] = 1.0 / (KNOWN + 1) / (IMAGES / 8);
    for (int64_t at = 0; at < DRAWS; at++) drawn[balance_id(b, 7, at)]++;
    for (int64_t id = 0; id < IMAGES; id++)
        CHECK_NEAR(drawn[id], DRAWS * expected[id],
                   5 * sqrt(DRAWS * expected[id] * (1 - expected[id])));
    balance_destroy(b);
    dataset_close(d);
}
