/* fuzz_png.c - the PNG wrapper. First byte: bit 0 puts the checksums of the chunks right, so that
 * the decoder sees what is behind them; the rest is the file. Images over a megapixel are passed
 * over: they only cost time. */
#include "base/mem.h"
#include "data/decode/decoder.h"
#include "tests/fuzz/fuzz.h"
#include <string.h>
#include <zlib.h>

#define HEADER_BYTES 8
#define MAX_PIXELS   (1u << 20)

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void fix_chunks(uint8_t *png, size_t size)
{
    for (size_t at = HEADER_BYTES; at + 12 <= size;) {
        uint32_t length = big_endian(png + at);
        if (length > size - at - 12) return;
        uint32_t crc = (uint32_t)crc32(0, png + at + 4, length + 4);
        for (int i = 0; i < 4; i++)
            png[at + 8 + length + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
        at += 12 + (size_t)length;
    }
}

static void decode(const uint8_t *png, size_t size, int channels)
{
    Decoder *decoder = NULL;
    Image image;
    ASSERT(decoder_create(&decoder) == OK);
    if (decoder_decode(decoder, png, size, channels, &image) == OK) {
        ASSERT(image.channels == channels && image.box.width > 0 && image.box.height > 0);
        fuzz_use(image.pixels, image_bytes(&image));
    }
    decoder_destroy(decoder);
}

int fuzz_png(const uint8_t *data, size_t size)
{
    if (size < 1 + HEADER_BYTES + 25) return 0;
    uint8_t *png = mem_alloc(size - 1);
    ASSERT(png != NULL);
    memcpy(png, data + 1, size - 1);
    uint64_t pixels = (uint64_t)big_endian(png + 16) * big_endian(png + 20);
    if (data[0] & 1) fix_chunks(png, size - 1);
    if (pixels <= MAX_PIXELS) decode(png, size - 1, data[0] & 2 ? 1 : 3);
    mem_free(png);
    return 0;
}
