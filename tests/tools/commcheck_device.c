/* commcheck_device.c - sums of device memory for make_commcheck; see commcheck.h. */
#include "base/clock.h"
#include "base/log.h"
#include "kernels/backend_cuda.h"
#include "tests/tools/commcheck.h"
#include "trainer/engine/comm/device_transport.h"
#include <string.h>

enum { DEVICE_FLOATS = 1000003, DEVICE_STEPS = 3 };

typedef struct DeviceCase {
    Comm *comm;
    Backend *backend;
    const DeviceVTable *device;
    DeviceComm *d;
    Stream *stream;
    Event *event;
    void *data;    /* of the device */
    float *pinned; /* as many bytes */
} DeviceCase;

static Status open_device(DeviceCase *k)
{
    char why[512];
    int devices = backend_cuda_devices(why, sizeof why);
    if (devices == 0) return fail(ERR_ENV, "%s", why);
    CudaOptions o = { .device = k->comm->local_rank % devices, .precision = PRECISION_FP32 };
    TRY(backend_cuda_create(&k->backend, &o));
    Backend *b = k->backend;
    void *pinned = NULL;
    k->device = b->v->device;
    TRY(b->v->stream_create(b, LANE_COMM, &k->stream));
    TRY(k->device->event_create(b, &k->event));
    TRY(b->v->alloc(b, DEVICE_FLOATS * sizeof(float), &k->data));
    TRY(k->device->alloc_pinned(b, DEVICE_FLOATS * sizeof(float), &pinned));
    k->pinned = pinned;
    return OK;
}

static void close_device(DeviceCase *k)
{
    device_comm_destroy(k->d);
    if (k->pinned) k->device->free_pinned(k->backend, k->pinned);
    if (k->data) k->backend->v->free(k->backend, k->data);
    if (k->event) k->device->event_destroy(k->backend, k->event);
    if (k->stream) k->backend->v->stream_destroy(k->backend, k->stream);
    backend_destroy(k->backend);
}

/* One rank uses NCCL, too, where there is one: its set-up, capture and abort need no peer. */
static Status open_device_comm(DeviceCase *k)
{
    static const char *const names[] = {
        [DEVICE_COMM_SELF] = "self", [DEVICE_COMM_NCCL] = "nccl", [DEVICE_COMM_STAGED] = "staged"
    };
    DeviceCommTransport transport;
    TRY(comm_agree(k->comm, open_device(k)));
    TRY(device_comm_choose(&transport, k->comm, k->device->device_index(k->backend)));
    if (transport == DEVICE_COMM_SELF && device_transport_nccl) transport = DEVICE_COMM_NCCL;
    if (k->comm->rank == 0) log_info("%d ranks sum by: %s", k->comm->world, names[transport]);
    return device_comm_create(&k->d, k->comm, k->backend, transport, 8);
}

/* As a step does: expected, waited for by polling. */
static Status await_device(DeviceCase *k, const char *what)
{
    bool done = false;
    TRY(k->device->event_record(k->backend, k->event, k->stream));
    device_comm_watch(k->d, k->event, what);
    while (!done) {
        TRY(k->device->event_done(k->backend, k->event, &done));
        if (!done) clock_sleep_s(0.0001);
    }
    return k->backend->v->stream_wait(k->backend, k->stream);
}

static void fill_floats(DeviceCase *k, int salt)
{
    for (size_t i = 0; i < DEVICE_FLOATS; i++)
        k->pinned[i] = (float)value_of(k->comm->rank, i + (size_t)salt);
}

static Status check_floats(const DeviceCase *k, int salt, const char *what)
{
    for (size_t i = 0; i < DEVICE_FLOATS; i++) {
        if (k->pinned[i] != (float)sum_of(k->comm->world, i + (size_t)salt))
            return fail(ERR_INTERNAL, "%s: element %zu differs", what, i);
    }
    return OK;
}

/* In, summed in two pieces, out. */
static Status enqueue_sum(DeviceCase *k)
{
    const size_t half = DEVICE_FLOATS / 2;
    char *rest = (char *)k->data + half * sizeof(float);
    TRY(k->device->copy_in(k->backend, k->data, k->pinned, DEVICE_FLOATS * sizeof(float),
                           k->stream));
    TRY(device_comm_allreduce(k->d, k->data, half, DTYPE_F32, k->stream, "bucket 0"));
    TRY(device_comm_allreduce(k->d, rest, DEVICE_FLOATS - half, DTYPE_F32, k->stream, "bucket 1"));
    return k->device->copy_out(k->backend, k->pinned, k->data, DEVICE_FLOATS * sizeof(float),
                               k->stream);
}

static Status check_captured_sum(DeviceCase *k)
{
    Replay *replay = NULL;
    TRY(k->device->capture_begin(k->backend, k->stream));
    TRY(enqueue_sum(k));
    TRY(k->device->capture_end(k->backend, k->stream, &replay));
    Status status = OK;
    for (int step = 0; step < DEVICE_STEPS && status == OK; step++) {
        fill_floats(k, step);
        status = k->device->replay(k->backend, replay, k->stream);
        if (status == OK) status = await_device(k, "captured sum");
        if (status == OK) status = check_floats(k, step, "captured sum");
    }
    k->device->replay_destroy(k->backend, replay);
    return status;
}

/* bf16 is the upper half of f32: exact here. */
static Status check_bf16(DeviceCase *k)
{
    enum { COUNT = 4096 };
    uint16_t *x = (uint16_t *)k->pinned;
    uint32_t bits;
    for (size_t i = 0; i < COUNT; i++) {
        float v = (float)value_of(k->comm->rank, i);
        memcpy(&bits, &v, sizeof bits);
        x[i] = (uint16_t)(bits >> 16);
    }
    TRY(k->device->copy_in(k->backend, k->data, x, COUNT * sizeof *x, k->stream));
    TRY(device_comm_allreduce(k->d, k->data, COUNT, DTYPE_BF16, k->stream, "bf16"));
    TRY(k->device->copy_out(k->backend, x, k->data, COUNT * sizeof *x, k->stream));
    TRY(await_device(k, "bf16"));
    for (size_t i = 0; i < COUNT; i++) {
        float v;
        bits = (uint32_t)x[i] << 16;
        memcpy(&v, &bits, sizeof v);
        if (v != (float)sum_of(k->comm->world, i))
            return fail(ERR_INTERNAL, "bf16 sum: element %zu differs", i);
    }
    return OK;
}

/* f32 that travels as bf16: small whole numbers survive it. */
static Status check_wire(DeviceCase *k)
{
    enum { COUNT = DEVICE_FLOATS / 4, SCRATCH = COUNT / 8 * 8 + 64 };
    fill_floats(k, 9);
    TRY(k->device->copy_in(k->backend, k->data, k->pinned, COUNT * sizeof(float), k->stream));
    TRY(device_comm_allreduce_as(k->d, k->data, COUNT, DTYPE_BF16, (float *)k->data + SCRATCH,
                                 k->stream, "as bf16"));
    TRY(k->device->copy_out(k->backend, k->pinned, k->data, COUNT * sizeof(float), k->stream));
    TRY(await_device(k, "as bf16"));
    for (size_t i = 0; i < COUNT; i++)
        if (k->pinned[i] != (float)sum_of(k->comm->world, i + 9))
            return fail(ERR_INTERNAL, "as bf16: element %zu", i);
    return OK;
}

static Status sum_after_abort(DeviceCase *k, const DeviceTransportVTable *v, DeviceTransport *t)
{
    DeviceTransportId id = { 0 };
    if (k->comm->rank == 0) TRY(v->make_id(t, &id));
    comm_broadcast(k->comm, &id, sizeof id, 0, "id of the communicator to abort");
    TRY(v->connect(t, &id));
    comm_barrier(k->comm, "before the abort");
    v->abort(t);
    Status after = v->allreduce(t, k->data, k->data, 1, DTYPE_F32,
                                k->device->stream_handle(k->stream), "after the abort");
    return after == ERR_PEER
               ? OK
               : fail(ERR_INTERNAL, "a sum after the abort gives %s", status_name(after));
}

/* The watchdog aborts beside its caller, whose next sum must fail and not wait for ever. On a
 * communicator of its own: the other one ends as that of a session does. */
static Status check_abort(DeviceCase *k)
{
    const DeviceTransportVTable *v = device_transport_nccl;
    DeviceTransport *t = NULL;
    TRY(v->open(&t, k->comm, k->device->device_index(k->backend), 0));
    Status status = sum_after_abort(k, v, t);
    v->destroy(t);
    return status;
}

static Status check_device(DeviceCase *k)
{
    TRY(open_device_comm(k));
    if (device_comm_transport(k->d) == DEVICE_COMM_STAGED) return await_device(k, "nothing");
    for (int step = 0; step < DEVICE_STEPS; step++) {
        fill_floats(k, step);
        TRY(enqueue_sum(k));
        TRY(await_device(k, "sum"));
        TRY(check_floats(k, step, "sum"));
    }
    TRY(check_bf16(k));
    TRY(check_wire(k));
    TRY(check_captured_sum(k));
    return device_comm_transport(k->d) == DEVICE_COMM_NCCL ? check_abort(k) : OK;
}

Status commcheck_device(Comm *c)
{
    DeviceCase k = { .comm = c };
    comm_set_timeout(c, CHECK_TIMEOUT_S);
    Status status = check_device(&k);
    close_device(&k);
    return status;
}

Status commcheck_device_hang(Comm *c)
{
    DeviceCase k = { .comm = c };
    comm_set_timeout(c, CHECK_TIMEOUT_S);
    TRY(open_device_comm(&k));
    TRY(enqueue_sum(&k)); /* NCCL connects */
    TRY(await_device(&k, "sum"));
    comm_barrier(c, "start");
    comm_set_timeout(c, HANG_TIMEOUT_S);
    comm_set_progress(c, 41, "step");
    if (c->rank == c->world - 1) clock_sleep_s(HANG_SLEEP_S);
    TRY(enqueue_sum(&k));
    return await_device(&k, "step");
}
