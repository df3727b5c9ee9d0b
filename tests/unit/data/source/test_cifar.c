/* The binary files of CIFAR-10 and CIFAR-100: pixels, labels, names, and damage that is named. */
#include "base/mem.h"
#include "data/data.h"
#include "tests/test.h"
#include "tests/tools/data_tree.h"
#include <stdio.h>
#include <string.h>

#define IMAGE 3072

static uint8_t value_of(int image, int plane, int pixel)
{
    return (uint8_t)(image * 31 + plane * 101 + pixel);
}

/* Images first .. first + count - 1; label n % classes. */
static void write_file(const char *name, int first, int count, int classes, int label_bytes)
{
    size_t record = (size_t)label_bytes + IMAGE;
    uint8_t *bytes = mem_alloc(record * (size_t)count);
    REQUIRE(bytes != NULL);
    for (int i = 0; i < count; i++) {
        uint8_t *p = bytes + (size_t)i * record;
        memset(p, 7, (size_t)label_bytes);
        p[label_bytes - 1] = (uint8_t)((first + i) % classes);
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < 1024; k++)
                p[label_bytes + c * 1024 + k] = value_of(first + i, c, k);
    }
    tree_write(test_scratch(), name, bytes, record * (size_t)count);
    mem_free(bytes);
}

static void write_ten(void)
{
    char name[32];
    for (int f = 0; f < 5; f++) {
        snprintf(name, sizeof name, "data_batch_%d.bin", f + 1);
        write_file(name, f * 3, 3, 10, 1);
    }
    write_file("test_batch.bin", 100, 2, 10, 1);
    tree_write(test_scratch(), "batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n", 21);
}

static Status open_role(Dataset **d, DataRole role)
{
    DatasetOptions o = { .path = test_scratch(), .role = role };
    return dataset_open(d, &o);
}

static void check_image(const Dataset *d, int64_t id, int number)
{
    uint8_t *pixels = NULL;
    int width = 0, height = 0, wrong = 0;
    REQUIRE_OK(dataset_decode(d, id, 3, &pixels, &width, &height));
    CHECK(width == 32 && height == 32);
    for (int k = 0; k < 1024; k++)
        for (int c = 0; c < 3; c++) wrong += pixels[3 * k + c] != value_of(number, c, k);
    CHECK_INT(wrong, 0);
    mem_free(pixels);
}

TEST(cifar_10)
{
    Dataset *d = NULL;
    char text[200];
    write_ten();
    REQUIRE_OK(open_role(&d, DATA_TRAIN));
    CHECK_STR(dataset_format_name(d), "cifar");
    CHECK_INT(dataset_images(d), 15);
    CHECK_INT(dataset_classes(d), 10);
    CHECK_INT(dataset_class_images(d, 0), 2);
    CHECK_STR(dataset_class_name(d, 9), "j");
    CHECK(dataset_named_classes(d));
    CHECK_INT(dataset_label(d, 13), 3);
    check_image(d, 13, 13);
    dataset_describe_sample(d, 13, text, sizeof text);
    CHECK_STR(text, "data_batch_5.bin[1]");
    dataset_describe_sample(d, 0, text, sizeof text);
    CHECK_STR(text, "data_batch_1.bin[0]");
    dataset_close(d);
    REQUIRE_OK(open_role(&d, DATA_VAL));
    CHECK_INT(dataset_images(d), 2);
    check_image(d, 1, 101);
    dataset_close(d);
}

TEST(cifar_100_takes_the_fine_label)
{
    Dataset *d = NULL;
    write_file("train.bin", 0, 4, 100, 2);
    REQUIRE_OK(open_role(&d, DATA_TRAIN));
    CHECK_INT(dataset_classes(d), 100);
    CHECK_INT(dataset_label(d, 3), 3);
    CHECK_STR(dataset_class_name(d, 42), "42");
    CHECK(!dataset_named_classes(d));
    check_image(d, 3, 3);
    dataset_close(d);
}

static void check_error(const char *part)
{
    Dataset *d = NULL;
    CHECK_STATUS(open_role(&d, DATA_TRAIN), ERR_DATA);
    CHECK_CONTAINS(status_message(), part);
}

TEST(damage_is_named)
{
    static uint8_t record[IMAGE + 1];
    write_ten();
    tree_write(test_scratch(), "data_batch_3.bin", record, 1000);
    check_error("data_batch_3.bin: 1000 bytes are not a whole number of 3073-byte records");
    record[0] = 10;
    tree_write(test_scratch(), "data_batch_3.bin", record, sizeof record);
    check_error("data_batch_3.bin: label 10 in record 0");
    tree_write(test_scratch(), "data_batch_3.bin", record, 0);
    check_error("data_batch_3.bin: 0 bytes");
    write_ten();
    tree_write(test_scratch(), "batches.meta.txt", "a\n\nb\n", 5);
    check_error("batches.meta.txt: line 2 is empty");
    tree_write(test_scratch(), "batches.meta.txt", "a\nb\n", 4);
    check_error("batches.meta.txt: 2 names for 10 classes");
}
