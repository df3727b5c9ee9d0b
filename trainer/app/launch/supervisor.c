/* supervisor.c - see supervisor.h. One thread; every wait is short enough for a request to stop to
 * be seen. */
#include "trainer/app/launch/supervisor.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/child.h"
#include "trainer/app/launch/lock.h"
#include "trainer/app/launch/mpirun.h"
#include "trainer/app/launch/probe.h"
#include "trainer/app/launch/progress.h"
#include "trainer/app/launch/record.h"
#include "trainer/engine/guard/presence.h"
#include "trainer/engine/guard/signals.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define PERIOD_S    0.1  /* between two looks at mpirun */
#define TERM_S      5.0  /* between TERM and KILL */
#define PAUSE_MAX_S 30.0 /* between a failure and the next start */
#define SAME_STEP   3    /* failures at one step that are not the hosts' */
#define NAMED       4    /* hosts that a sentence names */
#define GROWN_LOOKS 3    /* that found more in a locked metrics.jsonl: its writer lives */

typedef enum Ending { ENDED_ITSELF, ENDED_STOP, ENDED_RESIZE, ENDED_LOST } Ending;

typedef struct Supervisor {
    const LaunchOptions *o;
    Record *record;
    Probe *probe;
    /* of the present start; hosts that could be used now, best first */
    HostList used, ready;
    const HostList *listed;           /* by the hosts script, of the last look */
    HostList asked, cooling, missing; /* of a look */
    HostBook book;
    pid_t mpirun;
    Relay *relay; /* of what it prints; NULL while there is none */
    int attempt, restarts, same_step;
    int64_t failed_step, told; /* told: bytes of metrics.jsonl before the present start */
    double started_s, missing_since_s, larger_since_s, renewed_s, since_unix_s;
    const char *state;
    char last[512];
    bool taken; /* another supervisor has the run */
} Supervisor;

static Status fail_taken(const Supervisor *s)
{
    return fail(ERR_ENV,
                "%s: another convoy launch took over this run while this one was suspended",
                s->o->run_dir);
}

/* ---- telling ---- */

static void tell_state(Supervisor *s)
{
    s->renewed_s = clock_s();
    s->taken = s->taken || !record_renew_lock(s->record);
    if (s->taken) return; /* the status is another's now */
    const HostList *hosts = s->mpirun > 0 ? &s->used : &s->ready;
    LaunchState state = { .state = s->state,
                          .hosts = hosts,
                          .book = &s->book,
                          .attempt = s->attempt,
                          .restarts = s->restarts,
                          .max_restarts = s->o->max_restarts,
                          .min_hosts = s->o->wanted.min_hosts,
                          .max_hosts = s->o->wanted.max_hosts,
                          .since_s = s->since_unix_s,
                          .last = s->last };
    record_state(s->record, &state);
}

static void set_state(Supervisor *s, const char *state)
{
    if (strcmp(s->state, state) != 0) s->since_unix_s = clock_unix_s();
    s->state = state;
    tell_state(s);
}

/* Waits, with signs of life. Returns early when asked to stop. */
static void pause_for(Supervisor *s, double seconds)
{
    for (double end = clock_s() + seconds; clock_s() < end && !signals_stop_requested();) {
        if (clock_s() - s->renewed_s >= LOCK_RENEW_S) tell_state(s);
        child_reap_orphans(0);
        clock_sleep_s(fmin(PERIOD_S, seconds));
    }
}

/* ---- discover ---- */

/* What could be used now, in s->ready. Where that is too few, hosts that cool down are taken too,
 * one by one, once they have done so for half of the waiting for hosts: no cooldown outlasts it.
 * False: less than wanted. */
static bool look_for_hosts(Supervisor *s)
{
    double now = clock_s();
    s->listed = probe_discover(s->probe);
    hosts_choose(&s->ready, s->listed, &s->used, &s->book, now);
    hosts_choose_cooling(&s->cooling, s->listed, &s->book, now, s->o->wait_hosts_s / 2);
    s->asked = s->ready;
    hosts_add(&s->asked, &s->cooling);
    if (!probe_ask(s->probe, &s->asked)) return false;
    hosts_keep(&s->ready, &s->asked);
    hosts_keep(&s->cooling, &s->asked);
    bool enough = hosts_fit(&s->ready, &s->o->wanted);
    for (int i = 0; i < s->cooling.count && !enough; i++) {
        s->ready.host[s->ready.count++] = s->cooling.host[i];
        enough = hosts_fit(&s->ready, &s->o->wanted);
    }
    return enough;
}

/* "; left out after losses: a, b and 3 more" */
static void describe_cooling(const Supervisor *s, StrBuf *out)
{
    int count = 0;
    for (int i = 0; i < s->listed->count; i++) {
        const char *name = s->listed->host[i].name;
        if (hosts_cooldown(&s->book, name, clock_s()) <= 0 || count++ >= NAMED) continue;
        str_printf(out, "%s%s", count == 1 ? "; left out after losses: " : ", ", name);
    }
    if (count > NAMED) str_printf(out, " and %d more", count - NAMED);
}

/* Why s->ready is not enough. */
static void describe_hosts(const Supervisor *s, StrBuf *out)
{
    const HostsWanted *wanted = &s->o->wanted;
    const char *problem = probe_problem(s->probe);
    int most = s->ready.count;
    if (wanted->max_hosts > 0 && most > wanted->max_hosts) most = wanted->max_hosts;
    str_printf(out, "%d of at least %d hosts", s->ready.count, wanted->min_hosts);
    if (most >= wanted->min_hosts)
        str_printf(
            out, ", but train.global_batch %lld is not divisible by the ranks of %d to %d of them",
            (long long)wanted->global_batch, wanted->min_hosts, most);
    if (problem[0]) str_printf(out, ": %s", problem);
    describe_cooling(s, out);
}

/* ---- gather ---- */

typedef struct Folder { /* the run folder, look by look */
    int64_t bytes;      /* of metrics.jsonl while it was locked, -1 before */
    int grown;          /* looks that found more in it */
} Folder;

/* Whether rank 0 will get the run folder's lock. At first another run may have it: one that goes on
 * writing lives, and is an error. Later it can only be a rank 0 of ours on a host that was lost:
 * the server of a shared file system keeps the lock of a dead host for minutes. */
static Status check_folder(const Supervisor *s, Folder *folder, bool *is_free)
{
    int64_t bytes;
    *is_free = !progress_is_locked(s->o->run_dir, &bytes);
    folder->grown += !*is_free && folder->bytes >= 0 && bytes > folder->bytes;
    folder->bytes = *is_free ? -1 : bytes;
    if (s->attempt == 0 && folder->grown >= GROWN_LOOKS)
        return fail(ERR_IO, "%s: another convoy is writing to this run folder", s->o->run_dir);
    return OK;
}

/* Says what is waited for, once in a row. said is owned by the caller. */
static void say_waiting(const Supervisor *s, bool enough, StrBuf *said)
{
    StrBuf text = { 0 };
    str_printf(&text, "waiting for %s: ", enough ? "the run folder" : "hosts");
    if (enough)
        str_printf(&text, "another convoy holds the lock of %s/metrics.jsonl", s->o->run_dir);
    else describe_hosts(s, &text);
    if (text.text && (!said->text || strcmp(text.text, said->text) != 0))
        log_info("launch: %s", text.text);
    str_free(said);
    *said = text;
}

static Status gather_until(Supervisor *s, double end, StrBuf *said)
{
    Folder folder = { .bytes = -1 };
    for (;;) {
        bool enough = look_for_hosts(s), is_free = false;
        if (signals_stop_requested())
            return fail(ERR_STOPPED, "asked to stop while waiting for hosts");
        if (enough) TRY(check_folder(s, &folder, &is_free));
        if (s->taken) return fail_taken(s);
        if (enough && is_free) return OK;
        if (!enough) TRY(probe_hopeless(s->probe));
        say_waiting(s, enough, said);
        if (clock_s() + s->o->poll_s > end)
            return fail(ERR_STOPPED, "gave up after %.0f s of %s", s->o->wait_hosts_s,
                        said->text ? said->text : "");
        tell_state(s);
        pause_for(s, s->o->poll_s);
    }
}

/* Until there are enough hosts and the run folder is free. ERR_STOPPED: asked to stop, or not in
 * time. */
static Status gather(Supervisor *s)
{
    StrBuf said FREED_BY(str_free) = { 0 };
    set_state(s, "waiting");
    return gather_until(s, clock_s() + s->o->wait_hosts_s, &said);
}

/* ---- start and end ---- */

static void add_names(StrBuf *text, const HostList *hosts)
{
    for (int i = 0; i < hosts->count; i++)
        str_printf(text, " %s:%d", hosts->host[i].name, hosts->host[i].slots);
}

static Status start(Supervisor *s)
{
    StrBuf names FREED_BY(str_free) = { 0 };
    s->used = s->ready;
    for (int i = 0; i < s->used.count; i++)
        hosts_end_cooldown(&s->book, s->used.host[i].name, clock_s());
    s->missing_since_s = s->larger_since_s = 0;
    progress_is_locked(s->o->run_dir, &s->told);
    TRY(mpirun_start(&s->mpirun, &s->relay, s->o, &s->used));
    s->attempt++;
    s->started_s = clock_s();
    add_names(&names, &s->used);
    log_info("launch: start %d: %d ranks on%s", s->attempt, hosts_ranks(&s->used),
             names.text ? names.text : "");
    JsonWriter *w = record_begin(s->record, "run");
    json_int(w, "attempt", s->attempt);
    json_int(w, "ranks", hosts_ranks(&s->used));
    record_hosts(w, "hosts", &s->used);
    record_end(s->record);
    set_state(s, "running");
    return OK;
}

/* Until mpirun has ended, with signs of life; a second request to stop ends the program itself
 * (signals.h). */
static bool wait_for_end(Supervisor *s, int *code, double seconds)
{
    for (double end = clock_s() + seconds; clock_s() < end;) {
        if (child_wait(s->mpirun, code, PERIOD_S)) return true;
        child_reap_orphans(s->mpirun);
        if (clock_s() - s->renewed_s >= LOCK_RENEW_S) tell_state(s);
    }
    return false;
}

/* TERM lets mpirun tell the daemons on other hosts; KILL for an mpirun that waits for a host that
 * is gone. */
static int end_now(Supervisor *s)
{
    int code = 128 + SIGKILL;
    child_signal(s->mpirun, SIGTERM);
    if (!wait_for_end(s, &code, TERM_S)) child_kill(s->mpirun);
    return code;
}

/* A checkpoint and an orderly end if that takes at most the grace. */
static int end_with_checkpoint(Supervisor *s)
{
    int code;
    set_state(s, "stopping");
    child_signal(s->mpirun, SIGUSR1);
    if (wait_for_end(s, &code, s->o->grace_s)) return code;
    log_warning(
        "launch: the run has not ended %.0f s after the request for a checkpoint; ending the ranks",
        s->o->grace_s);
    return end_now(s);
}

/* ---- watch ---- */

/* One look at the script and at all hosts: into s->missing those of the run that are no longer
 * listed or do not answer (*silent: there is one that does not answer), into s->ready what could be
 * used now. False: the look failed, or we are asked to stop, and nothing is known. */
static bool look_at_run(Supervisor *s, bool *silent)
{
    s->missing.count = 0;
    s->listed = probe_discover(s->probe);
    hosts_choose(&s->ready, s->listed, &s->used, &s->book, clock_s());
    s->asked = s->used;
    hosts_add(&s->asked, &s->ready);
    if (!probe_ask(s->probe, &s->asked)) return false;
    hosts_keep(&s->ready, &s->asked);
    *silent = false;
    for (int i = 0; i < s->used.count; i++) {
        const Host *h = &s->used.host[i];
        bool answers = hosts_have(&s->asked, h->name);
        if (!answers || !hosts_have(s->listed, h->name)) s->missing.host[s->missing.count++] = *h;
        if (!answers) *silent = true;
    }
    return true;
}

/* Whether a larger world could be had for long enough. */
static bool grows(Supervisor *s)
{
    double now = clock_s();
    bool larger =
        hosts_fit(&s->ready, &s->o->wanted) && hosts_ranks(&s->ready) > hosts_ranks(&s->used);
    if (!larger) s->larger_since_s = 0;
    else if (s->larger_since_s == 0) s->larger_since_s = now;
    return larger && now - s->larger_since_s >= s->o->lost_after_s &&
           now - s->started_s >= s->o->grow_after_s;
}

/* Whether hosts have been missing long enough for the run to continue without them. */
static bool lost(Supervisor *s)
{
    if (s->missing.count == 0) s->missing_since_s = 0;
    else if (s->missing_since_s == 0) s->missing_since_s = clock_s();
    return s->missing.count > 0 && clock_s() - s->missing_since_s >= s->o->lost_after_s;
}

/* A host that answers and is only no longer listed shall leave in order. */
static Ending end_without(Supervisor *s, bool silent, int *code)
{
    StrBuf names FREED_BY(str_free) = { 0 };
    add_names(&names, &s->missing);
    log_warning("launch: %s for %.0f s:%s: %s", silent ? "no response" : "no longer listed",
                clock_s() - s->missing_since_s, names.text ? names.text : "",
                silent ? "ending the remaining ranks"
                       : "saving a checkpoint to restart without them");
    JsonWriter *w = record_begin(s->record, "lost");
    record_hosts(w, "hosts", &s->missing);
    json_bool(w, "answering", !silent);
    record_end(s->record);
    set_state(s, "stopping");
    *code = silent ? end_now(s) : end_with_checkpoint(s);
    return silent ? ENDED_LOST : ENDED_RESIZE;
}

/* Watches mpirun to its end; *code: its exit code. */
static Ending watch(Supervisor *s, int *code)
{
    double looked_s = clock_s();
    for (bool silent = false;;) {
        if (child_wait(s->mpirun, code, PERIOD_S)) return ENDED_ITSELF;
        child_reap_orphans(s->mpirun);
        if (signals_stop_requested()) {
            *code = end_with_checkpoint(s);
            return ENDED_STOP;
        }
        if (clock_s() - s->renewed_s >= LOCK_RENEW_S) tell_state(s);
        if (s->taken) {
            *code = end_now(s);
            return ENDED_LOST;
        }
        if (clock_s() - looked_s < s->o->poll_s) continue;
        bool known = look_at_run(s, &silent);
        looked_s = clock_s();
        if (!known) continue;
        if (lost(s)) return end_without(s, silent, code);
        if (s->missing.count == 0 && grows(s)) {
            log_info("launch: %d ranks could run now, but %d do; saving a checkpoint to restart",
                     hosts_ranks(&s->ready), hosts_ranks(&s->used));
            *code = end_with_checkpoint(s);
            return ENDED_RESIZE;
        }
    }
}

/* ---- judge ---- */

/* Strikes the hosts of the ended run that do not answer. Returns how many. */
static int strike_missing(Supervisor *s)
{
    bool silent = false;
    if (!look_at_run(s, &silent)) return 0;
    for (int i = 0; i < s->missing.count; i++) {
        const char *name = s->missing.host[i].name;
        double wait_s = hosts_strike(&s->book, name, clock_s(), s->o->cooldown_s);
        log_warning("launch: host %s is gone or does not answer; it is left out for %.0f s", name,
                    wait_s);
        JsonWriter *w = record_begin(s->record, "cooldown");
        json_string(w, "host", name);
        json_number(w, "seconds", wait_s);
        record_end(s->record);
    }
    return s->missing.count;
}

static void record_exit(Supervisor *s, int code, int64_t step, const char *why)
{
    JsonWriter *w = record_begin(s->record, "exit");
    json_int(w, "attempt", s->attempt);
    json_int(w, "code", code);
    json_int(w, "step", step);
    json_number(w, "seconds", clock_s() - s->started_s);
    json_string(w, "reason", why);
    json_int(w, "restarts", s->restarts);
    record_end(s->record);
}

/* Whether a failure has come so often that another start would be the same again. */
static Status check_budget(const Supervisor *s, Status status, int code, int64_t step)
{
    if (s->same_step >= SAME_STEP)
        return fail(status,
                    "the run failed %d times after step %lld, the last time with exit code %d; the "
                    "hosts are not the cause",
                    s->same_step, (long long)step, code);
    if (s->restarts > s->o->max_restarts)
        return fail(
            status,
            "the run failed %d times, the last time with exit code %d; --max-restarts is %d",
            s->restarts, code, s->o->max_restarts);
    return OK;
}

/* A failure that another start may get past. */
static Status count_failure(Supervisor *s, int code, int64_t step)
{
    int gone = strike_missing(s);
    s->restarts++;
    s->same_step = gone ? 0 : step == s->failed_step ? s->same_step + 1 : 1;
    s->failed_step = step;
    snprintf(s->last, sizeof s->last, "start %d failed after step %lld with exit code %d%s",
             s->attempt, (long long)step, code, gone ? "; hosts were lost" : "");
    record_exit(s, code, step, gone ? "hosts were lost" : "failed");
    TRY(check_budget(s, mpirun_status(code), code, step));
    log_info("launch: %s; restart %d of %d", s->last, s->restarts, s->o->max_restarts);
    set_state(s, "waiting");
    /* the first failure after a step may have been chance: on at once */
    if (s->same_step != 1) pause_for(s, fmin(exp2(gone ? 0 : s->same_step - 1), PAUSE_MAX_S));
    return OK;
}

/* The mpirun of Open MPI 5 ends with 0 also where a daemon of its own is gone, and the ranks with
 * it. A run that has completed says so itself; one that had before adds nothing to that. */
static int code_of_run(const Supervisor *s, int code)
{
    int64_t bytes;
    if (code != 0) return code;
    progress_is_locked(s->o->run_dir, &bytes);
    const int told = progress_exit_code(s->o->run_dir);
    return told == 0 || (told > 0 && bytes > s->told) ? told : status_exit_code(ERR_PEER);
}

/* What follows from an end. OK and *again: another start. */
static Status judge(Supervisor *s, Ending ending, int code, bool *again)
{
    int64_t step = progress_last_step(s->o->run_dir);
    code = code_of_run(s, code);
    Status status = mpirun_status(code);
    *again = false;
    if (code == 0) {
        record_exit(s, code, step, "completed");
        return OK;
    }
    if (s->taken) return fail_taken(s);
    if (ending == ENDED_STOP) {
        record_exit(s, code, step, "asked to stop");
        return fail(ERR_STOPPED, "asked to stop; the run is at step %lld%s", (long long)step,
                    status == ERR_STOPPED ? ", checkpoint saved"
                                          : ", but its newest checkpoint is older");
    }
    if (status == ERR_USAGE || status == ERR_DATA || status == ERR_ENV || status == ERR_DIVERGED) {
        record_exit(s, code, step, "would fail again");
        return fail(status, "the run ended with exit code %d: %s", code,
                    code == CHILD_CANNOT_START ? "a program or a library is missing on a host"
                                               : "a restart would not help");
    }
    *again = true;
    if (status == ERR_STOPPED && (ending == ENDED_RESIZE || step != s->failed_step)) {
        snprintf(s->last, sizeof s->last, "start %d saved a checkpoint after step %lld", s->attempt,
                 (long long)step);
        record_exit(s, code, step, ending == ENDED_RESIZE ? "other hosts" : "checkpoint saved");
        s->failed_step = ending == ENDED_RESIZE ? -1 : step;
        s->same_step = 0;
        /* a host that is drained still answers for a while */
        if (ending != ENDED_RESIZE) pause_for(s, s->o->poll_s);
        return OK;
    }
    return count_failure(s, code, step);
}

static Status supervise(Supervisor *s)
{
    for (bool again = true; again;) {
        int code = 0;
        TRY(gather(s));
        TRY(start(s));
        Ending ending = watch(s, &code);
        s->mpirun = 0;
        child_kill_all();
        relay_finish(&s->relay);
        hosts_forgive(&s->book, &s->used, clock_s() - s->started_s, s->o->grow_after_s);
        TRY(judge(s, ending, code, &again));
    }
    return OK;
}

/* ---- the whole ---- */

static void record_end_of_all(Supervisor *s, Status status)
{
    JsonWriter *w = record_begin(s->record, "done");
    json_int(w, "code", status_exit_code(status));
    json_string(w, "reason", status == OK ? "completed" : status_message());
    record_end(s->record);
    snprintf(s->last, sizeof s->last, "%s", status == OK ? "completed" : status_message());
    set_state(s, "done");
}

static Status run(Supervisor *s)
{
    JsonWriter *w = record_begin(s->record, "start");
    if (s->o->ranks > 0) json_int(w, "ranks", s->o->ranks);
    else json_string(w, "hosts_script", s->o->hosts_script);
    json_int(w, "min_hosts", s->o->wanted.min_hosts);
    json_int(w, "max_hosts", s->o->wanted.max_hosts);
    record_end(s->record);
    Status status = child_adopt_orphans();
    if (status == OK) status = supervise(s);
    relay_finish(&s->relay);
    record_end_of_all(s, status);
    return status;
}

Status supervisor_run(const LaunchOptions *options)
{
    Supervisor *s FREED = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    s->o = options;
    s->failed_step = -1;
    s->state = "";
    Status status = record_open(&s->record, options->run_dir, LOCK_SILENT_S, options->wait_hosts_s);
    Presence *presence = NULL;
    if (status == OK) status = presence_begin(&presence, options->run_dir, PRESENCE_LAUNCH);
    if (status == OK) status = probe_create(&s->probe, options);
    if (status == OK) status = run(s);
    probe_destroy(s->probe);
    presence_end(presence);
    record_close(s->record);
    return status;
}
