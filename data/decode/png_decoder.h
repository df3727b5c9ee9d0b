/* png_decoder.h - the half of decoder.h that reads PNG files. */
#ifndef CONVOY_DATA_DECODE_PNG_DECODER_H
#define CONVOY_DATA_DECODE_PNG_DECODER_H
#include "data/decode/image.h"

/* The whole picture in 3 channels. Errors as of decoder_open. */
Status png_decoder_read_rgb(const uint8_t *bytes, size_t size, ByteBuf *pixels, ImageView *view);
#endif
