/* index_file.h - indexes kept in files, so that only the first start on a dataset scans it. */
#ifndef CONVOY_DATA_INDEX_INDEX_FILE_H
#define CONVOY_DATA_INDEX_INDEX_FILE_H
#include "data/index/scan.h"

/* Where the index of the dataset at root (absolute) is kept. place: a folder, in which the name is
 * made from root and format; or a file, told by ending in .index. mem_free. NULL when out of
 * memory. */
char *index_file_name(const char *place, const char *root, const char *format);
/* ERR_DATA names the file and what is wrong with it. */
Status index_file_load(Index **out, const char *file);
/* makes its folder; readers see the old file or the new */
Status index_file_save(const Index *index, const char *file);
/* Does the index still describe what lies at path? Every folder or container that it was made from
 * is looked at once. If not, *changed is the first one that differs ("" = the root), borrowed from
 * the index. */
bool index_file_is_current(const Index *index, const char *path, const char **changed);

typedef Status (*IndexScan)(Index **out, const ScanOptions *o);
/* Loads the index from file if it is there, sound and current; else scans and keeps the result
 * there, saying why in one line. file NULL: always scans. An index that cannot be kept is a
 * warning, ERR_IO where o->must_keep. */
Status index_file_obtain(Index **out, const char *file, IndexScan scan, const ScanOptions *o);
#endif
