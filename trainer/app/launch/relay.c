/* relay.c - see relay.h. */
#include "trainer/app/launch/relay.h"

#include "base/mem.h"
#include "base/process/child.h"
#include "base/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { STREAMS = 2, BLOCK_BYTES = 65536, PERIOD_MS = 100 };

struct Relay {
    int from[STREAMS];
    bool gone[STREAMS]; /* nobody reads it any more */
    atomic_bool ended;
    bool has_thread;
    pthread_t thread;
    char block[BLOCK_BYTES];
};

static void pass_on(Relay *r, int stream, size_t bytes)
{
    static const int to[STREAMS] = { STDOUT_FILENO, STDERR_FILENO };
    for (size_t at = 0; at < bytes && !r->gone[stream];) {
        struct pollfd room = { .fd = to[stream], .events = POLLOUT };
        const ssize_t n = write(to[stream], r->block + at, bytes - at);
        if (n > 0) at += (size_t)n;
        else if (errno == EAGAIN) poll(&room, 1, -1); /* another program has made it so */
        else r->gone[stream] = errno != EINTR;
    }
}

static void *run(void *arg)
{
    Relay *r = arg;
    struct pollfd waiting[STREAMS];
    for (int i = 0; i < STREAMS; i++) waiting[i] = (struct pollfd){ r->from[i], POLLIN, 0 };
    while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
        const bool ended = atomic_load(&r->ended); /* before the look: what it wrote is there */
        if (poll(waiting, STREAMS, PERIOD_MS) == 0 && ended) break;
        for (int i = 0; i < STREAMS; i++) {
            if (waiting[i].fd < 0 || !waiting[i].revents) continue;
            const ssize_t n = read(waiting[i].fd, r->block, BLOCK_BYTES);
            if (n > 0) pass_on(r, i, (size_t)n);
            else if (n == 0 || errno != EINTR) waiting[i].fd = -1;
        }
    }
    return NULL;
}

static void close_all(const int fds[STREAMS])
{
    for (int i = 0; i < STREAMS; i++)
        if (fds[i] >= 0) close(fds[i]);
}

/* *end: what the child writes to. */
static Status open_pipe(int *from, int *end)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return fail(ERR_ENV, "no pipe: %s", strerror(errno));
    *from = fds[0];
    *end = fds[1];
    return OK;
}

Status relay_start(Relay **out, pid_t *child, const char *const argv[])
{
    int ends[STREAMS] = { -1, -1 };
    Relay *r = *out = mem_calloc(1, sizeof *r);
    if (!r) return ERR_MEMORY;
    for (int i = 0; i < STREAMS; i++) r->from[i] = -1;
    Status status = open_pipe(&r->from[0], &ends[0]);
    if (status == OK) status = open_pipe(&r->from[1], &ends[1]);
    if (status == OK) status = thread_start(&r->thread, "relay", run, r);
    r->has_thread = status == OK;
    if (status == OK) status = child_start(child, argv, ends[0], ends[1]);
    close_all(ends);
    return status;
}

void relay_finish(Relay **relay)
{
    Relay *r = *relay;
    *relay = NULL;
    if (!r) return;
    atomic_store(&r->ended, true);
    if (r->has_thread) pthread_join(r->thread, NULL);
    close_all(r->from);
    mem_free(r);
}
