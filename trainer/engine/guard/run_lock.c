/* run_lock.c - see run_lock.h. */
#include "trainer/engine/guard/run_lock.h"

#include "base/clock.h"
#include "base/log.h"
#include "trainer/engine/guard/signals.h"
#include <errno.h>
#include <sys/file.h>

#define LOCK_PERIOD_S 0.2

Status run_lock_take(int fd, const char *dir, double wait_s)
{
    for (double start = clock_s(), said = 0;; clock_sleep_s(LOCK_PERIOD_S)) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return OK;
        if (clock_s() - start >= wait_s || signals_stop_requested())
            return fail(ERR_IO, "%s: another convoy is writing to this run folder", dir);
        if (said++ > 0) continue;
        log_info("%s: another convoy is writing to this run folder: waiting %.0f s for it to end",
                 dir, wait_s);
    }
}
