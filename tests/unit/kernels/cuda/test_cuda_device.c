/* test_cuda_device.c - the CUDA backend's device table: memory, transfers, streams, events,
 * captured work, compute copies. Runs on the test double (EMU=1) and on a GPU; where there is
 * neither, all that can be asked is that creating the backend fails as it should. */
#include "base/mem.h"
#include "kernels/cuda/cuda.h"
#include "kernels/float_math.h"
#include "tests/test.h"
#ifdef CONVOY_EMU
#include "tests/emu/emu.h"
#endif
#include <string.h>

static Backend *backend;
static const DeviceVTable *device;

/* False where there is no device; creating the backend has then been checked to fail. */
static bool open_backend(Precision precision)
{
    char why[512];
    CudaOptions o = { .precision = precision };
    int devices = backend_cuda_devices(why, sizeof why);
    Status status = backend_cuda_create(&backend, &o);
    if (devices == 0) {
        CHECK(why[0] != '\0');
        CHECK_STATUS(status, ERR_ENV);
        CHECK(status_message()[0] != '\0');
        CHECK(backend == NULL);
        test_skip(why);
        return false;
    }
    CHECK_OK(status);
    if (status != OK) return false;
    device = backend->v->device;
    return true;
}

static void *alloc(size_t bytes)
{
    void *p = NULL;
    CHECK_OK(backend->v->alloc(backend, bytes, &p));
    return p;
}

static void *alloc_pinned(size_t bytes)
{
    void *p = NULL;
    CHECK_OK(device->alloc_pinned(backend, bytes, &p));
    return p;
}

static Stream *stream_of(Lane lane)
{
    Stream *s = NULL;
    CHECK_OK(backend->v->stream_create(backend, lane, &s));
    return s;
}

static Event *make_event(void)
{
    Event *e = NULL;
    CHECK_OK(device->event_create(backend, &e));
    return e;
}

/* Device bytes as they are. */
static void read_bytes(void *out, const void *from, size_t bytes)
{
    union {
        const void *given;
        void *taken;
    } data = { .given = from };
    OpTensor t = { .desc = { DTYPE_U8, 1, { (int64_t)bytes } },
                   .bytes = bytes,
                   .data = data.taken };
    CHECK_OK(backend->v->export_tensor(backend, &t, out));
}

TEST(memory_is_zero_and_aligned)
{
    if (!open_backend(PRECISION_FP32)) return;
    enum { BYTES = 100003 };
    static unsigned char got[BYTES], zero[BYTES];
    for (int i = 0; i < 3; i++) {
        memset(got, 1, sizeof got);
        void *p = alloc(BYTES);
        REQUIRE(p != NULL);
        CHECK_INT((uintptr_t)p % backend->v->alignment, 0);
        read_bytes(got, p, BYTES);
        CHECK(memcmp(got, zero, BYTES) == 0);
        backend->v->free(backend, p);
    }
    char *pinned = alloc_pinned(BYTES);
    REQUIRE(pinned != NULL);
    CHECK(memcmp(pinned, zero, BYTES) == 0);
    device->free_pinned(backend, pinned);
    void *nothing = alloc(0);
    CHECK(nothing != NULL);
    backend->v->free(backend, nothing);
    CHECK(device->memory_bytes(backend) > 0);
    backend_destroy(backend);
}

TEST(too_much_memory_is_refused_and_forgotten)
{
    if (!open_backend(PRECISION_FP32)) return;
    void *p = backend;
    CHECK_STATUS(backend->v->alloc(backend, (size_t)1 << 50, &p), ERR_MEMORY);
    CHECK(p == NULL);
    CHECK_CONTAINS(status_message(), "MB on ");
    CHECK_INT(cudaGetLastError(), cudaSuccess);
    p = alloc(16);
    CHECK(p != NULL);
    backend->v->free(backend, p);
    backend_destroy(backend);
}

/* ---- transfers ---- */

static float pattern(int64_t i)
{
    return (float)(i % 251) - 125.0f; /* exact in every type */
}

/* In and out again, and the physical bytes between: elements where cuda_strides says, zero
 * everywhere else. */
static void check_transfer(CudaFormat format, DType dtype, TensorDesc desc)
{
    const CudaBackend *b = (const CudaBackend *)backend;
    OpTensor t = { .desc = desc };
    cuda_decide(b, &t, format, dtype);
    int64_t count = tensor_elements(&desc);
    float *in = mem_alloc((size_t)count * sizeof *in),
          *out = mem_calloc((size_t)count, sizeof *out);
    unsigned char *physical = mem_alloc(t.bytes), *want = mem_calloc(1, t.bytes);
    t.data = alloc(t.bytes);
    for (int64_t i = 0; i < count; i++) in[i] = pattern(i);
    CHECK_OK(backend->v->import_tensor(backend, &t, in));
    CHECK_OK(backend->v->export_tensor(backend, &t, out));
    CHECK(memcmp(in, out, (size_t)count * sizeof *in) == 0);

    CudaStrides s = cuda_strides(b, &desc, format);
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, at = 0;
        for (int d = TENSOR_MAX_RANK - 1; d >= 0; d--) {
            at += rest % s.dims[d] * s.strides[d];
            rest /= s.dims[d];
        }
        uint16_t half = dtype == DTYPE_BF16 ? float_to_bf16(in[i]) : float_to_f16(in[i]);
        if (dtype == DTYPE_F32) memcpy(want + (size_t)at * 4, &in[i], 4);
        else memcpy(want + (size_t)at * 2, &half, 2);
    }
    read_bytes(physical, t.data, t.bytes);
    CHECK(memcmp(physical, want, t.bytes) == 0);
    backend->v->free(backend, t.data);
    mem_free(in);
    mem_free(out);
    mem_free(physical);
    mem_free(want);
}

TEST(every_format_is_transferred)
{
    static const struct {
        CudaFormat format;
        TensorDesc desc;
    } rows[] = {
        { CUDA_NHWC, { DTYPE_F32, 4, { 2, 3, 5, 7 } } },
        { CUDA_NHWC, { DTYPE_F32, 4, { 1, 16, 4, 4 } } },
        { CUDA_ROWS, { DTYPE_F32, 2, { 3, 10 } } },
        { CUDA_KRSC, { DTYPE_F32, 4, { 10, 3, 3, 2 } } },
        { CUDA_KRSC_GROUPED, { DTYPE_F32, 4, { 8, 2, 3, 3 } } },
        { CUDA_MATRIX, { DTYPE_F32, 2, { 10, 6 } } },
        { CUDA_VECTOR, { DTYPE_F32, 1, { 10 } } },
        { CUDA_VECTOR, { DTYPE_F32, 2, { 2, 13 } } },
    };
    static const DType types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
    static const Precision precisions[] = { PRECISION_FP32, PRECISION_BF16, PRECISION_FP16 };
    for (int p = 0; p < 3; p++) {
        if (!open_backend(precisions[p])) return;
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            for (int t = 0; t < 3; t++) check_transfer(rows[i].format, types[t], rows[i].desc);
        backend_destroy(backend);
    }
}

TEST(bytes_are_transferred_in_their_own_type)
{
    if (!open_backend(PRECISION_BF16)) return;
    unsigned char in[2 * 3 * 2 * 2], out[sizeof in];
    OpTensor t = { .desc = { DTYPE_U8, 4, { 2, 3, 2, 2 } } };
    cuda_decide((CudaBackend *)backend, &t, CUDA_NHWC, DTYPE_U8);
    t.data = alloc(t.bytes);
    for (size_t i = 0; i < sizeof in; i++) in[i] = (unsigned char)(255 - i);
    CHECK_OK(backend->v->import_tensor(backend, &t, in));
    CHECK_OK(backend->v->export_tensor(backend, &t, out));
    CHECK(memcmp(in, out, sizeof in) == 0);
    backend->v->free(backend, t.data);
    backend_destroy(backend);
}

/* ---- streams and events ---- */

enum { COUNT = 4096, COUNT_BYTES = COUNT * (int)sizeof(int) };

static void fill(int *p, int from)
{
    for (int i = 0; i < COUNT; i++) p[i] = from + i;
}

static void check_filled(const int *p, int from)
{
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) wrong += p[i] != from + i;
    CHECK_INT(wrong, 0);
}

TEST(events_order_streams)
{
    if (!open_backend(PRECISION_FP32)) return;
    Stream *copy = stream_of(LANE_COPY), *compute = stream_of(LANE_COMPUTE);
    Event *arrived = make_event(), *consumed = make_event();
    int *in = alloc_pinned(COUNT_BYTES), *out = alloc_pinned(COUNT_BYTES);
    void *slot = alloc(COUNT_BYTES);
    for (int round = 0; round < 5; round++) {
        bool done = false;
        fill(in, 1000 * round);
        if (round) CHECK_OK(device->event_wait(backend, consumed, copy));
        CHECK_OK(device->copy_in(backend, slot, in, COUNT_BYTES, copy));
        CHECK_OK(device->event_record(backend, arrived, copy));
        CHECK_OK(device->event_wait(backend, arrived, compute));
        CHECK_OK(device->copy_out(backend, out, slot, COUNT_BYTES, compute));
        CHECK_OK(device->event_record(backend, consumed, compute));
        CHECK_OK(backend->v->stream_wait(backend, compute));
        CHECK_OK(device->event_done(backend, consumed, &done));
        CHECK(done);
        check_filled(out, 1000 * round);
    }
    CHECK(device->stream_handle(copy) != NULL &&
          device->stream_handle(copy) != device->stream_handle(compute));
    CHECK_INT(device->device_index(backend), 0);
    device->event_destroy(backend, arrived);
    device->event_destroy(backend, consumed);
    device->free_pinned(backend, in);
    device->free_pinned(backend, out);
    backend->v->free(backend, slot);
    backend->v->stream_destroy(backend, copy);
    backend->v->stream_destroy(backend, compute);
    backend_destroy(backend);
}

/* ---- captured work ---- */

typedef struct Work { /* in -> first on one stream, first -> out on another */
    Stream *compute, *side;
    Event *fork, *join;
    int *in, *out;
    void *first;
} Work;

static void work_create(Work *w)
{
    *w = (Work){
        stream_of(LANE_COMPUTE),   stream_of(LANE_WEIGHTS),   make_event(),      make_event(),
        alloc_pinned(COUNT_BYTES), alloc_pinned(COUNT_BYTES), alloc(COUNT_BYTES)
    };
}

static void work_enqueue(Work *w, bool joins)
{
    CHECK_OK(device->copy_in(backend, w->first, w->in, COUNT_BYTES, w->compute));
    CHECK_OK(device->event_record(backend, w->fork, w->compute));
    CHECK_OK(device->event_wait(backend, w->fork, w->side));
    CHECK_OK(device->copy_out(backend, w->out, w->first, COUNT_BYTES, w->side));
    CHECK_OK(device->event_record(backend, w->join, w->side));
    if (joins) CHECK_OK(device->event_wait(backend, w->join, w->compute));
}

static void work_destroy(Work *w)
{
    device->event_destroy(backend, w->fork);
    device->event_destroy(backend, w->join);
    device->free_pinned(backend, w->in);
    device->free_pinned(backend, w->out);
    backend->v->free(backend, w->first);
    backend->v->stream_destroy(backend, w->compute);
    backend->v->stream_destroy(backend, w->side);
}

TEST(captured_work_runs_when_replayed)
{
    if (!open_backend(PRECISION_FP32)) return;
    Work w;
    Replay *replay = NULL;
    work_create(&w);
    fill(w.in, 7);
    CHECK_OK(device->capture_begin(backend, w.compute));
    work_enqueue(&w, true);
    CHECK_OK(device->capture_end(backend, w.compute, &replay));
    REQUIRE(replay != NULL);
    CHECK_OK(backend->v->stream_wait(backend, w.compute));
    CHECK_INT(w.out[1], 0); /* nothing has run */
    for (int round = 0; round < 3; round++) {
        fill(w.in, 100 * round);
        CHECK_OK(device->replay(backend, replay, w.compute));
        CHECK_OK(backend->v->stream_wait(backend, w.compute));
        check_filled(w.out, 100 * round);
    }
    device->replay_destroy(backend, replay);
    work_destroy(&w);
    backend_destroy(backend);
}

TEST(capture_that_loses_a_stream_fails)
{
    if (!open_backend(PRECISION_FP32)) return;
    Work w;
    Replay *replay = NULL;
    work_create(&w);
    CHECK_OK(device->capture_begin(backend, w.compute));
    work_enqueue(&w, false);
    CHECK_STATUS(device->capture_end(backend, w.compute, &replay), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "Unjoined");
    CHECK(replay == NULL);
    CHECK_INT(cudaGetLastError(), cudaSuccess);
    work_destroy(&w);
    backend_destroy(backend);
}

/* A cast on each of three lanes, the first before the others. */
static void enqueue_casts(Stream *const lanes[3], Event *const events[3], void *data)
{
    CHECK_OK(device->cast(backend, data, DTYPE_F32, data, DTYPE_F32, 8, lanes[0]));
    CHECK_OK(device->event_record(backend, events[0], lanes[0]));
    for (int i = 1; i < 3; i++) {
        CHECK_OK(device->event_wait(backend, events[0], lanes[i]));
        CHECK_OK(device->cast(backend, data, DTYPE_F32, data, DTYPE_F32, 8, lanes[i]));
        CHECK_OK(device->event_record(backend, events[i], lanes[i]));
        CHECK_OK(device->event_wait(backend, events[i], lanes[0]));
    }
}

static void check_priorities(const int got[3])
{
    CHECK(got[1] > got[0]); /* weight gradients come last */
    CHECK(got[2] < got[0]); /* sums over ranks first */
}

/* What a graph's kernels keep of the lanes on which they were captured. */
static void check_replayed_priorities(Stream *const lanes[3], Event *const events[3], void *data)
{
    int got[4] = { 0 };
#ifdef CONVOY_EMU
    Replay *replay = NULL;
    CHECK_OK(device->capture_begin(backend, lanes[0]));
    enqueue_casts(lanes, events, data);
    CHECK_OK(device->capture_end(backend, lanes[0], &replay));
    CHECK_INT(emu_graph_priorities(got, 4), 3);
    device->replay_destroy(backend, replay);
#else
    cudaStream_t origin = device->stream_handle(lanes[0]);
    cudaGraph_t graph = NULL;
    cudaGraphNode_t nodes[4];
    size_t count = 4;
    REQUIRE(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    enqueue_casts(lanes, events, data);
    REQUIRE(cudaStreamEndCapture(origin, &graph) == cudaSuccess);
    REQUIRE(cudaGraphGetNodes(graph, nodes, &count) == cudaSuccess && count == 3);
    for (size_t i = 0; i < count; i++) {
        cudaKernelNodeAttrValue value;
        CHECK(cudaGraphKernelNodeGetAttribute(nodes[i], cudaKernelNodeAttributePriority, &value) ==
              cudaSuccess);
        got[i] = value.priority;
    }
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
#endif
    check_priorities(got);
}

TEST(replayed_kernels_keep_the_priority_of_their_lane)
{
    if (!open_backend(PRECISION_FP32)) return;
    Stream *lanes[3] = { stream_of(LANE_COMPUTE), stream_of(LANE_WEIGHTS), stream_of(LANE_COMM) };
    Event *events[3] = { make_event(), make_event(), make_event() };
    void *data = alloc(COUNT_BYTES);
    enqueue_casts(lanes, events, data); /* loads the kernel */
    CHECK_OK(backend->v->stream_wait(backend, lanes[0]));
    check_replayed_priorities(lanes, events, data);
    for (int i = 0; i < 3; i++) {
        device->event_destroy(backend, events[i]);
        backend->v->stream_destroy(backend, lanes[i]);
    }
    backend->v->free(backend, data);
    backend_destroy(backend);
}

/* ---- compute copies ---- */

static void check_params(DType compute)
{
    enum { ELEMENTS = 1000 };
    float values[ELEMENTS];
    uint16_t got[ELEMENTS];
    Stream *stream = stream_of(LANE_COMPUTE);
    OpTensor slab = { .desc = { DTYPE_F32, 1, { ELEMENTS } },
                      .bytes = sizeof values,
                      .data = alloc(sizeof values) };
    OpTensor part = { .desc = { DTYPE_F32, 1, { 8 } },
                      .bytes = 32,
                      .data = (float *)slab.data + 992 };
    for (int i = 0; i < ELEMENTS; i++) values[i] = (float)(i + 1) / 3.0f;
    CHECK_INT(device->param_copy_bytes(backend, sizeof values),
              compute == DTYPE_F32 ? 0 : sizeof values / 2);
    CHECK_OK(device->params_attach(backend, slab.data, slab.bytes));
    CHECK_OK(backend->v->import_tensor(backend, &slab, values));
    CHECK_OK(device->params_changed(backend, stream));
    CHECK_OK(backend->v->stream_wait(backend, stream));
    const char *copy = cuda_compute_copy((const CudaBackend *)backend, &part);
    if (compute == DTYPE_F32) {
        CHECK(copy == part.data);
    } else {
        REQUIRE(copy != NULL);
        read_bytes(got, copy - sizeof got + 16, sizeof got);
        int wrong = 0;
        for (int i = 0; i < ELEMENTS; i++)
            wrong += got[i] !=
                     (compute == DTYPE_BF16 ? float_to_bf16(values[i]) : float_to_f16(values[i]));
        CHECK_INT(wrong, 0);
    }
    backend->v->stream_destroy(backend, stream);
    backend->v->free(backend, slab.data);
}

TEST(compute_copies_follow_params_changed)
{
    static const DType types[] = { DTYPE_F32, DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
    for (int p = 0; p < PRECISION_COUNT; p++) {
        if (!open_backend((Precision)p)) return;
        check_params(types[p]);
        backend_destroy(backend);
    }
}

/* ---- no device ---- */

TEST(a_described_device_allocates_nothing)
{
    static const char h200[] =
        "{\"deviceVer\": 900, \"multiProcessorCount\": 132, \"warpSize\": 32, "
        "\"maxSharedMemoryPerBlock\": 49152, "
        "\"maxSharedMemoryPerBlockOptin\": 232448, "
        "\"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": "
        "65536, \"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, "
        "\"maxThreadsPerSM\": 2048, \"regsPerBlock\": 65536, "
        "\"totalGlobalMem\": 150754820096, \"smClockRateKHz\": 1980000, "
        "\"l2CacheSize\": 62914560, \"maxBlockSize\": [1024, 1024, 64], "
        "\"memClockRateKHz\": 3201000, \"maxGridSize\": [2147483647, 65535, "
        "65535], \"supportCoopLaunch\": 1, \"pciDeviceId\": 0, "
        "\"isTccDriver\": 0, \"cudaDeviceId\": 0, \"driverVer\": 13000, "
        "\"deviceName\": \"NVIDIA H200\"}";
    CudaOptions o = { .precision = PRECISION_BF16, .properties = h200 };
    Status status = backend_cuda_create(&backend, &o);
    if (status != OK) { /* the libraries are not here */
        CHECK_STATUS(status, ERR_ENV);
        CHECK_CONTAINS(status_message(), "cu");
        test_skip(status_message());
        return;
    }
    char text[256];
    void *p = &o;
    Stream *s;
    Event *e;
    device = backend->v->device;
    backend->v->describe(backend, text, sizeof text);
    CHECK_CONTAINS(text, "NVIDIA H200");
    CHECK_CONTAINS(text, "sm_90, bf16");
    CHECK_INT(device->memory_bytes(backend), 150754820096);
    CHECK_STATUS(backend->v->alloc(backend, 16, &p), ERR_ENV);
    CHECK(p == NULL);
    CHECK_CONTAINS(status_message(), "only a description");
    CHECK_STATUS(device->alloc_pinned(backend, 16, &p), ERR_ENV);
    CHECK_STATUS(backend->v->stream_create(backend, LANE_COMPUTE, &s), ERR_ENV);
    CHECK_STATUS(device->event_create(backend, &e), ERR_ENV);
    backend_destroy(backend);
}

TEST(a_device_that_is_not_there)
{
    char why[512];
    int devices = backend_cuda_devices(why, sizeof why);
    CudaOptions o = { .device = devices + 1 };
    CHECK_STATUS(backend_cuda_create(&backend, &o), ERR_ENV);
    if (devices) CHECK_CONTAINS(status_message(), "does not exist");
    else CHECK_CONTAINS(why, status_message());
}
