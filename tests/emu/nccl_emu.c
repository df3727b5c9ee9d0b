/* nccl_emu.c - stands for comm_nccl.c in the emulated build: sums of emulated device memory,
 * enqueued on its streams like any other work, over memory that the ranks of this host share.
 *
 * All emulated devices of a host are one and the same (ranks then sum through the host), unless
 * CONVOY_EMU_OWN_DEVICES is set: then each process has its own, and ranks sum by this. The work
 * blocks its device until all peers are in it, as NCCL's kernels do; ranks that enqueue in
 * different orders get wrong sums, and ranks that do not enqueue hang. CONVOY_EMU_REGISTERED: sums
 * of buckets outside memory of its own fail. */
#include "base/mem.h"
#include "emu.h"
#include "kernels/float_math.h"
#include "trainer/engine/comm/device_transport.h"
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 20, BLOCKS = 4 };

typedef struct Shared { /* one piece of memory for all ranks; a chunk for each of them behind it */
    _Atomic int arrived, generation;
} Shared;

struct DeviceTransport {
    Comm *comm;
    int rank, world; /* among those that sum */
    DeviceTransportId id;
    Shared *shared;
    size_t bytes;
    bool aborted;
    struct Block {
        char *data;
        size_t bytes;
    } blocks[BLOCKS]; /* of alloc() */
    int block_count;
};

typedef struct Operation {
    DeviceTransport *transport;
    const char *from;
    char *data;
    size_t count;
    DType type;
    const char *name;
} Operation;

static void emu_version(char *out, size_t bytes)
{
    snprintf(out, bytes, "NCCL 2.0 test double");
}

static Status device_id(int device, char *out, size_t bytes)
{
    if (getenv("CONVOY_EMU_OWN_DEVICES"))
        snprintf(out, bytes, "emulated %d of process %ld", device, (long)getpid());
    else snprintf(out, bytes, "emulated %d", device);
    return OK;
}

static Status open_transport(DeviceTransport **out, Comm *comm, int device, int max_ctas)
{
    int devices = 0;
    (void)max_ctas;
    *out = NULL;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || device >= devices)
        return fail(ERR_ENV, "CUDA device %d: there is none", device);
    if (!(*out = mem_calloc(1, sizeof **out))) return ERR_MEMORY;
    (*out)->comm = comm;
    (*out)->rank = comm->rank;
    (*out)->world = comm->world;
    (*out)->bytes = sizeof(Shared) + (size_t)comm->world * CHUNK_BYTES;
    return OK;
}

static Status open_shared(const char *name, int flags, size_t bytes, Shared **out)
{
    int fd = shm_open(name, flags, 0600);
    bool made = fd >= 0 && (!(flags & O_CREAT) || ftruncate(fd, (off_t)bytes) == 0);
    void *p = made ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0) close(fd);
    if (p == MAP_FAILED) return fail(ERR_ENV, "%s: no memory to share between ranks", name);
    *out = p;
    return OK;
}

static Status make_id(DeviceTransport *c, DeviceTransportId *id)
{
    snprintf(id->bytes, sizeof id->bytes, "/convoy-emu-%ld", (long)getpid());
    return open_shared(id->bytes, O_RDWR | O_CREAT | O_EXCL, c->bytes, &c->shared);
}

/* All ranks have come here; the last one lets the others go on. */
static void meet(const DeviceTransport *c)
{
    Shared *s = c->shared;
    int generation = s->generation;
    if (atomic_fetch_add(&s->arrived, 1) + 1 == c->world) {
        s->arrived = 0;
        s->generation = generation + 1;
        return;
    }
    while (s->generation == generation) sched_yield();
}

static Status connect_transport(DeviceTransport *c, const DeviceTransportId *id)
{
    c->id = *id;
    if (!c->shared) TRY(open_shared(id->bytes, O_RDWR, c->bytes, &c->shared));
    meet(c);
    if (c->comm->rank == 0) shm_unlink(id->bytes); /* the mappings stay */
    return OK;
}

/* The barriers: no rank opens what the first of its group has not made, none unlinks it before. */
static Status split(DeviceTransport *c, int ranks, DeviceTransport **out)
{
    char name[sizeof c->id.bytes + 16];
    DeviceTransport *group = *out = mem_calloc(1, sizeof *group);
    if (!group) return ERR_MEMORY;
    *group = (DeviceTransport){
        .comm = c->comm, .rank = c->rank % ranks, .world = ranks, .bytes = c->bytes
    };
    snprintf(name, sizeof name, "%s-%d", c->id.bytes, c->rank / ranks);
    if (group->rank == 0)
        TRY(open_shared(name, O_RDWR | O_CREAT | O_EXCL, group->bytes, &group->shared));
    meet(c);
    if (group->rank != 0) TRY(open_shared(name, O_RDWR, group->bytes, &group->shared));
    meet(c);
    if (group->rank == 0) shm_unlink(name);
    return OK;
}

/* ---- operations ---- */

static char *chunk_of(const DeviceTransport *c, int rank)
{
    return (char *)(c->shared + 1) + (size_t)rank * CHUNK_BYTES;
}

static double load(const char *at, DType type)
{
    float f;
    double d;
    uint16_t half;
    if (type == DTYPE_F64) return memcpy(&d, at, sizeof d), d;
    if (type == DTYPE_F32) return memcpy(&f, at, sizeof f), (double)f;
    memcpy(&half, at, sizeof half);
    return (double)(type == DTYPE_BF16 ? float_from_bf16(half) : float_from_f16(half));
}

static void store(char *at, DType type, double value)
{
    float f = (float)value;
    uint16_t half = type == DTYPE_BF16 ? float_to_bf16(f) : float_to_f16(f);
    if (type == DTYPE_F64) memcpy(at, &value, sizeof value);
    else if (type == DTYPE_F32) memcpy(at, &f, sizeof f);
    else memcpy(at, &half, sizeof half);
}

/* In rank order, rounded to the type once in a hop, as a ring does. */
static void sum_chunk(const Operation *o, char *data, size_t bytes)
{
    const size_t element = dtype_bytes(o->type);
    for (size_t at = 0; at < bytes; at += element) {
        char sum[sizeof(double)];
        memcpy(sum, chunk_of(o->transport, 0) + at, element);
        for (int r = 1; r < o->transport->world; r++)
            store(sum, o->type, load(sum, o->type) + load(chunk_of(o->transport, r) + at, o->type));
        memcpy(data + at, sum, element);
    }
}

static void run(const void *cookie)
{
    Operation o;
    memcpy(&o, cookie, sizeof o);
    const int rank = o.transport->rank;
    const size_t bytes = o.count * dtype_bytes(o.type);
    for (size_t at = 0; at < bytes; at += CHUNK_BYTES) {
        const size_t n = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
        memcpy(chunk_of(o.transport, rank), o.from + at, n);
        meet(o.transport);
        sum_chunk(&o, o.data + at, n);
        meet(o.transport); /* chunks may be written again */
    }
}

static Status enqueue(const Operation *o, void *stream)
{
    if (o->transport->aborted)
        return fail(ERR_PEER, "%s: the emulated communicator was aborted", o->name);
    if (emu_enqueue(stream, "sum over ranks", run, o, sizeof *o) == cudaSuccess) return OK;
    return fail(ERR_PEER, "%s: the emulated device takes no work", o->name);
}

static Status alloc(DeviceTransport *c, size_t bytes, void **out)
{
    *out = NULL;
    ASSERT(c->block_count < BLOCKS);
    if (cudaMalloc(out, bytes) != cudaSuccess) return fail(ERR_MEMORY, "no memory for sums");
    c->blocks[c->block_count++] = (struct Block){ *out, bytes };
    cudaMemset(*out, 0, bytes);
    cudaDeviceSynchronize();
    return OK;
}

/* Gradients, where a test wants them to lie in memory of alloc() alone. */
static bool may_sum(const DeviceTransport *c, const char *data, size_t bytes, const char *name)
{
    if (!getenv("CONVOY_EMU_REGISTERED") || strncmp(name, "bucket", 6) != 0) return true;
    for (int i = 0; i < c->block_count; i++) {
        const struct Block *b = &c->blocks[i];
        if (data >= b->data && data + bytes <= b->data + b->bytes) return true;
    }
    return false;
}

static Status allreduce(DeviceTransport *c, const void *from, void *data, size_t count, DType type,
                        void *stream, const char *name)
{
    ASSERT(emu_is_device_memory(from, count * dtype_bytes(type)));
    ASSERT(emu_is_device_memory(data, count * dtype_bytes(type)));
    if (!may_sum(c, data, count * dtype_bytes(type), name))
        return fail(ERR_ENV, "%s: not in registered memory", name);
    const Operation o = {
        .transport = c, .from = from, .data = data, .count = count, .type = type, .name = name
    };
    return enqueue(&o, stream);
}

static Status no_error(DeviceTransport *c)
{
    (void)c;
    return OK;
}

static void stop(DeviceTransport *c)
{
    c->aborted = true;
}

static void destroy(DeviceTransport *c)
{
    for (int i = 0; c && i < c->block_count; i++) cudaFree(c->blocks[i].data);
    if (c && c->shared) munmap(c->shared, c->bytes);
    mem_free(c);
}

static const DeviceTransportVTable vtable = {
    .version = emu_version,
    .device_id = device_id,
    .open = open_transport,
    .make_id = make_id,
    .connect = connect_transport,
    .split = split,
    .alloc = alloc,
    .allreduce = allreduce,
    .error = no_error,
    .abort = stop,
    .destroy = destroy,
};

const DeviceTransportVTable *const device_transport_nccl = &vtable;
