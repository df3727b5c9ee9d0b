/* test_class_weights.c - train.class_weights: the rule of auto, files, and what is refused. */
#include "base/fs.h"
#include "base/mem.h"
#include "data/data.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include "trainer/engine/session/class_weights.h"
#include <stdio.h>
#include <string.h>

enum { CLASSES = 3 };

typedef struct Fixture { /* 2, 4 and 6 images */
    Dataset *data;
    Comm *comm;
    char file[512];
} Fixture;

static void open_fixture(Fixture *f)
{
    const DatasetOptions o = { .path = test_scratch(), .format = DATA_AUTO, .role = DATA_TRAIN };
    for (int class = 0; class < CLASSES; class ++)
        for (int i = 0; i < 2 * class + 2; i++) {
            char path[64];
            snprintf(path, sizeof path, "class%d/%03d.jpg", class, i);
            tree_write_shape(test_scratch(), path, class, (uint32_t)i, 16);
        }
    snprintf(f->file, sizeof f->file, "%s.weights", test_scratch());
    REQUIRE_OK(dataset_open(&f->data, &o));
    REQUIRE_OK(comm_self_create(&f->comm));
}

static void close_fixture(Fixture *f)
{
    remove(f->file);
    dataset_close(f->data);
    comm_destroy(f->comm);
}

static Status make(const Fixture *f, const char *loss, const char *weights, int64_t classes,
                   float **out)
{
    char keys[2][640];
    Config *c = NULL;
    snprintf(keys[0], sizeof keys[0], "train.loss=%s", loss);
    snprintf(keys[1], sizeof keys[1], "train.class_weights=%s", weights);
    const char *const sets[] = { keys[0], keys[1] };
    CHECK_OK(config_load(&c, NULL, sets, 2));
    Status status = class_weights_open(out, c, f->data, classes, f->comm);
    config_destroy(c);
    return status;
}

static void check_weights(const float *w, const double *want, int64_t classes, double divisor)
{
    REQUIRE(w != NULL);
    for (int64_t k = 0; k < classes; k++) CHECK_NEAR(w[k], want[k] / divisor, 1e-6);
}

/* scikit-learn's: compute_class_weight("balanced"); a fourth class, of which there is nothing, does
 * not count. */
TEST(auto_balances_the_classes)
{
    static const double want[] = { 2, 1, 2.0 / 3, 1 };
    static const char *const losses[] = { "cross_entropy", "bce" };
    Fixture f = { 0 };
    open_fixture(&f);
    for (int i = 0; i < 4; i++) {
        float *w = NULL;
        CHECK_OK(make(&f, losses[i % 2], "auto", CLASSES + i / 2, &w));
        check_weights(w, want, CLASSES + i / 2, 1);
        mem_free(w);
    }
    close_fixture(&f);
}

/* Cross entropy: the mean over the images is 1, so that the weights of a batch with the classes'
 * own shares add up to its images, as torch has it. */
TEST(a_file_is_read_and_divided_by_its_mean)
{
    static const char text[] = "0.5\n\n 2e0 \r\n0\n";
    static const double want[] = { 0.5, 2, 0 };
    Fixture f = { 0 };
    float *w = NULL;
    open_fixture(&f);
    REQUIRE_OK(fs_write_atomic(f.file, text, sizeof text - 1));
    CHECK_OK(make(&f, "bce", f.file, CLASSES, &w));
    check_weights(w, want, CLASSES, 1);
    mem_free(w);
    CHECK_OK(make(&f, "cross_entropy", f.file, CLASSES, &w));
    check_weights(w, want, CLASSES, (2 * 0.5 + 4 * 2) / 12);
    CHECK_NEAR(2 * w[0] + 4 * w[1] + 6 * w[2], 12, 1e-5);
    mem_free(w);
    CHECK_OK(make(&f, "bce", "", CLASSES, &w));
    CHECK(w == NULL);
    close_fixture(&f);
}

TEST(bad_files_are_refused)
{
    static const struct {
        const char *text, *part;
    } rows[] = { { "1\n2\n", "2 numbers for 3 classes" },
                 { "", "0 numbers for 3 classes" },
                 { "1\n2\n3\n4\n", ":4: more numbers than the 3 classes" },
                 { "1\n\ncat\n3\n", ":3: \"cat\" is not a number" },
                 { "1\n-2\n3\n", ":2: \"-2\" is not a number from 0 to 1e+09" },
                 { "1\n1e39\n3\n", ":2: \"1e39\" is not a number from 0 to 1e+09" },
                 { "1\n2 # dogs\n3\n", ":2: \"2 # dogs\" is not a number" },
                 { "1\nnan\n3\n", ":2: \"nan\" is not a number" },
                 { "0\n0\n0\n", "no training image has a weight above 0" } };
    Fixture f = { 0 };
    float *w = NULL;
    open_fixture(&f);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        REQUIRE_OK(fs_write_atomic(f.file, rows[i].text, strlen(rows[i].text)));
        CHECK_STATUS(make(&f, "cross_entropy", f.file, CLASSES, &w), ERR_DATA);
        CHECK_CONTAINS(status_message(), "train.class_weights");
        CHECK_CONTAINS(status_message(), rows[i].part);
        CHECK(w == NULL);
    }
    remove(f.file);
    CHECK(make(&f, "bce", f.file, CLASSES, &w) != OK);
    CHECK_CONTAINS(status_message(), "train.class_weights");
    close_fixture(&f);
}
