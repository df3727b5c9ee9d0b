/* index_build.h - what a scan collects, and the index made of it.
 *
 * A scan works in pieces, one a thread's task: the samples of one class folder, or of one container
 * file. Each piece grows by itself and all are assembled once at the end. */
#ifndef CONVOY_DATA_INDEX_INDEX_BUILD_H
#define CONVOY_DATA_INDEX_INDEX_BUILD_H
#include "base/str.h"
#include "data/index/index.h"
#include "data/options.h"

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

typedef struct IndexParts {
    const char *format, *root;      /* kept in the index */
    const char *const *class_names; /* [classes] */
    int classes;
    uint32_t flags;           /* INDEX_PACKED, INDEX_NAMED */
    bool sorted;              /* the entries already come by label, folder, name */
    const IndexPiece *pieces; /* [piece_count] */
    size_t piece_count;
    uint32_t shard, shards;
    uint64_t plan_key;
} IndexParts;
/* Samples are ordered by label, folder, name; then by piece and place in it. */
Status index_build(Index **out, const IndexParts *parts);

typedef struct ScanOptions { /* of SourceKind.scan */
    const char *path;        /* as the user wrote it, for messages */
    const char *root;        /* the same, absolute: kept in the index */
    const char *format;      /* kept in the index */
    DataRole role;
    int threads;
} ScanOptions;

/* Lines of text file folder/name as class names: *names has one block (mem_free), *count of them; 0
 * and NULL if there is no such file. ERR_DATA for an empty line in the middle. */
Status index_build_read_names(const char *folder, const char *name, char ***names, int *count);
#endif
