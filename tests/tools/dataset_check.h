/* dataset_check.h - for tests of formats: small trees, packing them, whether two datasets hold the
 * same. What does not hold is a failed check. */
#ifndef CONVOY_TESTS_TOOLS_DATASET_CHECK_H
#define CONVOY_TESTS_TOOLS_DATASET_CHECK_H
#include "data/load/pack.h"

#define TREE_CLASSES   3
#define TREE_PER_CLASS 9

extern char scratch_paths[4][700]; /* those of scratch_path */
/* Below test_scratch(), kept in scratch_paths[slot] until the slot is used again. */
const char *scratch_path(int slot, const char *name);

/* An ImageFolder of small pictures: n0/n0_7.JPEG, n0/n0_1-x.JPEG, ... */
void tree_write_small(const char *root);
const char *dataset_make_tree(void); /* the same at scratch_path(0, "tree") */

Dataset *dataset_open_as(const char *path, DataFormat format); /* NULL if it cannot */
/* Opening must fail with ERR_DATA; the message, until the next one of this thread. */
const char *dataset_open_error(const char *path, DataFormat format);
/* What opening writes to standard error; *out NULL where it fails. Until the next call. */
const char *dataset_open_says(Dataset **out, const DatasetOptions *o);
/* Same files, labels and, if names is true, class names? */
void datasets_check_equal(const Dataset *a, const Dataset *b, bool names);

/* several shards of a small tree */
PackOptions dataset_pack_options(const char *out);
void dataset_pack(const Dataset *d, const char *out, PackReport *r); /* and verifies */
#endif
