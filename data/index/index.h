/* index.h - the list of a dataset's samples as one flat block: what a scan finds, what an index
 * file holds, and what one rank sends to the others.
 *
 * The block is a header, arrays and one table of strings, without pointers, so the same bytes serve
 * in memory and on disk; an Index is a set of pointers into it. Samples are ordered class by class,
 * so a label is found from class_start and is not stored; within a class they lie in the order of
 * torchvision's ImageFolder (folder, then name). A million images cost about 8 bytes each plus
 * their path, 24 more where samples lie inside larger files (shards, tar, TFRecord).
 *
 * With several labels per sample (INDEX_MULTI) rows of bits say which. All samples are in class 0
 * then, and class_start, index_label() and index_class_images() say nothing of labels.
 *
 * STAMPS say what the block was made from: folders with their modification times (ImageFolder), or
 * container files with size and time. Where samples lie in containers, the file of a sample is a
 * number among the stamps.
 *
 * A block that comes from outside is checked completely before anything in it is used
 * (index_adopt): a damaged or hostile one is refused, never read out of range. */
#ifndef CONVOY_DATA_INDEX_INDEX_H
#define CONVOY_DATA_INDEX_INDEX_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INDEX_VERSION 2u
/* of one encoded image, and of the seek data behind it */
#define INDEX_MAX_SAMPLE_BYTES ((size_t)64 << 20)

/* flags: samples lie in containers; classes have names of their own; samples have rows of bits */
enum { INDEX_PACKED = 1, INDEX_NAMED = 2, INDEX_MULTI = 4 };

/* little-endian, as is all of the block; the arrays follow, see index.c */
typedef struct IndexHeader {
    char magic[8];
    uint32_t version;
    uint32_t crc; /* CRC-32C of the block with this field 0 */
    uint64_t block_bytes, images, text_bytes;
    uint32_t classes, stamps, flags;
    uint32_t shard, shards; /* the block at the end of a shard: which of how many; else 0 of 0 */
    uint32_t reserved;
    uint64_t plan_key; /* shards: equal in all that belong together */
    /* in the text: the folder that was scanned, the name of the format */
    uint64_t root_at, format_at;
} IndexHeader;

typedef struct IndexStamp {
    uint64_t name_at; /* in the text; relative to the root, "" = the root itself */
    int64_t mtime_ns; /* 0: not compared */
    uint64_t bytes;   /* of a container; 0 for folders */
} IndexStamp;

typedef struct Index { /* pointers into the block, which it owns */
    uint8_t *block;
    size_t block_bytes;
    const IndexHeader *header;
    int64_t images;
    int classes, stamp_count;
    /* [classes + 1]; samples of class c are class_start[c] .. class_start[c + 1] */
    const uint64_t *class_start;
    const uint64_t *class_at; /* [classes] */
    const uint64_t *path_at;  /* [images] */
    const IndexStamp *stamps;
    /* [images], NULL without INDEX_PACKED: container, where in it, how long; CRC-32C of sample and
     * seek data, which lies behind the sample */
    const uint64_t *offset;
    const uint32_t *file, *bytes, *seek_bytes, *crc;
    /* [images][label_bytes], NULL without INDEX_MULTI: a bit for each class (both_bit) */
    const uint8_t *labels;
    size_t label_bytes;
    const char *text;
} Index;

/* Takes the block over (mem_free), on failure too. ERR_DATA with the reason (no name: the caller
 * knows it). */
Status index_adopt(Index **out, void *block, size_t bytes);
void index_destroy(Index *index); /* NULL ok */
FREED_BY_POINTER(Index, index_destroy)
/* Where the arrays of a block with this header lie, and its whole size; false if the counts are out
 * of range. Arrays in the order of IndexArray. */
typedef enum IndexArray {
    INDEX_CLASS_START,
    INDEX_CLASS_AT,
    INDEX_PATH_AT,
    INDEX_STAMP_ROWS,
    INDEX_OFFSET,
    INDEX_FILE,
    INDEX_BYTES,
    INDEX_SEEK_BYTES,
    INDEX_CRC,
    INDEX_LABELS,
    INDEX_TEXT,
    INDEX_ARRAYS
} IndexArray;
bool index_layout(const IndexHeader *h, size_t at[INDEX_ARRAYS], size_t *block_bytes);
uint32_t index_checksum(const void *block, size_t bytes); /* what header.crc must be */

int index_label(const Index *index, int64_t id);
const char *index_path(const Index *index, int64_t id);      /* borrowed, as are the next ones */
const char *index_class_name(const Index *index, int label); /* the number where there is no name */
int64_t index_class_images(const Index *index, int label);
/* How many samples have each of the classes, of any index: counts [classes]. */
void index_count_images(const Index *index, int64_t *counts);
size_t index_label_bytes(int64_t classes); /* of a row of bits */
const char *index_stamp_name(const Index *index, int stamp);
const char *index_root(const Index *index);
const char *index_format(const Index *index); /* name of the source kind that made it */
#endif
