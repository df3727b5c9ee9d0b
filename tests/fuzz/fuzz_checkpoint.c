/* fuzz_checkpoint.c - a whole checkpoint file: header, tensors, what it says of the run, the
 * configuration and the classes inside. First byte: bit 0 puts both checksums right; bit 1 first
 * lets the header end behind its last brace. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/engine/files/checkpoint_model.h"
#include <stdio.h>
#include <string.h>

enum { LENGTH_BYTES = 8, DIGITS = 8 };

/* The eight digits behind key become the checksum of the data, of which they may be a part: then
 * as zeros. */
static void fix_digits(char *header, size_t bytes, const char *key, const uint8_t *data,
                       size_t data_bytes)
{
    char digits[DIGITS + 1], *at = memmem(header, bytes, key, strlen(key));
    if (!at || (size_t)(at - header) + strlen(key) + DIGITS > bytes) return;
    at += strlen(key);
    memset(at, '0', DIGITS);
    snprintf(digits, sizeof digits, "%08x", (unsigned)crc32c_update(0, data, data_bytes));
    memcpy(at, digits, DIGITS);
}

static void fix(uint8_t *file, size_t size, bool length)
{
    uint64_t bytes = 0;
    size_t end = size;
    if (length) {
        while (end > LENGTH_BYTES && file[end - 1] != '}') end--;
        while (end < size && end % 8 != 0 && file[end] == ' ') end++;
        for (int i = 0; i < LENGTH_BYTES; i++)
            file[i] = (uint8_t)((uint64_t)(end - LENGTH_BYTES) >> 8 * i);
    }
    for (int i = 0; i < LENGTH_BYTES; i++) bytes |= (uint64_t)file[i] << 8 * i;
    if (bytes > size - LENGTH_BYTES) return;
    char *header = (char *)file + LENGTH_BYTES;
    fix_digits(header, bytes, ",\"crc32c\":\"", file + LENGTH_BYTES + bytes,
               size - LENGTH_BYTES - bytes);
    fix_digits(header, bytes, "\"header_crc32c\":\"", (const uint8_t *)header, bytes);
}

int fuzz_checkpoint(const uint8_t *data, size_t size)
{
    CheckpointModel model;
    char path[160], name[64];
    if (size < 1 + LENGTH_BYTES) return 0;
    uint8_t *file = mem_alloc(size - 1);
    ASSERT(file != NULL);
    memcpy(file, data + 1, size - 1);
    if (data[0] & 1) fix(file, size - 1, data[0] & 2);
    fuzz_write("x.safetensors", file, size - 1);
    mem_free(file);
    snprintf(path, sizeof path, "%s/x.safetensors", fuzz_folder());
    if (checkpoint_model_open(&model, path, 1) != OK) return 0;
    for (int64_t i = 0; i < model.classes && i < 100; i++) {
        checkpoint_model_class_name(&model, i, name, sizeof name);
        ASSERT(strlen(name) < sizeof name);
    }
    (void)checkpoint_model_choose(&model, WEIGHTS_EMA, path);
    checkpoint_model_close(&model);
    return 0;
}
