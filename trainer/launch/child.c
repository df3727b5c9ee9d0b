/* child.c - see child.h. */
#include "trainer/launch/child.h"

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
    return fail(ERR_ENV, "cannot become the parent of orphans: %s", strerror(errno));
}

/* Between vfork and exec, in the parent's memory: nothing here may allocate, lock, or change what the parent sees. */
static void become(const char *const argv[], int output, int errors, pid_t parent)
{
    static const int changed[] = { SIGPIPE, SIGXFSZ }; /* ignored ones survive exec, handlers do not */
    sigset_t none;
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != parent) _exit(CHILD_CANNOT_START);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) _exit(CHILD_CANNOT_START);
    if (output >= 0 && dup2(output, STDOUT_FILENO) < 0) _exit(CHILD_CANNOT_START);
    if (errors >= 0 && dup2(errors, STDERR_FILENO) < 0) _exit(CHILD_CANNOT_START);
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++) signal(changed[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    union {
        const char *const *in;
        char *const *out;
    } words = { .in = argv }; /* exec takes them without const and changes nothing */
    execvp(argv[0], words.out);
    _exit(CHILD_CANNOT_START);
}

Status child_start(pid_t *out, const char *const argv[], int output, int errors)
{
    /* A large process is not copied, and pages that a network adapter knows stay where they are. */
    pid_t parent = getpid(), pid = vfork();
    if (pid < 0) return fail(ERR_ENV, "cannot start %s: %s", argv[0], strerror(errno));
    if (pid == 0) become(argv, output, errors, parent);
    setpgid(pid, pid); /* both sides: whoever comes first */
    *out = pid;
    return OK;
}

bool child_ended(pid_t pid, int *code)
{
    int status;
    if (waitpid(pid, &status, WNOHANG) != pid) return false;
    *code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return true;
}

bool child_wait(pid_t pid, int *code, double seconds)
{
    for (double end = clock_s() + seconds;; clock_sleep_s(PERIOD_S)) {
        if (child_ended(pid, code)) return true;
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

/* The parent of a process, 0 if it is gone: field 4 of stat, behind a name that may hold anything. */
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

static void kill_children(void)
{
    DIR *dir = opendir("/proc");
    if (!dir) return;
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        int64_t pid;
        if (str_to_i64(entry->d_name, &pid) && pid > 1 && parent_of(entry->d_name) == getpid())
            kill((pid_t)pid, SIGKILL);
    }
    closedir(dir);
}

void child_kill_all(void)
{
    for (;;) {
        kill_children(); /* again after each death: it may leave orphans */
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD) return;
        if (pid == 0) clock_sleep_s(0.01);
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

/* Until the child has ended and its streams are read, or the time is over. A grandchild that keeps a stream open is not
 * waited for once the child is gone. */
static void listen_to(ChildResult *r, pid_t pid, const int fds[2], double timeout_s)
{
    struct pollfd waiting[2] = { { .fd = fds[0], .events = POLLIN }, { .fd = fds[1], .events = POLLIN } };
    StrBuf *streams[2] = { &r->output, &r->errors };
    bool ended = false;
    for (double end = clock_s() + timeout_s; clock_s() < end;) {
        int ready = poll(waiting, 2, ended ? 0 : (int)(PERIOD_S * 1e3));
        for (int i = 0; i < 2; i++)
            if (waiting[i].revents && !drain(fds[i], streams[i])) waiting[i].fd = -1;
        bool closed = waiting[0].fd < 0 && waiting[1].fd < 0;
        if (ended && (closed || ready <= 0)) return;
        if (!ended) ended = child_ended(pid, &r->code);
        if (!ended && closed) clock_sleep_s(PERIOD_S);
    }
    r->timed_out = !ended;
    if (!ended) child_kill(pid);
}

Status child_run(ChildResult *out, const char *const argv[], double timeout_s)
{
    int output[2], errors[2];
    pid_t pid = -1;
    *out = (ChildResult){ .code = 0 };
    if (pipe2(output, O_CLOEXEC) != 0) return fail(ERR_ENV, "cannot make a pipe: %s", strerror(errno));
    if (pipe2(errors, O_CLOEXEC) != 0) {
        close(output[0]);
        close(output[1]);
        return fail(ERR_ENV, "cannot make a pipe: %s", strerror(errno));
    }
    Status status = child_start(&pid, argv, output[1], errors[1]);
    close(output[1]);
    close(errors[1]);
    if (status == OK) listen_to(out, pid, (const int[2]){ output[0], errors[0] }, timeout_s);
    close(output[0]);
    close(errors[0]);
    if (status == OK && (out->output.failed || out->errors.failed)) return fail(ERR_MEMORY, "out of memory");
    return status;
}

void child_result_free(ChildResult *r)
{
    str_free(&r->output);
    str_free(&r->errors);
}
