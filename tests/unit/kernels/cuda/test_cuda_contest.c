/* test_cuda_contest.c - what is timed is compared first: a plan that computes something else is
 * left out by name, and so is one that does not run. On the test double (EMU=1) and on a GPU. */
#include "tests/test.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "kernels/cuda/contest.h"
#include "kernels/cuda/cudnn/conv_plan.h"
#include "kernels/cuda/pattern.h"
#include "tests/tools/cuda_there.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 2, C = 8, H = 6, IMAGE = N * H * H * C, FILTERS = C * 3 * 3 * C };

typedef enum Way { RIGHT, MOVED, ADDING, BROKEN } Way;

typedef struct Field {
    Backend *backend;
    ConvPlan *plans[3]; /* RIGHT, MOVED, ADDING */
    void *x, *w, *y, *workspace;
    Way ways[4];
    CudaContest contest;
} Field;

static Status run(void *cookie, int which, cudaStream_t stream)
{
    const Field *f = cookie;
    if (f->ways[which] == BROKEN) return fail(ERR_ENV, "it is broken");
    return conv_plan_run(f->plans[f->ways[which]], stream);
}

static ConvShape shape_of(Way way, DType io)
{
    ConvShape s = { .n = N, .c = C, .h = H, .w = H, .k = C, .r = 3, .s = 3, .p = H, .q = H };
    s.io = io;
    /* the same sizes, an image moved by a row */
    s.attr = (Conv2dAttr){ .stride_h = 1,
                           .stride_w = 1,
                           .pad_top = way == MOVED ? 2 : 1,
                           .pad_bottom = way == MOVED ? 0 : 1,
                           .pad_left = 1,
                           .pad_right = 1,
                           .groups = 1 };
    return s;
}

static void *buffer(const Field *f, size_t bytes)
{
    void *p = NULL;
    CHECK_OK(f->backend->v->alloc(f->backend, bytes, &p));
    CHECK_OK(cuda_pattern_fill(p, bytes, f->contest.stream));
    return p;
}

static void open_plans(Field *f, DType io)
{
    size_t workspace = 1;
    for (int i = 0; i < 3; i++) {
        const ConvShape s = shape_of((Way)i, io);
        REQUIRE_OK(conv_plan_create(&f->plans[i], (CudaBackend *)f->backend, CONV_FORWARD, &s,
                                    i == ADDING));
        if (conv_plan_workspace(f->plans[i]) > workspace)
            workspace = conv_plan_workspace(f->plans[i]);
    }
    f->workspace = buffer(f, workspace);
    for (int i = 0; i < 3; i++)
        CHECK_OK(conv_plan_bind(f->plans[i], f->x, f->w, f->y, f->workspace));
}

static bool open_field(Field *f, Precision precision, double *busy_s)
{
    static const DType types[PRECISION_COUNT] = { DTYPE_F32, DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
    const size_t element = dtype_bytes(types[precision]);
    const CudaOptions o = { .precision = precision };
    *f = (Field){ .backend = NULL };
    if (!cuda_is_there()) return false;
    CHECK_OK(backend_cuda_create(&f->backend, &o));
    if (!f->backend) return false;
    f->contest = (CudaContest){
        .what = "a convolution", .run = run, .cookie = f, .busy_s = busy_s, .output_count = 1
    };
    CHECK(cudaStreamCreateWithFlags(&f->contest.stream, cudaStreamNonBlocking) == cudaSuccess);
    f->x = buffer(f, IMAGE * element);
    f->w = buffer(f, FILTERS * element);
    f->y = buffer(f, IMAGE * element);
    f->contest.outputs[0] = (CudaContestOutput){ f->y, IMAGE * element, types[precision] };
    open_plans(f, types[precision]);
    return true;
}

static void close_field(Field *f)
{
    void *const all[] = { f->x, f->w, f->y, f->workspace };
    for (int i = 0; i < 3; i++) conv_plan_destroy(f->plans[i]);
    for (int i = 0; i < 4; i++) f->backend->v->free(f->backend, all[i]);
    CHECK(cudaStreamDestroy(f->contest.stream) == cudaSuccess);
    backend_destroy(f->backend);
}

/* What the log says while the contest of these ways is held. mem_free */
static char *hold(Field *f, int count, const Way *ways, double *ms)
{
    static const char *const names[] = { "engine 0", "engine 1", "engine 2", "engine 3" };
    char path[256];
    uint8_t *text = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/log.txt", test_scratch());
    memcpy(f->ways, ways, (size_t)count * sizeof *ways);
    memcpy(f->contest.names, names, sizeof names);
    f->contest.count = count;
    CHECK_OK(log_open(path, 0, LOG_ERROR));
    CHECK_OK(cuda_contest_hold(&f->contest, ms));
    log_close();
    CHECK_OK(fs_read_file(path, &text, &bytes));
    CHECK(remove(path) == 0);
    return (char *)text;
}

static int count_lines(const char *text)
{
    int lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

TEST(a_plan_that_computes_wrong_is_left_out_by_name)
{
    for (int p = 0; p < PRECISION_COUNT; p++) {
        Field f;
        double busy_s = 0, ms[4] = { 0 };
        if (!open_field(&f, (Precision)p, &busy_s)) return;
        char *says = hold(&f, 4, (Way[]){ RIGHT, MOVED, RIGHT, BROKEN }, ms);
        CHECK(ms[0] > 0 && ms[1] < 0 && ms[2] > 0 && ms[3] < 0);
        CHECK_INT(count_lines(says), 2);
        CHECK_CONTAINS(says, "a convolution: engine 3 does not run: it is broken");
        CHECK_CONTAINS(says, "engine 1 is not used: its result differs from engine 0");
        mem_free(says);
        /* adding to what is there is another function, and the same one as itself */
        says = hold(&f, 3, (Way[]){ RIGHT, RIGHT, ADDING }, ms);
        CHECK(ms[0] > 0 && ms[1] > 0 && ms[2] < 0);
        mem_free(says);
        says = hold(&f, 2, (Way[]){ ADDING, ADDING }, ms);
        CHECK(ms[0] > 0 && ms[1] > 0);
        CHECK_STR(says, "");
        mem_free(says);
        close_field(&f);
    }
}

TEST(the_first_is_believed_unless_most_differ_from_it)
{
    Field f;
    double busy_s = 0, ms[4] = { 0 };
    if (!open_field(&f, PRECISION_BF16, &busy_s)) return;
    char *says = hold(&f, 3, (Way[]){ MOVED, RIGHT, RIGHT }, ms);
    CHECK(ms[0] < 0 && ms[1] > 0 && ms[2] > 0);
    CHECK_CONTAINS(says, "engine 0 is not used: its result differs from engine 1");
    mem_free(says);
    says = hold(&f, 2, (Way[]){ MOVED, RIGHT }, ms);
    CHECK(ms[0] > 0 && ms[1] < 0);
    mem_free(says);
    says = hold(&f, 1, (Way[]){ BROKEN }, ms); /* nobody is left */
    CHECK(ms[0] < 0);
    mem_free(says);
    f.contest.output_count = 0; /* nothing to compare */
    says = hold(&f, 2, (Way[]){ MOVED, RIGHT }, ms);
    CHECK(ms[0] > 0 && ms[1] > 0);
    CHECK_STR(says, "");
    mem_free(says);
    close_field(&f);
}

/* The sums of the kernel, whole; count is no multiple of anything. */
static void differ(Backend *backend, const float *x, const float *y, int64_t count, double out[2])
{
    double host[CONTEST_DIFFERENCE_BLOCKS][2];
    void *device[3];
    const size_t bytes = (size_t)count * sizeof *x;
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(backend->v->alloc(backend, i < 2 ? bytes : sizeof host, &device[i]));
    CHECK(cudaMemcpy(device[0], x, bytes, cudaMemcpyHostToDevice) == cudaSuccess);
    CHECK(cudaMemcpy(device[1], y, bytes, cudaMemcpyHostToDevice) == cudaSuccess);
    CHECK(cuda_launch_contest_difference(device[0], device[1], DTYPE_F32, count, device[2], NULL) ==
          cudaSuccess);
    CHECK(cudaMemcpy(host, device[2], sizeof host, cudaMemcpyDeviceToHost) == cudaSuccess);
    out[0] = out[1] = 0;
    for (int i = 0; i < CONTEST_DIFFERENCE_BLOCKS; i++)
        for (int k = 0; k < 2; k++) out[k] += host[i][k];
    for (int i = 0; i < 3; i++) backend->v->free(backend, device[i]);
}

TEST(differences_count_every_element)
{
    enum { COUNT = 2 * 256 * 256 + 77 };
    static float x[COUNT], y[COUNT];
    const int places[] = { 0, 1, 255, 256, 65535, 65536, COUNT - 1 };
    const CudaOptions o = { .precision = PRECISION_FP32 };
    Backend *b;
    double sums[2];
    if (!cuda_is_there()) return;
    REQUIRE_OK(backend_cuda_create(&b, &o));
    for (int i = 0; i < COUNT; i++) x[i] = y[i] = 1;
    for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
        y[places[k]] = 3;
        differ(b, x, y, COUNT, sums);
        CHECK(sums[0] == COUNT && sums[1] == 4);
        y[places[k]] = NAN;
        differ(b, x, y, COUNT, sums);
        CHECK(isinf(sums[1]));
        x[places[k]] = NAN;
        differ(b, x, y, COUNT, sums);
        CHECK(sums[0] == COUNT - 1 && sums[1] == 0);
        x[places[k]] = INFINITY;
        y[places[k]] = -INFINITY;
        differ(b, x, y, COUNT, sums);
        CHECK(isinf(sums[1]));
        x[places[k]] = y[places[k]] = 1;
    }
    backend_destroy(b);
}
