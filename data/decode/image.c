/* image.c - the two channel conversions, and the limits. */
#include "data/decode/image.h"

Status image_check_size(int64_t width, int64_t height)
{
    if (width < 1 || height < 1)
        return fail(ERR_DATA, "image of %lld x %lld pixels", (long long)width, (long long)height);
    if (width > IMAGE_MAX_SIDE || height > IMAGE_MAX_SIDE || width * height > IMAGE_MAX_PIXELS)
        return fail(ERR_DATA, "image of %lld x %lld pixels is too large", (long long)width,
                    (long long)height);
    return OK;
}

static void to_luma(const uint8_t *rgb, size_t pixels, uint8_t *out)
{
    for (size_t i = 0; i < pixels; i++)
        out[i] = image_luma(rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]);
}

static void replicate(const uint8_t *grey, size_t pixels, uint8_t *out)
{
    for (size_t i = 0; i < pixels; i++) out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = grey[i];
}

Status image_convert(ImageView *view, int channels, ByteBuf *scratch)
{
    if (view->channels == channels) return OK;
    size_t pixels = (size_t)view->width * (size_t)view->height;
    TRY(byte_buf_reserve(scratch, pixels * (size_t)channels));
    if (channels == 1) to_luma(view->pixels, pixels, scratch->data);
    else replicate(view->pixels, pixels, scratch->data);
    view->pixels = scratch->data;
    view->channels = channels;
    return OK;
}

PixelBox image_as_box(const ImageView *view)
{
    return (PixelBox){ .pixels = view->pixels,
                       .stride = (size_t)view->width * (size_t)view->channels,
                       .channels = view->channels,
                       .pixel_bytes = view->channels,
                       .box = { .width = view->width, .height = view->height } };
}

Status image_to_grey(PixelBox *box, ByteBuf *scratch)
{
    if (box->channels == 1) return OK;
    size_t width = (size_t)box->box.width, height = (size_t)box->box.height,
           step = (size_t)box->pixel_bytes;
    TRY(byte_buf_reserve(scratch, width * height));
    for (size_t y = 0; y < height; y++) {
        const uint8_t *in = box->pixels + y * box->stride;
        uint8_t *out = scratch->data + y * width;
        for (size_t x = 0; x < width; x++, in += step) out[x] = image_luma(in[0], in[1], in[2]);
    }
    box->pixels = scratch->data;
    box->stride = width;
    box->channels = box->pixel_bytes = 1;
    return OK;
}
