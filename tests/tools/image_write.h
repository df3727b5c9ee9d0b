/* image_write.h - encodes JPEG and PNG files for tests and generated data sets. */
#ifndef CONVOY_TESTS_TOOLS_IMAGE_WRITE_H
#define CONVOY_TESTS_TOOLS_IMAGE_WRITE_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct JpegSettings {
    int channels;   /* 1 grey, 3 RGB, 4 CMYK as stored (255 = no ink, as Adobe writes it) */
    int quality;    /* 1 .. 100 */
    bool subsample; /* 4:2:0, else 4:4:4; RGB only */
    bool progressive;
    bool ycck;                  /* 4 channels: store as YCCK instead of CMYK */
    int h_sampling, v_sampling; /* of the first component, instead of subsample; 0: not given */
    int restart_rows;           /* MCU rows between restart markers; 0: none */
    bool optimize;              /* Huffman tables made for this image */
    bool arithmetic;            /* arithmetic coding */
} JpegSettings;

typedef struct PngSettings {
    int colour_type; /* as in the PNG header: 0 grey, 2 RGB, 3 palette, 4 grey + alpha, 6 RGBA */
    int bit_depth;
    const uint8_t *palette; /* colour type 3: RGB triples */
    int palette_entries;
} PngSettings;

/* *out returns to caller (mem_free). Rows are packed; PNG rows are as the file stores them (16-bit
 * samples in host order). */
Status image_encode_jpeg(const uint8_t *pixels, int width, int height, const JpegSettings *settings,
                         uint8_t **out, size_t *bytes);
Status image_encode_png(const uint8_t *rows, size_t row_bytes, int width, int height,
                        const PngSettings *settings, uint8_t **out, size_t *bytes);
#endif
