/* parallel.h - one piece of work for each of 0..count-1, on several threads. */
#ifndef CONVOY_BASE_PARALLEL_H
#define CONVOY_BASE_PARALLEL_H
#include "base/status.h"
#include <stdint.h>

#define PARALLEL_MAX 256 /* threads of one call at most */

/* Calls work(cookie, i) once for every i, in no order but started in rising order, on the calling
 * thread and up to threads - 1 more. After a failure nothing more is started; the result is that of
 * the lowest i that failed, with its sentence, whatever the timing. name: of the threads, for
 * debuggers. */
Status parallel_run(int threads, int64_t count, const char *name,
                    Status (*work)(void *cookie, int64_t i), void *cookie);
#endif
