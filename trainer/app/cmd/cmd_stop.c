/* cmd_stop.c - convoy stop RUN: asks a run, on whatever hosts, to save a checkpoint and leave.
 *
 * By a file in its folder (trainer/engine/guard/presence.h): where a supervisor has the run, one
 * for the supervisor, which starts it no more. That the run has left is told by its lock, which a
 * run that was killed loses too, and where that is not seen by the file, which it removes. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/str.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/launch/lock.h"
#include "trainer/app/launch/progress.h"
#include "trainer/engine/guard/presence.h"
#include <unistd.h>

#define PERIOD_S 0.1
#define ANSWER_S 5.0 /* from a run whose lock is not seen here; one with a lock may take --wait */

static const ArgRow rows[] = {
    { "RUN", .help = "the folder of the run" },
    { "--wait", "SECONDS", .help = "how long to wait; 0: do not wait", .max = 1e9,
      .fallback = 100 },
    ARG_ROW_END,
};

typedef struct Request {
    const char *run;
    bool supervised, locked;
    StrBuf asked, seen; /* paths */
} Request;

static bool has_lock(const Request *r)
{
    return r->supervised ? lock_is_held(r->run) : progress_is_locked(r->run, NULL);
}

static Status ask(const Request *r)
{
    return fs_write_atomic(r->asked.text, "", 0);
}

/* Names the request, and asks. */
static Status begin(Request *r, bool supervised)
{
    r->supervised = supervised;
    str_free(&r->asked);
    str_free(&r->seen);
    str_printf(&r->asked, "%s/%s", r->run, supervised ? PRESENCE_LAUNCH : PRESENCE_RUN);
    str_printf(&r->seen, "%s" PRESENCE_SEEN, r->asked.failed ? "" : r->asked.text);
    return r->asked.failed || r->seen.failed ? fail(ERR_MEMORY, "out of memory") : ask(r);
}

static Status prepare(Request *r)
{
    int64_t bytes = 0;
    const bool supervised = lock_is_held(r->run);
    r->locked = supervised || progress_is_locked(r->run, &bytes);
    if (bytes < 0) return fail(ERR_USAGE, "%s: not a run folder: it has no metrics.jsonl", r->run);
    return begin(r, supervised);
}

/* A supervisor that has come since is asked instead of the run; a run that was about to begin
 * removed what lay there, and has not heard: once more. */
static Status ask_again(Request *r)
{
    if (!r->supervised && lock_is_held(r->run)) {
        r->locked = true;
        unlink(r->asked.text);
        return begin(r, true);
    }
    const bool held = has_lock(r);
    r->locked = r->locked || held;
    return !held || fs_exists(r->asked.text) || fs_exists(r->seen.text) ? OK : ask(r);
}

/* What is to be said at the end of the waiting; NULL: not yet. */
static const char *outcome(const Request *r, double waited_s)
{
    const bool asked = fs_exists(r->asked.text);
    if (r->locked || (!asked && !fs_exists(r->seen.text))) return has_lock(r) ? NULL : "has ended";
    return asked && waited_s > ANSWER_S ? "was not running" : NULL;
}

static Status wait_for_end(Request *r, double wait_s)
{
    const double start_s = clock_s();
    for (const char *said = NULL; !said; clock_sleep_s(PERIOD_S)) {
        const double waited_s = clock_s() - start_s;
        TRY(ask_again(r));
        if ((said = outcome(r, waited_s))) {
            unlink(r->asked.text);
            unlink(r->seen.text);
            log_info("%s: the run %s", r->run, said);
        } else if (waited_s > wait_s && (r->locked || waited_s > ANSWER_S))
            return fail(ERR_PEER, "%s: the run is still running after %.0f s", r->run, wait_s);
    }
    return OK;
}

static Status command(const Args *args)
{
    double wait_s = 0;
    TRY(args_number(args, "--wait", &wait_s));
    Request r = { .run = args->positional[0] };
    Status status = prepare(&r);
    if (status == OK && wait_s > 0) status = wait_for_end(&r, wait_s);
    str_free(&r.asked);
    str_free(&r.seen);
    return status;
}

const Command cmd_stop = {
    .name = "stop",
    .group = "Train",
    .summary = "ask a run to save a checkpoint and exit, from any host",
    .about =
        "Asks the run in folder RUN to save a checkpoint and exit with code 75, and waits until "
        "it has. Works from any host that shares the folder. convoy launch does not restart the "
        "run. Exit code: 0 if the run has ended or was not running; 76 if it is still running "
        "after the wait.",
    .args = rows,
    .alone = command,
};
