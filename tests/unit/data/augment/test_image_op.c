/* Ops on pictures against Pillow, torchvision and timm, byte for byte: tests/golden/image_ops.txt
 * holds checksums of their results, see scripts/golden/make_image_op_golden.py, whose pictures
 * are made here by the same formula. */
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "data/augment/image_op.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

enum { MOST_BYTES = 64 * 64 * 3, GUARD = 64 };

typedef struct Spec {
    int width, height, kind; /* 0 noise, 1 slopes, 2 one value, 3 little contrast */
} Spec;

static const Spec specs[] = { { 32, 32, 0 }, { 32, 32, 1 }, { 32, 32, 2 }, { 32, 32, 3 },
                              { 47, 33, 1 }, { 64, 64, 1 }, { 40, 90, 3 }, { 2, 5, 0 },
                              { 1, 1, 0 },   { 3, 3, 1 } };

static uint8_t value_at(int kind, int x, int y, int c, uint32_t index)
{
    uint32_t noise = index * 2654435761u >> 13 & 255;
    if (kind == 0) return (uint8_t)noise;
    if (kind == 1) return (uint8_t)(5 * x + 3 * y + 60 * c + (x * y >> 3));
    return (uint8_t)(kind == 2 ? 77 + c : 90 + 10 * c + (int)(noise % 41));
}

static Picture make(const Spec *s, int channels, uint8_t *pixels)
{
    uint32_t index = 0;
    for (int y = 0; y < s->height; y++)
        for (int x = 0; x < s->width; x++)
            for (int c = 0; c < channels; c++, index++)
                pixels[index] = value_at(s->kind, x, y, c, index);
    return (Picture){ pixels, s->width, s->height, channels };
}

/* The checksum over all pictures after the op; bytes beside the picture must stay. */
static uint32_t crc_of(const ImageOp *op, const ImageOpStyle *style, int channels,
                       ImageOpScratch *scratch)
{
    static uint8_t memory[GUARD + MOST_BYTES + GUARD];
    uint32_t crc = 0;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        size_t bytes = (size_t)(specs[i].width * specs[i].height * channels);
        ASSERT(bytes <= MOST_BYTES);
        memset(memory, 0xA5, sizeof memory);
        Picture p = make(&specs[i], channels, memory + GUARD);
        CHECK_OK(image_op_apply(op, style, &p, scratch));
        crc = crc32c_update(crc, p.pixels, bytes);
        int touched = 0;
        for (size_t k = 0; k < GUARD; k++)
            touched += memory[k] != 0xA5 || memory[GUARD + bytes + k] != 0xA5;
        CHECK_INT(touched, 0);
    }
    return crc;
}

static void compare_with_pillow(bool plain)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    int seen[IMAGE_OP_COUNT] = { 0 };
    ImageOpScratch scratch = { .plain = plain };
    REQUIRE_OK(fs_read_file("tests/golden/image_ops.txt", &text, &bytes));
    const char *line = strchr((const char *)text, '\n'); /* the first one says who made it */
    for (; line && line[1]; line = strchr(line + 1, '\n')) {
        char name[32], number[32];
        int sampling = 0, fill[3], channels = 0;
        uint32_t want = 0;
        REQUIRE(sscanf(line + 1, "%31s %31s %d %d %d %d %d %x", name, number, &sampling, &fill[0],
                       &fill[1], &fill[2], &channels, &want) == 8);
        ImageOp op = { 0 };
        REQUIRE(image_op_find(name, &op.kind) && str_to_double(number, &op.value));
        ImageOpStyle style = { .nearest = sampling == 1,
                               .cubic = sampling == 2,
                               .fill = { (uint8_t)fill[0], (uint8_t)fill[1], (uint8_t)fill[2] } };
        seen[op.kind]++;
        if (crc_of(&op, &style, channels, &scratch) == want) continue;
        fprintf(stderr, "differs: %.*s\n", (int)strcspn(line + 1, "\n"), line + 1);
        CHECK(!"the bytes of Pillow");
    }
    for (int i = 0; i < IMAGE_OP_COUNT; i++) CHECK(seen[i] > 0);
    image_op_scratch_free(&scratch);
    mem_free(text);
}

TEST(bytes_are_those_of_pillow)
{
    compare_with_pillow(false);
}

TEST(plain_loops_give_the_same_bytes)
{
    compare_with_pillow(true);
}

static void compare_forms(const ImageOp *op, const Spec *spec, ImageOpScratch *wide,
                          ImageOpScratch *plain)
{
    static uint8_t pixels[2][GUARD + 71 * 71 * 3 + GUARD];
    const ImageOpStyle style = { .fill = { 9, 8, 7 } };
    memset(pixels, 0xA5, sizeof pixels);
    Picture a = make(spec, 3, pixels[0] + GUARD), b = make(spec, 3, pixels[1] + GUARD);
    CHECK_OK(image_op_apply(op, &style, &a, wide));
    CHECK_OK(image_op_apply(op, &style, &b, plain));
    if (memcmp(pixels[0], pixels[1], sizeof pixels[0]) == 0) return;
    fprintf(stderr, "%s %g on %d x %d\n", image_op_name(op->kind), op->value, spec->width,
            spec->height);
    CHECK(!"the same bytes, also beside the picture");
}

/* Sizes and factors beyond those of the golden file, where vectors end inside a row; then so many
 * samples of noise that float32 alone would take some to the other side of a whole number. */
TEST(vectors_and_plain_loops_agree)
{
    static const ImageOpKind sampled[3] = { IMAGE_SHEAR_X, IMAGE_SHEAR_Y, IMAGE_ROTATE };
    ImageOpScratch wide = { 0 }, plain = { .plain = true };
    for (int round = 0; round < 600; round++) {
        Rng rng = rng_at(3, RNG_TEST, (uint32_t)round, 0);
        const Spec spec = { 1 + (int)rng_below(&rng, 71), 1 + (int)rng_below(&rng, 71),
                            (int)rng_below(&rng, 4) };
        const ImageOp op = { (ImageOpKind)rng_below(&rng, IMAGE_OP_COUNT),
                             rng_uniform(&rng) * 2 - 0.5 };
        if (op.kind != IMAGE_POSTERIZE) compare_forms(&op, &spec, &wide, &plain);
    }
    for (int round = 0; round < 300; round++) {
        Rng rng = rng_at(4, RNG_TEST, (uint32_t)round, 0);
        const Spec spec = { 71, 71, 0 };
        const ImageOpKind kind = sampled[round % 3];
        const double value = (rng_uniform(&rng) - 0.5) * (kind == IMAGE_ROTATE ? 60 : 1);
        compare_forms(&(ImageOp){ kind, value }, &spec, &wide, &plain);
    }
    image_op_scratch_free(&wide);
    image_op_scratch_free(&plain);
}

TEST(names_find_their_ops)
{
    ImageOpKind kind;
    for (int i = 0; i < IMAGE_OP_COUNT; i++) {
        CHECK(image_op_find(image_op_name((ImageOpKind)i), &kind));
        CHECK_INT(kind, i);
    }
    CHECK(!image_op_find("sheer_x", &kind));
}

/* After the largest picture nothing is allocated any more. */
TEST(scratch_stops_growing)
{
    static uint8_t pixels[MOST_BYTES];
    ImageOpScratch scratch = { 0 };
    const ImageOpStyle style = { 0 };
    for (int round = 0; round < 2; round++) {
        int64_t before = mem_allocation_count();
        for (int i = 0; i < IMAGE_OP_COUNT; i++) {
            Picture p = make(&specs[5], 3, pixels);
            CHECK_OK(image_op_apply(&(ImageOp){ (ImageOpKind)i, 0.25 }, &style, &p, &scratch));
        }
        if (round == 1) CHECK_INT(mem_allocation_count() - before, 0);
    }
    image_op_scratch_free(&scratch);
}
