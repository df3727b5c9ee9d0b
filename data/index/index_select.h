/* index_select.h - some samples of an index, in classes of their own. */
#ifndef CONVOY_DATA_INDEX_INDEX_SELECT_H
#define CONVOY_DATA_INDEX_INDEX_SELECT_H
#include "data/index/index.h"

typedef struct IndexChoice {
    const int64_t *ids;             /* samples of the whole, class after class; at least one */
    const uint64_t *class_start;    /* [classes + 1], positions in ids */
    const char *const *class_names; /* [classes]; NULL: the whole's */
    int classes;
    /* [whole's classes], of samples with rows of bits: the new class, below 0: none; NULL: the
     * same */
    const int *to;
    bool numbers; /* class_names are those of their places */
} IndexChoice;

/* An index of its own. ERR_MEMORY. */
Status index_select(Index **out, const Index *whole, const IndexChoice *choice);
#endif
