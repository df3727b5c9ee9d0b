/* decoder.h - encoded bytes in, RGB or grey pixels out. The only face of libjpeg and libspng. */
#ifndef CONVOY_DATA_DECODE_DECODER_H
#define CONVOY_DATA_DECODE_DECODER_H
#include "data/decode/image.h"
#include <stdbool.h>

/* one per thread: library state and pixel buffers at their high-water mark */
typedef struct Decoder Decoder;
Status decoder_create(Decoder **out);
void decoder_destroy(Decoder *d); /* NULL ok */
void decoder_trim(Decoder *d);    /* gives back buffers that one very large image has grown */

/* Leaves Huffman decoding to libjpeg. The pixels are the same. Off at first, where
 * decode_check_fast finds the fast way sound. */
void decoder_use_stock(Decoder *d, bool stock);

/* Reads the header; then decoder_read makes any part of the picture, once. The file is borrowed
 * until then. Pixels are what Pillow's Image.open(f).convert("RGB") gives, or those of a grey JPEG,
 * in one channel: EXIF orientation and alpha are ignored, CMYK is taken as inverted (Adobe), 16-bit
 * samples keep their high byte (where Pillow clips 16-bit grey at 255: useless as a picture). The
 * pixels of a part are those of the same part of the whole.
 *
 * ERR_DATA with the reason (no path: the caller knows it) for what is no image, is cut short, or is
 * unreasonably large; ERR_MEMORY. A JPEG is cut short if no end marker follows its first scan
 * header, or if a file of several scans ends within one: the same answer for every part of the
 * picture. *out is borrowed until the next call. */
Status decoder_open(Decoder *d, const EncodedImage *file, int *width, int *height);
Status decoder_read(Decoder *d, const ImageBox *box, PixelBox *out);

/* From now on decoder_read also makes a seek index of each file that comes without one and can have
 * one; step as in seek_index.h, 0: no more. decoder_index gives that of the file just read, *bytes
 * 0: none; borrowed until the next. */
void decoder_make_index(Decoder *d, int step);
void decoder_index(const Decoder *d, const uint8_t **index, size_t *bytes);

/* Both at once for the whole picture, packed, in channels (1 or 3). */
Status decoder_decode(Decoder *d, const uint8_t *bytes, size_t size, int channels, ImageView *view);

/* Do the two ways to decode agree in this process? decode_check.c; found out once, then remembered.
 * ERR_MEMORY. */
Status decode_check_fast(bool *sound);

/* The two formats, in their own files. */
struct JpegDecoder;
Status jpeg_decoder_create(struct JpegDecoder **out);
void jpeg_decoder_destroy(struct JpegDecoder *j); /* NULL ok */
void jpeg_decoder_trim(struct JpegDecoder *j, size_t limit_bytes);
void jpeg_decoder_use_stock(struct JpegDecoder *j, bool stock);
Status jpeg_decoder_open(struct JpegDecoder *j, const EncodedImage *file, int *width, int *height);
/* packed: colour in 3 bytes a pixel; otherwise in 4, which is faster. */
Status jpeg_decoder_read(struct JpegDecoder *j, const ImageBox *box, bool packed, ByteBuf *pixels,
                         PixelBox *out);
/* How many images the fast path has decoded, and how many of them it had to leave to libjpeg; since
 * creation. */
typedef struct JpegDecoderCounts {
    int64_t fast, left;
} JpegDecoderCounts;
JpegDecoderCounts jpeg_decoder_counts(const struct JpegDecoder *j);
JpegDecoderCounts decoder_counts(const Decoder *d);
void jpeg_decoder_make_index(struct JpegDecoder *j, int step);
void jpeg_decoder_index(const struct JpegDecoder *j, const uint8_t **index, size_t *bytes);
Status png_decoder_read_rgb(const uint8_t *bytes, size_t size, ByteBuf *pixels, ImageView *view);

/* 100 Mpix: far above any photograph in a data set, far below a bomb */
#define DECODER_MAX_PIXELS ((int64_t)100 * 1000 * 1000)
#define DECODER_MAX_SIDE   65500
Status decoder_check_size(int64_t width, int64_t height); /* ERR_DATA outside the limits */
#endif
