/* trace.h - what threads and devices were doing when, kept in lanes and written in Chrome's trace
 * format.
 *
 * A span is a name, a number and two times (clock_s). Spans of one lane are in order and do not
 * overlap, or lie within each other; a spread lane is divided into as many as it takes to keep
 * that. Only spans that are added between trace_start() and trace_stop() are kept. Any thread may
 * add to any lane; NULL is a Trace that keeps nothing. */
#ifndef CONVOY_BASE_TRACE_H
#define CONVOY_BASE_TRACE_H
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct Trace Trace;
enum { TRACE_LANES_MAX = 512, TRACE_NO_NUMBER = -1 };

Status trace_create(Trace **out);
void trace_destroy(Trace *t); /* NULL ok */
/* The lane of this name, made at the first call; names are copied. -1 where there are too many. */
int trace_lane(Trace *t, const char *name, bool spread);
void trace_start(Trace *t);
void trace_stop(Trace *t);
bool trace_on(const Trace *t);
/* name: borrowed until the Trace is destroyed. number: shown beside it, TRACE_NO_NUMBER for none. A
 * span for which there is no memory is left out and counted. */
void trace_add(Trace *t, int lane, const char *name, int64_t number, double start_s, double end_s);
/* A JSON object for chrome://tracing, Perfetto and the like: process is the rank. Times are
 * microseconds since the last midnight (UTC), so that files of several ranks lie beside each other.
 * ERR_IO, ERR_MEMORY. */
Status trace_write(Trace *t, const char *path, int rank, const char *process);
#endif
