/* nccl_emu.c - stands for comm_nccl.c in the emulated build: sums of emulated device memory, enqueued on its streams
 * like any other work, carried by the ranks' own comm.h.
 *
 * All emulated devices of a host are one and the same (ranks then sum through the host), unless CONVOY_EMU_OWN_DEVICES
 * is set: then each process has its own, and ranks sum by this. The work blocks its device until all peers are in it,
 * as NCCL's kernels do; ranks that enqueue in different orders hang. */
#include "base/mem.h"
#include "emu.h"
#include "kernels/cuda/half_math.h"
#include "trainer/comm/device_carrier.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct DeviceCarrier {
    Comm *comm;
};

typedef struct Operation {
    Comm *comm;
    CommKind kind;
    void *data;
    size_t count; /* broadcast: bytes */
    DType type;
    int root;
    const char *name;
} Operation;

static void emu_version(char *out, size_t bytes)
{
    snprintf(out, bytes, "NCCL 2.0 test double");
}

static Status device_id(int device, char *out, size_t bytes)
{
    if (getenv("CONVOY_EMU_OWN_DEVICES")) snprintf(out, bytes, "emulated %d of process %ld", device, (long)getpid());
    else snprintf(out, bytes, "emulated %d", device);
    return OK;
}

static Status open_carrier(DeviceCarrier **out, Comm *comm, int device, int max_ctas)
{
    int devices = 0;
    (void)max_ctas;
    *out = NULL;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || device >= devices)
        return fail(ERR_ENV, "CUDA device %d: there is none", device);
    if (!(*out = mem_calloc(1, sizeof **out))) return ERR_MEMORY;
    (*out)->comm = comm;
    return OK;
}

static Status make_id(DeviceCarrier *c, DeviceCarrierId *id)
{
    (void)c;
    memset(id, 0, sizeof *id);
    return OK;
}

static Status connect_carrier(DeviceCarrier *c, const DeviceCarrierId *id)
{
    (void)c;
    (void)id;
    return OK;
}

/* ---- operations ---- */

static float load_half(uint16_t bits, DType type)
{
    return type == DTYPE_BF16 ? float_from_bf16(bits) : float_from_f16(bits);
}

/* In f32, rounded once: what a ring does to within its own rounding. */
static void sum_halves(const Operation *o)
{
    float *sums = mem_alloc(o->count * sizeof *sums);
    uint16_t *data = o->data;
    ASSERT(sums);
    for (size_t i = 0; i < o->count; i++) sums[i] = load_half(data[i], o->type);
    comm_allreduce(o->comm, sums, o->count, COMM_F32, COMM_SUM, o->name);
    for (size_t i = 0; i < o->count; i++)
        data[i] = o->type == DTYPE_BF16 ? bf16_from_float(sums[i]) : f16_from_float(sums[i]);
    mem_free(sums);
}

static void run(const void *cookie)
{
    Operation o;
    memcpy(&o, cookie, sizeof o);
    if (o.kind == COMM_BROADCAST) comm_broadcast(o.comm, o.data, o.count, o.root, o.name);
    else if (o.type == DTYPE_BF16 || o.type == DTYPE_F16) sum_halves(&o);
    else comm_allreduce(o.comm, o.data, o.count, o.type == DTYPE_F64 ? COMM_F64 : COMM_F32, COMM_SUM, o.name);
}

static Status enqueue(const Operation *o, void *stream)
{
    if (emu_enqueue(stream, "sum over ranks", run, o, sizeof *o) == cudaSuccess) return OK;
    return fail(ERR_PEER, "%s: the emulated device takes no work", o->name);
}

static Status allreduce(DeviceCarrier *c, void *data, size_t count, DType type, void *stream, const char *name)
{
    ASSERT(emu_is_device_memory(data, count * dtype_bytes(type)));
    const Operation o = {
        .comm = c->comm, .kind = COMM_ALLREDUCE, .data = data, .count = count, .type = type, .name = name
    };
    return enqueue(&o, stream);
}

static Status broadcast(DeviceCarrier *c, void *data, size_t bytes, int root, void *stream, const char *name)
{
    ASSERT(emu_is_device_memory(data, bytes));
    const Operation o = {
        .comm = c->comm, .kind = COMM_BROADCAST, .data = data, .count = bytes, .root = root, .name = name
    };
    return enqueue(&o, stream);
}

static Status group_begin(DeviceCarrier *c)
{
    (void)c;
    return OK;
}

static Status group_end(DeviceCarrier *c, const char *name)
{
    (void)c;
    (void)name;
    return OK;
}

static Status no_error(DeviceCarrier *c)
{
    (void)c;
    return OK;
}

static void stop(DeviceCarrier *c)
{
    (void)c;
}

static void destroy(DeviceCarrier *c)
{
    mem_free(c);
}

static const DeviceCarrierVTable vtable = {
    .version = emu_version,
    .device_id = device_id,
    .open = open_carrier,
    .make_id = make_id,
    .connect = connect_carrier,
    .allreduce = allreduce,
    .broadcast = broadcast,
    .group_begin = group_begin,
    .group_end = group_end,
    .error = no_error,
    .abort = stop,
    .destroy = destroy,
};

const DeviceCarrierVTable *const device_carrier_nccl = &vtable;
