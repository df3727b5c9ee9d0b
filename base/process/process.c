/* process.c - see process.h. */
#include "base/process/process.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The number behind key in a file of "key number" lines; key "": the file's first number. -1 if
 * there is none. */
static int64_t number_in(const char *path, const char *key)
{
    char line[256];
    long long value = -1;
    size_t n = strlen(key);
    FILE *f = fopen(path, "r");
    if (!f) return -1;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, key, n) == 0 && sscanf(line + n, "%lld", &value) == 1) break;
    fclose(f);
    return value;
}

static int64_t own_bytes(const char *key)
{
    const int64_t kb = number_in("/proc/self/status", key);
    return kb > 0 ? kb * 1024 : 0;
}

int64_t process_rss_bytes(void)
{
    return own_bytes("VmRSS:");
}

int64_t process_peak_rss_bytes(void)
{
    return own_bytes("VmHWM:");
}

/* ---- what is left ---- */

/* What one cgroup's limit leaves; -1 for no limit. The page cache counts as used there but gives
 * way. */
static int64_t left_in_group(const char *group, const char *limit, const char *used,
                             const char *file_key)
{
    char path[1400];
    snprintf(path, sizeof path, "%s/%s", group, limit);
    int64_t most = number_in(path, "");
    if (most <= 0 || most > INT64_MAX / 2) return -1; /* "max", or cgroup v1's largest number */
    snprintf(path, sizeof path, "%s/%s", group, used);
    int64_t now = number_in(path, "");
    snprintf(path, sizeof path, "%s/memory.stat", group);
    int64_t file = number_in(path, file_key);
    int64_t left = most - (now > 0 ? now : 0) + (file > 0 ? file : 0);
    return left > 0 ? left : 0;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

typedef struct CgroupFiles {
    const char *mount, *limit, *used, *file_key;
} CgroupFiles;
static const CgroupFiles cgroup_v1 = { "memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                       "total_inactive_file " };
static const CgroupFiles cgroup_v2 = { "", "memory.max", "memory.current", "inactive_file " };

/* Over a group and all above it; is written to. A container may see its own at the root. */
static int64_t left_above(const char *root, const CgroupFiles *files, char *group)
{
    char path[1200];
    int64_t left = -1;
    group[strcspn(group, "\n")] = '\0';
    for (;;) {
        snprintf(path, sizeof path, "%s/sys/fs/cgroup/%s%s", root, files->mount, group);
        left = least(left, left_in_group(path, files->limit, files->used, files->file_key));
        char *slash = strrchr(group, '/');
        if (!slash) return left;
        *slash = '\0';
    }
}

/* A host may have groups of both versions; v1 has a number and the name of what it limits. */
static int64_t left_in_groups(const char *root)
{
    char line[1024], path[1200];
    int64_t left = -1;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        char *v1 = strstr(line, ":memory:");
        if (strncmp(line, "0::/", 4) == 0)
            left = least(left, left_above(root, &cgroup_v2, line + 3));
        else if (v1) left = least(left, left_above(root, &cgroup_v1, v1 + strlen(":memory:")));
    }
    if (f) fclose(f);
    return left;
}

int64_t process_available_bytes_in(const char *root)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    int64_t kb = number_in(path, "MemAvailable:");
    int64_t left = least(kb < 0 ? -1 : kb * 1024, left_in_groups(root));
    return left < 0 ? 0 : left;
}

int64_t process_available_bytes(void)
{
    return process_available_bytes_in("");
}

Status process_path(pid_t process, char *out, size_t bytes)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/%ld/exe", (long)process);
    ssize_t n = readlink(link, out, bytes - 1);
    if (n <= 0) return fail(ERR_ENV, "%s: cannot be read: %s", link, strerror(errno));
    out[n] = '\0';
    return OK;
}

Status process_own_path(char *out, size_t bytes)
{
    return process_path(getpid(), out, bytes);
}

bool process_installed(char *out, size_t bytes, const char *name)
{
    char own[1024];
    char *slash = process_own_path(own, sizeof own) == OK ? strrchr(own, '/') : NULL;
    if (slash) *slash = '\0';
    if (!slash || !(slash = strrchr(own, '/'))) return false; /* own is PREFIX/bin */
    *slash = '\0';
    const int length = snprintf(out, bytes, "%s/share/convoy/%s", own, name);
    return length > 0 && (size_t)length < bytes && access(out, R_OK) == 0;
}

const char *process_host(void)
{
    static _Thread_local char host[256];
    if (!host[0] && gethostname(host, sizeof host - 1) != 0)
        snprintf(host, sizeof host, "unknown host");
    return host;
}
