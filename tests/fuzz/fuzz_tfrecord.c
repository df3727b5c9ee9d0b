/* fuzz_tfrecord.c - TFRecord files and the tf.Example in them. First byte: 0 parses the rest as one
 * tf.Example; else it is a file that is scanned and read as a dataset, with bit 0 putting all
 * checksums right. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "data/source/tfrecord.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_dataset.h"
#include <string.h>

static void put(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (8 * i));
}

static void fix_records(uint8_t *file, size_t size)
{
    for (size_t at = 0; at + 16 <= size;) {
        uint64_t length = 0;
        memcpy(&length, file + at, 8);
        put(file + at + 8, tfrecord_mask(crc32c_update(0, file + at, 8)));
        if (length > size - at - 16) return;
        put(file + at + 12 + length,
            tfrecord_mask(crc32c_update(0, file + at + 12, (size_t)length)));
        at += 16 + (size_t)length;
    }
}

static void use(Span s, const uint8_t *data, size_t size)
{
    if (!s.data) return;
    ASSERT(s.data >= data && s.bytes <= size && s.data + s.bytes <= data + size);
    fuzz_use(s.data, s.bytes);
}

static void parse(const uint8_t *data, size_t size)
{
    TfrecordExample e;
    if (tfrecord_parse_example(data, size, &e) != OK) return;
    use(e.image, data, size);
    use(e.name, data, size);
    use(e.synset, data, size);
    use(e.text, data, size);
}

int fuzz_tfrecord(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    if (data[0] == 0) {
        parse(data + 1, size - 1);
        return 0;
    }
    uint8_t *file = mem_alloc(size);
    ASSERT(file != NULL);
    memcpy(file, data + 1, size - 1);
    if (data[0] & 1) fix_records(file, size - 1);
    fuzz_write("x.tfrecord", file, size - 1);
    mem_free(file);
    fuzz_dataset(DATA_TFRECORD, size);
    return 0;
}
