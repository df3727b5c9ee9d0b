/* decoder.c - looks at the first bytes and sends the file to the decoder that understands it. */
#include "data/decode/decoder.h"
#include "base/mem.h"
#include "data/decode/decode_check.h"
#include "data/decode/png_decoder.h"
#include <string.h>

#define TRIM_BYTES ((size_t)64 << 20)

struct Decoder {
    JpegDecoder *jpeg;
    ByteBuf pixels;     /* decoded RGB, or grey */
    ByteBuf converted;  /* after a change of channels */
    bool fast_is_sound; /* decode_check_fast */
    bool is_png;
    ImageView png; /* a PNG is decoded whole when it is opened */
};

Status decoder_create(Decoder **out)
{
    *out = NULL;
    Decoder *d = mem_calloc(1, sizeof *d);
    if (!d) return ERR_MEMORY;
    Status status = jpeg_decoder_create(&d->jpeg);
    if (status == OK) status = decode_check_fast(&d->fast_is_sound);
    if (status != OK) {
        decoder_destroy(d);
        return status;
    }
    decoder_use_stock(d, false);
    *out = d;
    return OK;
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
    TRY(png_decoder_read_rgb(file->bytes, file->size, &d->pixels, &d->png));
    *width = d->png.width;
    *height = d->png.height;
    return OK;
}

Status decoder_read(Decoder *d, const ImageBox *box, PixelBox *out)
{
    if (!d->is_png) return jpeg_decoder_read(d->jpeg, box, false, &d->pixels, out);
    *out = image_as_box(&d->png);
    out->pixels += (size_t)box->y * out->stride + (size_t)box->x * (size_t)out->pixel_bytes;
    out->box = *box;
    return OK;
}

Status decoder_decode(Decoder *d, const uint8_t *bytes, size_t size, int channels, ImageView *view)
{
    EncodedImage file = { .bytes = bytes, .size = size };
    ImageBox whole = { 0 };
    PixelBox pixels;
    TRY(decoder_open(d, &file, &whole.width, &whole.height));
    if (d->is_png) {
        *view = d->png;
    } else {
        TRY(jpeg_decoder_read(d->jpeg, &whole, true, &d->pixels, &pixels));
        *view = (ImageView){ pixels.pixels, whole.width, whole.height, pixels.channels };
    }
    return image_convert(view, channels, &d->converted);
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
    PixelBox pixels;
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
