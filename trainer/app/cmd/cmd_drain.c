/* cmd_drain.c - convoy drain: asks the ranks of this host to save a checkpoint and leave.
 *
 * For what knows the host and not the run: a preStop hook of Kubernetes, a node about to be taken
 * away. A rank is a process of this very program that was started with "train"; who asks one rank
 * asks the run, since the request rides in the step's sums. So on every host of the run all ranks
 * leave, with exit code 75. Of one run are those that have its folder open (presence.h). */
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/app/cmd/commands.h"
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RANKS_MAX 4096
#define PERIOD_S  0.05

static const ArgRow rows[] = {
    { "--run", "RUN", .help = "only the ranks of the run in folder RUN" },
    { "--wait", "SECONDS", .help = "how long to wait; 0: do not wait", .max = 1e9,
      .fallback = 100 },
    ARG_ROW_END,
};

typedef struct Ranks {
    int count;
    pid_t pid[RANKS_MAX];
} Ranks;

static bool same_program(const char *pid, const struct stat *own)
{
    char path[300];
    struct stat other;
    snprintf(path, sizeof path, "/proc/%s/exe", pid);
    return stat(path, &other) == 0 && other.st_ino == own->st_ino && other.st_dev == own->st_dev;
}

/* Whether its first argument is "train". */
static bool trains(const char *pid)
{
    char path[300], text[4096];
    snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
    const ssize_t n = fs_read_head(path, text, sizeof text);
    const size_t first = strlen(text) + 1;
    return n > (ssize_t)first && strcmp(text + first, "train") == 0;
}

/* Whether the process keeps this folder open, by whatever path it came to it. */
static bool has_open(const char *pid, const struct stat *folder)
{
    char path[300];
    struct stat info;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir && !found && (entry = readdir(dir));)
        found = fstatat(dirfd(dir), entry->d_name, &info, 0) == 0 &&
                info.st_ino == folder->st_ino && info.st_dev == folder->st_dev;
    if (dir) closedir(dir);
    return found;
}

static Status find_ranks(Ranks *ranks, const char *run)
{
    struct stat own, folder;
    const struct dirent *entry;
    int64_t pid;
    if (stat("/proc/self/exe", &own) != 0)
        return fail(ERR_ENV, "/proc/self/exe: %s", strerror(errno));
    if (run && stat(run, &folder) != 0) return fail(ERR_USAGE, "--run %s: no such run folder", run);
    if (run && !S_ISDIR(folder.st_mode)) return fail(ERR_USAGE, "--run %s: not a folder", run);
    DIR *dir = opendir("/proc");
    if (!dir) return fail(ERR_ENV, "/proc: %s", strerror(errno));
    while ((entry = readdir(dir)) && ranks->count < RANKS_MAX) {
        if (!str_to_i64(entry->d_name, &pid) || pid == getpid()) continue;
        if (same_program(entry->d_name, &own) && trains(entry->d_name) &&
            (!run || has_open(entry->d_name, &folder)))
            ranks->pid[ranks->count++] = (pid_t)pid;
    }
    closedir(dir);
    return OK;
}

/* Sends number to those that are left, 0 only asks for them; drops those that are gone or whose end
 * is a zombie. */
static void signal_ranks(Ranks *ranks, int number)
{
    int left = 0;
    for (int i = 0; i < ranks->count; i++) {
        char pid[24];
        snprintf(pid, sizeof pid, "%ld", (long)ranks->pid[i]);
        if (trains(pid) && kill(ranks->pid[i], number) == 0) ranks->pid[left++] = ranks->pid[i];
    }
    ranks->count = left;
}

static Status drain(Ranks *ranks, const char *run, double wait_s)
{
    TRY(find_ranks(ranks, run));
    signal_ranks(ranks, SIGUSR1);
    log_info("asked %d rank%s on this host to save a checkpoint and exit", ranks->count,
             ranks->count == 1 ? "" : "s");
    double end = clock_s() + wait_s;
    for (; wait_s > 0 && ranks->count > 0 && clock_s() < end; clock_sleep_s(PERIOD_S))
        signal_ranks(ranks, 0);
    if (wait_s > 0 && ranks->count > 0)
        return fail(ERR_PEER, "%d %s still running after %.0f s", ranks->count,
                    ranks->count == 1 ? "rank is" : "ranks are", wait_s);
    return OK;
}

static Status command(const Args *args)
{
    double wait_s = 0;
    TRY(args_number(args, "--wait", &wait_s));
    Ranks *ranks FREED = mem_calloc(1, sizeof *ranks);
    if (!ranks) return ERR_MEMORY;
    return drain(ranks, args_value(args, "--run"), wait_s);
}

const Command cmd_drain = {
    .name = "drain",
    .group = "Train",
    .summary = "ask the ranks of this host to save a checkpoint and exit",
    .about =
        "Asks every rank of convoy train on this host (same executable, same user) to save a "
        "checkpoint and exit, by sending USR1, and waits until they have exited. The ranks of the "
        "same run on other hosts exit too. Exit code: 0 if no rank is left or none was found; 76 "
        "if some are still running after the wait.",
    .args = rows,
    .alone = command,
};
