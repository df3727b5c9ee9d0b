/* Every way to a part of a picture gives the pixels of that part of the whole as libjpeg alone
 * decodes it: cut columns, skipped rows, our Huffman decoder, with and without a seek index - for
 * whole files and for damaged ones. */
#include "base/mem.h"
#include "base/rng.h"
#include "data/decode/decode_check.h"
#include "data/decode/decoder.h"
#include "data/decode/jpeg_decoder.h"
#include "data/decode/seek_index.h"
#include "tests/test.h"
#include "tests/tools/image_write.h"
#include <stdio.h> /* jpeglib.h uses FILE and does not include it */
#include <string.h>

#include <jpeglib.h>

enum { MOST = 90, PIXEL_BYTES = MOST * MOST * 4 };

typedef struct Kind {
    const char *name;
    JpegSettings settings;
    bool fast; /* our Huffman decoder reads it */
} Kind;

static const Kind kinds[] = {
    { "4:4:4", { .channels = 3 }, true },
    { "4:4:4 optimized", { .channels = 3, .optimize = true }, true },
    { "4:2:0", { .channels = 3, .subsample = true }, true },
    { "4:2:2", { .channels = 3, .h_sampling = 2, .v_sampling = 1 }, true },
    { "4:4:0", { .channels = 3, .h_sampling = 1, .v_sampling = 2 }, true },
    { "4:1:1", { .channels = 3, .h_sampling = 4, .v_sampling = 1 }, true },
    { "4x2", { .channels = 3, .h_sampling = 4, .v_sampling = 2 }, true },
    { "2x4", { .channels = 3, .h_sampling = 2, .v_sampling = 4 }, true },
    { "grey", { .channels = 1 }, true },
    { "grey 2x2", { .channels = 1, .h_sampling = 2, .v_sampling = 2 }, true },
    { "grey optimized", { .channels = 1, .optimize = true }, true },
    { "cmyk", { .channels = 4 }, false },
    { "ycck", { .channels = 4, .ycck = true }, false },
    { "ycck 2x2", { .channels = 4, .ycck = true, .h_sampling = 2, .v_sampling = 2 }, false },
    { "progressive", { .channels = 3, .progressive = true }, false },
    { "progressive 4:2:0", { .channels = 3, .progressive = true, .subsample = true }, false },
    { "progressive grey", { .channels = 1, .progressive = true }, false },
    { "restarts", { .channels = 3, .restart_rows = 1 }, false },
    { "restarts 4:2:0", { .channels = 3, .restart_rows = 2, .subsample = true }, false },
    { "arithmetic", { .channels = 3, .arithmetic = true, .subsample = true }, false },
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* jpeglib.h of libjpeg-turbo 2 or 3, upstream's or a distribution's. */
#if LIBJPEG_TURBO_VERSION_NUMBER >= 2000000 && LIBJPEG_TURBO_VERSION_NUMBER < 4000000
enum { HEADER_IS_KNOWN = 1 };
#else
enum { HEADER_IS_KNOWN = 0 };
#endif

static bool is_fast(const Kind *kind)
{
    return kind->fast && HEADER_IS_KNOWN;
}

TEST(fast_decoder_works_with_libjpeg_turbo_2_and_3)
{
    bool works = false;
    CHECK_OK(decode_check_fast(&works));
    CHECK_INT(works, HEADER_IS_KNOWN);
}

typedef struct Picture {
    uint8_t *file;
    size_t size;
    int width, height;
} Picture;

static int between(Rng *rng, int low, int high)
{
    return low + (int)rng_below(rng, (uint64_t)(high - low + 1));
}

/* Flat, smooth or noise, so that codes of all lengths occur. */
static Picture make_picture(Rng *rng, const Kind *kind)
{
    static const int qualities[] = { 20, 75, 90, 96, 100 };
    static uint8_t pixels[PIXEL_BYTES];
    JpegSettings s = kind->settings;
    Picture p = { .width = between(rng, 1, MOST), .height = between(rng, 1, MOST) };
    int contents = between(rng, 0, 3);
    uint32_t salt = rng_u32(rng);
    s.quality = qualities[between(rng, 0, 4)];
    for (int i = 0; i < p.width * p.height * s.channels; i++) {
        int x = i / s.channels % p.width, y = i / s.channels / p.width, c = i % s.channels;
        int value = (int)(salt >> 24);
        if (contents > 1) value += x * (1 + c) + y * 3 / (1 + c);
        if (contents > 2) value += between(rng, 0, 19);
        pixels[i] = (uint8_t)(contents == 1 ? between(rng, 0, 255) : value);
    }
    CHECK_OK(image_encode_jpeg(pixels, p.width, p.height, &s, &p.file, &p.size));
    return p;
}

static ImageBox random_box(Rng *rng, const Picture *p)
{
    ImageBox b = { .width = between(rng, 1, p->width), .height = between(rng, 1, p->height) };
    b.x = between(rng, 0, p->width - b.width);
    b.y = between(rng, 0, p->height - b.height);
    return b;
}

static bool same_pixels(const Image *part, const Image *whole)
{
    const ImageBox *b = &part->box;
    for (int y = 0; y < b->height; y++) {
        const uint8_t *got = part->pixels + (size_t)y * part->stride;
        const uint8_t *want = whole->pixels + (size_t)(b->y + y) * whole->stride +
                              (size_t)b->x * (size_t)whole->channels;
        for (int x = 0; x < b->width; x++, got += part->pixel_bytes, want += whole->channels)
            if (memcmp(got, want, (size_t)part->channels) != 0) return false;
    }
    return true;
}

static void complain(const char *name, const char *way, const Picture *p, const ImageBox *b)
{
    fprintf(stderr, "%s, %s: %d x %d, part %d x %d at (%d, %d)\n", name, way, p->width, p->height,
            b->width, b->height, b->x, b->y);
    CHECK(!"the pixels of the whole");
}

/* A part by one way against the whole by libjpeg. The refusals must be the same too. */
static bool check_part(Decoder *d, Decoder *reference, const Picture *p, const ImageBox *box,
                       const ByteBuf *index, size_t index_bytes)
{
    int width, height;
    Image whole = { 0 };
    Image part = { 0 };
    EncodedImage file = { p->file, p->size, index_bytes ? index->data : NULL, index_bytes };
    Status want = decoder_decode(reference, p->file, p->size, 3, &whole);
    Status got = decoder_open(d, &file, &width, &height);
    if (got == OK && width == p->width && height == p->height) got = decoder_read(d, box, &part);
    else if (got == OK)
        return want != OK || whole.box.width != p->width || whole.box.height != p->height;
    if (got != want) return false;
    if (got != OK) return true;
    if (part.channels == 1) {
        want = decoder_decode(reference, p->file, p->size, 1, &whole);
        CHECK_OK(want);
    }
    return same_pixels(&part, &whole);
}

typedef struct Ways {
    Decoder *reference, *stock, *fast;
    ByteBuf index;
} Ways;

static void ways_create(Ways *w)
{
    *w = (Ways){ 0 };
    CHECK_OK(decoder_create(&w->reference));
    CHECK_OK(decoder_create(&w->stock));
    CHECK_OK(decoder_create(&w->fast));
    decoder_use_stock(w->reference, true);
    decoder_use_stock(w->stock, true);
}

static void ways_destroy(Ways *w)
{
    decoder_destroy(w->reference);
    decoder_destroy(w->stock);
    decoder_destroy(w->fast);
    byte_buf_free(&w->index);
}

TEST(parts_equal_the_whole)
{
    static const int steps[] = { SEEK_INDEX_ROWS_ONLY, 1, 3, 8 };
    Ways w;
    ways_create(&w);
    for (uint32_t k = 0; k < KINDS; k++) {
        JpegDecoderCounts before = decoder_counts(w.fast);
        int64_t indexed = 0;
        for (uint32_t i = 0; i < 60; i++) {
            Rng rng = rng_at(3, RNG_TEST, i, k);
            Picture p = make_picture(&rng, &kinds[k]);
            size_t index_bytes = 0;
            CHECK_OK(decoder_build_seek_index(w.fast, p.file, p.size, steps[i % 4], &w.index,
                                              &index_bytes));
            CHECK((index_bytes > 0) == is_fast(&kinds[k]));
            for (int j = 0; j < 4; j++) {
                ImageBox box = random_box(&rng, &p);
                if (!check_part(w.stock, w.reference, &p, &box, NULL, 0))
                    complain(kinds[k].name, "libjpeg", &p, &box);
                if (!check_part(w.fast, w.reference, &p, &box, NULL, 0))
                    complain(kinds[k].name, "fast", &p, &box);
                if (!check_part(w.fast, w.reference, &p, &box, &w.index, index_bytes))
                    complain(kinds[k].name, "with an index", &p, &box);
                indexed++;
            }
            mem_free(p.file);
        }
        JpegDecoderCounts after = decoder_counts(w.fast);
        /* 60 indices were built */
        CHECK_INT(after.fast - before.fast, is_fast(&kinds[k]) ? 2 * indexed + 60 : 0);
        CHECK_INT(after.left, before.left);
    }
    ways_destroy(&w);
}

/* What a trim gives back is allocated again, and what lies below its limit stays. */
TEST(a_trim_gives_back_what_is_over_its_limit)
{
    static const struct {
        size_t limit_bytes;
        bool gives_back;
    } trims[] = { { (size_t)1 << 30, false }, { 0, true } };
    JpegDecoder *j = NULL;
    ByteBuf pixels = { 0 };
    Image part;
    Rng rng = rng_at(8, RNG_TEST, 0, 0);
    Picture p = make_picture(&rng, &kinds[0]);
    const EncodedImage file = { .bytes = p.file, .size = p.size };
    if (!is_fast(&kinds[0])) {
        test_skip("our Huffman decoder, which has a buffer, is not built in");
        return;
    }
    REQUIRE_OK(jpeg_decoder_create(&j));
    for (int i = 0; i < 3; i++) { /* the first one allocates */
        int width, height;
        int64_t before = mem_allocation_count();
        if (i > 0) jpeg_decoder_trim(j, trims[i - 1].limit_bytes);
        CHECK_OK(jpeg_decoder_open(j, &file, &width, &height));
        const ImageBox all = { .width = width, .height = height };
        CHECK_OK(jpeg_decoder_read(j, &all, true, &pixels, &part));
        if (i > 0) CHECK((mem_allocation_count() > before) == trims[i - 1].gives_back);
    }
    jpeg_decoder_destroy(j);
    byte_buf_free(&pixels);
    mem_free(p.file);
}

/* One to three bytes changed, or the end cut off: the same pixels or the same refusal. */
TEST(damaged_files_decode_as_libjpeg_decodes_them)
{
    Ways w;
    ways_create(&w);
    for (uint32_t k = 0; k < KINDS; k++) {
        for (uint32_t i = 0; i < 100; i++) {
            Rng rng = rng_at(4, RNG_TEST, i, k);
            Picture p = make_picture(&rng, &kinds[k]);
            ImageBox box = random_box(&rng, &p);
            size_t index_bytes = 0;
            CHECK_OK(decoder_build_seek_index(w.fast, p.file, p.size, SEEK_INDEX_ROWS_ONLY,
                                              &w.index, &index_bytes));
            int changes = between(&rng, 1, 3);
            for (int j = 0; j < changes; j++) {
                size_t at = p.size - 1 - rng_below(&rng, between(&rng, 0, 3) ? p.size / 2 : p.size);
                p.file[at] = (uint8_t)(p.file[at] ^ (1 + rng_below(&rng, 255)));
            }
            if (between(&rng, 0, 9) == 0) p.size = 3 + rng_below(&rng, p.size - 3);
            if (!check_part(w.stock, w.reference, &p, &box, NULL, 0))
                complain(kinds[k].name, "damaged, libjpeg", &p, &box);
            if (!check_part(w.fast, w.reference, &p, &box, NULL, 0))
                complain(kinds[k].name, "damaged, fast", &p, &box);
            /* The index of the file as it was must not be used. */
            if (!check_part(w.fast, w.reference, &p, &box, &w.index, index_bytes))
                complain(kinds[k].name, "damaged, with an index", &p, &box);
            mem_free(p.file);
        }
    }
    CHECK(decoder_counts(w.fast).left > 20 || !is_fast(&kinds[0]));
    ways_destroy(&w);
}
