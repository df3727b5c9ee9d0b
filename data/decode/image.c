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

Status image_convert(Image *image, int channels, ByteBuf *scratch)
{
    if (image->channels == channels) return OK;
    const Image from = *image;
    const size_t width = (size_t)from.box.width, height = (size_t)from.box.height;
    TRY(byte_buf_reserve(scratch, width * height * (size_t)channels));
    uint8_t *out = scratch->data;
    for (size_t y = 0; y < height; y++) {
        const uint8_t *in = from.pixels + y * from.stride;
        for (size_t x = 0; x < width; x++, in += from.pixel_bytes, out += channels)
            if (channels == 1) out[0] = image_luma(in[0], in[1], in[2]);
            else out[0] = out[1] = out[2] = in[0];
    }
    *image = image_packed(scratch->data, from.box.width, from.box.height, channels);
    image->box = from.box;
    return OK;
}
