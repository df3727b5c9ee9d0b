/* apart.h - whether training and validation read the same files. */
#ifndef CONVOY_DATA_LOAD_APART_H
#define CONVOY_DATA_LOAD_APART_H
#include "data/load/dataset.h"

/* A tar or TFRecord file that both sets read, borrowed; NULL: none. A folder of such files may be
 * given for both, and then their names must tell which are whose. One file that is given for both
 * by itself is meant so, and so are the sides of one set that is divided. */
const char *apart_shared_file(const Dataset *train, const Dataset *val);
/* Whether both are all of the same folders or files. */
bool apart_is_same(const Dataset *train, const Dataset *val);
#endif
