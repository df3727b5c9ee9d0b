/* png_decoder.c - libspng to RGB8, as Pillow converts: alpha and transparency dropped, palettes
 * looked up, no gamma.
 *
 * 16-bit colour keeps the high byte. Damaged ancillary chunks are ignored, damaged pixels are not.
 *
 * libspng and the zlib in it allocate through mem.h. Which of their codes stands for "no memory"
 * depends on who ran out, so the allocator itself remembers that it did. */
#include "data/decode/png_decoder.h"
#include "base/mem.h"
#include <spng.h>
#include <stdbool.h>

#define MAX_CHUNK_BYTES ((size_t)64 << 20)

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
                          ImageView *view)
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
    *view = (ImageView){ .pixels = pixels->data,
                         .width = (int)header.width,
                         .height = (int)header.height,
                         .channels = 3 };
    return OK;
}

Status png_decoder_read_rgb(const uint8_t *bytes, size_t size, ByteBuf *pixels, ImageView *view)
{
    static struct spng_alloc alloc = { png_alloc, png_realloc, png_calloc, mem_free };
    out_of_memory = false;
    spng_ctx *png = spng_ctx_new2(&alloc, 0);
    if (!png) return fail(ERR_MEMORY, "libspng: out of memory");
    Status status = decode_with(png, bytes, size, pixels, view);
    spng_ctx_free(png);
    return out_of_memory ? fail(ERR_MEMORY, "libspng: out of memory") : status;
}
