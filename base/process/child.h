/* child.h - processes that a supervisor starts: none of them may outlive it.
 *
 * A child has a process group of its own, reads nothing from stdin, has every signal as at its
 * default, and is killed by the kernel if the supervisor dies. child_adopt_orphans() makes the
 * supervisor the parent of whatever its children leave behind on this machine, so that
 * child_kill_all() finds it. From one thread only. */
#ifndef CONVOY_BASE_PROCESS_CHILD_H
#define CONVOY_BASE_PROCESS_CHILD_H
#include "base/status.h"
#include "base/str.h"
#include <stdbool.h>
#include <sys/types.h>

/* exit code of a shell whose program is not there; a loader's without its library */
#define CHILD_CANNOT_START 127

Status child_adopt_orphans(void);
/* argv[0] is looked for in PATH; NULL-ended. output, errors: file descriptors, -1: the supervisor's
 * own. ERR_ENV naming the program, also where it is not there. */
Status child_start(pid_t *out, const char *const argv[], int output, int errors);
/* Waits at most this many seconds for its end; then *code is its exit code, or 128 and the signal.
 * False: still there. */
bool child_wait(pid_t pid, int *code, double seconds);
void child_signal(pid_t pid, int number); /* the child alone */
/* SIGKILL for the whole group, and waits for the child. */
void child_kill(pid_t pid);
void child_kill_all(void); /* every child and adopted orphan, until there is none */
/* Takes note of the adopted orphans that have ended, while no other child than this one (0: none)
 * is waited for. */
void child_reap_orphans(pid_t but);

typedef struct ChildResult {
    int code;
    bool timed_out;
    StrBuf output, errors; /* at most CHILD_OUTPUT_MAX each; str_free */
} ChildResult;
#define CHILD_OUTPUT_MAX ((size_t)1 << 20)
/* Runs argv to its end or kills it after timeout_s, or once stop() says so (NULL ok), and keeps
 * what it prints. Where this process dies meanwhile, in whatever way, all that argv has started is
 * killed too. What argv leaves behind at its own end stays. ERR_ENV if it cannot be started. */
Status child_run_until(ChildResult *out, const char *const argv[], double timeout_s,
                       bool (*stop)(void));
/* As child_run_until() among what earlier ones of the group have left behind: that lives on until
 * child_group_end(), or the end of this process in whatever way, or until one of them is killed
 * because its time is over. What makes itself a session or a group of its own leaves this one; of
 * groups, those below a command whose time is over are killed with it. */
typedef struct ChildGroup { /* zeroed: nothing has run */
    pid_t leader;
    int life; /* ends when this process does */
} ChildGroup;
Status child_run_in(ChildResult *out, ChildGroup *g, const char *const argv[], double timeout_s,
                    bool (*stop)(void));
void child_group_end(ChildGroup *g);
void child_result_free(ChildResult *r);
#endif
