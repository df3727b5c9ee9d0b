/* Decoding: formats told by content, colour spaces, exact PNG pixels, and every way a file can be
 * bad. */
#include "base/mem.h"
#include "data/decode/decoder.h"
#include "data/decode/image.h"
#include "data/decode/png_write.h"
#include "tests/test.h"
#include "tests/tools/image_write.h"
#include "tests/tools/shapes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { WIDTH = 41, HEIGHT = 29, PIXELS = WIDTH * HEIGHT };

typedef struct File {
    uint8_t *bytes;
    size_t size;
} File;

static uint8_t source[PIXELS * 4]; /* each test is a process of its own */

static void fill_rgb(void)
{
    shapes_draw(5, 1, 0, WIDTH, HEIGHT, source);
}

static File jpeg(JpegSettings settings)
{
    File f = { 0 };
    CHECK_STATUS(image_encode_jpeg(source, WIDTH, HEIGHT, &settings, &f.bytes, &f.size), OK);
    return f;
}

static Decoder *make_decoder(void)
{
    Decoder *d = NULL;
    CHECK_STATUS(decoder_create(&d), OK);
    return d;
}

/* Mean absolute difference of a decoded view to the wanted pixels; 1e9 if the shape is wrong. */
static double difference(const Image *view, const uint8_t *want, int channels)
{
    if (view->box.width != WIDTH || view->box.height != HEIGHT || view->channels != channels)
        return 1e9;
    double sum = 0;
    for (int i = 0; i < PIXELS * channels; i++) sum += abs(view->pixels[i] - want[i]);
    return sum / (PIXELS * channels);
}

static void check_close(File f, const uint8_t *want, int channels, double tolerance)
{
    Decoder *d = make_decoder();
    Image view = { 0 };
    CHECK_STATUS(decoder_decode(d, f.bytes, f.size, channels, &view), OK);
    CHECK_NEAR(difference(&view, want, channels), 0.0, tolerance);
    decoder_destroy(d);
    mem_free(f.bytes);
}

static void check_bad(const uint8_t *bytes, size_t size, const char *reason)
{
    Decoder *d = make_decoder();
    Image view;
    CHECK_STATUS(decoder_decode(d, bytes, size, 3, &view), ERR_DATA);
    CHECK_CONTAINS(status_message(), reason);
    decoder_destroy(d);
}

TEST(jpeg_variants)
{
    fill_rgb();
    check_close(jpeg((JpegSettings){ .channels = 3, .quality = 100 }), source, 3, 1.5);
    check_close(jpeg((JpegSettings){ .channels = 3, .quality = 100, .progressive = true }), source,
                3, 1.5);
    check_close(jpeg((JpegSettings){ .channels = 3, .quality = 100, .subsample = true }), source, 3,
                8.0);
    static uint8_t luma[PIXELS];
    for (int i = 0; i < PIXELS; i++)
        luma[i] = image_luma(source[3 * i], source[3 * i + 1], source[3 * i + 2]);
    check_close(jpeg((JpegSettings){ .channels = 3, .quality = 100 }), luma, 1, 1.0);
}

TEST(grey_jpeg_is_replicated)
{
    fill_rgb();
    static uint8_t three[PIXELS * 3];
    for (int i = 0; i < PIXELS * 3; i++) three[i] = source[i / 3];
    check_close(jpeg((JpegSettings){ .channels = 1, .quality = 100 }), source, 1, 1.0);
    check_close(jpeg((JpegSettings){ .channels = 1, .quality = 100 }), three, 3, 1.0);
}

TEST(cmyk_as_pillow_has_it)
{
    static uint8_t want[PIXELS * 3];
    for (int i = 0; i < PIXELS; i++) {
        /* Smooth planes, so that JPEG changes little; stored inverted: 255 = no ink. */
        uint8_t *p = source + 4 * i;
        int x = i % WIDTH, y = i / WIDTH;
        p[0] = (uint8_t)(4 * x);
        p[1] = (uint8_t)(6 * y);
        p[2] = (uint8_t)(255 - 3 * x);
        p[3] = (uint8_t)(255 - 2 * y);
        for (int c = 0; c < 3; c++) want[3 * i + c] = (uint8_t)((p[c] * p[3] + 127) / 255);
    }
    check_close(jpeg((JpegSettings){ .channels = 4, .quality = 100 }), want, 3, 1.0);
    check_close(jpeg((JpegSettings){ .channels = 4, .quality = 100, .ycck = true }), want, 3, 1.5);
}

static File png(const uint8_t *rows, size_t row_bytes, PngSettings settings)
{
    File f = { 0 };
    CHECK_STATUS(image_encode_png(rows, row_bytes, WIDTH, HEIGHT, &settings, &f.bytes, &f.size),
                 OK);
    return f;
}

TEST(png_colour_types_are_exact)
{
    static uint8_t rows[PIXELS * 8], want[PIXELS * 3], wide[PIXELS * 6];
    fill_rgb();
    check_close(png(source, WIDTH * 3, (PngSettings){ .colour_type = 2, .bit_depth = 8 }), source,
                3, 0.0);
    for (int i = 0; i < PIXELS; i++) {
        memcpy(rows + 4 * i, source + 3 * i, 3);
        rows[4 * i + 3] = (uint8_t)i; /* alpha is dropped, not applied */
    }
    check_close(png(rows, WIDTH * 4, (PngSettings){ .colour_type = 6, .bit_depth = 8 }), source, 3,
                0.0);
    for (int i = 0; i < PIXELS * 3; i++) {
        uint16_t v = (uint16_t)(source[i] << 8 | (i & 255)); /* the low byte is cut off */
        memcpy(wide + 2 * i, &v, 2);
    }
    check_close(png(wide, WIDTH * 6, (PngSettings){ .colour_type = 2, .bit_depth = 16 }), source, 3,
                0.0);
    for (int i = 0; i < PIXELS * 3; i++) want[i] = source[i / 3];
    check_close(png(source, WIDTH, (PngSettings){ .colour_type = 0, .bit_depth = 8 }), want, 3,
                0.0);
    check_close(png(source, WIDTH, (PngSettings){ .colour_type = 0, .bit_depth = 8 }), source, 1,
                0.0);
    static const uint8_t palette[] = { 255, 0, 0, 0, 255, 0, 9, 8, 7 };
    for (int i = 0; i < PIXELS; i++) {
        rows[i] = (uint8_t)(i % 3);
        memcpy(want + 3 * i, palette + 3 * (i % 3), 3);
    }
    check_close(
        png(rows, WIDTH,
            (PngSettings){
                .colour_type = 3, .bit_depth = 8, .palette = palette, .palette_entries = 3 }),
        want, 3, 0.0);
}

TEST(what_png_write_makes_is_read_back)
{
    File f;
    fill_rgb();
    REQUIRE_OK(png_write(&f.bytes, &f.size, source, WIDTH, HEIGHT, 3));
    check_close(f, source, 3, 0);
    REQUIRE_OK(png_write(&f.bytes, &f.size, source, WIDTH, HEIGHT, 1));
    check_close(f, source, 1, 0);
}

TEST(not_an_image)
{
    static const char text[] = "this is a text file, whatever its name says";
    check_bad((const uint8_t *)text, sizeof text, "neither a JPEG nor a PNG");
    check_bad((const uint8_t *)text, 1, "neither a JPEG nor a PNG");
    check_bad((const uint8_t *)"\xff\xd8\xff\xe0", 4, "");
    check_bad((const uint8_t *)"\x89PNG\r\n\x1a\n", 8, "PNG");
}

TEST(truncated_jpegs_are_bad)
{
    fill_rgb();
    static const JpegSettings kinds[] = { { .channels = 3, .quality = 90 },
                                          { .channels = 3, .quality = 90, .subsample = true },
                                          { .channels = 3, .quality = 90, .progressive = true },
                                          { .channels = 1, .quality = 90 } };
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        File f = jpeg(kinds[k]);
        for (int part = 1; part < 16; part++) check_bad(f.bytes, f.size * (size_t)part / 16, "");
        mem_free(f.bytes);
    }
}

TEST(truncated_pngs_are_bad)
{
    fill_rgb();
    File f = png(source, WIDTH * 3, (PngSettings){ .colour_type = 2, .bit_depth = 8 });
    for (int part = 1; part < 16; part++) check_bad(f.bytes, f.size * (size_t)part / 16, "PNG");
    mem_free(f.bytes);
}

TEST(decoder_recovers_after_bad_files)
{
    fill_rgb();
    File f = jpeg((JpegSettings){ .channels = 3, .quality = 100 });
    Decoder *d = make_decoder();
    Image view = { 0 };
    for (int i = 0; i < 20; i++) {
        CHECK_STATUS(decoder_decode(d, f.bytes, f.size / 2, 3, &view), ERR_DATA);
        CHECK_STATUS(decoder_decode(d, f.bytes, f.size, 3, &view), OK);
        CHECK_NEAR(difference(&view, source, 3), 0.0, 1.5);
    }
    decoder_destroy(d);
    mem_free(f.bytes);
}

/* Sets the size in the frame header of a baseline JPEG. */
static void set_frame_size(File f, int width, int height)
{
    for (size_t i = 2; i + 9 < f.size;) {
        size_t length = (size_t)f.bytes[i + 2] << 8 | f.bytes[i + 3];
        if (f.bytes[i + 1] == 0xc0) {
            f.bytes[i + 5] = (uint8_t)(height >> 8);
            f.bytes[i + 6] = (uint8_t)height;
            f.bytes[i + 7] = (uint8_t)(width >> 8);
            f.bytes[i + 8] = (uint8_t)width;
            return;
        }
        i += 2 + length;
    }
    CHECK(!"no frame header");
}

TEST(bombs_are_refused_by_their_header)
{
    fill_rgb();
    File f = jpeg((JpegSettings){ .channels = 3, .quality = 90 });
    set_frame_size(f, 60000, 60000);
    check_bad(f.bytes, f.size, "60000 x 60000 pixels is too large");
    set_frame_size(f, WIDTH, 0);
    check_bad(f.bytes, f.size, "");
    mem_free(f.bytes);
}

/* Of an SOS marker, or of the marker that ends its scan; 0 if there is none from there on. */
static size_t find_marker(File f, size_t from, bool start)
{
    for (size_t i = from; i + 1 < f.size; i++) {
        const uint8_t code = f.bytes[i + 1];
        if (f.bytes[i] == 0xff &&
            (start ? code == 0xda : code != 0 && (code < 0xd0 || code > 0xd7)))
            return i;
    }
    return 0;
}

/* The first scan of a progressive file, again and again: small files that would cost minutes. */
static File repeat_scan(File f, int times)
{
    const size_t at = find_marker(f, 2, true), end = find_marker(f, at + 2, false), scan = end - at;
    File long_one = { .size = f.size + scan * (size_t)times };
    long_one.bytes = mem_alloc(long_one.size);
    CHECK(long_one.bytes && at > 0 && end > at);
    memcpy(long_one.bytes, f.bytes, end);
    for (int i = 0; i < times; i++)
        memcpy(long_one.bytes + end + scan * (size_t)i, f.bytes + at, scan);
    memcpy(long_one.bytes + end + scan * (size_t)times, f.bytes + end, f.size - end);
    return long_one;
}

TEST(bombs_of_many_scans_are_refused)
{
    fill_rgb();
    File f = jpeg((JpegSettings){ .channels = 3, .quality = 90, .progressive = true });
    File few = repeat_scan(f, 100), many = repeat_scan(f, 2000);
    Image view;
    Decoder *d = make_decoder();
    CHECK_STATUS(decoder_decode(d, few.bytes, few.size, 3, &view), OK);
    decoder_destroy(d);
    check_bad(many.bytes, many.size, "too many scans");
    mem_free(f.bytes);
    mem_free(few.bytes);
    mem_free(many.bytes);
}

TEST(flipped_bytes_never_crash)
{
    fill_rgb();
    File files[2] = { jpeg((JpegSettings){ .channels = 3, .quality = 90, .subsample = true }),
                      png(source, WIDTH * 3, (PngSettings){ .colour_type = 2, .bit_depth = 8 }) };
    Decoder *d = make_decoder();
    int64_t ok = 0, bad = 0;
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < files[k].size; i += 1 + files[k].size / 400) {
            Image view;
            files[k].bytes[i] ^= 0x55;
            Status status = decoder_decode(d, files[k].bytes, files[k].size, 3, &view);
            CHECK(status == OK || status == ERR_DATA);
            ok += status == OK;
            bad += status != OK;
            files[k].bytes[i] ^= 0x55;
        }
    }
    CHECK(ok > 0 && bad > 0);
    decoder_destroy(d);
    for (int k = 0; k < 2; k++) mem_free(files[k].bytes);
}

TEST(no_memory_is_not_a_bad_png)
{
    fill_rgb();
    File f = { 0 };
    PngSettings settings = { .colour_type = 2, .bit_depth = 8 };
    REQUIRE_OK(image_encode_png(source, WIDTH * 3, WIDTH, HEIGHT, &settings, &f.bytes, &f.size));
    int64_t n = 0, used = 0;
    while (n <= used && n < 100) {
        Decoder *d = make_decoder();
        Image view;
        int64_t before = mem_allocation_count();
        mem_fail_at(++n);
        Status status = decoder_decode(d, f.bytes, f.size, 3, &view);
        used = mem_allocation_count() - before;
        mem_fail_at(0);
        CHECK_STATUS(status, n <= used ? ERR_MEMORY : OK);
        CHECK_STATUS(decoder_decode(d, f.bytes, f.size, 3, &view), OK);
        decoder_destroy(d);
    }
    CHECK(n > 4 && n < 100); /* the pixels, and some in libspng and zlib */
    mem_free(f.bytes);
}

/* libjpeg calls malloc itself, so the process is really left without memory. The sanitizers would
 * not survive that. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
typedef struct Hoard {
    struct Hoard *next;
} Hoard;

static Hoard *starve(struct rlimit *before)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld", &pages) == 1 && getrlimit(RLIMIT_AS, before) == 0);
    if (file) fclose(file);
    struct rlimit now = { .rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE),
                          .rlim_max = before->rlim_max };
    CHECK(setrlimit(RLIMIT_AS, &now) == 0);
    Hoard *all = NULL;
    for (size_t bytes = (size_t)1 << 20; bytes >= (size_t)1 << 15; bytes /= 2)
        for (Hoard *one; (one = mem_alloc(bytes)); all = one) one->next = all;
    return all;
}

static void feed(Hoard *all, const struct rlimit *before)
{
    for (Hoard *next; all; all = next) {
        next = all->next;
        mem_free(all);
    }
    CHECK(setrlimit(RLIMIT_AS, before) == 0);
}

TEST(no_memory_is_not_a_bad_jpeg)
{
    enum { SIDE = 700 }; /* a progressive file: all coefficients are in memory at once, 1 MB */
    static uint8_t grey[SIDE * SIDE];
    JpegSettings settings = { .channels = 1, .quality = 90, .progressive = true };
    File f = { 0 };
    REQUIRE_OK(image_encode_jpeg(grey, SIDE, SIDE, &settings, &f.bytes, &f.size));
    Decoder *d = make_decoder();
    Image view;
    struct rlimit before;
    Hoard *all = starve(&before);
    Status status = decoder_decode(d, f.bytes, f.size, 1, &view);
    feed(all, &before);
    CHECK_STATUS(status, ERR_MEMORY);
    CHECK_OK(decoder_decode(d, f.bytes, f.size, 1, &view)); /* the decoder is none the worse */
    decoder_destroy(d);
    mem_free(f.bytes);
}
#endif

TEST(images_may_be_as_large_as_the_limits)
{
    const int64_t wide = IMAGE_MAX_PIXELS / 50000;
    CHECK_OK(image_check_size(1, 1));
    CHECK_OK(image_check_size(IMAGE_MAX_SIDE, 1));
    CHECK_OK(image_check_size(1, IMAGE_MAX_SIDE));
    CHECK_OK(image_check_size(50000, wide));
    CHECK_STATUS(image_check_size(50000, wide + 1), ERR_DATA);
    CHECK_CONTAINS(status_message(), "image of 50000 x 2001 pixels is too large");
    CHECK_STATUS(image_check_size(IMAGE_MAX_SIDE + 1, 1), ERR_DATA);
    CHECK_STATUS(image_check_size(1, IMAGE_MAX_SIDE + 1), ERR_DATA);
    CHECK_STATUS(image_check_size(0, 1), ERR_DATA);
    CHECK_STATUS(image_check_size(1, 0), ERR_DATA);
    CHECK_CONTAINS(status_message(), "image of 1 x 0 pixels");
}
