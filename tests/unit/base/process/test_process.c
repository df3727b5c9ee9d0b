/* Memory that is left, by made-up trees of proc and sys. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "base/str.h"
#include "tests/test.h"
#include <string.h>

enum { FILES_MAX = 9 };

typedef struct Tree {
    const char *name;
    int64_t left;
    struct {
        const char *path, *text;
    } files[FILES_MAX];
} Tree;

#define MEMINFO "proc/meminfo", "MemTotal: 9000 kB\nMemFree: 1 kB\nMemAvailable:    8000 kB\n"
#define CGROUP  "proc/self/cgroup"
#define V1_NONE "9223372036854771712\n"

static const Tree trees[] = {
    { "nothing tells", 0, { { "proc/other", "" } } },
    { "no group", 8000 * 1024, { { MEMINFO } } },
    { "v2 without a limit",
      8000 * 1024,
      { { MEMINFO },
        { CGROUP, "0::/a.slice/b.scope\n" },
        { "sys/fs/cgroup/a.slice/b.scope/memory.max", "max\n" },
        { "sys/fs/cgroup/a.slice/b.scope/memory.current", "99000\n" } } },
    /* what is used counts, but for files that give way */
    { "v2",
      1000000 - 300000 + 50000,
      { { MEMINFO },
        { CGROUP, "0::/a.slice/b.scope\n" },
        { "sys/fs/cgroup/a.slice/b.scope/memory.max", "1000000\n" },
        { "sys/fs/cgroup/a.slice/b.scope/memory.current", "300000\n" },
        { "sys/fs/cgroup/a.slice/b.scope/memory.stat",
          "file 70000\ninactive_file 50000\nactive_file 20000\n" } } },
    { "v2, above it a tighter one",
      400000,
      { { MEMINFO },
        { CGROUP, "0::/a.slice/b.scope\n" },
        { "sys/fs/cgroup/a.slice/b.scope/memory.max", "1000000\n" },
        { "sys/fs/cgroup/a.slice/b.scope/memory.current", "300000\n" },
        { "sys/fs/cgroup/a.slice/memory.max", "900000\n" },
        { "sys/fs/cgroup/a.slice/memory.current", "500000\n" } } },
    { "v2, a container's own at the root",
      700000,
      { { MEMINFO },
        { CGROUP, "0::/\n" },
        { "sys/fs/cgroup/memory.max", "1000000\n" },
        { "sys/fs/cgroup/memory.current", "300000\n" } } },
    { "v2, more used than allowed",
      0,
      { { MEMINFO },
        { CGROUP, "0::/\n" },
        { "sys/fs/cgroup/memory.max", "1000000\n" },
        { "sys/fs/cgroup/memory.current", "1200000\n" } } },
    /* as Slurm makes them */
    { "v1",
      2000000 - 500000 + 100000,
      { { MEMINFO },
        { CGROUP, "9:name=systemd:/\n4:memory:/slurm/job_7\n3:cpu,cpuacct:/\n" },
        { "sys/fs/cgroup/memory/memory.limit_in_bytes", V1_NONE },
        { "sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", V1_NONE },
        { "sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "2000000\n" },
        { "sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", "500000\n" },
        { "sys/fs/cgroup/memory/slurm/job_7/memory.stat",
          "cache 1\ninactive_file 2\ntotal_inactive_file 100000\n" } } },
    { "v1, a container's own at the root",
      600000,
      { { MEMINFO },
        { CGROUP, "4:memory:/docker/0123\n0::/system.slice\n" },
        { "sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000\n" },
        { "sys/fs/cgroup/memory/memory.usage_in_bytes", "400000\n" } } },
    { "the machine has less than the group",
      8000 * 1024,
      { { MEMINFO }, { CGROUP, "0::/\n" }, { "sys/fs/cgroup/memory.max", "99000000\n" } } },
};

static void write_file(const char *root, const char *name, const char *text)
{
    char *path = fs_join(root, name), *slash = path ? strrchr(path, '/') : NULL;
    REQUIRE(slash != NULL);
    *slash = '\0';
    REQUIRE_OK(fs_make_dirs(path));
    *slash = '/';
    REQUIRE_OK(fs_write_atomic(path, text, strlen(text)));
    mem_free(path);
}

TEST(memory_that_is_left)
{
    for (size_t i = 0; i < sizeof trees / sizeof trees[0]; i++) {
        StrBuf root = { 0 };
        str_printf(&root, "%s/%zu", test_scratch(), i);
        REQUIRE(!root.failed);
        for (int k = 0; k < FILES_MAX && trees[i].files[k].path; k++)
            write_file(root.text, trees[i].files[k].path, trees[i].files[k].text);
        int64_t left = process_available_bytes_in(root.text);
        if (left != trees[i].left) CHECK_STR(trees[i].name, "has what it should");
        CHECK_INT(left, trees[i].left);
        str_free(&root);
    }
}
