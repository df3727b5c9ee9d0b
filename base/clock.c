/* clock.c - monotonic and calendar time from the POSIX clocks. */
#include "base/clock.h"

#include "base/status.h"
#include <errno.h>
#include <math.h>
#include <time.h>

static double read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double clock_s(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double clock_unix_s(void)
{
    return read_clock(CLOCK_REALTIME);
}

void clock_sleep_s(double seconds)
{
    if (!(seconds > 0)) return;
    double whole = floor(seconds);
    struct timespec t = { .tv_sec = (time_t)whole, .tv_nsec = (long)((seconds - whole) * 1e9) };
    while (nanosleep(&t, &t) != 0 && errno == EINTR) {
        /* a signal came; t holds what is left */
    }
}

void clock_format_unix(double unix_s, char *out, size_t bytes)
{
    struct tm tm;
    time_t at = (time_t)fmin(fmax(unix_s, 0), 2e11); /* years of four digits */
    gmtime_r(&at, &tm);
    size_t n = strftime(out, bytes, "%Y-%m-%dT%H:%M:%SZ", &tm);
    ASSERT(n > 0);
}

void clock_format_utc(char *out, size_t bytes)
{
    clock_format_unix((double)time(NULL), out, bytes);
}
