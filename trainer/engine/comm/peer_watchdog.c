/* peer_watchdog.c - how a process ends whose peer was lost. */
#include "trainer/engine/comm/peer_watchdog.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/process/process.h"
#include "base/thread.h"
#include "trainer/engine/comm/launcher.h"
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define PAUSE_S      1.0 /* between two polls: longer than any nap or busy core explains */
#define ANSWER_S     3.0 /* for mpirun */
#define LAST_WORDS_S 10.0
#define OTHERS_S     2.0 /* mpirun may end the others as soon as one rank is gone */
#define ALARM_S      20

double peer_watchdog_pause_s(double *polled_s, double now)
{
    double pause_s = now - *polled_s;
    *polled_s = now;
    return pause_s < PAUSE_S ? 0 : pause_s;
}

double peer_watchdog_forgive(double since_s, double pause_s, double now)
{
    return since_s + pause_s < now ? since_s + pause_s : now;
}

/* ---- last words ---- */

typedef struct Words {
    Comm *comm;
    char line[512], reason[256];
    atomic_bool logged, said;
} Words;

static void *log_the_line(void *arg)
{
    Words *w = arg;
    log_error("%s", w->line);
    fflush(NULL);
    w->logged = true;
    return NULL;
}

static void *say_the_words(void *arg)
{
    Words *w = arg;
    if (w->comm->last_words)
        w->comm->last_words(w->comm->last_words_cookie, EXIT_PEER_LOST, w->reason);
    w->said = true;
    return NULL;
}

/* Should even this thread be stuck: the process is ended by SIGALRM. A handler might be given to
 * the thread that hangs. */
static void set_alarm(void)
{
    sigset_t alarm_alone;
    sigemptyset(&alarm_alone);
    sigaddset(&alarm_alone, SIGALRM);
    signal(SIGALRM, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &alarm_alone, NULL);
    alarm(ALARM_S);
}

/* Past a log that is stuck; unless whoever reads our stderr is, too. */
static void write_the_line(const Words *w)
{
    struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
    if (poll(&out, 1, 0) == 1 && out.revents & POLLOUT)
        dprintf(STDERR_FILENO, "%s: error: %s\n", log_program(), w->line);
}

/* Line and words each have a thread of their own, since each may block: the line on a log that the
 * hung thread holds or that nobody drains, the words on a file system that is gone. Whoever comes
 * second waits for the first. */
void peer_watchdog_report(Comm *c, double waited_s, const char *operation, const char *reason)
{
    static Words words; /* outlives this call: a thread that is stuck may go on */
    static atomic_bool begun;
    const char *phase = c->phase;
    char problem[64] = "failure";
    pthread_t thread;
    double end_s = clock_s() + LAST_WORDS_S;
    if (!atomic_exchange(&begun, true)) {
        set_alarm();
        if (waited_s > 0)
            snprintf(problem, sizeof problem, "no progress for %.*f s", waited_s < 10 ? 1 : 0,
                     waited_s);
        words.comm = c;
        snprintf(words.reason, sizeof words.reason, "%s", reason);
        snprintf(words.line, sizeof words.line,
                 "rank %d on %s: %s in step %lld (%s), operation %s: %s", c->rank, process_host(),
                 problem, (long long)c->step, phase ? phase : "start", operation, reason);
        if (thread_start(&thread, "last line", log_the_line, &words) != OK) log_the_line(&words);
        if (thread_start(&thread, "last words", say_the_words, &words) != OK) say_the_words(&words);
    }
    while (!(words.logged && words.said) && clock_s() < end_s) clock_sleep_s(0.01);
    if (!words.logged) write_the_line(&words);
}

/* ---- the end ---- */

void peer_watchdog_exit(const Comm *c)
{
    const char *launcher = c->launcher;
    if (launcher && !launcher_answers(launcher, ANSWER_S)) launcher_end_daemon();
    if (c->world > 1) clock_sleep_s(OTHERS_S); /* for their last words */
    _exit(EXIT_PEER_LOST);
}
