/* seeds.c - small good inputs for every target, for the fuzzer to start from. */
#include "base/fs.h"
#include "base/mem.h"
#include "data/load/pack.h"
#include "tests/fuzz/fuzz.h"
#include "tests/tools/container_write.h"
#include "tests/tools/data_tree.h"
#include "tests/tools/image_write.h"
#include <stdio.h>
#include <string.h>

static void keep(const char *folder, const char *name, char flag, const void *data, size_t size)
{
    StrBuf b = { 0 };
    str_add_n(&b, &flag, 1);
    str_add_n(&b, data, size);
    tree_write(folder, name, b.text, b.length);
    str_free(&b);
}

static void write_pngs(const char *folder)
{
    static const PngSettings settings[] = {
        { .colour_type = 0, .bit_depth = 8 },  { .colour_type = 2, .bit_depth = 8 },
        { .colour_type = 2, .bit_depth = 16 }, { .colour_type = 4, .bit_depth = 8 },
        { .colour_type = 6, .bit_depth = 8 },
    };
    static const int samples[] = { 1, 3, 3, 2, 4 };
    uint8_t pixels[9 * 7 * 8], *bytes = NULL;
    size_t size = 0;
    char name[32];
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 37);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        size_t row = 9 * (size_t)samples[i] * (size_t)settings[i].bit_depth / 8;
        ASSERT(image_encode_png(pixels, row, 9, 7, &settings[i], &bytes, &size) == OK);
        snprintf(name, sizeof name, "png/seed-%d", (int)i);
        keep(folder, name, (char)(i % 2 ? 3 : 1), bytes, size);
        mem_free(bytes);
    }
}

/* One JPEG of each kind, followed by the eight bytes that choose the part (fuzz_huffman.c). */
static void write_jpegs(const char *folder)
{
    static const JpegSettings settings[] = {
        { .channels = 3, .quality = 50 },
        { .channels = 3, .quality = 95, .optimize = true },
        { .channels = 3, .quality = 30, .optimize = true, .subsample = true },
        { .channels = 3, .quality = 60, .optimize = true, .h_sampling = 2, .v_sampling = 1 },
        { .channels = 3, .quality = 60, .optimize = true, .h_sampling = 1, .v_sampling = 2 },
        { .channels = 3, .quality = 40, .optimize = true, .h_sampling = 4, .v_sampling = 1 },
        { .channels = 1, .quality = 80, .optimize = true },
        { .channels = 1, .quality = 20, .optimize = true, .h_sampling = 2, .v_sampling = 2 },
        { .channels = 4, .quality = 50, .optimize = true },
        { .channels = 4, .quality = 50, .optimize = true, .ycck = true },
        { .channels = 3, .quality = 50, .progressive = true, .subsample = true },
        { .channels = 3, .quality = 50, .optimize = true, .subsample = true, .restart_rows = 1 },
        { .channels = 3, .quality = 50, .arithmetic = true },
    };
    enum { WIDTH = 45, HEIGHT = 34 };
    static uint8_t pixels[WIDTH * HEIGHT * 4];
    for (int k = 0; k < (int)(sizeof settings / sizeof settings[0]); k++) {
        uint8_t choices[8] = { (uint8_t)(3 * k), (uint8_t)(5 * k), 9, 11, (uint8_t)k, 7, 1, 2 },
                *bytes = NULL;
        size_t size = 0;
        char name[32];
        StrBuf b = { 0 };
        for (int i = 0; i < WIDTH * HEIGHT * settings[k].channels; i++) {
            int x = i / settings[k].channels % WIDTH, y = i / settings[k].channels / WIDTH;
            pixels[i] = (uint8_t)(x * 9 + y * 5 * (i % settings[k].channels) +
                                  (i * 2654435761u >> 24) % (k % 2 ? 60 : 8));
        }
        ASSERT(image_encode_jpeg(pixels, WIDTH, HEIGHT, &settings[k], &bytes, &size) == OK);
        snprintf(name, sizeof name, "huffman/seed-%d", k);
        str_add_n(&b, (const char *)bytes, size);
        str_add_n(&b, (const char *)choices, sizeof choices);
        tree_write(folder, name, b.text, b.length);
        str_free(&b);
        mem_free(bytes);
    }
}

static void write_tars(const char *folder)
{
    StrBuf tar = { 0 };
    tar_add(&tar, "a/x.jpg", "\xff\xd8\xffpicture", 10, TAR_USTAR);
    tar_add(&tar, "a/x.cls", "1", 1, TAR_USTAR);
    tar_end(&tar);
    keep(folder, "tar/seed-labels", 1, tar.text, tar.length);
    str_clear(&tar);
    char lengthy[160];
    memset(lengthy, 'p', sizeof lengthy);
    memcpy(lengthy + 2, "/", 1);
    memcpy(lengthy + 150, "/y.png", 7);
    tar_add(&tar, lengthy, "1", 1, TAR_PAX);
    lengthy[0] = 'q';
    tar_add(&tar, lengthy, "2", 1, TAR_GNU);
    tar_end(&tar);
    keep(folder, "tar/seed-folders", 1, tar.text, tar.length);
    str_free(&tar);
}

static void write_records(const char *folder)
{
    StrBuf features = { 0 }, example = { 0 }, records = { 0 };
    tfexample_add_bytes(&features, "image/encoded", "\xff\xd8\xff", 3);
    tfexample_add_bytes(&features, "image/class/synset", "n01", 3);
    tfexample_add_bytes(&features, "image/filename", "n01_1.JPEG", 10);
    tfexample_add_int(&features, "image/class/label", 1, true);
    tfexample_wrap(&example, &features);
    keep(folder, "tfrecord/seed-example", 0, example.text, example.length);
    tfrecord_add(&records, example.text, example.length);
    str_clear(&features);
    str_clear(&example);
    tfexample_add_bytes(&features, "image", "x", 1);
    tfexample_add_int(&features, "label", 3, false);
    tfexample_wrap(&example, &features);
    keep(folder, "tfrecord/seed-example-2", 0, example.text, example.length);
    tfrecord_add(&records, example.text, example.length);
    keep(folder, "tfrecord/seed-file", 1, records.text, records.length);
    str_free(&features);
    str_free(&example);
    str_free(&records);
}

static void write_idx(const char *folder)
{
    static const uint8_t labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 1, 0 };
    static const uint8_t images[] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,  0,  0,
                                      0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
    StrBuf b = { 0 };
    str_add_n(&b, "\x0a", 2);
    str_add_n(&b, (const char *)labels, sizeof labels);
    str_add_n(&b, (const char *)images, sizeof images);
    tree_write(folder, "idx/seed", b.text, b.length);
    str_free(&b);
}

/* A real folder, indexed and packed. */
static void write_indexes(const char *folder)
{
    char path[2048];
    uint8_t *shard = NULL;
    size_t bytes = 0;
    Dataset *d = NULL;
    PackReport report;
    snprintf(path, sizeof path, "%s/tree", fuzz_folder());
    tree_write(path, "a/x.jpg", "one", 3);
    tree_write(path, "b/deep/y.png", "three", 5);
    DatasetOptions o = { .path = path, .format = DATA_IMAGEFOLDER };
    ASSERT(dataset_open(&d, &o) == OK);
    const void *index = dataset_index(d, &bytes);
    keep(folder, "index/seed", 1, index, bytes);
    char out[2100], file[2200];
    snprintf(out, sizeof out, "%s/packed", path);
    PackOptions pack = { .out = out, .shard_bytes = 1000, .threads = 1 };
    ASSERT(pack_dataset(d, &pack, &report) == OK);
    snprintf(file, sizeof file, "%s/shard-00000.bin", out);
    ASSERT(fs_read_file(file, &shard, &bytes) == OK);
    keep(folder, "shard/seed", 1, shard, bytes);
    mem_free(shard);
    dataset_close(d);
    static const char *const made[] = { "packed/shard-00000.bin",
                                        "packed/dataset.index",
                                        "packed",
                                        "a/x.jpg",
                                        "a",
                                        "b/deep/y.png",
                                        "b/deep",
                                        "b",
                                        "." };
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        snprintf(file, sizeof file, "%s/%s", path, made[i]);
        if (i + 1 == sizeof made / sizeof made[0]) file[strlen(path)] = '\0';
        ASSERT(remove(file) == 0);
    }
}

void fuzz_write_seeds(const char *folder)
{
    write_pngs(folder);
    write_jpegs(folder);
    write_tars(folder);
    write_records(folder);
    write_idx(folder);
    write_indexes(folder);
}
