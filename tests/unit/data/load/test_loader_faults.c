/* The loader over files that are not good: bad samples are replaced in training and counted as
 * wrong in evaluation, too many of them end the run, and so does a file system that fails. */
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "data/data.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include "tests/tools/image_write.h"
#include "tests/tools/loader_run.h"
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* A tree of good pictures with one bad file of each sort among them; returns how many are bad. */
static int write_mixed_tree(void)
{
    char link[1200];
    const char *root = test_scratch();
    JpegSettings cmyk = { .channels = 4, .quality = 90 };
    PngSettings rgb = { .colour_type = 2, .bit_depth = 8 };
    static uint8_t pixels[32 * 32 * 4], *bytes;
    size_t size = 0;
    tree_write_shapes(root, 3, 10, 40);
    CHECK_STATUS(image_encode_jpeg(pixels, 32, 32, &cmyk, &bytes, &size), OK);
    tree_write(root, "class0/cmyk.jpg", bytes, size);
    mem_free(bytes);
    CHECK_STATUS(image_encode_png(pixels, 32 * 3, 32, 32, &rgb, &bytes, &size), OK);
    tree_write(root, "class1/really_a.JPEG", bytes, size);
    tree_write(root, "class1/cut.png", bytes, size / 2);
    mem_free(bytes);
    cmyk.channels = 3;
    CHECK_STATUS(image_encode_jpeg(pixels, 32, 32, &cmyk, &bytes, &size), OK);
    tree_write(root, "class2/cut.jpg", bytes, size * 2 / 3);
    mem_free(bytes);
    tree_write(root, "class0/empty.jpg", "", 0);
    tree_write(root, "class0/text.jpg", "no picture", 10);
    tree_write_shape(root, "class2/gone.jpg", 2, 99, 40);
    snprintf(link, sizeof link, "%s/class1/self.jpg", root);
    CHECK(symlink("self.jpg", link) == 0); /* ELOOP */
    return 6;
}

static Dataset *open_mixed(DataRole role, int *bad)
{
    char path[1200];
    *bad = write_mixed_tree();
    Dataset *d = loader_open_data(test_scratch(), role);
    snprintf(path, sizeof path, "%s/class2/gone.jpg", test_scratch());
    CHECK(unlink(path) == 0);
    return d;
}

typedef struct Pass { /* one epoch as one global batch, over all ranks in the order of the stream */
    uint32_t crc;
    int64_t bad, replaced, other_class;
} Pass;

static Pass run_pass(const Dataset *d, int threads, int world)
{
    Pass pass = { 0 };
    int64_t images = dataset_images(d);
    LoaderOptions o = loader_options(images / world, threads);
    size_t image = (size_t)(o.view.image_size * o.view.image_size * o.view.channels);
    o.global_batch = images;
    o.world = world;
    for (o.rank = 0; o.rank < world; o.rank++) {
        Loader *l = NULL;
        Batch b;
        bool more = false;
        LoaderStats stats;
        CHECK_OK(loader_create(&l, d, &o));
        CHECK_OK(loader_next(l, &b, &more, NULL));
        CHECK(more && b.count == o.batch);
        const uint8_t *pixels = loader_field(&b, "images");
        const int32_t *labels = loader_field(&b, "labels");
        for (int64_t i = 0; more && i < o.batch; i++) {
            pass.crc = crc32c_update(pass.crc, pixels + (size_t)i * image, image);
            pass.crc = crc32c_update(pass.crc, &labels[i], sizeof labels[i]);
            pass.other_class += labels[i] != dataset_label(d, b.sample_ids[i]);
        }
        pass.bad += b.bad;
        loader_stats(l, &stats);
        CHECK(stats.bad >= b.bad);
        pass.replaced += stats.replaced;
        loader_destroy(l);
    }
    return pass;
}

TEST(bad_files_are_replaced_in_training)
{
    /* threads, world */
    static const int shapes[][2] = { { 1, 1 }, { 1, 1 }, { 3, 1 }, { 1, 2 }, { 3, 2 } };
    int bad = 0;
    Dataset *d = open_mixed(DATA_TRAIN, &bad);
    REQUIRE(d != NULL);
    CHECK_INT(dataset_images(d), 30 + 2 + bad);
    Pass first = run_pass(d, 1, 1);
    CHECK(first.other_class > 0); /* some replacement is of another class */
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        Pass pass = run_pass(d, shapes[i][0], shapes[i][1]);
        CHECK_INT(pass.crc, first.crc);
        CHECK_INT(pass.other_class, first.other_class);
        CHECK_INT(pass.bad, bad);
        CHECK(pass.replaced >= bad);
    }
    dataset_close(d);
}

TEST(bad_files_count_as_wrong_in_evaluation)
{
    int bad = 0;
    Dataset *d = open_mixed(DATA_VAL, &bad);
    REQUIRE(d != NULL);
    int64_t images = dataset_images(d), count = 0, wrong = 0;
    LoaderOptions o = loader_options(8, 2);
    Loader *l = NULL;
    Batch b;
    bool more = false;
    REQUIRE_OK(loader_create(&l, d, &o));
    for (;;) {
        REQUIRE_OK(loader_next(l, &b, &more, NULL));
        if (!more) break;
        count += b.count;
        wrong += b.bad;
        const int32_t *labels = loader_field(&b, "labels");
        for (int i = 0; i < 8; i++) wrong -= b.sample_ids[i] >= 0 && labels[i] < 0;
        loader_release(l, &b);
    }
    CHECK_INT(count, images - bad);
    CHECK_INT(wrong, 0);
    LoaderStats stats;
    loader_stats(l, &stats);
    CHECK_INT(stats.bad, bad);
    loader_destroy(l);
    dataset_close(d);
}

TEST(too_many_bad_files_end_training)
{
    char path[64];
    tree_write_shapes(test_scratch(), 2, 20, 40);
    for (int i = 0; i < 11; i++) {
        snprintf(path, sizeof path, "class1/bad%02d.jpg", i);
        tree_write(test_scratch(), path, "x", 1);
    }
    Dataset *d = loader_open_data(test_scratch(), DATA_TRAIN);
    REQUIRE(d != NULL);
    LoaderOptions o = loader_options(17, 2);
    CHECK_STATUS(loader_run(d, &o, 3), ERR_DATA);
    CHECK_CONTAINS(status_message(), "11 of 51 samples are bad, more than the 10 allowed");
    CHECK_CONTAINS(status_message(), test_scratch());
    o.max_bad_fraction = 0.25;
    CHECK_STATUS(loader_run(d, &o, 6), OK);
    dataset_close(d);
}

TEST(no_good_file_at_all)
{
    for (int i = 0; i < 4; i++) {
        char path[64];
        snprintf(path, sizeof path, "c/%d.jpg", i);
        tree_write(test_scratch(), path, "x", 1);
    }
    Dataset *d = loader_open_data(test_scratch(), DATA_TRAIN);
    REQUIRE(d != NULL);
    LoaderOptions o = loader_options(2, 2);
    CHECK_STATUS(loader_run(d, &o, 2), ERR_DATA);
    CHECK_CONTAINS(status_message(), "no readable sample in 100 tries");
    dataset_close(d);
    /* A single good one is found within those tries. */
    tree_write_shape(test_scratch(), "c/9.jpg", 0, 9, 40);
    d = loader_open_data(test_scratch(), DATA_TRAIN);
    REQUIRE(d != NULL);
    o.max_bad_fraction = 1;
    CHECK_OK(loader_run(d, &o, 2));
    dataset_close(d);
}

TEST(failing_file_system_is_not_a_bad_file)
{
    char link[1200];
    tree_write_shapes(test_scratch(), 1, 3, 40);
    snprintf(link, sizeof link, "%s/class0/eio.jpg", test_scratch());
    REQUIRE(symlink("/proc/self/mem", link) == 0); /* reading its first byte gives EIO */
    for (int role = DATA_TRAIN; role <= DATA_VAL; role++) {
        Dataset *d = loader_open_data(test_scratch(), (DataRole)role);
        REQUIRE(d != NULL);
        LoaderOptions o = loader_options(4, 2);
        CHECK_STATUS(loader_run(d, &o, 1), ERR_DATA);
        CHECK_CONTAINS(status_message(), "/class0/eio.jpg: cannot be read after 4 tries");
        dataset_close(d);
    }
}

TEST(no_descriptor_left_is_not_a_bad_file)
{
    tree_write_shapes(test_scratch(), 1, 3, 40);
    for (int role = DATA_TRAIN; role <= DATA_VAL; role++) {
        struct rlimit before;
        Dataset *d = loader_open_data(test_scratch(), (DataRole)role);
        REQUIRE(d != NULL && getrlimit(RLIMIT_NOFILE, &before) == 0);
        struct rlimit none = { .rlim_cur = STDERR_FILENO + 1, .rlim_max = before.rlim_max };
        LoaderOptions o = loader_options(3, 1);
        REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
        Status status = loader_run(d, &o, 1);
        REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
        CHECK_STATUS(status, ERR_DATA);
        CHECK_CONTAINS(status_message(), ".jpg: cannot be read after 4 tries: Too many open files");
        dataset_close(d);
    }
}

TEST(bad_files_are_named_once_however_many_loaders)
{
    int bad = 0;
    char log[1200];
    snprintf(log, sizeof log, "%s/stderr", test_scratch());
    Dataset *d = open_mixed(DATA_VAL, &bad);
    int saved = dup(STDERR_FILENO);
    REQUIRE(d != NULL && saved >= 0 && freopen(log, "w", stderr));
    LoaderOptions o = loader_options(8, 2);
    for (int pass = 0; pass < 3; pass++) CHECK_OK(loader_run(d, &o, 6));
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    uint8_t *text = NULL;
    size_t bytes = 0;
    REQUIRE_OK(fs_read_file(log, &text, &bytes));
    int lines = 0;
    for (const char *at = (const char *)text; (at = strstr(at, "; counted as wrong\n")); at++)
        lines++;
    CHECK_INT(lines, bad);
    mem_free(text);
    dataset_close(d);
}
