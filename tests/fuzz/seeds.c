/* seeds.c - small good inputs for every target, for the fuzzer to start from. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/wire.h"
#include "data/load/pack.h"
#include "tests/fuzz/fuzz.h"
#include "tests/tools/container_write.h"
#include "tests/tools/data_tree.h"
#include "tests/tools/image_write.h"
#include "tests/tools/token_write.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/files/checkpoint.h"
#include "trainer/engine/files/zip.h"
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
    str_clear(&tar);
    tar_add_header(&tar, "s/c/", '5', 0);
    tar_add(&tar, "s/a/x.1.jpg", "1", 1, TAR_USTAR);
    tar_add(&tar, "s/a/.y", "2", 1, TAR_USTAR);
    tar_add_link(&tar, "s/b/x.png", '1', "s/a/x.1.jpg", TAR_USTAR);
    tar_add_link(&tar, "s/b/y.jpg", '2', "../a/.y", TAR_USTAR);
    tar_add_link(&tar, "s/b/z.txt", '2', "../..", TAR_USTAR);
    tar_add_link(&tar, "s/c/1.jpg", '2', "../b/x.png", TAR_USTAR);
    tar_end(&tar);
    keep(folder, "tar/seed-links", 1, tar.text, tar.length);
    str_clear(&tar);
    tar_add(&tar, "0.cls", "1", 1, TAR_USTAR);
    tar_add(&tar, "0.png", "1", 1, TAR_USTAR);
    tar_add(&tar, "0.jpg", "2", 1, TAR_USTAR);
    tar_add_link(&tar, "1.cls", '1', "0.cls", TAR_USTAR);
    tar_add_link(&tar, "1.jpg", '2', "0.png", TAR_USTAR);
    tar_end(&tar);
    keep(folder, "tar/seed-linked-labels", 1, tar.text, tar.length);
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
    str_clear(&records);
    for (int label = 2; label > 0; label--) {
        str_clear(&features);
        str_clear(&example);
        tfexample_add_bytes(&features, "image/encoded", "x", 1);
        tfexample_add_bytes(&features, "image/class/text", label > 1 ? "ant" : "bee", 3);
        tfexample_add_int(&features, "image/class/label", label, false);
        tfexample_wrap(&example, &features);
        tfrecord_add(&records, example.text, example.length);
    }
    keep(folder, "tfrecord/seed-text", 1, records.text, records.length);
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

static void write_tokens(const char *folder)
{
    static const char words[] = "a 7\nb 3\nb 1 #fairseq:overwrite\nmadeupword0000 0\n";
    static const int32_t ids[] = { 4, 5, 2, 2, 6, 4, 4, 2 };
    tree_write(folder, "dictionary/seed", words, strlen(words));
    for (int format = TOKENS_U16; format <= TOKENS_LAZY; format++) {
        StrBuf idx = { 0 }, bin = { 0 }, b = { 0 };
        char name[32];
        token_encode(ids, sizeof ids / sizeof *ids, (TokenFormat)format, &idx, &bin);
        wire_put_number(&b, strlen(words), 1);
        wire_put_number(&b, idx.length, 1);
        str_add(&b, words);
        str_add_n(&b, idx.text, idx.length);
        str_add_n(&b, bin.text, bin.length);
        snprintf(name, sizeof name, "tokens/seed-%d", format);
        tree_write(folder, name, b.text, b.length);
        str_free(&idx);
        str_free(&bin);
        str_free(&b);
    }
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

static const char small_config[] =
    "model:\n  name: resnet20\n  classes: 2\ndata:\n  train: \"/data/a b\"\n  image_size: 32\n"
    "  mean: [0.5, 0.25, 0.125]\n  std: [0.5]\n# a comment\noptimizer: {lr: 0.1, betas: [0.9, "
    "0.99]}\n"
    "schedule:\n  name: step\n";
static const char broken_config[] =
    "a: &x [1, *x]\nb: !!str 'c''d'\n? k\n: |\n  block\n... \n--- {e: \"\\u263a\"}\n";

static void write_configs(const char *folder)
{
    static const char sets[] =
        "optimizer.lr=0.2\0data.mean=[0.1, 0.2, 0.3]\0run.dir=runs/x\0train.epochs=3";
    StrBuf b = { 0 };
    Config *c = NULL;
    ASSERT(config_load(&c, NULL, NULL, 0) == OK && config_dump_yaml(c, &b) == OK);
    keep(folder, "config/seed-all", 1, b.text, b.length);
    tree_write(folder, "stored/seed-all", b.text, b.length);
    config_destroy(c);
    str_clear(&b);
    keep(folder, "config/seed-file", 1, small_config, sizeof small_config - 1);
    keep(folder, "config/seed-broken", 1, broken_config, sizeof broken_config - 1);
    str_add_n(&b, small_config, sizeof small_config);
    str_add_n(&b, sets, sizeof sets);
    keep(folder, "config/seed-sets", 0, b.text, b.length);
    tree_write(folder, "stored/seed", small_config, sizeof small_config - 1);
    tree_write(folder, "stored/seed-broken", broken_config, sizeof broken_config - 1);
    str_free(&b);
}

/* The last layer alone: enough to be asked for the others. */
static void write_checkpoints(const char *folder)
{
    static const float weights[2 * 64] = { 0.5f, -1 };
    const int64_t dims[] = { 2, 64 };
    const SafeTensor tensor = { "fc.weight", tensor_desc(DTYPE_F32, 2, dims), NULL };
    CheckpointMeta meta = { .step = 12,
                            .run_step = 12,
                            .images = 96,
                            .epoch = 1,
                            .seed = 7,
                            .global_batch = 8,
                            .dataset_images = 80,
                            .best_score = 0.5,
                            .lr_factor = 1,
                            .average_rest = { -1, -1 },
                            .class_names = "cat\nd\xc3\xb6g",
                            .model = "resnet20" };
    char path[200], latest[200];
    CheckpointWriter *w = NULL;
    Config *c = NULL;
    StrBuf config = { 0 };
    uint8_t *bytes = NULL;
    size_t size = 0;
    ASSERT(config_parse(&c, small_config) == OK && config_dump_yaml(c, &config) == OK);
    meta.config = config.text;
    ASSERT(checkpoint_writer_create(&w, fuzz_folder(), &tensor, 1, 1) == OK);
    ASSERT(checkpoint_wait(w) == OK);
    memcpy(checkpoint_staging(w, 0), weights, sizeof weights);
    ASSERT(checkpoint_submit(w, &meta, false) == OK && checkpoint_flush(w) == OK);
    checkpoint_writer_destroy(w);
    snprintf(path, sizeof path, "%s/step-00000012.safetensors", fuzz_folder());
    snprintf(latest, sizeof latest, "%s/latest", fuzz_folder());
    ASSERT(fs_read_file(path, &bytes, &size) == OK);
    keep(folder, "checkpoint/seed", 1, bytes, size);
    mem_free(bytes);
    str_free(&config);
    config_destroy(c);
    ASSERT(remove(path) == 0 && remove(latest) == 0);
}

static void write_texts(const char *folder)
{
    /* 0x03: as .csv */
    static const char rows[] = "\x03\xef\xbb\xbfpath,class\r\n\"a \"\"b\"\"\nc\" , d\n\n e,,\"";
    static const char names[] = "cat\nd\xc3\xb6g\n\n=1+1\n\x1b[31m\xff\na,\"b\"\n";
    static const char hosts[] = "h1\nh2:4\n\nnode-3.x slots=2 # free\nh1:8\n10.0.0.7\n";
    static const char refused[] = "h1\n[fe80::1]:4\n";
    tree_write(folder, "names/seed", names, sizeof names - 1);
    tree_write(folder, "rows/seed", rows, sizeof rows - 1);
    StrBuf b = { 0 };
    str_add_n(&b, "\3\30", 2);
    str_add(&b, hosts);
    tree_write(folder, "hosts/seed", b.text, b.length);
    str_clear(&b);
    str_add_n(&b, "\0\0", 2);
    str_add(&b, refused);
    tree_write(folder, "hosts/seed-refused", b.text, b.length);
    str_free(&b);
}

/* Records of a run that was resumed once, and what is none. */
static void write_metrics(const char *folder)
{
    static const char records[] =
        "{\"event\":\"start\",\"time\":1.5e9,\"model\":\"resnet20\","
        "\"dataset\":\"imagefolder\",\"backend\":\"oneDNN\",\"device\":\"cpu\","
        "\"precision\":\"fp32\",\"host\":\"vm\",\"version\":\"0.1.0\",\"world\":2,"
        "\"hosts\":1,\"cpus\":2,\"compute_threads\":1,\"oversubscribed\":false,"
        "\"images\":120,\"val_images\":9,\"classes\":10,\"parameters\":269722,"
        "\"global_batch\":16,\"steps\":5}\n"
        "{\"event\":\"step\",\"time\":1.5e9,\"epoch\":0,\"step\":1,\"loss\":2.5,\"lr\":0.02,"
        "\"images_per_s\":104.7,\"step_ms\":152.7,\"data_wait_ms\":0.2,\"comm_wait_ms\":4.6,"
        "\"grad_norm\":null,\"mfu\":0.4}\n"
        "{\"event\":\"gpu\",\"time\":1.5e9,\"gpu\":0,\"utilization\":0.97,"
        "\"utilization_min\":0.5,\"memory_used_bytes\":5e9,\"power_w\":300}\n"
        "{\"event\":\"gpu\",\"time\":1.5e9,\"gpu\":1,\"utilization\":0.5,\"power_w\":-1e308}\n"
        "{\"event\":\"spent\",\"time\":1.5e9,\"part\":\"train\",\"step\":1,\"images\":16,"
        "\"host_seconds\":2,\"gpu_j\":5,\"total_j\":5,\"total_host_seconds\":2}\n"
        "{\"event\":\"epoch\",\"time\":1.5e9,\"epoch\":0,\"seconds\":0.28,\"images\":48,"
        "\"images_per_s\":169}\n"
        "{\"event\":\"eval\",\"time\":1.5e9,\"epoch\":0,\"step\":1,\"images\":9,"
        "\"loss\":1.25,\"top1\":0.5,\"top5\":1}\n"
        "{\"event\":\"checkpoint\",\"time\":1.5e9,\"step\":1,\"path\":\"runs/<x>/step-1\"}\n"
        "{\"event\":\"resume\",\"time\":1.5e9,\"step\":1,\"path\":\"runs/x/step-1\"}\n"
        "{\"event\":\"on_save\",\"time\":1.5e9,\"step\":1,\"outcome\":\"failed\",\"code\":3,"
        "\"seconds\":1}\n"
        "no record\n"
        "{\"event\":\"step\",\"time\":1.6e9,\"epoch\":1,\"step\":2,\"loss\":null,\"lr\":0.02,"
        "\"images_per_s\":104.7}\n"
        "{\"event\":\"done\",\"time\":1.7e9,\"code\":0,\"reason\":\"completed\"}\n"
        "{\"event\":\"torn";
    const uint8_t length[] = { sizeof small_config - 1, 0 };
    StrBuf b = { 0 };
    str_add_n(&b, (const char *)length, 2);
    str_add(&b, small_config);
    str_add(&b, records);
    tree_write(folder, "metrics/seed", b.text, b.length);
    str_free(&b);
}

static Status keep_pickle(void *cookie, const ZipEntry *e)
{
    const char *const *names = cookie;
    static const char object[] = "data.pkl";
    const size_t n = sizeof object - 1;
    if (e->name_bytes > n && memcmp(e->name + e->name_bytes - n, object, n) == 0)
        keep(names[0], names[1], (char)0x82, e->data, e->bytes);
    return OK;
}

/* Golden files: of two formats whole, and their pickles (fuzz_pth.c). */
static void write_torch_files(const char *folder)
{
    static const char *const files[] = { "views", "views_legacy", "zip", "timm", "lightning" };
    for (int i = 0; i < 5; i++) {
        char path[64], name[64];
        uint8_t *data = NULL;
        size_t size = 0;
        snprintf(path, sizeof path, "tests/golden/pth/%s.pth", files[i]);
        snprintf(name, sizeof name, "pth/seed-%s", files[i]);
        ASSERT(fs_read_file(path, &data, &size) == OK);
        if (i < 2) keep(folder, name, 0, data, size);
        else ASSERT(zip_walk(data, size, keep_pickle, (const char *[]){ folder, name }) == OK);
        mem_free(data);
    }
}

void fuzz_write_seeds(const char *folder)
{
    write_pngs(folder);
    write_jpegs(folder);
    write_tars(folder);
    write_records(folder);
    write_idx(folder);
    write_tokens(folder);
    write_indexes(folder);
    write_configs(folder);
    write_checkpoints(folder);
    write_texts(folder);
    write_metrics(folder);
    write_torch_files(folder);
}
