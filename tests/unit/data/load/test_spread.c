/* Samples taken from all over a dataset, and named ones: which, in which order, and what a bad file
 * does to it. */
#include "base/mem.h"
#include "data/load/spread.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include "tests/tools/loader_run.h"
#include <string.h>

enum { CLASSES = 3, PER_CLASS = 4, IMAGES = CLASSES * PER_CLASS, SIDE = 24 };

typedef struct Taken {
    int count, index[IMAGES];
    uint32_t first[IMAGES]; /* a few bytes of each view */
} Taken;

static void take(void *cookie, int64_t index, const uint8_t *pixels)
{
    Taken *t = cookie;
    REQUIRE(t->count < IMAGES);
    t->index[t->count] = (int)index;
    memcpy(&t->first[t->count++], pixels + (SIDE * SIDE / 2) * 3, sizeof t->first[0]);
}

TEST(samples_are_taken_from_all_over_the_data)
{
    tree_write_shapes(test_scratch(), CLASSES, PER_CLASS, 40);
    Dataset *d = loader_open_data(test_scratch(), DATA_VAL);
    REQUIRE(d != NULL);
    const ViewOptions o = loader_options(1, 1).view;
    Taken few = { 0 }, all = { 0 }, named = { 0 };
    REQUIRE_OK(spread_views(d, CLASSES, &o, take, &few));
    REQUIRE_OK(spread_views(d, 10 * IMAGES, &o, take, &all));
    CHECK_INT(few.count, CLASSES);
    CHECK_INT(all.count, IMAGES);
    for (int i = 0; i < IMAGES; i++) CHECK_INT(all.index[i], i);
    /* The first of each class. */
    static const int64_t ids[CLASSES] = { 0, PER_CLASS, 2 * PER_CLASS };
    REQUIRE_OK(spread_views_of(d, ids, CLASSES, &o, take, &named));
    CHECK_INT(named.count, CLASSES);
    for (int i = 0; i < CLASSES; i++) {
        CHECK_INT(few.index[i], i);
        CHECK_INT(few.first[i], all.first[ids[i]]);
        CHECK_INT(named.first[i], all.first[ids[i]]);
    }
    dataset_close(d);
}

TEST(a_bad_sample_is_left_out_and_the_others_keep_their_numbers)
{
    tree_write_shapes(test_scratch(), CLASSES, PER_CLASS, 40);
    tree_write(test_scratch(), "class0/000.jpg", "no picture", 10);
    tree_write(test_scratch(), "class2/003.jpg", "no picture", 10);
    Dataset *d = loader_open_data(test_scratch(), DATA_VAL);
    REQUIRE(d != NULL && dataset_images(d) == IMAGES);
    const ViewOptions o = loader_options(1, 1).view;
    Taken t = { 0 };
    CHECK_OK(spread_views(d, IMAGES, &o, take, &t));
    CHECK_INT(t.count, IMAGES - 2);
    for (int i = 0; i < t.count; i++) CHECK_INT(t.index[i], i + 1);
    dataset_close(d);
}
