/* decode_png.c - libspng to RGB8, as Pillow converts: alpha and transparency dropped, palettes looked up, no gamma.
 *
 * 16-bit colour keeps the high byte. Damaged ancillary chunks are ignored, damaged pixels are not. */
#include "data/decode.h"
#include <spng.h>

#define MAX_CHUNK_BYTES ((size_t)64 << 20)

static Status decode_with(spng_ctx *png, const uint8_t *bytes, size_t size, ByteBuf *pixels, ImageView *view)
{
    struct spng_ihdr header;
    size_t total = 0;
    int code = spng_set_crc_action(png, SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
    if (!code) code = spng_set_image_limits(png, DECODE_MAX_SIDE, DECODE_MAX_SIDE);
    if (!code) code = spng_set_chunk_limits(png, MAX_CHUNK_BYTES, MAX_CHUNK_BYTES);
    if (!code) code = spng_set_png_buffer(png, bytes, size);
    if (!code) code = spng_get_ihdr(png, &header);
    if (code) return fail(ERR_DATA, "PNG: %s", spng_strerror(code));
    TRY(decode_check_size(header.width, header.height));
    code = spng_decoded_image_size(png, SPNG_FMT_RGB8, &total);
    if (code) return fail(ERR_DATA, "PNG: %s", spng_strerror(code));
    TRY(buf_reserve(pixels, total));
    code = spng_decode_image(png, pixels->data, total, SPNG_FMT_RGB8, 0);
    if (code) return fail(ERR_DATA, "PNG: %s", spng_strerror(code));
    *view =
        (ImageView){ .pixels = pixels->data, .width = (int)header.width, .height = (int)header.height, .channels = 3 };
    return OK;
}

Status png_decode_rgb(const uint8_t *bytes, size_t size, ByteBuf *pixels, ImageView *view)
{
    spng_ctx *png = spng_ctx_new(0);
    if (!png) return fail(ERR_MEMORY, "libspng: out of memory");
    Status status = decode_with(png, bytes, size, pixels, view);
    spng_ctx_free(png);
    return status;
}
