/* image.c - growing scratch buffers and the two channel conversions. */
#include "data/image.h"
#include "base/mem.h"

Status buf_reserve(ByteBuf *b, size_t bytes)
{
    if (bytes <= b->capacity) return OK;
    size_t wanted = b->capacity + b->capacity / 2;
    if (wanted < bytes) wanted = bytes;
    uint8_t *data = mem_realloc(b->data, wanted);
    if (!data) return ERR_MEMORY;
    b->data = data;
    b->capacity = wanted;
    return OK;
}

void buf_trim(ByteBuf *b, size_t limit_bytes)
{
    if (b->capacity > limit_bytes) buf_free(b);
}

void buf_free(ByteBuf *b)
{
    mem_free(b->data);
    *b = (ByteBuf){ 0 };
}

static void to_luma(const uint8_t *rgb, size_t pixels, uint8_t *out)
{
    for (size_t i = 0; i < pixels; i++) out[i] = image_luma(rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]);
}

static void replicate(const uint8_t *grey, size_t pixels, uint8_t *out)
{
    for (size_t i = 0; i < pixels; i++) out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = grey[i];
}

Status image_convert(ImageView *view, int channels, ByteBuf *scratch)
{
    if (view->channels == channels) return OK;
    size_t pixels = (size_t)view->width * (size_t)view->height;
    TRY(buf_reserve(scratch, pixels * (size_t)channels));
    if (channels == 1) to_luma(view->pixels, pixels, scratch->data);
    else replicate(view->pixels, pixels, scratch->data);
    view->pixels = scratch->data;
    view->channels = channels;
    return OK;
}
