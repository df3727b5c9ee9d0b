/* decoder.c - looks at the first bytes and sends the file to the decoder that understands it. */
#include "data/decode/decoder.h"
#include "base/mem.h"
#include "data/decode/decode_check.h"
#include "data/decode/jpeg_version.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* ---- PNG ----
 *
 * libspng to RGB8, as Pillow converts: alpha and transparency dropped, palettes looked up, no
 * gamma, of 16-bit colour the high byte. Damaged ancillary chunks are ignored, damaged pixels are
 * not.
 *
 * libspng and the zlib in it allocate through mem.h. Which of their codes stands for "no memory"
 * depends on who ran out, so the allocator itself remembers that it did. */

#ifndef CONVOY_NO_PNG
#include <spng.h>
#define MAX_CHUNK_BYTES ((size_t)64 << 20)
#define PNG_LIBRARY     "libspng ", spng_version_string()

static _Thread_local bool out_of_memory; /* libspng hands its allocator no cookie */

static void *remember(void *p)
{
    if (!p) out_of_memory = true;
    return p;
}

static void *png_alloc(size_t bytes)
{
    return remember(mem_alloc(bytes));
}

static void *png_realloc(void *p, size_t bytes)
{
    return remember(mem_realloc(p, bytes));
}

static void *png_calloc(size_t count, size_t size)
{
    return remember(mem_calloc(count, size));
}

static Status decode_with(spng_ctx *png, const uint8_t *bytes, size_t size, ByteBuf *pixels,
                          Image *out)
{
    struct spng_ihdr header;
    size_t total = 0;
    int code = spng_set_crc_action(png, SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
    if (!code) code = spng_set_image_limits(png, IMAGE_MAX_SIDE, IMAGE_MAX_SIDE);
    if (!code) code = spng_set_chunk_limits(png, MAX_CHUNK_BYTES, MAX_CHUNK_BYTES);
    if (!code) code = spng_set_png_buffer(png, bytes, size);
    if (!code) code = spng_get_ihdr(png, &header);
    if (code) return fail(ERR_DATA, "PNG: %s", spng_strerror(code));
    TRY(image_check_size(header.width, header.height));
    code = spng_decoded_image_size(png, SPNG_FMT_RGB8, &total);
    if (code) return fail(ERR_DATA, "PNG: %s", spng_strerror(code));
    TRY(byte_buf_reserve(pixels, total));
    code = spng_decode_image(png, pixels->data, total, SPNG_FMT_RGB8, 0);
    if (code) return fail(ERR_DATA, "PNG: %s", spng_strerror(code));
    *out = image_packed(pixels->data, (int)header.width, (int)header.height, 3);
    return OK;
}

/* The whole picture in 3 channels. Errors as of decoder_open. */
static Status read_png(const uint8_t *bytes, size_t size, ByteBuf *pixels, Image *out)
{
    static struct spng_alloc alloc = { png_alloc, png_realloc, png_calloc, mem_free };
    out_of_memory = false;
    spng_ctx *png = spng_ctx_new2(&alloc, 0);
    if (!png) return fail(ERR_MEMORY, "libspng: out of memory");
    Status status = decode_with(png, bytes, size, pixels, out);
    spng_ctx_free(png);
    return out_of_memory ? fail(ERR_MEMORY, "libspng: out of memory") : status;
}
#else
#define PNG_LIBRARY "no libspng: PNG files are refused", ""

static Status read_png(const uint8_t *bytes, size_t size, ByteBuf *pixels, Image *out)
{
    (void)bytes, (void)size, (void)pixels, (void)out;
    return fail(ERR_DATA, "PNG: this convoy was built without libspng");
}
#endif

/* ---- all formats ---- */

#define TRIM_BYTES ((size_t)64 << 20)

struct Decoder {
    JpegDecoder *jpeg;
    ByteBuf pixels;     /* decoded RGB, or grey */
    ByteBuf converted;  /* after a change of channels */
    bool fast_is_sound; /* decode_check_fast */
    bool is_png;
    Image png; /* a PNG is decoded whole when it is opened */
};

Status decoder_create(Decoder **out)
{
    *out = NULL;
    Decoder *d = mem_calloc(1, sizeof *d);
    if (!d) return ERR_MEMORY;
    Status status = jpeg_decoder_create(&d->jpeg);
    if (status == OK) status = decode_check_fast(&d->fast_is_sound);
    if (status == OK) decoder_use_stock(d, false);
    if (status == OK) *out = d;
    else decoder_destroy(d);
    return status;
}

void decoder_destroy(Decoder *d)
{
    if (!d) return;
    jpeg_decoder_destroy(d->jpeg);
    byte_buf_free(&d->pixels);
    byte_buf_free(&d->converted);
    mem_free(d);
}

void decoder_trim(Decoder *d)
{
    jpeg_decoder_trim(d->jpeg, TRIM_BYTES);
    byte_buf_trim(&d->pixels, TRIM_BYTES);
    byte_buf_trim(&d->converted, TRIM_BYTES);
}

void decoder_use_stock(Decoder *d, bool stock)
{
    jpeg_decoder_use_stock(d->jpeg, stock || !d->fast_is_sound);
}

JpegDecoderCounts decoder_counts(const Decoder *d)
{
    return jpeg_decoder_counts(d->jpeg);
}

static bool starts_with(const uint8_t *bytes, size_t size, const char *magic, size_t length)
{
    return size >= length && memcmp(bytes, magic, length) == 0;
}

static bool is_jpeg(const uint8_t *bytes, size_t size)
{
    return starts_with(bytes, size, "\xff\xd8\xff", 3);
}

Status decoder_open(Decoder *d, const EncodedImage *file, int *width, int *height)
{
    d->is_png = starts_with(file->bytes, file->size, "\x89PNG\r\n\x1a\n", 8);
    if (is_jpeg(file->bytes, file->size)) return jpeg_decoder_open(d->jpeg, file, width, height);
    if (!d->is_png) return fail(ERR_DATA, "neither a JPEG nor a PNG file");
    TRY(read_png(file->bytes, file->size, &d->pixels, &d->png));
    *width = d->png.box.width;
    *height = d->png.box.height;
    return OK;
}

Status decoder_read(Decoder *d, const ImageBox *box, Image *out)
{
    if (!d->is_png) return jpeg_decoder_read(d->jpeg, box, false, &d->pixels, out);
    *out = d->png;
    out->pixels += (size_t)box->y * out->stride + (size_t)box->x * (size_t)out->pixel_bytes;
    out->box = *box;
    return OK;
}

Status decoder_decode(Decoder *d, const uint8_t *bytes, size_t size, int channels, Image *out)
{
    EncodedImage file = { .bytes = bytes, .size = size };
    ImageBox whole = { 0 };
    TRY(decoder_open(d, &file, &whole.width, &whole.height));
    if (d->is_png) *out = d->png;
    else TRY(jpeg_decoder_read(d->jpeg, &whole, true, &d->pixels, out));
    return image_convert(out, channels, &d->converted);
}

void decoder_make_index(Decoder *d, int step)
{
    jpeg_decoder_make_index(d->jpeg, step);
}

void decoder_index(const Decoder *d, const uint8_t **index, size_t *bytes)
{
    *bytes = 0;
    if (!d->is_png) jpeg_decoder_index(d->jpeg, index, bytes);
}

Status decoder_build_seek_index(Decoder *d, const uint8_t *file, size_t size, int step,
                                ByteBuf *out, size_t *bytes)
{
    *bytes = 0;
    EncodedImage image = { .bytes = file, .size = size };
    ImageBox one = { .width = 1, .height = 1 }; /* something has to be read; the index is of all */
    Image pixels;
    const uint8_t *index = NULL;
    Status status = is_jpeg(file, size) ? decoder_open(d, &image, &one.x, &one.y) : ERR_DATA;
    one.x = one.y = 0;
    jpeg_decoder_make_index(d->jpeg, step);
    if (status == OK) status = decoder_read(d, &one, &pixels);
    jpeg_decoder_make_index(d->jpeg, 0);
    if (status == ERR_DATA) return OK; /* a bad file is bad without an index too */
    TRY(status);
    decoder_index(d, &index, bytes);
    TRY(byte_buf_reserve(out, *bytes));
    if (*bytes) memcpy(out->data, index, *bytes);
    return OK;
}

/* ---- which libraries ---- */

const char *decoder_libraries(void)
{
    static char text[256];
    char jpeg[128];
    bool fast = false;
    if (decode_check_fast(&fast) != OK) fast = false;
    jpeg_version_text(jpeg, sizeof jpeg);
    snprintf(text, sizeof text, "%s (data.decoder fast: %s), %s%s", jpeg, fast ? "on" : "off",
             PNG_LIBRARY);
    return text;
}
