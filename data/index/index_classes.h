/* index_classes.h - a set with the classes that a file lists, in place of its own. */
#ifndef CONVOY_DATA_INDEX_INDEX_CLASSES_H
#define CONVOY_DATA_INDEX_INDEX_CLASSES_H
#include "data/index/class_list.h"
#include "data/index/index.h"

/* A line of the file: a class of the set, and behind a tab (in a .csv file: a comma) what it is
 * called from now on; without that it keeps its name. Labels follow the lines, as of timm's
 * --class-map; classes of one new name become one, and those without a line are left out (samples
 * with any number of labels stay without them). Samples of a class stay in their order. missing_ok:
 * a line whose class the set does not have is a class without samples there. path: of the set, for
 * messages. ERR_DATA names file and line. */
Status index_classes_map(Index **out, const Index *whole, const char *path, const char *file,
                         bool missing_ok);

/* The set with the classes of another list, by class_list_match_set(); those that the set lacks are
 * classes without samples. *out NULL where there is nothing to change: its labels are right as they
 * are, and its names, where the list has numbers alone. ERR_DATA as of class_list_match_set(). */
Status index_classes_of(Index **out, const Index *whole, const char *path, const ClassList *in);
#endif
