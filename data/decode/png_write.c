/* png_write.c - see png_write.h. */
#include "data/decode/png_write.h"
#include "base/mem.h"
#ifndef CONVOY_NO_PNG
#include <spng.h>
#endif

Status png_write(uint8_t **out, size_t *bytes, const uint8_t *pixels, int width, int height,
                 int channels)
{
#ifdef CONVOY_NO_PNG
    (void)bytes, (void)pixels, (void)width, (void)height, (void)channels;
    *out = NULL;
    return fail(ERR_ENV, "PNG: this convoy was built without libspng");
#else
    static struct spng_alloc alloc = { mem_alloc, mem_realloc, mem_calloc, mem_free };
    struct spng_ihdr header = { .width = (uint32_t)width,
                                .height = (uint32_t)height,
                                .bit_depth = 8,
                                .color_type = channels == 3 ? SPNG_COLOR_TYPE_TRUECOLOR
                                                            : SPNG_COLOR_TYPE_GRAYSCALE };
    *out = NULL;
    spng_ctx *png = spng_ctx_new2(&alloc, SPNG_CTX_ENCODER);
    if (!png) return ERR_MEMORY;
    int code = spng_set_option(png, SPNG_ENCODE_TO_BUFFER, 1);
    if (!code) code = spng_set_ihdr(png, &header);
    if (!code)
        code = spng_encode_image(png, pixels, (size_t)width * (size_t)height * (size_t)channels,
                                 SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
    if (!code) *out = spng_get_png_buffer(png, bytes, &code);
    spng_ctx_free(png);
    return *out ? OK : fail(ERR_MEMORY, "PNG: %s", spng_strerror(code));
#endif
}
