/* index_build.h - the index made of what a scan has collected. */
#ifndef CONVOY_DATA_INDEX_INDEX_BUILD_H
#define CONVOY_DATA_INDEX_INDEX_BUILD_H
#include "data/index/index_piece.h"

typedef struct IndexParts {
    const char *format, *root;      /* kept in the index */
    const char *const *class_names; /* [classes] */
    int classes;
    uint32_t flags;           /* INDEX_PACKED, INDEX_NAMED */
    bool sorted;              /* the entries already come by label, folder, name */
    const IndexPiece *pieces; /* [piece_count] */
    size_t piece_count;
    /* INDEX_MULTI: a row of bits for each entry, in the same order; every entry has label 0 */
    const uint8_t *labels;
    uint32_t shard, shards;
    uint64_t plan_key;
} IndexParts;
/* Samples are ordered by label, folder, name; then by piece and place in it. */
Status index_build(Index **out, const IndexParts *parts);
#endif
