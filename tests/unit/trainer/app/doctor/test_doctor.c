/* test_doctor.c - hosts that are described by files under a root folder, and what is found about
 * them. */
#include "base/arena.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/app/doctor/doctor.h"
#include <stdio.h>
#include <string.h>

typedef struct HostFile {
    const char *path, *text;
} HostFile;

/* A good host of 96 CPUs with an EFA adapter; each case changes something. */
static const HostFile good_host[] = {
    { "/sys/devices/system/cpu/online", "0-95\n" },
    { "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n" },
    { "/sys/devices/system/node/online", "0-1\n" },
    { "/proc/sys/kernel/numa_balancing", "0\n" },
    { "/proc/self/status", "Name:\tconvoy\nCpus_allowed:\tff\nCpus_allowed_list:\t0-95\n" },
    { "/proc/self/limits",
      "Limit                     Soft Limit           Hard Limit           Units\n"
      "Max locked memory         unlimited            unlimited            "
      "bytes\nMax open files            65536                65536            "
      "    files\n" },
    { "/proc/meminfo",
      "MemTotal:       1000000000 kB\nMemFree: 1 kB\nMemAvailable:   900000000 kB\n" },
    { "/proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n" },
    { "/proc/self/environ", "" },
    { "/sys/class/net/lo/operstate", "unknown\n" },
    { "/sys/class/net/ens5/operstate", "up\n" },
    { "/sys/class/net/ens5/mtu", "9001\n" },
    { "/sys/class/net/ens5/speed", "100000\n" },
    { "/sys/class/infiniband/rdmap0s6/device/vendor", "0x1d0f\n" },
    { "/dev/infiniband/uverbs0", "" },
    { "/sys/class/powercap/intel-rapl:0/name", "package-0\n" },
    { "/sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850\n" },
    { "/sys/class/powercap/intel-rapl:0/energy_uj", "7000000\n" },
    { "/opt/amazon/ofi-nccl/lib/libnccl-net.so", "x" },
};

typedef struct Case {
    const char *name;
    HostFile changed; /* path NULL: none; text NULL: the file is missing */
    int64_t gpus, efa;
    const char *check, *verdict, *text; /* of a finding; verdict NULL: nothing but ok */
} Case;

static const Case cases[] = {
    { "energy-unread",
      { "/sys/class/powercap/intel-rapl:0/energy_uj", "" },
      -1,
      -1,
      "energy",
      NULL,
      "intel-rapl:0/energy_uj: \"\" is not a count" },
    { .name = "energy",
      .gpus = -1,
      .efa = -1,
      .check = "energy",
      .text = "1 CPU packages have energy counters: 0 W now" },
    { .name = "good", .gpus = -1, .efa = 1, .check = "fabric", .text = "1 EFA adapters" },
    { "bound",
      { "/proc/self/status", "Cpus_allowed_list:\t7\n" },
      -1,
      -1,
      "cpus",
      "warn",
      "may run on 1 of 96 CPUs (7)" },
    { "half",
      { "/proc/self/status", "Cpus_allowed_list:\t0-47\n" },
      -1,
      -1,
      "cpus",
      NULL,
      "48 of 96 CPUs" },
    { "untold",
      { "/proc/self/status", "Name:\tconvoy\n" },
      -1,
      -1,
      "cpus",
      "warn",
      "/sys and /proc do not list CPUs" },
    { "quota",
      { "/sys/fs/cgroup/cpu.max", "150000 100000\n" },
      -1,
      -1,
      "cpus",
      "warn",
      "a cgroup allows 1.5 CPUs" },
    { "no-quota", { "/sys/fs/cgroup/cpu.max", "max 100000\n" }, -1, -1, "cpus", NULL, "96 CPUs" },
    { "slow",
      { "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n" },
      -1,
      -1,
      "cpus",
      "warn",
      "governor is powersave" },
    { "numa",
      { "/proc/sys/kernel/numa_balancing", "1\n" },
      -1,
      -1,
      "cpus",
      "warn",
      "2 NUMA nodes" },
    { "memlock",
      { "/proc/self/limits",
        "Max locked memory         65536                65536                bytes\n" },
      -1,
      -1,
      "limits",
      "fail",
      "limited to 64 KiB" },
    { "files",
      { "/proc/self/limits",
        "Max open files            1024                 4096                 files\n" },
      -1,
      -1,
      "limits",
      "warn",
      "1024 open files" },
    { "memory",
      { "/proc/meminfo", "MemTotal: 8000000 kB\nMemAvailable: 500000 kB\n" },
      -1,
      -1,
      "memory",
      "warn",
      "0.5 of" },
    { "just-enough-memory",
      { "/proc/meminfo", "MemTotal: 8000000 kB\nMemAvailable: 4194304 kB\n" },
      -1,
      -1,
      "memory",
      NULL,
      "4.0 of" },
    { "docker",
      { "/proc/self/mounts",
        "shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k 0 0\n" },
      -1,
      -1,
      "shm",
      "warn",
      "/dev/shm has 64 MiB" },
    { "tiny-shm",
      { "/proc/self/mounts", "shm /dev/shm tmpfs rw,size=8m 0 0\n" },
      -1,
      -1,
      "shm",
      "fail",
      "8 MiB" },
    { "no-shm",
      { "/proc/self/mounts", "proc /proc proc rw 0 0\n" },
      -1,
      -1,
      "shm",
      "fail",
      "not mounted" },
    { "mtu",
      { "/sys/class/net/ens5/mtu", "1500\n" },
      -1,
      -1,
      "network",
      "warn",
      "ens5 is up, MTU 1500, 100000 Mbit/s" },
    { "slow-link",
      { "/sys/class/net/ens5/speed", "1000\n" },
      -1,
      -1,
      "network",
      NULL,
      "MTU 9001, 1000" },
    { "no-mtu",
      { "/sys/class/net/ens5/mtu", NULL },
      -1,
      -1,
      "network",
      NULL,
      "no network interface is up" },
    { "few-efa", { NULL, NULL }, -1, 4, "fabric", "fail", "1 EFA adapters, 4 expected" },
    { "no-verbs",
      { "/dev/infiniband/uverbs0", NULL },
      -1,
      -1,
      "fabric",
      "fail",
      "/dev/infiniband is missing" },
    { "no-plugin",
      { "/opt/amazon/ofi-nccl/lib/libnccl-net.so", NULL },
      -1,
      -1,
      "fabric",
      "warn",
      "plugin for EFA is not" },
    { "cable",
      { "/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n" },
      -1,
      -1,
      "fabric",
      "fail",
      "mlx5_0: port state 1: DOWN" },
    { "no-gpus", { NULL, NULL }, 8, -1, "gpus", "fail", "0 GPUs, 8 expected" },
    { "driver",
      { "/proc/driver/nvidia/version", "NVRM version" },
      -1,
      -1,
      "gpus",
      "fail",
      "cannot be queried: too old" },
    { "omp",
      { "/proc/self/environ", "A=B@OMP_NUM_THREADS=1@" },
      -1,
      -1,
      "variables",
      "warn",
      "OMP_NUM_THREADS=1 is" },
    { "off",
      { "/proc/self/environ", "NCCL_P2P_DISABLE=0@XNCCL_ALGO=Ring@" },
      -1,
      -1,
      "variables",
      NULL,
      "none is harmful" },
    { "p2p",
      { "/proc/self/environ", "NCCL_P2P_DISABLE=1@" },
      -1,
      -1,
      "variables",
      "warn",
      "NCCL_P2P_DISABLE=1" },
    { "hidden",
      { "/proc/self/environ", "CUDA_VISIBLE_DEVICES=@" },
      -1,
      -1,
      "variables",
      "warn",
      "hides all GPUs" },
    { "visible",
      { "/proc/self/environ", "CUDA_VISIBLE_DEVICES=0,1@" },
      -1,
      -1,
      "variables",
      NULL,
      "none is harmful" },
    { "efa-env",
      { "/proc/self/environ", "FI_PROVIDER=efa@" },
      -1,
      -1,
      "variables",
      NULL,
      "none is harmful" },
    { "tcp-env",
      { "/proc/self/environ", "FI_PROVIDER=tcp@" },
      -1,
      -1,
      "variables",
      "warn",
      "FI_PROVIDER=tcp" },
    { "ifname",
      { "/proc/self/environ", "NCCL_SOCKET_IFNAME=eth0@" },
      -1,
      -1,
      "variables",
      "warn",
      "=eth0 matches no" },
    { "ifname-prefix",
      { "/proc/self/environ", "NCCL_SOCKET_IFNAME=ens@" },
      -1,
      -1,
      "variables",
      NULL,
      "none is harmful" },
    { "ifname-list",
      { "/proc/self/environ", "NCCL_SOCKET_IFNAME=eth0,ens5:1@" },
      -1,
      -1,
      "variables",
      NULL,
      "none is harmful" },
    { "ifname-whole",
      { "/proc/self/environ", "NCCL_SOCKET_IFNAME==eth0,ens5@" },
      -1,
      -1,
      "variables",
      NULL,
      "none is harmful" },
    { "ifname-not-whole",
      { "/proc/self/environ", "NCCL_SOCKET_IFNAME==ens@" },
      -1,
      -1,
      "variables",
      "warn",
      "==ens matches no" },
    { "ifname-none",
      { "/proc/self/environ", "NCCL_SOCKET_IFNAME=eth,ib,ens55@" },
      -1,
      -1,
      "variables",
      "warn",
      "=eth,ib,ens55 matches no" },
    { "ifname-lo-1",
      { "/proc/self/environ", "NCCL_SOCKET_IFNAME=^docker@" },
      -1,
      -1,
      "variables",
      "warn",
      "makes NCCL choose lo" },
    { "ifname-lo-2",
      { "/proc/self/environ", "NCCL_SOCKET_IFNAME=^=docker0,l@" },
      -1,
      -1,
      "variables",
      "warn",
      "makes NCCL choose lo" },
    { "ifname-lo-3",
      { "/proc/self/environ", "NCCL_SOCKET_IFNAME=^veth,loop@" },
      -1,
      -1,
      "variables",
      "warn",
      "makes NCCL choose lo" },
    { "ifname-lo-4",
      { "/proc/self/environ", "NCCL_SOCKET_IFNAME=lo,ens@" },
      -1,
      -1,
      "variables",
      "warn",
      "makes NCCL choose lo" },
    { "ifname-lo-5",
      { "/proc/self/environ", "NCCL_SOCKET_IFNAME==lo@" },
      -1,
      -1,
      "variables",
      "warn",
      "makes NCCL choose lo" },
    { "ifname-none-left",
      { "/proc/self/environ", "NCCL_SOCKET_IFNAME=^lo,ens@" },
      -1,
      -1,
      "variables",
      "warn",
      "matches no interface" },
    { "ifname-excludes-l",
      { "/proc/self/environ", "NCCL_SOCKET_IFNAME=^l@" },
      -1,
      -1,
      "variables",
      NULL,
      "none is harmful" },
    { "ifname-excludes-whole",
      { "/proc/self/environ", "NCCL_SOCKET_IFNAME=^=lo@" },
      -1,
      -1,
      "variables",
      NULL,
      "none is harmful" },
    { "ifname-one-character",
      { "/proc/self/environ", "NCCL_SOCKET_IFNAME=^@" },
      -1,
      -1,
      "variables",
      NULL,
      "none is harmful" },
    { "ifname-ok",
      { "/proc/self/environ", "NCCL_SOCKET_IFNAME=^lo,docker@" },
      -1,
      -1,
      "variables",
      NULL,
      "none is harmful" },
};

/* "@" stands for the NUL that ends a variable. */
static void write_host_file(const char *root, const HostFile *file)
{
    char path[1024], text[1024];
    snprintf(path, sizeof path, "%s%s", root, file->path);
    *strrchr(path, '/') = '\0';
    REQUIRE_OK(fs_make_dirs(path));
    snprintf(path, sizeof path, "%s%s", root, file->path);
    size_t bytes = (size_t)snprintf(text, sizeof text, "%s", file->text);
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '@') text[i] = '\0';
    FILE *f = fopen(path, "w");
    REQUIRE(f != NULL);
    CHECK(fwrite(text, 1, bytes, f) == bytes);
    fclose(f);
}

static void write_host(const char *root, const HostFile *changed)
{
    for (size_t i = 0; i < sizeof good_host / sizeof good_host[0]; i++) {
        if (changed->path && strcmp(changed->path, good_host[i].path) == 0) continue;
        write_host_file(root, &good_host[i]);
    }
    if (changed->path && changed->text) write_host_file(root, changed);
}

/* The finding of the case is there, and no other is worse than ok. */
static bool fits(const Case *c, const DoctorReport *r)
{
    bool found = false, clean = true;
    for (int i = 0; i < r->count; i++) {
        const Finding *f = &r->finding[i];
        bool this_one =
            strcmp(f->check, c->check) == 0 && strstr(f->text, c->text) &&
            strcmp(doctor_verdict_name(f->verdict), c->verdict ? c->verdict : "ok") == 0;
        found = found || this_one;
        if (!this_one && f->verdict != VERDICT_OK) clean = false;
        if (f->verdict != VERDICT_OK && f->advice[0] == '\0') clean = false;
    }
    return found && clean;
}

TEST(hosts_are_judged)
{
    DoctorReport *r = mem_alloc(sizeof *r);
    REQUIRE(r != NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char root[512];
        snprintf(root, sizeof root, "%s/%s", test_scratch(), cases[i].name);
        write_host(root, &cases[i].changed);
        const DoctorOptions o = {
            .root = root, .gpus = cases[i].gpus, .efa = cases[i].efa, .no_nvml = "too old"
        };
        doctor_run(&o, r);
        if (!fits(&cases[i], r)) {
            StrBuf table = { 0 };
            doctor_add_table(r, cases[i].name, &table);
            CHECK_STR(table.text, "another report");
            str_free(&table);
        }
    }
    mem_free(r);
}

TEST(gpus_are_judged)
{
    DoctorReport *r = mem_alloc(sizeof *r);
    Nvml *n = NULL;
    StrBuf text = { 0 };
    REQUIRE(r != NULL);
    REQUIRE_OK(nvml_open(&n, CONVOY_FAKE_NVML));
    const DoctorOptions o = { .root = test_scratch(), .gpus = 2, .efa = -1, .nvml = n };
    r->count = 0;
    r->check = "gpus";
    doctor_check_gpus(&o, r);
    CHECK(doctor_worst(r) == VERDICT_WARN);
    doctor_add_table(r, "host", &text);
    CHECK_CONTAINS(text.text, "driver 555.42.06, 2 GPUs");
    CHECK_CONTAINS(
        text.text,
        "GPU 0: Made-up GPU 0, 80 GiB, 1755 of 1980 MHz, 312 of 700 W, 54 degrees Celsius");
    CHECK_CONTAINS(text.text, "GPU 1: the hardware limits the clocks: too hot (1005 of 1980 MHz)");
    CHECK_CONTAINS(text.text, "GPU 1: 88 degrees");
    CHECK_CONTAINS(text.text, "GPU 1: PCIe link of 8 lanes, it could have 16");
    CHECK(!strstr(text.text, "GPU 0: PCIe"));
    CHECK_CONTAINS(text.text, "GPUs have 12 NVLinks");
    CHECK_CONTAINS(text.text, "GPU 1: 11 NVLinks are up, others of this host have 12");
    CHECK(!strstr(text.text, "GPU 0: 12 NVLinks"));
    doctor_check_energy(&o, r);
    doctor_add_table(r, "host", &text);
    CHECK_CONTAINS(text.text, "1 of 2 GPUs have no energy counter");
    CHECK_CONTAINS(text.text, "no CPU energy counter");
    str_free(&text);
    nvml_close(n);
    mem_free(r);
}

TEST(report_as_json)
{
    DoctorReport *r = mem_calloc(1, sizeof *r);
    StrBuf text = { 0 };
    Arena *arena = NULL;
    JsonValue *root = NULL;
    REQUIRE(r != NULL);
    REQUIRE_OK(arena_create(&arena, 0));
    r->check = "shm";
    doctor_find(r, VERDICT_OK, "", "fine");
    doctor_find(r, VERDICT_FAIL, "do \"this\"", "%d MiB", 8);
    doctor_add_json(r, "node7", &text);
    REQUIRE_OK(json_parse(arena, text.text, text.length, &root));
    CHECK_STR(json_get(root, "host")->string, "node7");
    CHECK_STR(json_get(root, "worst")->string, "fail");
    const JsonValue *second = json_get(root, "findings")->child->next;
    CHECK_STR(json_get(second, "check")->string, "shm");
    CHECK_STR(json_get(second, "text")->string, "8 MiB");
    CHECK_STR(json_get(second, "advice")->string, "do \"this\"");
    CHECK(second->next == NULL);
    arena_destroy(arena);
    str_free(&text);
    mem_free(r);
}

TEST(lists_of_cpus_are_counted)
{
    CHECK_INT(doctor_count_cpus("0-3,8,10-11"), 7);
    CHECK_INT(doctor_count_cpus("0"), 1);
    CHECK_INT(doctor_count_cpus(""), 0);
}

/* ---- Lustre's layouts, as its own header describes them ---- */

static void put(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> 8 * i);
}

static void put_stripes(uint8_t *at, uint32_t magic, uint32_t size, uint32_t count)
{
    put(at, magic, 4);
    put(at + 24, size, 4);
    put(at + 28, count, 2);
}

static bool says(const uint8_t *lov, size_t bytes, const char *wanted)
{
    StrBuf text = { 0 };
    bool known = doctor_lustre_layout(lov, bytes, &text);
    if (wanted) CHECK_STR(text.text, wanted);
    str_free(&text);
    return known;
}

TEST(layouts_of_lustre)
{
    uint8_t lov[256] = { 0 };
    put_stripes(lov, 0x0BD10BD0, 1 << 20, 1);
    CHECK(says(lov, 32, "1 target in stripes of 1024 KiB"));
    put_stripes(lov, 0x0BD30BD0, 4 << 20, 0xffff);
    CHECK(says(lov, 48, "all targets in stripes of 4096 KiB"));
    CHECK(!says(lov, 31, NULL));
    put_stripes(lov, 0x0BD10BD1, 1 << 20, 1);
    CHECK(!says(lov, 32, NULL));
    /* a progressive layout of two parts */
    memset(lov, 0, sizeof lov);
    put(lov, 0x0BD60BD0, 4);
    put(lov + 14, 2, 2);
    put(lov + 32 + 24, 128, 4);
    put(lov + 32 + 48 + 24, 160, 4);
    put_stripes(lov + 128, 0x0BD10BD0, 1 << 20, 1);
    put_stripes(lov + 160, 0x0BD10BD0, 1 << 20, 8);
    CHECK(says(lov, 192, "1 target in stripes of 1024 KiB, then 8 targets in stripes of 1024 KiB"));
    CHECK(says(lov, 160, "1 target in stripes of 1024 KiB")); /* cut off */
    put(lov + 32 + 24, 0xfffffff0, 4);
    CHECK(!says(lov, 160, NULL));
}

TEST(clocks_are_bounded_by_every_try)
{
    double least = -1e9, most = 1e9;
    doctor_clock_bound(10.0, 12.5, 10.4, &least, &most); /* 2.1 to 2.5 ahead */
    CHECK_NEAR(least, 2.1, 1e-9);
    CHECK_NEAR(most, 2.5, 1e-9);
    doctor_clock_bound(11.0, 13.3, 11.1, &least, &most);
    doctor_clock_bound(12.0, 15.0, 14.0, &least, &most); /* says nothing new */
    CHECK_NEAR(least, 2.2, 1e-9);
    CHECK_NEAR(most, 2.3, 1e-9);
}
