/* png_write.h - pixels as a PNG file, for pages that show them. */
#ifndef CONVOY_DATA_DECODE_PNG_WRITE_H
#define CONVOY_DATA_DECODE_PNG_WRITE_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

/* pixels: [height, width, channels], 1 (grey) or 3. *out: mem_free. By libspng. */
Status png_write(uint8_t **out, size_t *bytes, const uint8_t *pixels, int width, int height,
                 int channels);
#endif
