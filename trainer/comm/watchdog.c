/* watchdog.c - how a process ends whose peer was lost. */
#include "trainer/comm/watchdog.h"

#include "base/log.h"
#include "trainer/comm/launcher.h"
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define PAUSE_S      1.0 /* between two polls: longer than any nap or busy core explains */
#define ANSWER_S     3.0 /* for mpirun */
#define LAST_WORDS_S 10  /* a thread that hangs may hold a lock that they need, or the run's file system be gone */

double watchdog_pause_s(double *polled_s, double now)
{
    double pause_s = now - *polled_s;
    *polled_s = now;
    return pause_s < PAUSE_S ? 0 : pause_s;
}

double watchdog_forgive(double since_s, double pause_s, double now)
{
    return since_s + pause_s < now ? since_s + pause_s : now;
}

/* Until alarm(0) the process ends by SIGALRM when they take too long. */
static void limit_last_words(void)
{
    sigset_t alarm_alone;
    sigemptyset(&alarm_alone);
    sigaddset(&alarm_alone, SIGALRM);
    signal(SIGALRM, SIG_DFL); /* a handler might be given to the thread that hangs */
    pthread_sigmask(SIG_UNBLOCK, &alarm_alone, NULL);
    alarm(LAST_WORDS_S);
}

void watchdog_report(Comm *c, double waited_s, const char *operation, const char *reason)
{
    const char *phase = c->phase;
    char host[64] = { 0 }, problem[64] = "failure";
    limit_last_words();
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "unknown host");
    if (waited_s > 0) snprintf(problem, sizeof problem, "no progress for %.*f s", waited_s < 10 ? 1 : 0, waited_s);
    log_error("rank %d on %s: %s in step %lld (%s), operation %s: %s", c->rank, host, problem, (long long)c->step,
              phase ? phase : "start", operation, reason);
    fflush(NULL);
    if (c->last_words) c->last_words(c->last_words_cookie, EXIT_PEER_LOST, reason);
    alarm(0);
}

void watchdog_exit(const Comm *c)
{
    const char *launcher = c->launcher;
    if (launcher && !launcher_answers(launcher, ANSWER_S)) launcher_end_daemon();
    _exit(EXIT_PEER_LOST);
}
