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

/* Pixels that somebody else owns: uint8, rows packed, [height, width, channels]. */
typedef struct ImageView {
    const uint8_t *pixels;
    int width, height, channels; /* channels 1 or 3 */
} ImageView;

typedef struct ImageBox { /* a part of an image; pixels from its top left */
    int x, y, width, height;
} ImageBox;

/* A part of an image that somebody else owns, as a decoder leaves it. */
typedef struct PixelBox {
    const uint8_t *pixels; /* its top left */
    size_t stride;         /* bytes from row to row */
    int channels;          /* 1 or 3 */
    int pixel_bytes;       /* channels, or 4: three channels and a byte that means nothing */
    ImageBox box;          /* where in the image it lies */
} PixelBox;

/* Pillow's luma: the sum of the weights is 2^16, so a grey pixel stays what it was. */
static inline uint8_t image_luma(uint32_t r, uint32_t g, uint32_t b)
{
    return (uint8_t)((19595u * r + 38470u * g + 7471u * b + 0x8000u) >> 16);
}

/* 100 Mpix: far above any photograph in a data set, far below a bomb */
#define IMAGE_MAX_PIXELS ((int64_t)100 * 1000 * 1000)
#define IMAGE_MAX_SIDE   65500
Status image_check_size(int64_t width, int64_t height); /* ERR_DATA outside the limits */

/* Gives *view the wanted number of channels (1 or 3), using scratch if pixels must change; a view
 * that already has them is untouched. */
Status image_convert(ImageView *view, int channels, ByteBuf *scratch);

PixelBox image_as_box(const ImageView *view); /* all of it */
/* Makes a colour box grey, using scratch; a grey one is untouched. */
Status image_to_grey(PixelBox *box, ByteBuf *scratch);
#endif
