/* rows.h - the rows of a table in a text file: lists of images, maps of classes. */
#ifndef CONVOY_DATA_INDEX_ROWS_H
#define CONVOY_DATA_INDEX_ROWS_H
#include "base/status.h"
#include <stdbool.h>

#define ROWS_FIELDS 4096 /* of a row at most */

typedef struct Rows { /* filled by rows_open */
    const char *file; /* borrowed, for messages */
    char *text, *at, *end;
    char separator; /* ',' in .csv, '\t' in .tsv; else 0: a line is one field */
    int line;       /* of the row last read, from 1 */
    int lines_read;
} Rows;

/* Reads the file whole. ERR_DATA where it cannot be read or has NULs in it. */
Status rows_open(Rows *r, const char *file);
/* The next row that is not empty: pointers into the file's text, which hold till rows_close; *count
 * 0 at the end. Quoted fields as in RFC 4180 ("" stands for "); blanks around a field that is not
 * quoted are no part of it. ERR_DATA names file and line. */
Status rows_next(Rows *r, char *fields[ROWS_FIELDS], int *count);
void rows_close(Rows *r);
#endif
