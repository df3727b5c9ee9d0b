/* test_emu.c - the test double of a CUDA device (tests/emu) shows the mistakes that it is there to
 * show. Only in builds with EMU=1, where there is one. */
#ifdef CONVOY_EMU
#include "tests/emu/emu.h"
#include "tests/emu/self_kernels.h"
#include "tests/test.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_CUDA(call)         CHECK_INT(call, cudaSuccess)
#define CHECK_ERROR(call, error) CHECK_INT(call, error)

enum { TRIES = 64, COUNT = 1000 };

static cudaStream_t make_stream(void)
{
    cudaStream_t s = NULL;
    CHECK_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

static cudaEvent_t make_event(void)
{
    cudaEvent_t e = NULL;
    CHECK_CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    return e;
}

static void *device_bytes(size_t bytes)
{
    void *p = NULL;
    CHECK_CUDA(cudaMalloc(&p, bytes));
    return p;
}

static int read_int(const void *p)
{
    int v = 0;
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(cudaMemcpy(&v, p, sizeof v, cudaMemcpyDeviceToHost));
    return v;
}

typedef struct Put { /* *to = *from + add */
    int *to;
    const int *from;
    int add;
} Put;

static void run_put(const void *cookie)
{
    const Put *p = cookie;
    *p->to = *p->from + p->add;
}

static void put(int *to, const int *from, int add, cudaStream_t s)
{
    const Put p = { to, from, add };
    CHECK_CUDA(emu_enqueue(s, "put", run_put, &p, sizeof p));
}

TEST(new_memory_is_not_a_number)
{
    float host[4] = { 0 };
    void *p = device_bytes(sizeof host);
    CHECK_CUDA(cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 4; i++) CHECK(host[i] != host[i]);
    CHECK(emu_is_device_memory(p, sizeof host));
    CHECK(!emu_is_device_memory(p, sizeof host + 1));
    CHECK(!emu_is_device_memory(host, 1));
    CHECK_CUDA(cudaFree(p));
    CHECK(!emu_is_device_memory(p, 1));
}

/* Of TRIES times that stream b reads what stream a wrote, how often it came too early. */
static int early_reads(bool ordered)
{
    int *from = device_bytes(sizeof *from), *to = device_bytes(sizeof *to), early = 0;
    cudaStream_t a = make_stream(), b = make_stream();
    cudaEvent_t e = make_event();
    CHECK_CUDA(cudaMemset(from, 0, sizeof *from));
    for (int i = 0; i < TRIES; i++) {
        put(from, from, 1, a);
        CHECK_CUDA(cudaEventRecord(e, a));
        if (ordered) CHECK_CUDA(cudaStreamWaitEvent(b, e, 0));
        put(to, from, 0, b);
        CHECK_CUDA(cudaStreamSynchronize(b));
        int seen = -1;
        CHECK_CUDA(cudaMemcpy(&seen, to, sizeof seen, cudaMemcpyDeviceToHost));
        early += seen != i + 1;
        CHECK_CUDA(cudaDeviceSynchronize());
    }
    return early;
}

TEST(a_missing_event_shows)
{
    CHECK_INT(early_reads(true), 0);
    CHECK(early_reads(false) > 0);
}

TEST(copies_take_their_data_late)
{
    int *host = NULL, *device = device_bytes(sizeof *device);
    void *pinned = NULL;
    cudaStream_t s = make_stream();
    CHECK_CUDA(cudaMallocHost(&pinned, sizeof *host));
    host = pinned;
    *host = 1;
    CHECK_CUDA(cudaMemcpyAsync(device, host, sizeof *host, cudaMemcpyHostToDevice, s));
    *host = 2; /* too early: the copy has not run */
    CHECK_CUDA(cudaStreamSynchronize(s));
    CHECK_INT(read_int(device), 2);
    CHECK_CUDA(cudaFreeHost(host));
}

TEST(polling_comes_to_an_end)
{
    int *p = device_bytes(sizeof *p), polls = 0;
    cudaStream_t s = make_stream();
    cudaEvent_t e = make_event();
    CHECK_CUDA(cudaMemset(p, 0, sizeof *p));
    for (int i = 0; i < COUNT; i++) put(p, p, 1, s);
    CHECK_CUDA(cudaEventRecord(e, s));
    while (cudaEventQuery(e) == cudaErrorNotReady && polls < COUNT) polls++;
    CHECK(polls > 0);
    CHECK_CUDA(cudaEventQuery(e));
    CHECK_INT(read_int(p), COUNT);
}

/* The signal that ends a child that does what. */
static int signal_of(void (*what)(void))
{
    int state = 0;
    pid_t child = fork();
    if (child == 0) {
        CHECK(freopen("/dev/null", "w", stderr) != NULL);
        signal(SIGSEGV, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        what();
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &state, 0) == child);
    return WIFSIGNALED(state) ? WTERMSIG(state) : WIFEXITED(state) ? -WEXITSTATUS(state) : 0;
}

static void touch_device_memory(void)
{
    volatile int *p = device_bytes(sizeof *p);
    *p = 1;
}

static void wait_for_ever(void)
{
    CHECK_CUDA(emu_launch_deadlock(make_stream()));
    CHECK_CUDA(cudaDeviceSynchronize());
}

static void ask_the_dead(void)
{
    CHECK_CUDA(emu_launch_shuffle_with_the_dead(device_bytes(32 * sizeof(int)), make_stream()));
    CHECK_CUDA(cudaDeviceSynchronize());
}

static void do_nothing(void)
{
}

TEST(what_hangs_or_crashes_a_device_ends_the_process)
{
    CHECK_INT(signal_of(do_nothing), 0);
    CHECK(signal_of(touch_device_memory) != 0);
    CHECK_INT(signal_of(wait_for_ever), SIGABRT);
    CHECK_INT(signal_of(ask_the_dead), SIGABRT);
}

/* ---- kernels ---- */

enum { BLOCKS = 5, THREADS = BLOCKS * 256 };

static int wrong_after_reverse(bool barrier)
{
    static int host[THREADS];
    int *out = device_bytes(sizeof host), wrong = 0;
    cudaStream_t s = make_stream();
    CHECK_CUDA(emu_launch_reverse(out, BLOCKS, barrier, s));
    CHECK_CUDA(cudaStreamSynchronize(s));
    CHECK_CUDA(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < THREADS; i++) wrong += host[i] != i / 256 * 256 + 255 - i % 256;
    return wrong;
}

TEST(a_missing_barrier_shows)
{
    CHECK_INT(wrong_after_reverse(true), 0);
    CHECK(wrong_after_reverse(false) > 0);
}

TEST(blocks_meet_through_tickets)
{
    int *partial = device_bytes(BLOCKS * sizeof *partial), *out = device_bytes(sizeof *out);
    unsigned *ticket = device_bytes(sizeof *ticket);
    cudaStream_t s = make_stream();
    for (int i = 0; i < 8; i++) {
        CHECK_CUDA(cudaMemsetAsync(ticket, 0, sizeof *ticket, s));
        CHECK_CUDA(emu_launch_sum(partial, ticket, out, BLOCKS, s));
        CHECK_CUDA(cudaStreamSynchronize(s));
        CHECK_INT(read_int(out), THREADS * (THREADS - 1) / 2);
    }
}

TEST(impossible_grids_are_refused)
{
    CHECK_ERROR(emu_launch_reverse(NULL, 0, true, make_stream()), cudaErrorInvalidConfiguration);
    CHECK_ERROR(cudaGetLastError(), cudaErrorInvalidConfiguration);
    CHECK_CUDA(cudaGetLastError());
}

/* ---- capture ---- */

typedef struct Fork { /* stream a leads to b and back */
    cudaStream_t a, b;
    cudaEvent_t out, back;
    int *x;
} Fork;

static Fork make_fork(void)
{
    Fork f = { make_stream(), make_stream(), make_event(), make_event(),
               device_bytes(2 * sizeof(int)) };
    CHECK_CUDA(cudaMemset(f.x, 0, 2 * sizeof(int)));
    return f;
}

/* x[0] += 1 on a, x[1] = x[0] + 10 on b, x[0] = x[1] on a */
static void enqueue_fork(const Fork *f, bool join)
{
    put(&f->x[0], &f->x[0], 1, f->a);
    CHECK_CUDA(cudaEventRecord(f->out, f->a));
    CHECK_CUDA(cudaStreamWaitEvent(f->b, f->out, 0));
    put(&f->x[1], &f->x[0], 10, f->b);
    if (!join) return;
    CHECK_CUDA(cudaEventRecord(f->back, f->b));
    CHECK_CUDA(cudaStreamWaitEvent(f->a, f->back, 0));
    put(&f->x[0], &f->x[1], 0, f->a);
}

TEST(captured_work_runs_when_it_is_launched)
{
    Fork f = make_fork();
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    size_t nodes = 0;
    CHECK_CUDA(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeThreadLocal));
    enqueue_fork(&f, true);
    CHECK_CUDA(cudaStreamEndCapture(f.a, &graph));
    CHECK_CUDA(cudaGraphGetNodes(graph, NULL, &nodes));
    CHECK_INT(nodes, 3);
    CHECK_INT(read_int(f.x), 0);
    CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CHECK_CUDA(cudaGraphDestroy(graph));
    for (int i = 1; i <= TRIES; i++) {
        CHECK_CUDA(cudaGraphLaunch(exec, f.a));
        CHECK_INT(read_int(f.x), 11 * i);
    }
    CHECK_CUDA(cudaGraphExecDestroy(exec));
    enqueue_fork(&f, true); /* the streams are ordinary ones again */
    CHECK_INT(read_int(f.x), 11 * (TRIES + 1));
}

TEST(capture_refuses_what_cuda_refuses)
{
    Fork f = make_fork();
    cudaGraph_t graph = NULL;
    void *p = NULL;
    CHECK_CUDA(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeThreadLocal));
    enqueue_fork(&f, false);
    CHECK_ERROR(cudaStreamEndCapture(f.a, &graph), cudaErrorStreamCaptureUnjoined);

    CHECK_CUDA(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeThreadLocal));
    CHECK_ERROR(cudaMalloc(&p, 4), cudaErrorStreamCaptureUnsupported);
    CHECK_ERROR(cudaStreamEndCapture(f.a, &graph), cudaErrorStreamCaptureInvalidated);

    CHECK_CUDA(cudaEventRecord(f.back, f.b)); /* outside */
    CHECK_CUDA(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeThreadLocal));
    CHECK_ERROR(cudaStreamWaitEvent(f.a, f.back, 0), cudaErrorStreamCaptureIsolation);
    CHECK_ERROR(cudaStreamEndCapture(f.a, &graph), cudaErrorStreamCaptureInvalidated);

    CHECK_CUDA(cudaStreamBeginCapture(f.a, cudaStreamCaptureModeThreadLocal));
    CHECK_ERROR(cudaStreamSynchronize(f.a), cudaErrorStreamCaptureUnsupported);
    CHECK_ERROR(cudaStreamEndCapture(f.a, &graph), cudaErrorStreamCaptureInvalidated);
    CHECK(graph == NULL);
}

TEST(copies_between_the_wrong_sides_are_refused)
{
    int host = 0;
    int *p = device_bytes(sizeof *p);
    CHECK_ERROR(cudaMemcpy(&host, p, sizeof host, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    CHECK_ERROR(cudaMemcpy(p, &host, 2 * sizeof host, cudaMemcpyHostToDevice),
                cudaErrorInvalidValue);
    CHECK_ERROR(cudaMemset(&host, 0, sizeof host), cudaErrorInvalidValue);
    CHECK_ERROR(cudaFree(&host), cudaErrorInvalidValue);
}
#else
typedef int test_emu_has_nothing_to_test_here;
#endif
