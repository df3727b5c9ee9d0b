/* fuzz_tar.c - a folder with one tar file, scanned and read as a dataset. First byte: bit 0 puts
 * the checksums of the headers right. */
#include "base/mem.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_dataset.h"
#include <stdio.h>
#include <string.h>

#define BLOCK 512

/* In every block that is not all zeros, whether it is a header or not. */
static void fix_headers(uint8_t *tar, size_t size)
{
    for (size_t at = 0; at + BLOCK <= size; at += BLOCK) {
        unsigned sum = 0;
        char text[8];
        for (int i = 0; i < BLOCK; i++) sum += i >= 148 && i < 156 ? ' ' : tar[at + (size_t)i];
        if (sum == 8 * ' ') continue;
        snprintf(text, sizeof text, "%06o", sum);
        memcpy(tar + at + 148, text, 7);
        tar[at + 155] = ' ';
    }
}

int fuzz_tar(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    uint8_t *tar = mem_alloc(size);
    ASSERT(tar != NULL);
    memcpy(tar, data + 1, size - 1);
    if (data[0] & 1) fix_headers(tar, size - 1);
    fuzz_write("x.tar", tar, size - 1);
    mem_free(tar);
    fuzz_dataset(DATA_WEBDATASET, size);
    return 0;
}
