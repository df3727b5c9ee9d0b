/* image.h - encoded and decoded images. Shared by sources, decoder, resize and loader. */
#ifndef CONVOY_DATA_DECODE_IMAGE_H
#define CONVOY_DATA_DECODE_IMAGE_H
#include "base/byte_buf.h"

/* a JPEG or PNG file in memory, told by its first bytes whatever the file is called */
typedef struct EncodedImage {
    const uint8_t *bytes;
    size_t size;
    const uint8_t *seek; /* its seek index (seek_index.h), used if it is this file's; NULL: none */
    size_t seek_bytes;
} EncodedImage;

typedef struct ImageBox { /* a part of an image; pixels from its top left */
    int x, y, width, height;
} ImageBox;

/* An image, or a part of one: uint8 pixels that somebody else owns. */
typedef struct Image {
    const uint8_t *pixels; /* its top left */
    size_t stride;         /* bytes from row to row */
    int channels;          /* 1 or 3 */
    int pixel_bytes;       /* channels, or 4: three channels and a byte that means nothing */
    ImageBox box;          /* where in the whole image it lies */
} Image;

/* A whole image whose rows lie packed, [height, width, channels]. */
static inline Image image_packed(const uint8_t *pixels, int width, int height, int channels)
{
    return (Image){ .pixels = pixels,
                    .stride = (size_t)width * (size_t)channels,
                    .channels = channels,
                    .pixel_bytes = channels,
                    .box = { .width = width, .height = height } };
}

static inline size_t image_bytes(const Image *image) /* of its pixels, packed */
{
    return (size_t)image->box.width * (size_t)image->box.height * (size_t)image->channels;
}

/* Pillow's luma: the sum of the weights is 2^16, so a grey pixel stays what it was. */
static inline uint8_t image_luma(uint32_t r, uint32_t g, uint32_t b)
{
    return (uint8_t)((19595u * r + 38470u * g + 7471u * b + 0x8000u) >> 16);
}

/* 100 Mpix: far above any photograph in a data set, far below a bomb */
#define IMAGE_MAX_PIXELS ((int64_t)100 * 1000 * 1000)
#define IMAGE_MAX_SIDE   65500
Status image_check_size(int64_t width, int64_t height); /* ERR_DATA outside the limits */

/* Gives *image the wanted number of channels (1 or 3), packed in scratch if pixels must change; an
 * image that already has them is untouched. */
Status image_convert(Image *image, int channels, ByteBuf *scratch);
#endif
