/* other_format.h - data sets that others have and Convoy does not read: what they are, and the way
 * out. */
#ifndef CONVOY_DATA_SOURCE_OTHER_FORMAT_H
#define CONVOY_DATA_SOURCE_OTHER_FORMAT_H
#include "base/status.h"

/* ERR_DATA, with what to do, if path is the address of an object store or a web site, a file of
 * such a format, or a folder that holds one and neither images nor folders (except one called data,
 * as the Hub has it). OK for everything else, also if nothing is there. */
Status other_format_check(const char *path);
#endif
