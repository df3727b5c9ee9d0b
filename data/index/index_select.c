/* index_select.c - see index_select.h. The text stays whole; new class names come behind it. */
#include "data/index/index_select.h"
#include "base/both.h"
#include "base/mem.h"
#include <string.h>

/* Of an array of the whole, with this many bytes per sample, those chosen. */
static void pick(uint8_t *to, const void *from, size_t bytes, const int64_t *ids, uint64_t count)
{
    for (uint64_t i = 0; from && i < count; i++)
        memcpy(to + i * bytes, (const uint8_t *)from + (size_t)ids[i] * bytes, bytes);
}

/* The rows of bits of the chosen, in the new classes. */
static void pick_labels(uint8_t *out, const Index *x, const IndexChoice *choice, uint64_t count)
{
    const size_t bytes = index_label_bytes(choice->classes);
    for (uint64_t i = 0; x->labels && i < count; i++, out += bytes) {
        const uint8_t *row = x->labels + (size_t)choice->ids[i] * x->label_bytes;
        for (int c = 0; c < x->classes; c++) {
            const int to = choice->to ? choice->to[c] : c;
            if (to >= 0 && both_bit(row, c)) out[to / 8] |= (uint8_t)(1 << to % 8);
        }
    }
}

static void write_names(uint64_t *class_at, char *text, uint64_t end, const IndexChoice *choice)
{
    for (int c = 0; c < choice->classes; c++) {
        const size_t bytes = strlen(choice->class_names[c]) + 1;
        memcpy(text + end, choice->class_names[c], bytes);
        class_at[c] = end;
        end += bytes;
    }
}

Status index_select(Index **out, const Index *x, const IndexChoice *choice)
{
    size_t at[INDEX_ARRAYS], bytes = 0;
    IndexHeader h = *x->header;
    *out = NULL;
    h.images = choice->class_start[choice->classes];
    h.classes = (uint32_t)choice->classes;
    for (int c = 0; choice->class_names && c < choice->classes; c++)
        h.text_bytes += strlen(choice->class_names[c]) + 1;
    if (choice->class_names)
        h.flags = (h.flags & ~(uint32_t)INDEX_NAMED) | (choice->numbers ? 0 : INDEX_NAMED);
    ASSERT(h.images > 0 && index_layout(&h, at, &bytes));
    uint8_t *block = mem_calloc(1, bytes);
    if (!block) return ERR_MEMORY;
    h.block_bytes = bytes;
    memcpy(block, &h, sizeof h);
    const struct {
        IndexArray array;
        const void *from;
        size_t bytes;
    } arrays[] = {
        { INDEX_PATH_AT, x->path_at, sizeof *x->path_at },
        { INDEX_OFFSET, x->offset, sizeof *x->offset },
        { INDEX_FILE, x->file, sizeof *x->file },
        { INDEX_BYTES, x->bytes, sizeof *x->bytes },
        { INDEX_SEEK_BYTES, x->seek_bytes, sizeof *x->seek_bytes },
        { INDEX_CRC, x->crc, sizeof *x->crc },
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        pick(block + at[arrays[i].array], arrays[i].from, arrays[i].bytes, choice->ids, h.images);
    pick_labels(block + at[INDEX_LABELS], x, choice, h.images);
    memcpy(block + at[INDEX_CLASS_START], choice->class_start,
           ((size_t)choice->classes + 1) * sizeof *choice->class_start);
    memcpy(block + at[INDEX_STAMP_ROWS], x->stamps, (size_t)x->stamp_count * sizeof *x->stamps);
    memcpy(block + at[INDEX_TEXT], x->text, (size_t)x->header->text_bytes);
    uint64_t *class_at = (uint64_t *)(void *)(block + at[INDEX_CLASS_AT]);
    if (choice->class_names)
        write_names(class_at, (char *)block + at[INDEX_TEXT], x->header->text_bytes, choice);
    else memcpy(class_at, x->class_at, (size_t)choice->classes * sizeof *class_at);
    ((IndexHeader *)(void *)block)->crc = index_checksum(block, bytes);
    return index_adopt(out, block, bytes);
}
