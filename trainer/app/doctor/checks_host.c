/* checks_host.c - CPUs, limits, memory, /dev/shm: what a host gives to a process. */
#include "base/mem.h"
#include "trainer/app/doctor/doctor.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* bytes; queues and buffers of network adapters alone take more */
#define MEMLOCK_LITTLE (64LL << 20)
#define FILES_FEW      4096
#define SHM_TINY       (64LL << 20) /* Docker's default */
#define SHM_LITTLE     (1LL << 30)
#define MEMORY_LITTLE  (4LL << 30)

/* The text behind key in a file of "key text" lines. */
static bool line_with(const char *text, const char *key, char *out, size_t bytes)
{
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!str_starts_with(line, key)) continue;
        const char *value = line + strlen(key) + strspn(line + strlen(key), " \t");
        snprintf(out, bytes, "%.*s", (int)strcspn(value, "\n"), value);
        return true;
    }
    return false;
}

/* ---- CPUs ---- */

static void check_governor(const DoctorOptions *o, DoctorReport *r)
{
    char governor[64], driver[64] = "";
    if (!doctor_read(o, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor,
                     sizeof governor))
        return;
    doctor_read(o, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", driver, sizeof driver);
    bool slow = strcmp(governor, "powersave") == 0 && strcmp(driver, "intel_pstate") != 0 &&
                strcmp(driver, "amd-pstate-epp") != 0;
    DOCTOR_JUDGE(r, slow, VERDICT_WARN,
                 "cpupower frequency-set -g performance: decoding waits for clocks to rise",
                 "the CPU frequency governor is %s", governor);
}

static void check_numa(const DoctorOptions *o, DoctorReport *r)
{
    int64_t balancing = 0;
    char nodes[64];
    if (!doctor_read(o, "/sys/devices/system/node/online", nodes, sizeof nodes)) return;
    doctor_read_number(o, "/proc/sys/kernel/numa_balancing", &balancing);
    int64_t count = doctor_count_cpus(nodes);
    if (balancing && count > 1)
        doctor_find(r, VERDICT_WARN,
                    "sysctl kernel.numa_balancing=0: it moves pages under buffers that are in use",
                    "%lld NUMA nodes, and the kernel moves pages between them", (long long)count);
    else
        doctor_find(r, VERDICT_OK, "", "%lld NUMA %s", (long long)count,
                    count == 1 ? "node" : "nodes");
}

void doctor_check_cpus(const DoctorOptions *o, DoctorReport *r)
{
    char text[8192], online[512], allowed[512], quota[64];
    long long most = 0, period = 0;
    if (!doctor_read(o, "/sys/devices/system/cpu/online", online, sizeof online) ||
        !doctor_read(o, "/proc/self/status", text, sizeof text) ||
        !line_with(text, "Cpus_allowed_list:", allowed, sizeof allowed)) {
        doctor_find(r, VERDICT_WARN, "mount /sys and /proc in the container",
                    "/sys and /proc do not list CPUs");
        return;
    }
    int64_t have = doctor_count_cpus(online), may = doctor_count_cpus(allowed);
    if (may < have)
        doctor_find(r, may == 1 && have > 1 ? VERDICT_WARN : VERDICT_OK,
                    may == 1 ? "mpirun --bind-to none (srun --cpu-bind=none), or more CPUs per "
                               "task: a rank needs several for decoding"
                             : "",
                    "this process may run on %lld of "
                    "%lld CPUs (%s)",
                    (long long)may, (long long)have, allowed);
    else doctor_find(r, VERDICT_OK, "", "%lld CPUs, all of them allowed", (long long)have);
    if (doctor_read(o, "/sys/fs/cgroup/cpu.max", quota, sizeof quota) &&
        sscanf(quota, "%lld %lld", &most, &period) == 2 && period > 0 && most < period * may)
        doctor_find(r, VERDICT_WARN,
                    "give the container a higher CPU limit, or expect decode threads to be paused",
                    "a cgroup allows %.1f CPUs' worth of time", (double)most / (double)period);
    check_governor(o, r);
    check_numa(o, r);
}

/* ---- limits ---- */

/* The soft limit on the line of name; LLONG_MAX: none. */
static bool limit(const DoctorOptions *o, const char *name, long long *out)
{
    char text[4096], value[128];
    if (!doctor_read(o, "/proc/self/limits", text, sizeof text) ||
        !line_with(text, name, value, sizeof value))
        return false;
    *out = LLONG_MAX;
    return str_starts_with(value, "unlimited") || sscanf(value, "%lld", out) == 1;
}

void doctor_check_limits(const DoctorOptions *o, DoctorReport *r)
{
    static const char memlock_advice[] =
        "ulimit -l unlimited: /etc/security/limits.conf, LimitMEMLOCK=infinity for "
        "slurmd, docker run --ulimit memlock=-1";
    char **adapters FREED = NULL;
    long long value;
    bool fabric = doctor_list(o, "/sys/class/infiniband", &adapters) > 0;
    if (limit(o, "Max locked memory", &value)) {
        bool little = fabric && value < MEMLOCK_LITTLE; /* TCP locks none */
        if (value == LLONG_MAX)
            doctor_find(r, VERDICT_OK, "", "locked memory (memlock) is not limited");
        else
            DOCTOR_JUDGE(r, little, VERDICT_FAIL, memlock_advice,
                         "locked memory (memlock) is limited to %lld KiB", value >> 10);
    }
    if (limit(o, "Max open files", &value)) {
        bool few = value < FILES_FEW;
        if (value == LLONG_MAX) doctor_find(r, VERDICT_OK, "", "open files are not limited");
        else
            DOCTOR_JUDGE(r, few, VERDICT_WARN,
                         "ulimit -n 65536: many readers, ranks and sockets need them",
                         "%lld open files are allowed", value);
    }
}

/* ---- memory ---- */

static bool meminfo(const DoctorOptions *o, const char *key, long long *bytes)
{
    char text[8192], value[64];
    if (!doctor_read(o, "/proc/meminfo", text, sizeof text) ||
        !line_with(text, key, value, sizeof value))
        return false;
    if (sscanf(value, "%lld", bytes) != 1) return false;
    *bytes *= 1024;
    return true;
}

void doctor_check_memory(const DoctorOptions *o, DoctorReport *r)
{
    long long total, available;
    if (!meminfo(o, "MemTotal:", &total) || !meminfo(o, "MemAvailable:", &available)) return;
    bool little = available < MEMORY_LITTLE;
    DOCTOR_JUDGE(r, little, VERDICT_WARN,
                 "end other programs; convoy inspect memory CONFIG shows what a rank needs",
                 "%.1f of %.1f GiB of memory are available", (double)available / (1 << 30),
                 (double)total / (1 << 30));
}

/* Size of the tmpfs at /dev/shm in bytes; half of the memory where its options name none. */
static bool shm_bytes(const DoctorOptions *o, long long *out)
{
    char text[32768];
    if (!doctor_read(o, "/proc/self/mounts", text, sizeof text)) return false;
    const char *line = strstr(text, " /dev/shm tmpfs ");
    if (!line) return false;
    char options[512];
    snprintf(options, sizeof options, "%.*s", (int)strcspn(line, "\n"), line);
    const char *size = strstr(options, "size=");
    char unit = 'b';
    if (!size) {
        if (!meminfo(o, "MemTotal:", out)) return false;
        *out /= 2;
        return true;
    }
    if (sscanf(size, "size=%lld%c", out, &unit) < 1) return false;
    if (unit == 'k') *out <<= 10;
    if (unit == 'm') *out <<= 20;
    if (unit == 'g') *out <<= 30;
    return true;
}

void doctor_check_shm(const DoctorOptions *o, DoctorReport *r)
{
    static const char advice[] =
        "docker run --shm-size=8g, or in Kubernetes an emptyDir of medium Memory at /dev/shm: "
        "NCCL, MPI and data.cache: ram need it";
    long long bytes;
    if (!shm_bytes(o, &bytes)) {
        doctor_find(r, VERDICT_FAIL, advice, "/dev/shm is not mounted");
        return;
    }
    Verdict v = bytes < SHM_TINY ? VERDICT_FAIL : bytes < SHM_LITTLE ? VERDICT_WARN : VERDICT_OK;
    doctor_find(r, v, v == VERDICT_OK ? "" : advice, "/dev/shm has %.0f MiB",
                (double)bytes / (1 << 20));
}
