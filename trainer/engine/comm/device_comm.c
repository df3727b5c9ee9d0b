/* device_comm.c - which transport sums device memory, marks around its operations, and the watchdog
 * thread.
 *
 * THREADS. The caller's thread enqueues and says what it waits for; the watchdog thread sleeps
 * while nothing is watched, else looks every POLL_S. The lock covers what they share: the watched
 * event, so that watch() returns only when the watchdog no longer asks for the event before. A
 * second one, calls, is held in every call of the transport: NCCL's question for errors also
 * finishes work and frees it, so two threads may not ask at a time. The watchdog only tries that
 * lock, since a call that lasts looks for errors and for the timeout itself; and its abort goes
 * without, for it is there to end such a call. */
#include "trainer/engine/comm/device_comm.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "base/thread.h"
#include "trainer/engine/comm/device_marks.h"
#include "trainer/engine/comm/device_transport.h"
#include "trainer/engine/comm/peer_watchdog.h"

#define POLL_S           0.05
#define ABORT_PATIENCE_S 5.0
#define HASH_BASIS       14695981039346656037U

struct DeviceComm {
    Comm *comm;
    Backend *backend;
    DeviceCommTransport transport;
    const DeviceTransportVTable *v;
    DeviceTransport *nccl, *group; /* NULL but for DEVICE_COMM_NCCL; group: once there are any */
    DeviceMarks marks;

    pthread_mutex_t calls;
    ThreadWatcher watcher;
    Event *event; /* NULL: nothing is expected */
    const char *what;
    double since_s, polled_s;
    _Atomic bool aborted; /* the watchdog's abort has returned */
};

DeviceCommTransport device_comm_transport(const DeviceComm *d)
{
    return d->transport;
}

void device_comm_version(char *out, size_t bytes)
{
    if (device_transport_nccl) device_transport_nccl->version(out, bytes);
    else snprintf(out, bytes, "built without NCCL");
}

void device_comm_bus_id(int device, char *out, size_t bytes)
{
    if (!device_transport_nccl || device_transport_nccl->device_id(device, out, bytes) != OK)
        out[0] = '\0';
}

/* ---- choice ---- */

/* FNV-1a: equal texts, equal numbers; two of some thousand devices that collide would only sum more
 * slowly. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211U;
    return hash;
}

/* Containers of one host have names of their own and see the same devices; the kernel's boot id
 * tells hosts apart. */
static uint64_t hash_host(void)
{
    uint8_t *boot = NULL;
    size_t bytes;
    if (fs_read_file("/proc/sys/kernel/random/boot_id", &boot, &bytes) != OK)
        return hash_text(HASH_BASIS, process_host());
    uint64_t hash = hash_text(HASH_BASIS, (const char *)boot);
    mem_free(boot);
    return hash;
}

/* Collective: how many ranks use the device of this rank, and the device that most use? */
static Status count_users(Comm *comm, uint64_t device, int *mine, int *most)
{
    int64_t *all = mem_calloc((size_t)comm->world, sizeof *all);
    Status status = comm_agree(comm, all ? OK : ERR_MEMORY);
    if (status != OK) {
        mem_free(all);
        return status;
    }
    memcpy(&all[comm->rank], &device, sizeof device);
    comm_allgather(comm, all, sizeof *all, "devices of all ranks");
    *most = 0;
    for (int i = 0; i < comm->world; i++) {
        int users = 0;
        for (int j = 0; j < comm->world; j++) users += all[i] == all[j];
        if (i == comm->rank) *mine = users;
        if (users > *most) *most = users;
    }
    mem_free(all);
    return OK;
}

/* Collective. device -1: a rank without one, which shares it with nobody. name: of this rank's host
 * where NCCL is told one, else NULL. */
static Status count_users_of(Comm *comm, int device, const DeviceTransportVTable *v,
                             const char *name, int *mine, int *most)
{
    char id[64];
    snprintf(id, sizeof id, "none of rank %d", comm->rank);
    TRY(comm_agree(comm, device < 0 ? OK : v->device_id(device, id, sizeof id)));
    const uint64_t host = name ? hash_text(HASH_BASIS, name) : hash_host();
    return count_users(comm, hash_text(host, id), mine, most);
}

Status device_transport_choose(DeviceCommTransport *out, Comm *comm, int device,
                               const DeviceTransportVTable *v)
{
    int mine, most, sharers;
    *out = comm->world == 1 ? DEVICE_COMM_SELF : DEVICE_COMM_STAGED;
    if (comm->world == 1 || !v) return OK;
    TRY(count_users_of(comm, device, v, comm_nccl_host(), &mine, &most));
    TRY(count_users_of(comm, device, v, NULL, &mine, &sharers));
    if (most > 1 && sharers > 1) return OK;
    *out = DEVICE_COMM_NCCL;
    if (sharers > 1)
        log_warning("ranks share a GPU and use NCCL, because NCCL_HOSTID declares them to be on "
                    "different hosts; slow, for tests");
    return OK;
}

Status device_transport_sharers(int *out, Comm *comm, int device, const DeviceTransportVTable *v)
{
    int most;
    *out = 1;
    return comm->world == 1 || !v ? OK : count_users_of(comm, device, v, NULL, out, &most);
}

Status device_comm_sharers(int *out, Comm *comm, int device)
{
    return device_transport_sharers(out, comm, device, device_transport_nccl);
}

Status device_comm_choose(DeviceCommTransport *out, Comm *comm, int device)
{
    return device_transport_choose(out, comm, device, device_transport_nccl);
}

/* ---- watchdog ---- */

static void *abort_transport(void *arg)
{
    DeviceComm *d = arg;
    if (d->group) d->v->abort(d->group);
    d->v->abort(d->nccl);
    d->aborted = true;
    return NULL;
}

/* The transport's abort may itself hang, in a driver that does: it gets a few seconds. */
static _Noreturn void leave(DeviceComm *d, double waited_s, const char *reason)
{
    char operation[128];
    pthread_t thread;
    bool under_way = device_marks_describe(&d->marks, d->what, operation, sizeof operation);
    if (!reason)
        reason = under_way || !d->nccl ? "a peer was lost or hangs, or the device hangs"
                                       : "the device hangs";
    peer_watchdog_report(d->comm, waited_s, operation, reason);
    if (d->nccl && thread_start(&thread, "abort", abort_transport, d) == OK) {
        for (double until_s = clock_s() + ABORT_PATIENCE_S; !d->aborted && clock_s() < until_s;)
            clock_sleep_s(POLL_S);
    }
    peer_watchdog_exit(d->comm);
}

/* The transport's own error, unless the caller is in it. */
static Status transport_error(DeviceComm *d)
{
    if (!d->nccl || pthread_mutex_trylock(&d->calls) != 0) return OK;
    Status status = d->v->error(d->nccl);
    if (status == OK && d->group) status = d->v->error(d->group);
    pthread_mutex_unlock(&d->calls);
    return status;
}

/* An error of the event is one of the device: the caller, who waits for the same event, gets it too
 * and says so. */
static void look(DeviceComm *d)
{
    double now = clock_s(), timeout_s = d->comm->timeout_s;
    bool done = false;
    d->since_s = peer_watchdog_forgive(d->since_s, peer_watchdog_pause_s(&d->polled_s, now), now);
    Status status = d->backend->v->device->event_done(d->backend, d->event, &done);
    if (status == OK && done) {
        d->event = NULL;
        return;
    }
    if (transport_error(d) != OK) leave(d, 0, status_message());
    if (timeout_s > 0 && now - d->since_s > timeout_s) leave(d, now - d->since_s, NULL);
}

static void *watch_thread(void *arg)
{
    DeviceComm *d = arg;
    pthread_mutex_lock(&d->watcher.lock);
    while (thread_watcher_sleep(&d->watcher, d->event ? POLL_S : -1))
        if (d->event) look(d);
    pthread_mutex_unlock(&d->watcher.lock);
    return NULL;
}

void device_comm_watch(DeviceComm *d, Event *event, const char *what)
{
    pthread_mutex_lock(&d->watcher.lock);
    bool idle = d->event == NULL;
    d->event = event;
    d->what = what;
    d->since_s = clock_s();
    if (idle) d->polled_s = d->since_s;
    if (idle && event) pthread_cond_signal(&d->watcher.wake);
    pthread_mutex_unlock(&d->watcher.lock);
}

/* ---- life ---- */

/* What needs no peer. */
static Status open_local(DeviceComm *d, int max_ctas)
{
    const DeviceVTable *device = d->backend->v->device;
    ASSERT(device);
    TRY(thread_watcher_start(&d->watcher, "watchdog", watch_thread, d));
    if (d->transport != DEVICE_COMM_NCCL) return OK;
    if (!d->v) return fail(ERR_ENV, "convoy was built without NCCL");
    TRY(d->v->open(&d->nccl, d->comm, device->device_index(d->backend), max_ctas));
    return device_marks_init(&d->marks, d->backend);
}

/* A rank that fails here alone leaves its peers to their timeout, so it says at once what
 * happened. */
static Status connect_ranks(DeviceComm *d)
{
    struct {
        DeviceTransportId id;
        int status;
        char message[256];
    } first = { 0 };
    if (d->comm->rank == 0) {
        first.status = d->v->make_id(d->nccl, &first.id);
        if (first.status != OK)
            snprintf(first.message, sizeof first.message, "%s", status_message());
    }
    comm_broadcast(d->comm, &first, sizeof first, 0, "id of the NCCL communicator");
    if (first.status != OK) return fail((Status)first.status, "rank 0: %s", first.message);
    Status status = d->v->connect(d->nccl, &first.id);
    if (status != OK) log_error("rank %d: %s", d->comm->rank, status_message());
    return status;
}

Status device_transport_create_comm(DeviceComm **out, Comm *comm, Backend *backend,
                                    DeviceCommTransport transport, int max_ctas,
                                    const DeviceTransportVTable *v)
{
    DeviceComm *d = *out = mem_calloc(1, sizeof *d);
    Status status = ERR_MEMORY;
    if (d) {
        d->comm = comm;
        d->backend = backend;
        d->transport = transport;
        d->v = v;
        pthread_mutex_init(&d->calls, NULL);
        thread_watcher_init(&d->watcher);
        status = open_local(d, max_ctas);
    }
    status = comm_agree(comm, status);
    if (status == OK && transport == DEVICE_COMM_NCCL) status = comm_agree(comm, connect_ranks(d));
    if (status != OK) {
        if (d && d->nccl) v->abort(d->nccl);
        device_comm_destroy(d);
        *out = NULL;
    }
    return status;
}

Status device_comm_create(DeviceComm **out, Comm *comm, Backend *backend,
                          DeviceCommTransport transport, int max_ctas)
{
    return device_transport_create_comm(out, comm, backend, transport, max_ctas,
                                        device_transport_nccl);
}

void device_comm_destroy(DeviceComm *d)
{
    if (!d) return;
    thread_watcher_end(&d->watcher);
    pthread_mutex_destroy(&d->calls);
    if (d->group) d->v->destroy(d->group);
    if (d->nccl) d->v->destroy(d->nccl);
    device_marks_deinit(&d->marks);
    mem_free(d);
}

/* ---- operations ---- */

/* Whether there is anything to enqueue. */
static bool carries(const DeviceComm *d)
{
    ASSERT(d->transport != DEVICE_COMM_STAGED);
    return d->transport == DEVICE_COMM_NCCL;
}

Status device_comm_group(DeviceComm *d, int ranks)
{
    Status status = OK;
    DeviceTransport *group = NULL;
    comm_barrier(d->comm, "groups of ranks");
    pthread_mutex_lock(&d->calls);
    if (carries(d)) status = d->v->split(d->nccl, ranks, &group);
    pthread_mutex_unlock(&d->calls);
    pthread_mutex_lock(&d->watcher.lock);
    d->group = group;
    pthread_mutex_unlock(&d->watcher.lock);
    return comm_agree(d->comm, status);
}

Status device_comm_alloc(DeviceComm *d, size_t bytes, void **out)
{
    ASSERT(d->transport == DEVICE_COMM_NCCL);
    pthread_mutex_lock(&d->calls);
    Status status = d->v->alloc(d->nccl, bytes, out);
    pthread_mutex_unlock(&d->calls);
    return status;
}

static Status enqueue(DeviceComm *d, const void *from, void *data, size_t count, DType type,
                      bool group, Stream *stream, const char *name)
{
    if (!carries(d) || count == 0) return OK;
    DeviceTransport *by = group ? d->group : d->nccl;
    ASSERT(by);
    TRY(device_marks_begin(&d->marks, stream, name));
    pthread_mutex_lock(&d->calls);
    Status status = d->v->allreduce(by, from, data, count, type,
                                    d->backend->v->device->stream_handle(stream), name);
    pthread_mutex_unlock(&d->calls);
    return status != OK ? status : device_marks_end(&d->marks, stream, name);
}

Status device_comm_allreduce_group(DeviceComm *d, void *data, size_t count, DType type, bool group,
                                   Stream *stream, const char *name)
{
    return enqueue(d, data, data, count, type, group, stream, name);
}

Status device_comm_allreduce_from(DeviceComm *d, const void *from, void *data, size_t count,
                                  DType type, Stream *stream, const char *name)
{
    ASSERT(carries(d));
    return enqueue(d, from, data, count, type, false, stream, name);
}

Status device_comm_allreduce(DeviceComm *d, void *data, size_t count, DType type, Stream *stream,
                             const char *name)
{
    return device_comm_allreduce_group(d, data, count, type, false, stream, name);
}

Status device_comm_allreduce_as(DeviceComm *d, float *data, size_t count, DType wire, void *scratch,
                                Stream *stream, const char *name)
{
    if (wire == DTYPE_F32 || !carries(d) || count == 0)
        return device_comm_allreduce(d, data, count, DTYPE_F32, stream, name);
    Backend *b = d->backend;
    ASSERT(scratch);
    TRY(b->v->device->cast(b, data, DTYPE_F32, scratch, wire, (int64_t)count, stream));
    TRY(device_comm_allreduce(d, scratch, count, wire, stream, name));
    return b->v->device->cast(b, scratch, wire, data, DTYPE_F32, (int64_t)count, stream);
}
