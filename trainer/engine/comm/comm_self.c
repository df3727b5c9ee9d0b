/* comm_self.c - one process alone: every job is done when it is posted.
 *
 * Sums, broadcasts and gathers over one rank leave the data as it is, so that nothing has to move.
 * The stamps of a job are still filled in: traces read them whoever carries the messages. */
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "trainer/engine/comm/comm.h"

static void self_post(Comm *c, CommJob *job)
{
    (void)c;
    ASSERT(job->kind != COMM_BROADCAST || job->root == 0);
    job->posted_s = job->started_s = job->finished_s = clock_s();
    job->done = 1;
}

static void self_wait(Comm *c, CommJob *job)
{
    (void)c;
    ASSERT(job->done);
}

static void self_abort(Comm *c, int exit_code)
{
    (void)c;
    _exit(exit_code);
}

static void self_destroy(Comm *c)
{
    mem_free(c);
}

static const CommVTable self_vtable = {
    .post = self_post, .wait = self_wait, .abort = self_abort, .destroy = self_destroy
};

Status comm_self_create(Comm **out)
{
    Comm *c = *out = mem_calloc(1, sizeof *c);
    if (!c) return ERR_MEMORY;
    c->v = &self_vtable;
    c->world = c->local_world = 1;
    c->name = "self";
    return OK;
}
