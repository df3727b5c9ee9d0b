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
#endif
