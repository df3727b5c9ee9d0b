/* process.c - see process.h. */
#include "base/process.h"
#include <stdio.h>
#include <string.h>

static int64_t status_kb(const char *key)
{
    char line[256];
    long long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) {
        size_t n = strlen(key);
        if (strncmp(line, key, n) == 0 && sscanf(line + n, "%lld", &kb) == 1) break;
    }
    fclose(f);
    return kb;
}

int64_t process_rss_bytes(void)
{
    return status_kb("VmRSS:") * 1024;
}

int64_t process_peak_rss_bytes(void)
{
    return status_kb("VmHWM:") * 1024;
}
