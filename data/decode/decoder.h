/* decoder.h - encoded bytes in, RGB or grey pixels out. The only face of libjpeg and libspng. */
#ifndef CONVOY_DATA_DECODE_DECODER_H
#define CONVOY_DATA_DECODE_DECODER_H
#include "data/decode/jpeg_decoder.h"

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
 * ERR_DATA with the reason (no path: the caller knows it) for what is not an image, is damaged, or
 * is unreasonably large; ERR_MEMORY. A JPEG is damaged where Pillow refuses to load it (and not
 * where codes changed and it sees no error): the same answer for every part of the picture. *out is
 * borrowed until the next call. */
Status decoder_open(Decoder *d, const EncodedImage *file, int *width, int *height);
Status decoder_read(Decoder *d, const ImageBox *box, Image *out);

/* From now on decoder_read also makes a seek index of each file that comes without one and can have
 * one; step as in seek_index.h, 0: no more. decoder_index gives that of the file just read, *bytes
 * 0: none; borrowed until the next. */
void decoder_make_index(Decoder *d, int step);
void decoder_index(const Decoder *d, const uint8_t **index, size_t *bytes);

/* Both at once for the whole picture, packed, in channels (1 or 3). */
Status decoder_decode(Decoder *d, const uint8_t *bytes, size_t size, int channels, Image *out);

/* Builds the seek index of a JPEG file: out is reused and grown, *bytes is its size. *bytes is 0,
 * with OK, where a file can have none: no JPEG, progressive, with restart markers, damaged, or with
 * arithmetic coding. ERR_MEMORY. */
Status decoder_build_seek_index(Decoder *d, const uint8_t *file, size_t size, int step,
                                ByteBuf *out, size_t *bytes);

JpegDecoderCounts decoder_counts(const Decoder *d);
/* "libjpeg-turbo 2.1.5 (data.decoder fast: on), libspng 0.7.3": those that are loaded, for
 * convoy --version. Static: for one thread. */
const char *decoder_libraries(void);
#endif
