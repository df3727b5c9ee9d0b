/* child.c - see child.h. */
#include "base/process/child.h"

#include "base/clock.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PERIOD_S 0.05 /* between two looks at a child */

Status child_adopt_orphans(void)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0) return OK;
    return fail(ERR_ENV, "cannot become the parent of orphaned processes: %s", strerror(errno));
}

typedef struct Origin {        /* of a child */
    int input, output, errors; /* -1: nothing; the parent's own; the parent's own */
    pid_t group;               /* 0: one of its own */
    pid_t parent;              /* dies with it; 0: does not */
} Origin;

/* Between vfork and exec, in the parent's memory: nothing here may allocate, lock, or change what
 * the parent sees but for *error, why the program could not be started. */
static void become(const char *const argv[], const Origin *o, volatile int *error)
{
    /* ignored ones survive exec, handlers do not */
    static const int changed[] = { SIGPIPE, SIGXFSZ };
    sigset_t none;
    int input = o->input >= 0 ? o->input : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (setpgid(0, o->group) != 0) goto fail; /* it may be killed as a group */
    if (o->parent && (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != o->parent))
        goto fail;
    if (input < 0 || dup2(input, STDIN_FILENO) < 0) goto fail;
    if (o->output >= 0 && dup2(o->output, STDOUT_FILENO) < 0) goto fail;
    if (o->errors >= 0 && dup2(o->errors, STDERR_FILENO) < 0) goto fail;
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++) signal(changed[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    union {
        const char *const *in;
        char *const *out;
    } words = { .in = argv }; /* exec takes them without const and changes nothing */
    execvp(argv[0], words.out);
fail:
    *error = errno ? errno : ECHILD;
    _exit(CHILD_CANNOT_START);
}

static Status start(pid_t *out, const char *const argv[], const Origin *o)
{
    /* A large process is not copied, and pages that a network adapter knows stay where they are. */
    volatile int error = 0;
    pid_t pid = vfork();
    if (pid < 0) return fail(ERR_ENV, "cannot start %s: %s", argv[0], strerror(errno));
    if (pid == 0) become(argv, o, &error);
    if (error != 0) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
        return fail(ERR_ENV, "cannot start %s: %s", argv[0], strerror(error));
    }
    setpgid(pid, o->group ? o->group : pid); /* both sides: whoever comes first */
    *out = pid;
    return OK;
}

Status child_start(pid_t *out, const char *const argv[], int output, int errors)
{
    return start(out, argv,
                 &(Origin){ .input = -1, .output = output, .errors = errors, .parent = getpid() });
}

/* Whether it has ended; then *code is its exit code, or 128 and the signal. Once. */
static bool has_ended(pid_t pid, int *code)
{
    int status;
    if (waitpid(pid, &status, WNOHANG) != pid) return false;
    *code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return true;
}

bool child_wait(pid_t pid, int *code, double seconds)
{
    for (double end = clock_s() + seconds;; clock_sleep_s(PERIOD_S)) {
        if (has_ended(pid, code)) return true;
        if (clock_s() >= end) return false;
    }
}

void child_signal(pid_t pid, int number)
{
    kill(pid, number);
}

void child_kill(pid_t pid)
{
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL); /* before it has made its group */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
}

/* The parent of a process, 0 if it is gone: field 4 of stat, behind a name that may hold
 * anything. */
static pid_t parent_of(const char *number)
{
    char path[300], text[512];
    snprintf(path, sizeof path, "/proc/%s/stat", number);
    int fd = open(path, O_RDONLY | O_CLOEXEC), parent = 0;
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *end = strrchr(text, ')');
    return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

static void each_child(pid_t parent, void (*act)(pid_t pid))
{
    DIR *dir = opendir("/proc");
    if (!dir) return;
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        int64_t pid;
        if (str_to_i64(entry->d_name, &pid) && pid > 1 && parent_of(entry->d_name) == parent)
            act((pid_t)pid);
    }
    closedir(dir);
}

static void kill_one(pid_t pid)
{
    kill(pid, SIGKILL);
}

/* And what it has started, also in groups of their own as timeout makes one, but not in a session
 * of its own. */
static void kill_tree(pid_t pid)
{
    if (getsid(pid) != getsid(0)) return;
    kill(pid, SIGSTOP); /* it starts nothing more */
    each_child(pid, kill_tree);
    kill(pid, SIGKILL);
}

void child_kill_all(void)
{
    for (;;) {
        each_child(getpid(), kill_one); /* again after each death: it may leave orphans */
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD) return;
        if (pid == 0) clock_sleep_s(0.01);
    }
}

void child_reap_orphans(pid_t but)
{
    for (;;) {
        siginfo_t ended = { .si_pid = 0 };
        if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0) return;
        /* its end is the caller's to see, and soon */
        if (ended.si_pid == 0 || ended.si_pid == but) return;
        waitpid(ended.si_pid, NULL, WNOHANG);
    }
}

/* ---- keeping what a child prints ---- */

/* Reads what is there. False at the end of the stream. */
static bool drain(int fd, StrBuf *out)
{
    char block[4096];
    ssize_t n = read(fd, block, sizeof block);
    size_t room = CHILD_OUTPUT_MAX - out->length;
    if (n > 0) str_add_n(out, block, (size_t)n < room ? (size_t)n : room); /* without holes */
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Until the child has ended and its streams are read, or the time is over, or stop says so; then
 * its group is killed. A grandchild that keeps a stream open is not waited for once the child is
 * gone. */
static void listen_to(ChildResult *r, pid_t pid, pid_t group, const int fds[2], double timeout_s,
                      bool (*stop)(void))
{
    struct pollfd waiting[2] = { { .fd = fds[0], .events = POLLIN },
                                 { .fd = fds[1], .events = POLLIN } };
    StrBuf *streams[2] = { &r->output, &r->errors };
    bool ended = false;
    for (double end = clock_s() + timeout_s; clock_s() < end && !(stop && stop());) {
        int ready = poll(waiting, 2, ended ? 0 : (int)(PERIOD_S * 1e3));
        for (int i = 0; i < 2; i++)
            if (waiting[i].revents && !drain(fds[i], streams[i])) waiting[i].fd = -1;
        bool closed = waiting[0].fd < 0 && waiting[1].fd < 0;
        if (ended && (closed || ready <= 0)) return;
        if (!ended) ended = has_ended(pid, &r->code);
        if (!ended && closed) clock_sleep_s(PERIOD_S);
    }
    r->timed_out = !ended;
    if (ended) return;
    each_child(pid, kill_tree);
    kill(-group, SIGKILL);
    child_kill(pid);
}

/* The kernel kills a child where this process dies, but not what the child has started. So a shell
 * leads their group and reads from a pipe that nobody writes to: its end, which comes with ours
 * however we end, is the group's. */
static Status lead(ChildGroup *g)
{
    static const char *const watch[] = { "sh", "-c", "read -r end; kill -s KILL 0", NULL };
    int life[2], code;
    if (g->leader > 0 && !has_ended(g->leader, &code)) return OK;
    if (g->leader > 0) close(g->life);
    *g = (ChildGroup){ .leader = 0 };
    if (pipe2(life, O_CLOEXEC) != 0)
        return fail(ERR_ENV, "cannot create a pipe: %s", strerror(errno));
    Status status =
        start(&g->leader, watch, &(Origin){ .input = life[0], .output = -1, .errors = -1 });
    close(life[0]);
    if (status == OK) g->life = life[1];
    else close(life[1]);
    return status;
}

/* who: the leader, or its whole group. */
static void end_group(ChildGroup *g, pid_t who)
{
    if (g->leader <= 0) return;
    kill(who, SIGKILL);
    while (waitpid(g->leader, NULL, 0) < 0 && errno == EINTR) continue;
    close(g->life);
    *g = (ChildGroup){ .leader = 0 };
}

void child_group_end(ChildGroup *g)
{
    end_group(g, -g->leader);
}

static bool open_pipes(int fds[2][2])
{
    if (pipe2(fds[0], O_CLOEXEC) != 0) return false;
    if (pipe2(fds[1], O_CLOEXEC) == 0) return true;
    close(fds[0][0]);
    close(fds[0][1]);
    return false;
}

Status child_run_in(ChildResult *out, ChildGroup *g, const char *const argv[], double timeout_s,
                    bool (*stop)(void))
{
    enum { OUTPUT, ERRORS };
    int fds[2][2];
    pid_t pid = -1;
    *out = (ChildResult){ .code = 0 };
    TRY(lead(g));
    if (!open_pipes(fds)) return fail(ERR_ENV, "cannot create a pipe: %s", strerror(errno));
    Status status = start(&pid, argv,
                          &(Origin){ .input = -1,
                                     .output = fds[OUTPUT][1],
                                     .errors = fds[ERRORS][1],
                                     .group = g->leader,
                                     .parent = getpid() });
    close(fds[OUTPUT][1]);
    close(fds[ERRORS][1]);
    if (status == OK)
        listen_to(out, pid, g->leader, (const int[2]){ fds[OUTPUT][0], fds[ERRORS][0] }, timeout_s,
                  stop);
    if (out->timed_out) child_group_end(g);
    close(fds[OUTPUT][0]);
    close(fds[ERRORS][0]);
    if (status == OK && (out->output.failed || out->errors.failed))
        return fail(ERR_MEMORY, "out of memory");
    return status;
}

Status child_run_until(ChildResult *out, const char *const argv[], double timeout_s,
                       bool (*stop)(void))
{
    ChildGroup g = { .leader = 0 };
    Status status = child_run_in(out, &g, argv, timeout_s, stop);
    end_group(&g, g.leader); /* alone: what has ended by itself may leave something behind */
    return status;
}

void child_result_free(ChildResult *r)
{
    str_free(&r->output);
    str_free(&r->errors);
}
