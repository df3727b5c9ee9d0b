/* process.h - facts about this process from the kernel. */
#ifndef CONVOY_BASE_PROCESS_H
#define CONVOY_BASE_PROCESS_H
#include <stdint.h>
int64_t process_rss_bytes(void);      /* resident memory now; 0 where /proc does not tell */
int64_t process_peak_rss_bytes(void); /* the most it ever was */
#endif
