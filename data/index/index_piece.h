/* index_piece.h - what a scan collects.
 *
 * A scan works in pieces, one a thread's task: the samples of one class folder, or of one container
 * file. Each piece grows by itself and all are assembled once at the end (index_build.h). */
#ifndef CONVOY_DATA_INDEX_INDEX_PIECE_H
#define CONVOY_DATA_INDEX_INDEX_PIECE_H
#include "base/str.h"
#include "data/index/index.h"

typedef struct IndexEntry {
    uint64_t path_at; /* in the piece's text; filled in by index_piece_add */
    uint64_t offset;
    uint32_t label, file, bytes, seek_bytes, crc; /* file: number of a stamp of the same piece */
} IndexEntry;

typedef struct IndexPiece { /* zero-initialise */
    IndexEntry *entries;
    size_t count, capacity;
    IndexStamp *stamps; /* name_at in the piece's text */
    size_t stamp_count, stamp_capacity;
    StrBuf text;
} IndexPiece;

/* Adds the sample folder/name (folder NULL or "": just name); copies both strings. */
Status index_piece_add(IndexPiece *p, const char *folder, const char *name,
                       const IndexEntry *entry);
Status index_piece_stamp(IndexPiece *p, const char *name, int64_t mtime_ns, uint64_t bytes);
void index_piece_free(IndexPiece *p);
const char *index_piece_path(const IndexPiece *p, size_t entry);
#endif
