/* process.h - facts about this process from the kernel. */
#ifndef CONVOY_BASE_PROCESS_PROCESS_H
#define CONVOY_BASE_PROCESS_PROCESS_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
int64_t process_rss_bytes(void);      /* resident memory now; 0 where /proc does not tell */
int64_t process_peak_rss_bytes(void); /* the most it ever was */
/* Memory that this process could still take without taking it from others: what the machine has
 * free or could free, and what the tightest cgroup limit (v1, v2) leaves; 0 where nothing tells. */
int64_t process_available_bytes(void);
/* The same where proc and sys lie below root, for tests. */
int64_t process_available_bytes_in(const char *root);
const char *process_host(void); /* the name of this host; as long as the thread lives */
/* The path of a process's program; of this one. ERR_ENV, also where it is not this user's. */
Status process_path(pid_t process, char *out, size_t bytes);
Status process_own_path(char *out, size_t bytes);
/* Whether PREFIX/share/convoy/NAME can be read, where this program is PREFIX/bin/...: its path. */
bool process_installed(char *out, size_t bytes, const char *name);
#endif
