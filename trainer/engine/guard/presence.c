/* presence.c - see presence.h. A thread of its own looks, as the main thread may be about a scan,
 * and as a watchdog must not touch a file system that may be gone. */
#include "trainer/engine/guard/presence.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "trainer/engine/guard/signals.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define LOOK_S 0.5
#define NAP_S  0.05

struct Presence {
    int folder;     /* -1: not here */
    StrBuf request; /* path; no text: none */
    StrBuf seen;
    pthread_t thread;
    atomic_bool end;
};

static void *look(void *arg)
{
    Presence *p = arg;
    for (double next_s = 0; !p->end; clock_sleep_s(NAP_S)) {
        if (clock_s() < next_s) continue;
        if (rename(p->request.text, p->seen.text) == 0) signals_request_stop();
        next_s = clock_s() + LOOK_S;
    }
    return NULL;
}

static void remove_requests(const Presence *p)
{
    unlink(p->request.text);
    unlink(p->seen.text);
}

static void release(Presence *p)
{
    if (p->folder >= 0) close(p->folder);
    str_free(&p->request);
    str_free(&p->seen);
    mem_free(p);
}

static Status watch(Presence *p, const char *run_dir, const char *request)
{
    str_printf(&p->request, "%s/%s", run_dir, request);
    str_printf(&p->seen, "%s/%s" PRESENCE_SEEN, run_dir, request);
    if (p->request.failed || p->seen.failed) return fail(ERR_MEMORY, "out of memory");
    remove_requests(p); /* of a run that was killed */
    return thread_start(&p->thread, "stop file", look, p);
}

Status presence_begin(Presence **out, const char *run_dir, const char *request)
{
    *out = NULL;
    Presence *p = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    p->folder = open(run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    Status status = request ? watch(p, run_dir, request) : OK;
    if (status == OK) *out = p;
    else release(p);
    return status;
}

void presence_end(Presence *p)
{
    if (!p) return;
    if (p->request.text) {
        p->end = true;
        pthread_join(p->thread, NULL);
        remove_requests(p);
    }
    release(p);
}
