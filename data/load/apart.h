/* apart.h - that training and validation do not read the same containers. */
#ifndef CONVOY_DATA_LOAD_APART_H
#define CONVOY_DATA_LOAD_APART_H
#include "data/load/dataset.h"

/* A tar or TFRecord file that both sets read, borrowed; NULL: none. A folder of such files may be
 * given for both, and then their names must tell which are whose. One file that is given for both
 * by itself is meant so, and so are the sides of one set that is divided. */
const char *apart_shared_file(const Dataset *train, const Dataset *val);
#endif
