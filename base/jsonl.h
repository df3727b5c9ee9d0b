/* jsonl.h - a file of records, a JSON object a line, that only grows: metrics.jsonl, launch.jsonl.
 *
 * A record is built in one buffer and goes out in one write(2) to a file opened for appending, so a
 * line is complete or torn at the end, never mixed. No stdio in between: a full disk is seen at the
 * record it hits. A torn line is cut off, at once where the disk was full, and when the file is
 * opened again where the process was killed; so every line is a record. */
#ifndef CONVOY_BASE_JSONL_H
#define CONVOY_BASE_JSONL_H
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"

typedef struct Jsonl {
    int fd;       /* -1: not open */
    char *path;   /* owned */
    StrBuf *held; /* borrowed: gets the records of jsonl_end() in the file's place; NULL: none */
    StrBuf line;
    JsonWriter writer;
} Jsonl;

/* Opens dir/name, made if need be. jsonl_close() in any case. ERR_IO. */
Status jsonl_open(Jsonl *j, const char *dir, const char *name);
void jsonl_close(Jsonl *j);                 /* safe on one that is zero but for fd -1 */
Status jsonl_cut_torn_line(const Jsonl *j); /* once nobody else writes there */
/* How often text stands in the file, counted up to most; at most 4 KiB of it. */
int64_t jsonl_count(const Jsonl *j, const char *text, int64_t most);
/* starts a record: "event" and "time", Unix seconds */
JsonWriter *jsonl_begin(Jsonl *j, const char *event);
int jsonl_end(Jsonl *j); /* ends and writes it: 0 or an errno */
/* Another record, built by the caller in line, newline and all: 0 or an errno. May run on any
 * thread. */
int jsonl_append(const Jsonl *j, const StrBuf *line);
#endif
