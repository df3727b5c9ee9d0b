/* seek_index.c - the bytes of a seek index, written and read. What they mean: seek_index.h. */
#include "data/decode/seek_index.h"
#include "base/crc32c.h"
#include "base/wire.h"

#define MAGIC        0x31584b53u /* "SKX1" */
#define HEADER_BYTES 24
#define ROW_BYTES    4
#define ENTRY_BYTES  10
#define CHECKED_FROM 8 /* what the index's own checksum covers */

static int entries_of_row(int columns, int step)
{
    return (columns + step - 1) / step;
}

size_t seek_index_bytes(int columns, int rows, int step)
{
    return HEADER_BYTES +
           (size_t)rows * (ROW_BYTES + ENTRY_BYTES * (size_t)entries_of_row(columns, step));
}

/* Where they lie in the index. */
static size_t row_at(const SeekIndex *s, int row)
{
    ASSERT(row >= 0 && row < s->rows);
    return HEADER_BYTES + (size_t)row * ROW_BYTES;
}

static size_t entry_at(const SeekIndex *s, int row, int entry)
{
    ASSERT(row >= 0 && row < s->rows && entry >= 0 && entry < s->per_row);
    return HEADER_BYTES + (size_t)s->rows * ROW_BYTES +
           ((size_t)row * (size_t)s->per_row + (size_t)entry) * ENTRY_BYTES;
}

bool seek_index_view(SeekIndex *out, const uint8_t *index, size_t bytes, const uint8_t *file,
                     size_t size)
{
    if (!index || bytes < HEADER_BYTES || wire_load(index, 4) != MAGIC ||
        wire_load(index + 8, 4) != size)
        return false;
    SeekIndex s = { .columns = (int)wire_load(index + 16, 2),
                    .rows = (int)wire_load(index + 18, 2),
                    .step = (int)wire_load(index + 20, 2),
                    .components = (int)wire_load(index + 22, 2) };
    if (s.columns == 0 || s.rows == 0 || s.step == 0 ||
        bytes != seek_index_bytes(s.columns, s.rows, s.step))
        return false;
    s.per_row = entries_of_row(s.columns, s.step);
    s.bytes = index;
    if (wire_load(index + 4, 4) != crc32c_update(0, index + CHECKED_FROM, bytes - CHECKED_FROM))
        return false;
    if (wire_load(index + 12, 4) != crc32c_update(0, file, size)) return false;
    *out = s;
    return true;
}

SeekEntry seek_index_entry(const SeekIndex *s, int row, int entry)
{
    const uint8_t *p = s->bytes + entry_at(s, row, entry);
    SeekEntry e = { .bits = wire_load(p, 4) };
    for (int i = 0; i < 3; i++) e.dc[i] = (int16_t)wire_load(p + 4 + 2 * i, 2);
    return e;
}

uint32_t seek_index_stuffed(const SeekIndex *s, int row)
{
    return wire_load(s->bytes + row_at(s, row), 4);
}

void seek_index_put_header(uint8_t *index, const SeekIndex *shape, const uint8_t *file, size_t size)
{
    const size_t bytes = seek_index_bytes(shape->columns, shape->rows, shape->step);
    wire_store(index, MAGIC, 4);
    wire_store(index + 8, size, 4);
    wire_store(index + 12, crc32c_update(0, file, size), 4);
    wire_store(index + 16, (uint32_t)shape->columns, 2);
    wire_store(index + 18, (uint32_t)shape->rows, 2);
    wire_store(index + 20, (uint32_t)shape->step, 2);
    wire_store(index + 22, (uint32_t)shape->components, 2);
    wire_store(index + 4, crc32c_update(0, index + CHECKED_FROM, bytes - CHECKED_FROM), 4);
}

void seek_index_put_row(uint8_t *index, const SeekIndex *shape, int row, uint32_t stuffed)
{
    wire_store(index + row_at(shape, row), stuffed, 4);
}

void seek_index_put_entry(uint8_t *index, const SeekIndex *shape, int row, int entry,
                          const SeekEntry *value)
{
    uint8_t *p = index + entry_at(shape, row, entry);
    wire_store(p, value->bits, 4);
    for (int i = 0; i < 3; i++) wire_store(p + 4 + 2 * i, (uint32_t)value->dc[i], 2);
}
