/* jpeg_decoder.h - the half of decoder.h that reads JPEG files; open, read and indices as there. */
#ifndef CONVOY_DATA_DECODE_JPEG_DECODER_H
#define CONVOY_DATA_DECODE_JPEG_DECODER_H
#include "data/decode/image.h"
#include <stdbool.h>

typedef struct JpegDecoder JpegDecoder;
Status jpeg_decoder_create(JpegDecoder **out);
void jpeg_decoder_destroy(JpegDecoder *j); /* NULL ok */
FREED_BY_POINTER(JpegDecoder, jpeg_decoder_destroy)
void jpeg_decoder_trim(JpegDecoder *j, size_t limit_bytes);
void jpeg_decoder_use_stock(JpegDecoder *j, bool stock);
Status jpeg_decoder_open(JpegDecoder *j, const EncodedImage *file, int *width, int *height);
/* packed: colour in 3 bytes a pixel; otherwise in 4, which is faster. */
Status jpeg_decoder_read(JpegDecoder *j, const ImageBox *box, bool packed, ByteBuf *pixels,
                         Image *out);
void jpeg_decoder_make_index(JpegDecoder *j, int step);
void jpeg_decoder_index(const JpegDecoder *j, const uint8_t **index, size_t *bytes);

/* How many images the fast path has decoded, and how many of them it had to leave to libjpeg; since
 * creation. */
typedef struct JpegDecoderCounts {
    int64_t fast, left;
} JpegDecoderCounts;
JpegDecoderCounts jpeg_decoder_counts(const JpegDecoder *j);
#endif
