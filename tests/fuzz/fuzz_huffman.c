/* fuzz_huffman.c - our Huffman decoder against libjpeg's: the same pixels of a part, or the same
 * refusal, which is that of the whole picture; with a seek index made for the file too; and no
 * access out of bounds with an index that lies.
 *
 * The last eight bytes of the input choose the part and the lies, what is before them is the
 * file. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "data/decode/decoder.h"
#include "tests/fuzz/fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHOICES = 8, MOST_PIXELS = 1 << 17 };

static void demand(bool good, const char *what)
{
    if (good) return;
    fprintf(stderr, "fuzz_huffman: %s\n", what);
    abort();
}

static Decoder *decoder(bool stock)
{
    static Decoder *all[2]; /* live as long as the process */
    if (!all[stock]) demand(decoder_create(&all[stock]) == OK, "no decoder");
    decoder_use_stock(all[stock], stock);
    return all[stock];
}

static bool same(const Image *a, const Image *b)
{
    if (a->channels != b->channels || a->pixel_bytes != b->pixel_bytes) return false;
    for (int y = 0; y < a->box.height; y++) {
        const uint8_t *p = a->pixels + (size_t)y * a->stride,
                      *q = b->pixels + (size_t)y * b->stride;
        for (int x = 0; x < a->box.width; x++, p += a->pixel_bytes, q += b->pixel_bytes)
            if (memcmp(p, q, (size_t)a->channels) != 0) return false;
    }
    return true;
}

/* Reads the same part by our decoder and demands what libjpeg said. trusted false: the index lies,
 * anything goes. */
static void compare(const EncodedImage *file, const ImageBox *box, Status want, const Image *pixels,
                    bool trusted)
{
    int width, height;
    Image got = { 0 };
    Status status = decoder_open(decoder(false), file, &width, &height);
    if (status == OK) status = decoder_read(decoder(false), box, &got);
    if (!trusted) return;
    demand(status == want, "another answer than libjpeg's");
    demand(status != OK || same(&got, pixels), "other pixels than libjpeg's");
}

/* Changes some bytes of an index and mends its checksum. */
static void lie(uint8_t *index, size_t bytes, const uint8_t *choices)
{
    for (int i = 0; i < 3; i++) {
        size_t at = 16 + ((size_t)choices[i] << 8 | choices[i + 1]) % (bytes - 16);
        index[at] ^= choices[i + 2];
    }
    uint32_t crc = crc32c_update(0, index + 8, bytes - 8);
    for (int i = 0; i < 4; i++) index[4 + i] = (uint8_t)(crc >> 8 * i);
}

int fuzz_huffman(const uint8_t *data, size_t size)
{
    static ByteBuf index;
    ImageBox box = { 0 };
    Image pixels = { 0 };
    int width, height;
    size_t bytes = 0;
    if (size <= CHOICES) return 0;
    const uint8_t *choices = data + size - CHOICES;
    EncodedImage file = { .bytes = data, .size = size - CHOICES };
    Status status = decoder_open(decoder(true), &file, &width, &height);
    if (status == OK) {
        if ((int64_t)width * height > MOST_PIXELS) return 0;
        box.x = choices[0] % width;
        box.y = choices[1] % height;
        box.width = 1 + choices[2] % (width - box.x);
        box.height = 1 + choices[3] % (height - box.y);
        ImageBox all = { .width = width, .height = height };
        Status whole = decoder_read(decoder(true), &all, &pixels);
        demand(decoder_open(decoder(true), &file, &width, &height) == OK, "another header");
        status = decoder_read(decoder(true), &box, &pixels);
        demand(status == whole, "another answer for a part than for the whole");
    }
    compare(&file, &box, status, &pixels, true);
    demand(decoder_build_seek_index(decoder(false), file.bytes, file.size, 1 + choices[4] % 9,
                                    &index, &bytes) == OK,
           "no index");
    if (bytes == 0) return 0;
    demand(status == OK, "an index of a bad file");
    file.seek = index.data;
    file.seek_bytes = bytes;
    compare(&file, &box, status, &pixels, true);
    lie(index.data, bytes, choices);
    compare(&file, &box, status, &pixels, false);
    return 0;
}
