/* left_out.h - files that a scan passes over because of how their names end: counted, for one
 * line. */
#ifndef CONVOY_DATA_INDEX_LEFT_OUT_H
#define CONVOY_DATA_INDEX_LEFT_OUT_H
#include "base/str.h"

/* Counted: the first by name, whatever order a folder is read in; told: the most frequent. */
enum { LEFT_OUT_ENDINGS = 64, LEFT_OUT_TOLD = 8 };

typedef struct LeftOutEnding {
    char text[12]; /* ".gif", in small letters; "" without one */
    int64_t count;
} LeftOutEnding;

typedef struct LeftOut { /* zero-initialise */
    int64_t count;
    StrBuf first; /* the first path by name, whatever order a folder is read in */
    int endings;
    LeftOutEnding of[LEFT_OUT_ENDINGS]; /* by name */
} LeftOut;

/* folder NULL: just name. */
Status left_out_add(LeftOut *l, const char *folder, const char *name);
/* other is only to be freed then. */
void left_out_merge(LeftOut *l, LeftOut *other);
/* The most frequent endings first. Nothing where there are none. where: folder or container. */
Status left_out_tell(const LeftOut *l, const char *where);
void left_out_free(LeftOut *l);
#endif
