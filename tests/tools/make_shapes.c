/* make_shapes.c - writes an ImageFolder of JPEG files to try a training run on:
 *
 *     make_shapes OUT_DIR [--train N_PER_CLASS] [--val N_PER_CLASS] [--size PIXELS] [--seed K]
 *
 * makes OUT_DIR/train/CLASS/0000.jpg ... and OUT_DIR/val/CLASS/... with the classes of shapes.c;
 * sizes, aspect ratios, JPEG quality (85 to 95) and chroma sampling vary. The same arguments give
 * the same files. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "tests/tools/image_write.h"
#include "tests/tools/shapes.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define VAL_OFFSET  1000000 /* numbers of val pictures start here, so none is in train */
#define PATH_BYTES  4096
#define MAX_NOMINAL 2048

typedef struct Options {
    const char *out;
    int64_t train, val, size, seed;
} Options;

typedef struct Flag {
    const char *name;
    int64_t *value;
    int64_t low, high;
} Flag;

static Status parse(int argc, char **argv, Options *o)
{
    const Flag flags[] = { { "--train", &o->train, 0, VAL_OFFSET },
                           { "--val", &o->val, 0, VAL_OFFSET },
                           { "--size", &o->size, 8, MAX_NOMINAL },
                           { "--seed", &o->seed, 0, INT64_MAX } };
    for (int i = 1; i < argc; i++) {
        const Flag *flag = NULL;
        for (size_t f = 0; f < sizeof flags / sizeof flags[0]; f++)
            if (!strcmp(argv[i], flags[f].name)) flag = &flags[f];
        if (!flag && argv[i][0] != '-' && !o->out) {
            o->out = argv[i];
            continue;
        }
        if (!flag) return fail(ERR_USAGE, "unknown argument %s", argv[i]);
        if (i + 1 == argc || !str_to_i64(argv[++i], flag->value) || *flag->value < flag->low ||
            *flag->value > flag->high)
            return fail(ERR_USAGE, "%s needs a whole number from %lld to %lld", flag->name,
                        (long long)flag->low, (long long)flag->high);
    }
    if (o->out) return OK;
    return fail(ERR_USAGE,
                "usage: make_shapes OUT_DIR [--train N_PER_CLASS] [--val N_PER_CLASS] [--size "
                "PIXELS] [--seed K]");
}

static Status write_file(const char *path, const uint8_t *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file) return fail(ERR_IO, "%s: %s", path, strerror(errno));
    size_t written = fwrite(data, 1, bytes, file);
    if (fclose(file) != 0 || written != bytes)
        return fail(ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    return OK;
}

static Status make_one(const Options *o, int label, uint32_t number, const char *path)
{
    uint64_t seed = (uint64_t)o->seed;
    int width, height;
    shapes_size(seed, label, number, (int)o->size, &width, &height);
    uint8_t *pixels = mem_alloc((size_t)width * (size_t)height * 3), *bytes = NULL;
    if (!pixels) return ERR_MEMORY;
    shapes_draw(seed, label, number, width, height, pixels);
    Rng rng = rng_at(seed, RNG_TEST, (uint32_t)(label + 2 * SHAPES_CLASSES), number);
    JpegSettings settings = { .channels = 3,
                              .quality = 85 + (int)rng_below(&rng, 11),
                              .subsample = rng_below(&rng, 2) == 1 };
    size_t size = 0;
    Status status = image_encode_jpeg(pixels, width, height, &settings, &bytes, &size);
    if (status == OK) status = write_file(path, bytes, size);
    mem_free(bytes);
    mem_free(pixels);
    return status;
}

static Status make_split(const Options *o, const char *split, int64_t per_class, uint32_t first)
{
    char path[PATH_BYTES];
    for (int label = 0; label < SHAPES_CLASSES && per_class > 0; label++) {
        snprintf(path, sizeof path, "%s/%s/%s", o->out, split, shapes_class_name(label));
        TRY(fs_make_dirs(path));
        for (int64_t i = 0; i < per_class; i++) {
            snprintf(path, sizeof path, "%s/%s/%s/%04lld.jpg", o->out, split,
                     shapes_class_name(label), (long long)i);
            TRY(make_one(o, label, first + (uint32_t)i, path));
        }
    }
    return OK;
}

int main(int argc, char **argv)
{
    Options o = { .train = 200, .val = 40, .size = 64, .seed = 1 };
    Status status = parse(argc, argv, &o);
    if (status == OK) status = make_split(&o, "train", o.train, 0);
    if (status == OK) status = make_split(&o, "val", o.val, VAL_OFFSET);
    if (status != OK) fprintf(stderr, "make_shapes: error: %s\n", status_message());
    return status_exit_code(status);
}
