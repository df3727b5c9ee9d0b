/* test_ranking.c - average precision, against scikit-learn's. */
#include "base/both.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/engine/train/ranking.h"
#include <math.h>
#include <string.h>

/* want: average_precision_score(has, scores) of scikit-learn 1.9.1 */
TEST(average_precision_is_scikit_learns)
{
    static const struct {
        int count;
        RankedImage images[9];
        double want;
    } rows[] = {
        { 4, { { 0.9F, 1 }, { 0.8F, 0 }, { 0.7F, 1 }, { 0.6F, 0 } }, 0.8333333333333333 },
        { 4, { { 0.1F, 0 }, { 0.4F, 0 }, { 0.35F, 1 }, { 0.8F, 1 } }, 0.8333333333333333 },
        { 5, { { 0.5F, 1 }, { 0.5F, 0 }, { 0.5F, 0 }, { 0.5F, 1 }, { 0.5F, 0 } }, 0.4 },
        { 8,
          { { 3, 0 }, { 3, 1 }, { 2, 1 }, { 2, 0 }, { 2, 1 }, { 1, 0 }, { 1, 1 }, { 0, 0 } },
          0.5678571428571428 },
        { 9,
          { { 0.2F, 1 },
            { 0.7F, 0 },
            { 0.7F, 1 },
            { -1, 1 },
            { 5, 0 },
            { 5, 0 },
            { 5, 1 },
            { 0.2F, 0 },
            { 0.1F, 0 } },
          0.40158730158730155 },
        { 3, { { 1, 1 }, { 2, 1 }, { 3, 1 } }, 1 },
        { 3, { { 1, 1 }, { 2, 0 }, { 3, 0 } }, 0.3333333333333333 },
    };
    RankedImage images[200];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memcpy(images, rows[i].images, sizeof rows[i].images);
        CHECK_NEAR(ranking_average_precision(images, rows[i].count), rows[i].want, 1e-15);
    }
    for (int i = 0; i < 200; i++)
        images[i] = (RankedImage){ (float)((i * 37 + 11) % 101) / 8, (i * i + 3 * i) % 7 < 2 };
    CHECK_NEAR(ranking_average_precision(images, 200), 0.303984663489129, 1e-15);
    /* -infinity, of images that cannot be decoded, comes last */
    images[0] = (RankedImage){ -INFINITY, true };
    images[1] = (RankedImage){ -1e30F, false };
    CHECK_NEAR(ranking_average_precision(images, 2), 0.5, 0);
    CHECK(isnan(ranking_average_precision(images, 1)));
}

TEST(classes_that_no_image_has_are_left_out_of_the_mean)
{
    const double ap[] = { 0.25, (double)NAN, 0.75, (double)NAN };
    int64_t count = 0;
    CHECK_NEAR(ranking_mean(ap, 4, &count), 0.5, 0);
    CHECK_INT(count, 2);
    CHECK(isnan(ranking_mean(ap + 1, 1, &count)));
    CHECK_INT(count, 0);
}

static float score_of(int64_t image, int64_t class)
{
    return (float)((image * 31 + class * 17 + image * class) % 57);
}

/* More classes than are gathered at a time, and some that the set does not know. */
TEST(each_class_is_ranked_by_itself)
{
    enum { IMAGES = 2100, KNOWN = 2050, CLASSES = 2060 };
    const DatasetOptions o = { .format = DATA_SYNTHETIC,
                               .labels = LABELS_MULTI,
                               .synthetic_images = IMAGES,
                               .synthetic_classes = KNOWN };
    Comm *comm = NULL;
    Dataset *d = NULL;
    REQUIRE_OK(comm_self_create(&comm));
    REQUIRE_OK(dataset_open(&d, &o));
    float *scores FREED = mem_alloc((size_t)IMAGES * CLASSES * sizeof *scores);
    double *ap FREED = mem_alloc(CLASSES * sizeof *ap);
    RankedImage *images FREED = mem_alloc(IMAGES * sizeof *images);
    REQUIRE(scores && ap && images);
    for (int64_t i = 0; i < IMAGES; i++)
        for (int64_t c = 0; c < CLASSES; c++) scores[i * CLASSES + c] = score_of(i, c);
    REQUIRE_OK(ranking_of_classes(ap, comm, d, scores, CLASSES));
    for (int64_t c = 0; c < CLASSES; c += c < 70 || c > 1950 ? 1 : 100) {
        for (int64_t i = 0; i < IMAGES; i++)
            images[i] =
                (RankedImage){ score_of(i, c), c < KNOWN && both_bit(dataset_labels(d, i), c) };
        const double want = ranking_average_precision(images, IMAGES);
        CHECK(isnan(want) ? isnan(ap[c]) : ap[c] == want);
        CHECK(c < KNOWN || isnan(want));
    }
    CHECK(!isnan(ap[0]) && isnan(ap[63])); /* every eighth image has no label */
    dataset_close(d);
    comm_destroy(comm);
}
