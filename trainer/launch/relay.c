/* relay.c - see relay.h. */
#include "trainer/launch/relay.h"

#include "base/mem.h"
#include "base/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { STREAMS = 2, BLOCK_BYTES = 65536, PERIOD_MS = 100 };

struct Relay {
    int from[STREAMS], ends[STREAMS];
    bool gone[STREAMS]; /* nobody reads it any more */
    atomic_bool ended;
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

static void close_all(int fds[STREAMS])
{
    for (int i = 0; i < STREAMS; i++) {
        if (fds[i] >= 0) close(fds[i]);
        fds[i] = -1;
    }
}

static Status open_pipes(Relay *r)
{
    for (int i = 0; i < STREAMS; i++) {
        int fds[2];
        if (pipe2(fds, O_CLOEXEC) != 0) return fail(ERR_ENV, "no pipe: %s", strerror(errno));
        r->from[i] = fds[0];
        r->ends[i] = fds[1];
    }
    return OK;
}

Status relay_create(Relay **out)
{
    Relay *r = *out = mem_calloc(1, sizeof *r);
    if (!r) return ERR_MEMORY;
    for (int i = 0; i < STREAMS; i++) r->from[i] = r->ends[i] = -1;
    Status status = open_pipes(r);
    if (status == OK) status = thread_start(&r->thread, "relay", run, r);
    if (status == OK) return OK;
    close_all(r->ends);
    close_all(r->from);
    mem_free(r);
    *out = NULL;
    return status;
}

int relay_end(const Relay *r, int stream)
{
    return r->ends[stream];
}

void relay_close_ends(Relay *r)
{
    close_all(r->ends);
}

void relay_finish(Relay *r)
{
    if (!r) return;
    close_all(r->ends);
    atomic_store(&r->ended, true);
    pthread_join(r->thread, NULL);
    close_all(r->from);
    mem_free(r);
}
