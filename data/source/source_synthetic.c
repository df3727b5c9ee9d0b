/* source_synthetic.c - images made from their id: no disk, no decoding. For benchmarks and tests of
 * everything behind the loader.
 *
 * Label = id % classes; of any number of labels also id / classes % classes, and every eighth
 * sample has none. Pixels = an 8x8 tile pattern of the class, half strength, plus noise of the
 * sample, so that a network can learn them and no two samples are equal. Always 3 channels, made at
 * the size that is asked for. */
#include "base/both.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/source/source.h"
#include <stdio.h>
#include <string.h>

#define TILES          8
#define TILE_BYTES     (TILES * TILES * 3)
#define SYNTHETIC_SEED 0x636f6e766f79u /* fixed: these images are the same in every run */

/* address word b of RNG_SYNTHETIC; word a is the class or the sample */
enum { STREAM_PATTERN, STREAM_NOISE };

static Status make_labels(Source *s)
{
    s->label_bytes = index_label_bytes(s->classes);
    uint8_t *rows = mem_calloc((size_t)s->images, s->label_bytes);
    s->labels = rows;
    if (!rows) return ERR_MEMORY;
    memset(s->class_images, 0, (size_t)s->classes * sizeof *s->class_images);
    for (int64_t id = 0; id < s->images; id++, rows += s->label_bytes) {
        if (id % 8 == 7) continue;
        for (int64_t from = id, i = 0; i < 2; i++, from /= s->classes) {
            const int64_t c = from % s->classes;
            s->class_images[c] += !both_bit(rows, c);
            rows[c / 8] |= (uint8_t)(1 << c % 8);
        }
    }
    return OK;
}

static Status synthetic_open(Source **out, const DatasetOptions *o, const Index *index)
{
    (void)index;
    if (o->synthetic_images < 1 || o->synthetic_classes < 1)
        return fail(ERR_USAGE,
                    "synthetic data needs at least one image and one class, not %lld and %d",
                    (long long)o->synthetic_images, o->synthetic_classes);
    Source *s = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    s->images = o->synthetic_images;
    Status status = source_number_classes(s, o->synthetic_classes);
    for (int c = 0; status == OK && c < s->classes; c++)
        s->class_images[c] = (s->images - c + s->classes - 1) / s->classes;
    if (status == OK && o->labels == LABELS_MULTI) status = make_labels(s);
    if (status == OK) *out = s;
    else source_synthetic.close(s);
    return status;
}

static void random_bytes(RngPurpose purpose, uint32_t a, uint32_t b, uint8_t *out, size_t bytes)
{
    Rng rng = rng_at(SYNTHETIC_SEED, purpose, a, b);
    for (size_t i = 0; i < bytes; i += 4) {
        uint32_t word = rng_u32(&rng);
        for (size_t j = 0; j < 4 && i + j < bytes; j++) out[i + j] = (uint8_t)(word >> (8 * j));
    }
}

static Status synthetic_make(const Source *s, int64_t id, int size, ByteBuf *buf, Sample *out)
{
    size_t side = (size_t)size, bytes = side * side * 3;
    TRY(byte_buf_reserve(buf, bytes));
    uint8_t pattern[TILE_BYTES];
    random_bytes(RNG_SYNTHETIC, (uint32_t)(id % s->classes), STREAM_PATTERN, pattern,
                 sizeof pattern);
    random_bytes(RNG_SYNTHETIC, (uint32_t)id, STREAM_NOISE, buf->data, bytes);
    for (size_t y = 0; y < side; y++) {
        const uint8_t *tiles = pattern + y * TILES / side * TILES * 3;
        uint8_t *row = buf->data + y * side * 3;
        for (size_t x = 0; x < side; x++) {
            const uint8_t *tile = tiles + x * TILES / side * 3;
            for (size_t c = 0; c < 3; c++)
                row[3 * x + c] = (uint8_t)((row[3 * x + c] + tile[c]) / 2);
        }
    }
    *out = (Sample){ .image = image_packed(buf->data, size, size, 3) };
    return OK;
}

static int synthetic_label(const Source *s, int64_t id)
{
    return (int)(id % s->classes);
}

static void synthetic_describe(const Source *s, int64_t id, char *out, size_t bytes)
{
    (void)s;
    snprintf(out, bytes, "synthetic[%lld]", (long long)id);
}

static void synthetic_close(Source *s)
{
    source_free_classes(s);
    mem_free((void *)(uintptr_t)s->labels);
    mem_free(s);
}

const SourceKind source_synthetic = {
    .name = "synthetic",
    .in_memory = true,
    .several_labels = true,
    .open = synthetic_open,
    .make = synthetic_make,
    .label = synthetic_label,
    .describe = synthetic_describe,
    .close = synthetic_close,
};
