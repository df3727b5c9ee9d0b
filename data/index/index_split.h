/* index_split.h - one list of samples as two: those held out for validation, and the rest. */
#ifndef CONVOY_DATA_INDEX_INDEX_SPLIT_H
#define CONVOY_DATA_INDEX_INDEX_SPLIT_H
#include "data/index/index.h"

/* Of each class of n samples round(n * share) are held out (stratified), but at least one and never
 * all; of a class of one, none. Which ones: those that a hash of (seed, path) puts first, so that
 * the same names give the same two sets in any format, on any machine, and a sample that comes or
 * goes moves few others. Of a path only what lies below the folder that all share counts: a list
 * may lie elsewhere than its images. out: the held out ones, or the rest; classes, stamps and names
 * stay as they are. ERR_DATA where nothing is left. */
Status index_split(Index **out, const Index *whole, double share, uint64_t seed, bool held_out);
#endif
