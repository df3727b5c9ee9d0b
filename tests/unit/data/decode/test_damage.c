/* Which damaged JPEG files are bad: those that Pillow refuses, whatever part of them is read and
 * whichever decoder reads it. tests/golden/damaged/verdicts.txt has Pillow's answers, see
 * scripts/golden/make_damage_golden.py. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/decode/decoder.h"
#include "data/decode/jpeg_version.h"
#include "data/decode/recode_jpeg.h"
#include "tests/test.h"
#include "tests/tools/image_write.h"
#include <stdio.h>
#include <string.h>

#define FOLDER "tests/golden/damaged/"
enum { DAMAGES = 559, NAME_BYTES = 64, MOST_INSERTED = 64, PARTS = 4 };

typedef struct Damage { /* one line of verdicts.txt */
    char name[NAME_BYTES];
    size_t at, removed, inserted;
    uint8_t bytes[MOST_INSERTED];
    bool good;
} Damage;

typedef struct Tools {
    Decoder *stock, *fast;
    ByteBuf file, index, recoded;
    char name[NAME_BYTES]; /* of the whole file */
    uint8_t *whole;
    size_t size;
} Tools;

static bool parse(const char *line, Damage *d)
{
    char hex[2 * MOST_INSERTED + 1], verdict[8];
    if (sscanf(line, "%63s %zu %zu %128s %7s", d->name, &d->at, &d->removed, hex, verdict) != 5)
        return false;
    d->inserted = strcmp(hex, "-") == 0 ? 0 : strlen(hex) / 2;
    for (size_t i = 0; i < d->inserted; i++) {
        unsigned byte = 0;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1) return false;
        d->bytes[i] = (uint8_t)byte;
    }
    d->good = strcmp(verdict, "good") == 0;
    return d->good || strcmp(verdict, "bad") == 0;
}

static void load_whole(Tools *t, const char *name)
{
    char path[NAME_BYTES + 64];
    if (strcmp(t->name, name) == 0) return;
    mem_free(t->whole);
    t->whole = NULL;
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(path, sizeof path, FOLDER "%s", name);
    if (!fs_exists(path)) snprintf(path, sizeof path, "tests/golden/images/%s", name);
    CHECK_OK(fs_read_file(path, &t->whole, &t->size));
}

/* Into t->file; the size is returned. */
static size_t damage(Tools *t, const Damage *d)
{
    load_whole(t, d->name);
    size_t end = d->at + d->removed < t->size ? d->at + d->removed : t->size;
    CHECK_OK(byte_buf_reserve(&t->file, t->size + d->inserted));
    memcpy(t->file.data, t->whole, d->at);
    memcpy(t->file.data + d->at, d->bytes, d->inserted);
    memcpy(t->file.data + d->at + d->inserted, t->whole + end, t->size - end);
    return d->at + d->inserted + (t->size - end);
}

/* The whole, the first pixel, the last one, and one from the middle. */
static Status read_part(Decoder *d, const EncodedImage *file, int part)
{
    int width = 0, height = 0;
    Image pixels;
    TRY(decoder_open(d, file, &width, &height));
    const ImageBox boxes[PARTS] = {
        { 0, 0, width, height },
        { 0, 0, 1, 1 },
        { width - 1, height - 1, 1, 1 },
        { width / 2, height / 2, 1, 1 },
    };
    return decoder_read(d, &boxes[part], &pixels);
}

/* By every way: libjpeg, our decoder, and with the index that pack would make. */
static bool all_say(Tools *t, const EncodedImage *file, Status want)
{
    EncodedImage indexed = *file;
    CHECK_OK(decoder_build_seek_index(t->fast, file->bytes, file->size, 2, &t->index,
                                      &indexed.seek_bytes));
    indexed.seek = t->index.data;
    if (want != OK && indexed.seek_bytes > 0) return false;
    for (int part = 0; part < PARTS; part++) {
        if (read_part(t->stock, file, part) != want || read_part(t->fast, file, part) != want)
            return false;
        if (indexed.seek_bytes > 0 && read_part(t->fast, &indexed, part) != want) return false;
    }
    return true;
}

/* What pack puts in the place of a file has its verdict. */
static bool recoded_says(Tools *t, const EncodedImage *file, Status want)
{
    EncodedImage recoded = { 0 };
    CHECK_OK(recode_jpeg_to_baseline(file->bytes, file->size, &t->recoded, &recoded.size));
    recoded.bytes = t->recoded.data;
    return recoded.size == 0 || all_say(t, &recoded, want);
}

static void tools_create(Tools *t)
{
    *t = (Tools){ 0 };
    CHECK_OK(decoder_create(&t->stock));
    CHECK_OK(decoder_create(&t->fast));
    decoder_use_stock(t->stock, true);
}

static void tools_destroy(Tools *t)
{
    decoder_destroy(t->stock);
    decoder_destroy(t->fast);
    byte_buf_free(&t->file);
    byte_buf_free(&t->index);
    byte_buf_free(&t->recoded);
    mem_free(t->whole);
}

TEST(damaged_files_are_bad_where_pillow_refuses_them)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    int damages = 0, good = 0;
    Tools t;
    tools_create(&t);
    REQUIRE_OK(fs_read_file(FOLDER "verdicts.txt", &text, &bytes));
    const char *line = strchr((const char *)text, '\n'); /* the first one says who made it */
    for (; line && line[1]; line = strchr(line + 1, '\n'), damages++) {
        Damage d;
        REQUIRE(parse(line + 1, &d));
        EncodedImage file = { .size = damage(&t, &d) };
        Status want = d.good ? OK : ERR_DATA;
        file.bytes = t.file.data;
        good += d.good;
        if (all_say(&t, &file, want) && recoded_says(&t, &file, want)) continue;
        fprintf(stderr, "%.*s\n", (int)strcspn(line + 1, "\n"), line + 1);
        CHECK(!"the verdict of Pillow");
    }
    CHECK_INT(damages, DAMAGES);
    CHECK(good > 100 && good < DAMAGES - 100);
    tools_destroy(&t);
    mem_free(text);
}

/* Noise, so that the file is longer than what Pillow reads at a time. */
static void make_large(const JpegSettings *settings, uint8_t **file, size_t *size)
{
    enum { SIDE = 300 };
    static uint8_t pixels[SIDE * SIDE * 4];
    Rng rng = rng_at(5, RNG_TEST, 0, 0);
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)rng_below(&rng, 256);
    CHECK_OK(image_encode_jpeg(pixels, SIDE, SIDE, settings, file, size));
    CHECK(*size > (size_t)1 << 16);
}

/* A segment before the end marker is odd, so the file is decoded whole: it has to stay good. */
TEST(large_files_are_judged_to_their_end)
{
    static const JpegSettings kinds[] = {
        { .channels = 3, .quality = 95 },
        { .channels = 4, .quality = 95 },
        { .channels = 3, .quality = 95, .subsample = true, .restart_rows = 1 },
        { .channels = 1, .quality = 100, .optimize = true },
        { .channels = 3, .quality = 95, .progressive = true },
        { .channels = 3, .quality = 95, .arithmetic = true },
    };
    static const struct {
        uint8_t bytes[8];
        size_t count;
        Status want;
    } ends[] = { { { 0xff, 0xd9, 0xff, 0x02 }, 4, OK }, /* what follows is no part of it */
                 { { 0xff, 0xfe, 0, 4, 1, 2, 0xff, 0xd9 }, 8, OK },
                 { { 0xff, 0x02, 0xff, 0xd9 }, 4, ERR_DATA },
                 { { 0 }, 0, ERR_DATA } };
    Tools t;
    tools_create(&t);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        uint8_t *whole = NULL;
        size_t size = 0;
        make_large(&kinds[k], &whole, &size);
        for (size_t e = 0; e < sizeof ends / sizeof ends[0]; e++) {
            CHECK_OK(byte_buf_reserve(&t.file, size + 8));
            memcpy(t.file.data, whole, size - 2);
            memcpy(t.file.data + size - 2, ends[e].bytes, ends[e].count);
            EncodedImage file = { .bytes = t.file.data, .size = size - 2 + ends[e].count };
            /* half of the last rows is lost */
            if (ends[e].count == 0) file.size -= size / 10;
            if (all_say(&t, &file, ends[e].want)) continue;
            fprintf(stderr, "kind %zu, end %zu\n", k, e);
            CHECK(!"the verdict of Pillow");
        }
        mem_free(whole);
    }
    tools_destroy(&t);
}

/* libjpeg-turbo 3 reads lossless files whole, but not in parts; 2 does not. */
TEST(lossless_files_are_refused_whatever_the_library)
{
    static const uint8_t codes[] = { 0xc3, 0xc7, 0xcb, 0xcf };
    Tools t;
    tools_create(&t);
    load_whole(&t, "444.jpg");
    const uint8_t *frame = memmem(t.whole, t.size, "\xff\xc0\x00\x11", 4);
    REQUIRE(frame != NULL);
    for (size_t i = 0; i < sizeof codes; i++) {
        EncodedImage file = { .bytes = t.whole, .size = t.size };
        t.whole[frame - t.whole + 1] = codes[i];
        CHECK(all_say(&t, &file, ERR_DATA));
        CHECK_STATUS(read_part(t.stock, &file, 0), ERR_DATA);
        CHECK_CONTAINS(status_message(), "a lossless JPEG; only lossy JPEG is supported");
    }
    tools_destroy(&t);
}

TEST(the_version_is_that_of_the_loaded_library)
{
    static const char other[] = "\x7f"
                                "ELF\0 (build \0mozjpeg version 4.1.1 (build 2)\0x",
                      none[] = "text (build 7)\0zlib version 1.3 (build 5)";
    char text[160];
    jpeg_version_of((const uint8_t *)other, sizeof other, text, sizeof text);
    CHECK(strncmp(text, "mozjpeg 4.1.1, compiled with ", 29) == 0);
    jpeg_version_of((const uint8_t *)none, sizeof none, text, sizeof text);
    CHECK(strncmp(text, "libjpeg of unknown version, compiled with libjpeg", 49) == 0);
    jpeg_version_text(text, sizeof text);
    CHECK(strstr(text, "unknown") == NULL);
    CHECK(strncmp(decoder_libraries(), text, strlen(text)) == 0);
}
