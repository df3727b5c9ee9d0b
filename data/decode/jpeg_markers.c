/* jpeg_markers.c - finds markers as libjpeg does: 0xff, perhaps several, and a byte that is neither
 * 0xff nor 0; what lies before is passed over. */
#include "data/decode/jpeg_markers.h"
#include <string.h>

enum { TEM = 0x01, SOF0 = 0xc0, DHT = 0xc4, JPG = 0xc8, DAC = 0xcc, RST0 = 0xd0, RST7 = 0xd7 };
enum { SOI = 0xd8, EOI = 0xd9, SOS = 0xda };

/* Where the code of the next marker lies, from at on; bytes: nowhere. */
static size_t find(const uint8_t *data, size_t at, size_t bytes)
{
    while (at + 1 < bytes) {
        const uint8_t *mark = memchr(data + at, 0xff, bytes - 1 - at);
        if (!mark) break;
        at = (size_t)(mark - data) + 1;
        if (data[at] != 0 && data[at] != 0xff) return at;
    }
    return bytes;
}

bool jpeg_markers_is_frame(int code)
{
    return (code & 0xf0) == SOF0 && code != DHT && code != JPG && code != DAC;
}

static bool has_no_length(uint8_t code)
{
    return code == TEM || (code >= RST0 && code <= SOI);
}

bool jpeg_markers_lossless(const uint8_t *file, size_t bytes)
{
    for (size_t at = find(file, 0, bytes); at + 2 < bytes; at = find(file, at, bytes)) {
        uint8_t code = file[at++];
        if (code == SOS || code == EOI) return false;
        if (jpeg_markers_is_frame(code)) return (code & 3) == 3;
        if (!has_no_length(code)) at += (size_t)file[at] << 8 | file[at + 1];
    }
    return false;
}

bool jpeg_markers_end_follows(const uint8_t *scan, size_t bytes)
{
    size_t at = find(scan, 0, bytes);
    while (at < bytes && scan[at] >= RST0 && scan[at] <= RST7) at = find(scan, at + 1, bytes);
    return at < bytes && scan[at] == EOI;
}
