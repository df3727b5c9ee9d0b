/* class_names.h - class names from a text file. */
#ifndef CONVOY_DATA_INDEX_CLASS_NAMES_H
#define CONVOY_DATA_INDEX_CLASS_NAMES_H
#include "base/status.h"

/* Lines of text file folder/name as class names: *names has one block (mem_free), *count of them; 0
 * and NULL if there is no such file. ERR_DATA for an empty line in the middle. */
Status class_names_read(const char *folder, const char *name, char ***names, int *count);
/* "0", "1", ... in such a block; NULL where memory is short. */
char **class_names_numbers(int count);
#endif
