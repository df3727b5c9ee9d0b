/* IDX files: plain and gzip, roles, pixels and labels, and damage that is named. */
#include "base/mem.h"
#include "data/data.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static Status open_idx(Dataset **d, DataFormat format, DataRole role)
{
    DatasetOptions o = { .path = test_scratch(), .format = format, .role = role };
    return dataset_open(d, &o);
}

static void check_pixels(const Dataset *d, int64_t id, int side, int channels)
{
    uint8_t *pixels = NULL;
    int width = 0, height = 0, wrong = 0;
    REQUIRE_OK(dataset_decode(d, id, channels, &pixels, &width, &height));
    CHECK_INT(width, side);
    CHECK_INT(height, side);
    for (int i = 0; i < side * side * channels; i++)
        wrong += pixels[i] != (uint8_t)(id * 7 + i / channels);
    CHECK_INT(wrong, 0);
    mem_free(pixels);
}

static void check_roles(void)
{
    Dataset *train = NULL, *val = NULL;
    char text[256];
    REQUIRE_OK(open_idx(&train, DATA_AUTO, DATA_TRAIN));
    REQUIRE_OK(open_idx(&val, DATA_IDX, DATA_VAL));
    CHECK_STR(dataset_format_name(train), "idx");
    CHECK_INT(dataset_images(train), 37);
    CHECK_INT(dataset_classes(train), 5);
    CHECK_INT(dataset_class_images(train, 1), 8);
    CHECK_INT(dataset_class_images(train, 4), 7);
    CHECK_INT(dataset_images(val), 11);
    CHECK_INT(dataset_label(train, 36), 1);
    CHECK_STR(dataset_class_name(train, 3), "3");
    dataset_describe_sample(train, 17, text, sizeof text);
    CHECK_STR(text, "train-images-idx3-ubyte[17]");
    for (int64_t id = 0; id < 37; id += 9) {
        check_pixels(train, id, 28, 1);
        check_pixels(train, id, 28, 3);
    }
    check_pixels(val, 10, 28, 1);
    dataset_close(train);
    dataset_close(val);
}

TEST(plain_files)
{
    tree_write_idx(test_scratch(), "train", 37, 28, 5, 0);
    tree_write_idx(test_scratch(), "t10k", 11, 28, 5, 0);
    check_roles();
}

TEST(gzip_files)
{
    tree_write_idx(test_scratch(), "train", 37, 28, 5, 1);
    tree_write_idx(test_scratch(), "t10k", 11, 28, 5, 1);
    check_roles();
}

static void check_error(const char *part, const char *file)
{
    Dataset *d = NULL;
    CHECK_STATUS(open_idx(&d, DATA_IDX, DATA_TRAIN), ERR_DATA);
    CHECK(d == NULL);
    CHECK_CONTAINS(status_message(), part);
    CHECK_CONTAINS(status_message(), file);
}

#define IMAGES_FILE "train-images-idx3-ubyte"
#define LABELS_FILE "train-labels-idx1-ubyte"

/* Overwrites one byte of, or cuts, a file in the scratch folder. */
static void damage(const char *name, long at, int value, long length)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", test_scratch(), name);
    if (length >= 0) {
        CHECK(truncate(path, length) == 0);
        return;
    }
    FILE *file = fopen(path, "r+b");
    REQUIRE(file != NULL);
    CHECK(fseek(file, at, SEEK_SET) == 0 && fputc(value, file) == value);
    CHECK(fclose(file) == 0);
}

TEST(damage_is_named)
{
    check_error("no train-images-idx3-ubyte or", test_scratch());
    tree_write_idx(test_scratch(), "train", 9, 4, 3, 0);
    damage(IMAGES_FILE, 3, 1, -1);
    check_error("magic number is 0x00000801, expected 0x00000803", IMAGES_FILE);
    damage(IMAGES_FILE, 3, 3, -1);
    damage(IMAGES_FILE, 7, 10, -1); /* says 10 images, holds 9 */
    check_error("truncated", IMAGES_FILE);
    damage(IMAGES_FILE, 7, 8, -1);
    check_error("longer than its header says", IMAGES_FILE);
    damage(IMAGES_FILE, 7, 9, -1);
    damage(IMAGES_FILE, 11, 0, -1);
    check_error("out of range", IMAGES_FILE);
    damage(IMAGES_FILE, 11, 4, -1);
    damage(LABELS_FILE, 0, 0, 16);
    check_error("truncated", LABELS_FILE);
    damage(LABELS_FILE, 7, 8, -1);
    check_error("8 labels for the 9 images", LABELS_FILE);
    damage(IMAGES_FILE, 0, 0, 5);
    check_error("truncated", IMAGES_FILE);
}

TEST(truncated_gzip_is_an_error)
{
    tree_write_idx(test_scratch(), "train", 30, 28, 3, 1);
    damage(IMAGES_FILE ".gz", 0, 0, 150);
    check_error("truncated", IMAGES_FILE ".gz");
}

TEST(missing_labels_are_named)
{
    char path[1200];
    tree_write_idx(test_scratch(), "train", 5, 4, 3, 0);
    snprintf(path, sizeof path, "%s/%s", test_scratch(), LABELS_FILE);
    REQUIRE(unlink(path) == 0);
    check_error("no " LABELS_FILE " or", test_scratch());
}
