/* decode.c - looks at the first bytes and sends the file to the decoder that understands it. */
#include "data/decode.h"
#include "base/mem.h"
#include <stdbool.h>
#include <string.h>

#define TRIM_BYTES ((size_t)64 << 20)

struct Decoder {
    struct JpegDecoder *jpeg;
    ByteBuf pixels;    /* decoded RGB, or grey */
    ByteBuf converted; /* after a change of channels */
};

Status decoder_create(Decoder **out)
{
    *out = NULL;
    Decoder *d = mem_calloc(1, sizeof *d);
    if (!d) return ERR_MEMORY;
    Status status = jpeg_decoder_create(&d->jpeg);
    if (status != OK) {
        decoder_destroy(d);
        return status;
    }
    *out = d;
    return OK;
}

void decoder_destroy(Decoder *d)
{
    if (!d) return;
    jpeg_decoder_destroy(d->jpeg);
    buf_free(&d->pixels);
    buf_free(&d->converted);
    mem_free(d);
}

void decoder_trim(Decoder *d)
{
    buf_trim(&d->pixels, TRIM_BYTES);
    buf_trim(&d->converted, TRIM_BYTES);
}

Status decode_check_size(int64_t width, int64_t height)
{
    if (width < 1 || height < 1)
        return fail(ERR_DATA, "image of %lld x %lld pixels", (long long)width, (long long)height);
    if (width > DECODE_MAX_SIDE || height > DECODE_MAX_SIDE || width * height > DECODE_MAX_PIXELS)
        return fail(ERR_DATA, "image of %lld x %lld pixels is too large", (long long)width, (long long)height);
    return OK;
}

static bool starts_with(const uint8_t *bytes, size_t size, const char *magic, size_t length)
{
    return size >= length && memcmp(bytes, magic, length) == 0;
}

Status decoder_decode(Decoder *d, const uint8_t *bytes, size_t size, int channels, ImageView *view)
{
    if (starts_with(bytes, size, "\xff\xd8\xff", 3)) TRY(jpeg_decode_rgb(d->jpeg, bytes, size, &d->pixels, view));
    else if (starts_with(bytes, size, "\x89PNG\r\n\x1a\n", 8)) TRY(png_decode_rgb(bytes, size, &d->pixels, view));
    else return fail(ERR_DATA, "neither a JPEG nor a PNG file");
    return image_convert(view, channels, &d->converted);
}
