/* clock.h - time. */
#ifndef CONVOY_BASE_CLOCK_H
#define CONVOY_BASE_CLOCK_H
#include <stddef.h>
double clock_s(void);      /* monotonic seconds; differences only */
double clock_unix_s(void); /* seconds since 1970, for records */
void clock_sleep_s(double seconds);
void clock_format_utc(char *out, size_t bytes); /* 2026-11-21T09:08:00Z; bytes >= 21 */
void clock_format_unix(double unix_s, char *out, size_t bytes); /* the same of another time */
#endif
