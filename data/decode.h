/* decode.h - encoded bytes in, RGB or grey pixels out. The only face of libjpeg and libspng. */
#ifndef CONVOY_DATA_DECODE_H
#define CONVOY_DATA_DECODE_H
#include "data/image.h"

typedef struct Decoder Decoder; /* one per thread: library state and pixel buffers at their high-water mark */
Status decoder_create(Decoder **out);
void decoder_destroy(Decoder *d); /* NULL ok */
void decoder_trim(Decoder *d);    /* gives back buffers that one very large image has grown */

/* Decodes a JPEG or PNG, told by its first bytes whatever the file is called, to channels (1 or 3). Pixels are what
 * Pillow's Image.open(f).convert("RGB") (or "L") gives: EXIF orientation and alpha are ignored, CMYK is taken as
 * inverted (Adobe), 16-bit samples keep their high byte (where Pillow clips 16-bit grey at 255: useless as a picture).
 * *view is borrowed until the next call. ERR_DATA with the reason (no path: the caller knows it) for what is no
 * image, is cut short, or is unreasonably large; ERR_MEMORY. */
Status decoder_decode(Decoder *d, const uint8_t *bytes, size_t size, int channels, ImageView *view);

/* The two formats, in their own files. */
struct JpegDecoder;
Status jpeg_decoder_create(struct JpegDecoder **out);
void jpeg_decoder_destroy(struct JpegDecoder *j); /* NULL ok */
Status jpeg_decode_rgb(struct JpegDecoder *j, const uint8_t *bytes, size_t size, ByteBuf *pixels, ImageView *view);
Status png_decode_rgb(const uint8_t *bytes, size_t size, ByteBuf *pixels, ImageView *view);

#define DECODE_MAX_PIXELS                                                                                              \
    ((int64_t)100 * 1000 * 1000) /* 100 Mpix: far above any photograph in a data set, far below a bomb */
#define DECODE_MAX_SIDE 65500
Status decode_check_size(int64_t width, int64_t height); /* ERR_DATA outside the limits */
#endif
