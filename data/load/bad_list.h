/* bad_list.h - which samples turned out bad: each is reported once, and too many end the run. */
#ifndef CONVOY_DATA_LOAD_BAD_LIST_H
#define CONVOY_DATA_LOAD_BAD_LIST_H
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct BadList BadList; /* any number of threads may add */
/* More than max(10, max_fraction * images) distinct bad samples are too many; max_fraction < 0 =
 * never. */
Status bad_list_create(BadList **out, int64_t images, double max_fraction);
void bad_list_destroy(BadList *list); /* NULL ok */
/* Notes a sample. *first: it was not known yet. ERR_DATA when this one is one too many. */
Status bad_list_add(BadList *list, int64_t id, bool *first);
int64_t bad_list_count(BadList *list);
#endif
