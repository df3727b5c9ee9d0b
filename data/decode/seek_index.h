/* seek_index.h - where in a JPEG file the rows of its picture begin, so that a crop is decoded
 * without what lies above.
 *
 * Huffman codes can only be read from the start, so without help a crop costs all rows above it.
 * The index has, for every MCU row (and, if asked for, every few MCUs in it), the position in the
 * data and the DC predictions there: about 0.5 kB for an image of 110 kB with rows only, 4 kB with
 * an entry every 8 MCUs. It is keyed by size and CRC-32C of the file and is ignored where they do
 * not fit; wrong contents give wrong pixels, never an access out of bounds. Only good files have
 * one, so it also says that its file is good.
 *
 * Layout, little endian, unaligned: header { u32 magic, u32 CRC-32C of all that follows, u32 bytes
 * and u32 CRC-32C of the file, u16 MCU columns, u16 MCU rows, u16 step, u16 components }, then per
 * MCU row { u32 number of stuffed zero bytes before it }, then per entry { u32 bit position,
 * stuffed bytes not counted; i16 DC prediction of each of three components }, entries row by row,
 * ceil(columns / step) in a row. */
#ifndef CONVOY_DATA_DECODE_SEEK_INDEX_H
#define CONVOY_DATA_DECODE_SEEK_INDEX_H
#include "base/byte_buf.h"
#include <stdbool.h>

#define SEEK_INDEX_ROWS_ONLY 0xffff /* step: one entry a row */

/* For the decoder. */
typedef struct SeekIndex {
    const uint8_t *bytes;
    int columns, rows, step, components;
    int per_row; /* entries of a row */
} SeekIndex;

typedef struct SeekEntry {
    uint32_t bits; /* position in the data of the scan without stuffed bytes */
    int dc[3];
} SeekEntry;

/* Is this an index of this file? Then *out borrows from it. */
bool seek_index_view(SeekIndex *out, const uint8_t *index, size_t bytes, const uint8_t *file,
                     size_t size);
SeekEntry seek_index_entry(const SeekIndex *s, int row, int entry);
uint32_t seek_index_stuffed(const SeekIndex *s, int row);

/* For entropy.c; the header, with checksums, comes last. */
size_t seek_index_bytes(int columns, int rows, int step);
void seek_index_put_header(uint8_t *index, const SeekIndex *shape, const uint8_t *file,
                           size_t size);
void seek_index_put_row(uint8_t *index, const SeekIndex *shape, int row, uint32_t stuffed);
void seek_index_put_entry(uint8_t *index, const SeekIndex *shape, int row, int entry,
                          const SeekEntry *value);
#endif
