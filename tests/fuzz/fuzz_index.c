/* fuzz_index.c - the block of an index. First byte: bit 0 puts its checksum and its length
 * right. */
#include "base/mem.h"
#include "data/index/index.h"
#include "tests/fuzz/fuzz.h"
#include <stddef.h>
#include <string.h>

static void fix(uint8_t *block, size_t size)
{
    uint64_t bytes = size;
    memcpy(block + offsetof(IndexHeader, block_bytes), &bytes, sizeof bytes);
    uint32_t crc = index_checksum(block, size);
    memcpy(block + offsetof(IndexHeader, crc), &crc, sizeof crc);
}

static void use_text(const Index *x, const char *text)
{
    ASSERT(text >= x->text && text + strlen(text) < (const char *)x->block + x->block_bytes);
}

int fuzz_index(const uint8_t *data, size_t size)
{
    Index *x = NULL;
    if (size < 1) return 0;
    uint8_t *block = mem_alloc(size - 1);
    ASSERT(block != NULL);
    memcpy(block, data + 1, size - 1);
    if (data[0] & 1 && size - 1 >= sizeof(IndexHeader)) fix(block, size - 1);
    if (index_adopt(&x, block, size - 1) != OK) return 0;
    int64_t in_classes = 0;
    use_text(x, index_root(x));
    use_text(x, index_format(x));
    for (int c = 0; c < x->classes; c++) {
        use_text(x, index_class_name(x, c));
        in_classes += index_class_images(x, c);
    }
    ASSERT(in_classes == x->images);
    for (int i = 0; i < x->stamp_count; i++) use_text(x, index_stamp_name(x, i));
    for (int64_t i = 0; i < x->images; i++) {
        int label = index_label(x, i);
        ASSERT(label >= 0 && label < x->classes);
        use_text(x, index_path(x, i));
        if (x->offset) ASSERT(x->file[i] < (uint32_t)x->stamp_count);
    }
    index_destroy(x);
    return 0;
}
