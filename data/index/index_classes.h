/* index_classes.h - a set with the classes that a file lists, in place of its own. */
#ifndef CONVOY_DATA_INDEX_INDEX_CLASSES_H
#define CONVOY_DATA_INDEX_INDEX_CLASSES_H
#include "data/index/index.h"

/* A line of the file: a class of the set, and behind a tab (in a .csv file: a comma) what it is
 * called from now on; without that it keeps its name. Labels follow the lines, as of timm's
 * --class-map; classes of one new name become one, and those without a line are left out. Samples
 * of a class stay in their order. missing_ok: a line whose class the set does not have is a class
 * without samples there. ERR_DATA names file and line. */
Status index_classes_map(Index **out, const Index *whole, const char *file, bool missing_ok);

/* The set with the labels of another's classes, names (one a line): each class takes that of its
 * name, and names that the set lacks are classes without samples. *out NULL where there is nothing
 * to change: the names are the set's in its order, or the set knows numbers alone, or names are 0,
 * 1, ... and the set's are words. ERR_DATA naming a class that is not among names. */
Status index_classes_of(Index **out, const Index *whole, const char *names);
#endif
