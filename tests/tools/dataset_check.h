/* dataset_check.h - small trees for tests of formats, and whether two datasets hold the same. */
#ifndef CONVOY_TESTS_TOOLS_DATASET_CHECK_H
#define CONVOY_TESTS_TOOLS_DATASET_CHECK_H
#include "data/data.h"

#define TREE_CLASSES   3
#define TREE_PER_CLASS 9

/* An ImageFolder of small pictures: n0/n0_7.JPEG, n0/n0_1-x.JPEG, ... */
void tree_write_small(const char *root);
Dataset *dataset_open_as(const char *path, DataFormat format); /* NULL, with status_message(), if it cannot */
/* Same files, labels and, if names is true, class names? Says on stdout what is not. */
bool datasets_are_equal(const Dataset *a, const Dataset *b, bool names);
#endif
