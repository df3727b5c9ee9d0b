/* device.c - the device as others see it: memory, streams by lane, events, captured work, compute
 * copies of parameters.
 *
 * Streams are made non-blocking: they neither wait for the default stream nor make it wait, which
 * capture needs. What is enqueued on the default stream here (zeroing new memory) is therefore
 * waited for on the spot.
 *
 * CUDA's current device belongs to a thread. Whatever allocates makes the backend's device current
 * first, so that a thread other than the creating one (a loader that pins memory) does not open
 * device 0 by mistake. */
#include "kernels/cuda/device.h"
#include "base/mem.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/staging.h"
#include <stdio.h>
#include <string.h>

struct Event {
    cudaEvent_t event;
};
struct Replay {
    cudaGraphExec_t graph;
};

static Status use_device(const CudaBackend *b)
{
    if (b->deviceless)
        return fail(ERR_ENV, "%s is only a description: nothing can be allocated or run on it",
                    b->device_name);
    return CUDA_STATUS(cudaSetDevice(b->options.device));
}

/* ---- memory ---- */

Status cuda_device_alloc(Backend *backend, size_t bytes, void **out)
{
    const CudaBackend *b = (const CudaBackend *)backend;
    *out = NULL;
    TRY(use_device(b));
    if (bytes == 0) bytes = 1; /* cudaMalloc gives NULL for nothing */
    void *p = NULL;
    Status status = cuda_status(cudaMalloc(&p, bytes), "cudaMalloc");
    if (status == OK) status = CUDA_STATUS(cudaMemset(p, 0, bytes));
    if (status == OK) status = CUDA_STATUS(cudaDeviceSynchronize());
    if (status != OK) {
        cuda_device_free(backend, p);
        return fail_note(status, "%.1f MB on %s", (double)bytes / 1e6, b->device_name);
    }
    *out = p;
    return OK;
}

void cuda_device_free(Backend *backend, void *p)
{
    (void)backend;
    if (p) (void)cuda_status(cudaFree(p), "cudaFree");
}

static Status alloc_pinned(Backend *backend, size_t bytes, void **out)
{
    *out = NULL;
    TRY(use_device((const CudaBackend *)backend));
    if (bytes == 0) bytes = 1;
    void *p = NULL;
    Status status = cuda_status(cudaHostAlloc(&p, bytes, cudaHostAllocPortable), "cudaHostAlloc");
    if (status != OK)
        return fail_note(status, "%.1f MB of pinned host memory", (double)bytes / 1e6);
    memset(p, 0, bytes);
    *out = p;
    return OK;
}

static void free_pinned(Backend *backend, void *p)
{
    (void)backend;
    if (p) (void)cuda_status(cudaFreeHost(p), "cudaFreeHost");
}

static size_t memory_bytes(const Backend *backend)
{
    return ((const CudaBackend *)backend)->memory_bytes;
}

/* ---- streams ---- */

Status cuda_device_stream_create(Backend *backend, Lane lane, Stream **out)
{
    int least, greatest;
    *out = NULL;
    TRY(use_device((const CudaBackend *)backend));
    TRY_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    Stream *s = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    /* Smaller numbers come first. Communication is short and others wait for it; the chain of data
     * gradients is longer than that of weight gradients, which nothing waits for until the end. */
    const int priority = lane == LANE_COMM      ? greatest
                         : lane == LANE_WEIGHTS ? least
                                                : (least + greatest) / 2;
    Status status =
        cuda_status(cudaStreamCreateWithPriority(&s->stream, cudaStreamNonBlocking, priority),
                    "cudaStreamCreateWithPriority");
    if (status != OK) {
        mem_free(s);
        return status;
    }
    s->lane = lane;
    *out = s;
    return OK;
}

void cuda_device_stream_destroy(Backend *backend, Stream *s)
{
    (void)backend;
    if (!s) return;
    (void)cuda_status(cudaStreamDestroy(s->stream), "cudaStreamDestroy");
    mem_free(s);
}

Status cuda_device_stream_wait(Backend *backend, Stream *s)
{
    (void)backend;
    return CUDA_STATUS(cudaStreamSynchronize(s->stream));
}

static void *stream_handle(const Stream *s)
{
    return s->stream;
}

static int device_index(const Backend *backend)
{
    return ((const CudaBackend *)backend)->options.device;
}

static void device_uuid(const Backend *backend, char *out, size_t bytes)
{
    struct cudaDeviceProp p;
    int n = 4;
    if (bytes > 0) out[0] = '\0';
    if (bytes < sizeof "GPU-00000000-0000-0000-0000-000000000000" ||
        cudaGetDeviceProperties(&p, device_index(backend)) != cudaSuccess)
        return;
    memcpy(out, "GPU-", 4);
    for (int i = 0; i < 16; i++)
        n += snprintf(out + n, bytes - (size_t)n, "%s%02x",
                      i >= 4 && i <= 10 && i % 2 == 0 ? "-" : "", (unsigned char)p.uuid.bytes[i]);
}

static Status copy_in(Backend *backend, void *device, const void *host, size_t bytes, Stream *s)
{
    (void)backend;
    return CUDA_STATUS(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, s->stream));
}

static Status copy_out(Backend *backend, void *host, const void *device, size_t bytes, Stream *s)
{
    (void)backend;
    return CUDA_STATUS(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, s->stream));
}

static Status cast(Backend *backend, const void *in, DType from, void *out, DType to, int64_t count,
                   Stream *s)
{
    (void)backend;
    return CUDA_STATUS(cuda_launch_cast(in, from, out, to, count, s->stream));
}

/* ---- events ---- */

static Status create_event(Backend *backend, unsigned flags, Event **out)
{
    *out = NULL;
    TRY(use_device((const CudaBackend *)backend));
    Event *e = mem_calloc(1, sizeof *e);
    if (!e) return ERR_MEMORY;
    Status status =
        cuda_status(cudaEventCreateWithFlags(&e->event, flags), "cudaEventCreateWithFlags");
    if (status != OK) {
        mem_free(e);
        return status;
    }
    *out = e;
    return OK;
}

static Status event_create(Backend *backend, Event **out)
{
    return create_event(backend, cudaEventDisableTiming, out);
}

static Status timer_create(Backend *backend, Event **out)
{
    return create_event(backend, cudaEventDefault, out);
}

static Status timer_seconds(Backend *backend, Event *from, Event *to, double *seconds)
{
    float ms = 0;
    (void)backend;
    TRY_CUDA(cudaEventElapsedTime(&ms, from->event, to->event));
    *seconds = (double)ms * 1e-3;
    return OK;
}

static void event_destroy(Backend *backend, Event *e)
{
    (void)backend;
    if (!e) return;
    (void)cuda_status(cudaEventDestroy(e->event), "cudaEventDestroy");
    mem_free(e);
}

static Status event_record(Backend *backend, Event *e, Stream *s)
{
    (void)backend;
    return CUDA_STATUS(cudaEventRecord(e->event, s->stream));
}

static Status event_wait(Backend *backend, Event *e, Stream *s)
{
    (void)backend;
    return CUDA_STATUS(cudaStreamWaitEvent(s->stream, e->event, 0));
}

static Status event_done(Backend *backend, Event *e, bool *done)
{
    /* a watchdog's thread asks, too: it must not open device 0 */
    TRY(use_device((const CudaBackend *)backend));
    cudaError_t error = cudaEventQuery(e->event);
    *done = error == cudaSuccess;
    return error == cudaErrorNotReady ? OK : cuda_status(error, "cudaEventQuery");
}

/* ---- captured work ---- */

/* Thread-local mode: what other threads do meanwhile (a watchdog that asks for events) does not
 * spoil the capture. */
static Status capture_begin(Backend *backend, Stream *s)
{
    (void)backend;
    return CUDA_STATUS(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal));
}

/* An engine may have waited or allocated without saying that it failed. */
static Status capture_check(Backend *backend, Stream *s)
{
    enum cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
    (void)backend;
    TRY_CUDA(cudaStreamIsCapturing(s->stream, &state));
    if (state == cudaStreamCaptureStatusActive) return OK;
    return fail(ERR_ENV, "it does something that cannot be captured");
}

/* Kernels keep the priority of the stream on which they were captured; without the flag all would
 * have that of the stream on which the graph is launched. */
static Status instantiate(Replay *r, cudaGraph_t graph, Stream *s)
{
    TRY_CUDA(cudaGraphInstantiate(&r->graph, graph, cudaGraphInstantiateFlagUseNodePriority));
    return CUDA_STATUS(cudaGraphUpload(r->graph, s->stream));
}

static void replay_destroy(Backend *backend, Replay *r)
{
    (void)backend;
    if (!r) return;
    if (r->graph) (void)cuda_status(cudaGraphExecDestroy(r->graph), "cudaGraphExecDestroy");
    mem_free(r);
}

static Status capture_end(Backend *backend, Stream *s, Replay **out)
{
    cudaGraph_t graph = NULL;
    *out = NULL;
    TRY_CUDA(cudaStreamEndCapture(s->stream, &graph));
    Replay *r = mem_calloc(1, sizeof *r);
    Status status = r ? instantiate(r, graph, s) : ERR_MEMORY;
    Status freed = cuda_status(cudaGraphDestroy(graph), "cudaGraphDestroy");
    if (status == OK) status = freed;
    if (status != OK) {
        replay_destroy(backend, r);
        return status;
    }
    *out = r;
    return OK;
}

static Status replay(Backend *backend, Replay *r, Stream *s)
{
    (void)backend;
    return CUDA_STATUS(cudaGraphLaunch(r->graph, s->stream));
}

/* ---- compute copies of the parameters: the slab again in the compute type, every element at its
 * own index ---- */

static size_t param_copy_bytes(const Backend *backend, size_t slab_bytes)
{
    const CudaBackend *b = (const CudaBackend *)backend;
    return b->compute == DTYPE_F32 ? 0 : slab_bytes / sizeof(float) * dtype_bytes(b->compute);
}

static Status params_attach(Backend *backend, void *slab, size_t slab_bytes)
{
    CudaBackend *b = (CudaBackend *)backend;
    size_t bytes = param_copy_bytes(backend, slab_bytes);
    void *copies = NULL;
    if (bytes) TRY(cuda_device_alloc(backend, bytes, &copies));
    cuda_device_free(backend, b->param_copies);
    b->param_slab = slab;
    b->param_bytes = slab_bytes;
    b->param_copies = copies;
    return OK;
}

static Status params_changed(Backend *backend, Stream *s)
{
    CudaBackend *b = (CudaBackend *)backend;
    if (!b->param_copies) return OK;
    int64_t count = (int64_t)(b->param_bytes / sizeof(float));
    return CUDA_STATUS(
        cuda_launch_cast(b->param_slab, DTYPE_F32, b->param_copies, b->compute, count, s->stream));
}

const DeviceVTable cuda_device_vtable = {
    .alloc_pinned = alloc_pinned,
    .free_pinned = free_pinned,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .cast = cast,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_done = event_done,
    .timer_create = timer_create,
    .timer_seconds = timer_seconds,
    .capture_begin = capture_begin,
    .capture_check = capture_check,
    .capture_end = capture_end,
    .replay = replay,
    .replay_destroy = replay_destroy,
    .param_copy_bytes = param_copy_bytes,
    .params_attach = params_attach,
    .params_changed = params_changed,
    .range = cuda_range,
    .staging_bytes = staging_bytes,
    .stage = staging_stage,
    .memory_bytes = memory_bytes,
    .stream_handle = stream_handle,
    .device_index = device_index,
    .device_uuid = device_uuid,
};
