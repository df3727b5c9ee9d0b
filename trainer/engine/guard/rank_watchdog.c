/* rank_watchdog.c - see rank_watchdog.h. A thread of its own that looks a few times a second and
 * otherwise sleeps. */
#include "trainer/engine/guard/rank_watchdog.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "trainer/engine/comm/launcher.h"
#include "trainer/engine/comm/peer_watchdog.h"
#include "trainer/engine/guard/hang_report.h"
#include "trainer/engine/guard/signals.h"
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PERIOD_S       0.2
#define STILL_S        0.3
#define ANSWER_S       3   /* for mpirun, at most */
#define ASK_PART       5   /* mpirun is asked so often before the limit */
#define OTHERS_SPEAK_S 0.3 /* after rank 0 */
#define LAST_WORDS_S   20

struct RankWatchdog {
    Comm *comm;
    RankWatchdogLimits limits;
    char *run_dir;
    uint64_t reports; /* hang_report_mark() at the start */
    pthread_t thread;
    atomic_bool stop;
};

static double limit_of(const RankWatchdogLimits *l, const char *phase)
{
    const struct {
        const char *phase;
        double limit_s;
    } rows[] = { { "step", l->step_s },
                 { "evaluation", l->evaluation_s },
                 { "checkpoint", l->checkpoint_s } };
    for (size_t i = 0; phase && i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].phase, phase) == 0) return rows[i].limit_s;
    return l->start_s;
}

static _Noreturn void give_up(const RankWatchdog *w, const char *phase, double waited_s)
{
    char reason[128];
    snprintf(reason, sizeof reason, "no progress within watchdog.%s_s; see hang-%d.json",
             phase ? phase : "start", w->comm->rank);
    peer_watchdog_report(w->comm, waited_s, "none", reason);
    peer_watchdog_exit(w->comm);
}

/* Whether this rank, asked to stop, has been still since before a peer gave up. */
static bool peers_gave_up(const RankWatchdog *w, double quiet_s)
{
    if (w->comm->world == 1 || quiet_s < STILL_S || !signals_stop_requested()) return false;
    return hang_report_mark(w->run_dir) != w->reports;
}

static _Noreturn void leave_missed(const RankWatchdog *w, double waited_s)
{
    char reason[128];
    snprintf(reason, sizeof reason, "no progress when a peer timed out; see hang-%d.json",
             w->comm->rank);
    peer_watchdog_report(w->comm, waited_s, "none", reason);
    _exit(EXIT_PEER_LOST);
}

/* Before the first step there is nothing to save, and the main thread may be about something that
 * takes long: a scan, a checkpoint to read. */
static _Noreturn void leave_start(const RankWatchdog *w)
{
    static const char reason[] = "stopped on request before the first step; there was nothing to "
                                 "save; run the same command to continue";
    alarm(LAST_WORDS_S);      /* should they hang */
    if (w->comm->rank != 0) { /* where rank 0 was asked too, it says it, and mpirun ends this one */
        clock_sleep_s(OTHERS_SPEAK_S);
        log_warning_here("%s", reason);
    } else log_info("convoy: %s", reason);
    const int code = status_exit_code(ERR_STOPPED);
    if (w->comm->last_words) w->comm->last_words(w->comm->last_words_cookie, code, reason);
    _exit(code);
}

static _Noreturn void leave_cut_off(const RankWatchdog *w, double waited_s)
{
    launcher_end_daemon(); /* first: last words may hang on a file system that is gone */
    peer_watchdog_report(w->comm, waited_s, "none",
                         "mpirun does not answer: this host is cut off (watchdog.disconnect_s)");
    _exit(EXIT_PEER_LOST);
}

typedef struct Quiet { /* clock_s() of the last ... */
    double since_s;    /* sign of life */
    double answered_s; /* sign of life, or answer of mpirun */
    double asked_s;    /* question to mpirun */
} Quiet;

static void ask_launcher(const RankWatchdog *w, Quiet *q)
{
    double limit_s = w->limits.disconnect_s, part_s = limit_s / ASK_PART, now = clock_s();
    const char *launcher = w->comm->launcher;
    if (!launcher || limit_s <= 0 || w->comm->local_rank != 0) return;
    if (now - q->answered_s < part_s || now - q->asked_s < part_s) return;
    q->asked_s = now;
    if (launcher_answers(launcher, fmin(ANSWER_S, part_s))) q->answered_s = clock_s();
    else if (clock_s() - q->answered_s > limit_s) leave_cut_off(w, clock_s() - q->since_s);
}

static void *run(void *arg)
{
    RankWatchdog *w = arg;
    double polled_s = clock_s();
    Quiet q = { polled_s, polled_s, polled_s };
    int64_t beats = w->comm->beats;
    for (; !w->stop; clock_sleep_s(PERIOD_S)) {
        double now = clock_s(), pause_s = peer_watchdog_pause_s(&polled_s, now);
        q.since_s = peer_watchdog_forgive(q.since_s, pause_s, now);
        q.answered_s = peer_watchdog_forgive(q.answered_s, pause_s, now);
        if (w->comm->beats != beats) q.since_s = q.answered_s = now;
        beats = w->comm->beats;
        const char *phase = w->comm->phase;
        double limit_s = limit_of(&w->limits, phase);
        if (limit_s > 0 && now - q.since_s > limit_s) give_up(w, phase, now - q.since_s);
        if (!phase && signals_stop_requested()) leave_start(w);
        if (peers_gave_up(w, now - q.since_s)) leave_missed(w, now - q.since_s);
        ask_launcher(w, &q);
        polled_s = clock_s(); /* waiting for mpirun was no pause */
    }
    return NULL;
}

Status rank_watchdog_start(RankWatchdog **out, Comm *comm, const RankWatchdogLimits *limits,
                           const char *run_dir)
{
    *out = NULL;
    RankWatchdog *w = mem_calloc(1, sizeof *w);
    if (!w) return ERR_MEMORY;
    w->comm = comm;
    w->limits = *limits;
    w->run_dir = mem_strdup(run_dir);
    w->reports = hang_report_mark(run_dir);
    comm_find_launcher(comm);
    Status status = w->run_dir ? thread_start(&w->thread, "watch", run, w) : ERR_MEMORY;
    if (status == OK) {
        *out = w;
        return OK;
    }
    mem_free(w->run_dir);
    mem_free(w);
    return status;
}

void rank_watchdog_stop(RankWatchdog *w)
{
    if (!w) return;
    w->stop = true;
    pthread_join(w->thread, NULL);
    mem_free(w->run_dir);
    mem_free(w);
}
