/* recode_jpeg.h - a progressive JPEG as a baseline one: other order of the same coefficients, so
 * the same pixels. */
#ifndef CONVOY_DATA_DECODE_RECODE_JPEG_H
#define CONVOY_DATA_DECODE_RECODE_JPEG_H
#include "base/byte_buf.h"
#include <stdbool.h>

/* Writes the baseline form of a progressive JPEG to out; *bytes 0 where the input is not one, is
 * damaged, or has more than the decoder's limits. Progressive files cost almost three times the
 * decoding in every epoch. ERR_MEMORY only. */
Status recode_jpeg_to_baseline(const uint8_t *data, size_t size, ByteBuf *out, size_t *bytes);
#endif
