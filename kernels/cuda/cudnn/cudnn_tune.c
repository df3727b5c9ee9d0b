/* cudnn_tune.c - times plans on the device: three runs to warm up, ten timed one by one with
 * events, their median.
 *
 * Operands are random numbers (pattern.h). No cache is flushed between runs; in a training step,
 * too, the inputs were written just before. All memory is given back before return, since the
 * memory plan is yet to be made. */
#include "kernels/cuda/cudnn/cudnn_tune.h"
#include "base/log.h"
#include "kernels/cuda/cudnn/cudnn_context.h"
#include "kernels/cuda/pattern.h"
#include <stdlib.h>
#include <string.h>

enum { WARM_UPS = 3, TIMED_RUNS = 10 };

typedef struct Bench {
    CudnnContext *c;
    const PlanRequest *request;
    void *operands[CUDNN_MAX_OPERANDS], *workspace;
    cudaStream_t stream;
    cudaEvent_t start, stop;
} Bench;

static Status open_bench(Bench *b, size_t workspace)
{
    const PlanRequest *r = b->request;
    TRY_CUDA(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking));
    TRY_CUDA(cudaEventCreateWithFlags(&b->start, cudaEventDefault));
    TRY_CUDA(cudaEventCreateWithFlags(&b->stop, cudaEventDefault));
    for (int i = 0; i < r->operands; i++) {
        if (r->by_value[i]) {
            /* only read; the list knows no const */
            memcpy(&b->operands[i], &r->by_value[i], sizeof b->operands[i]);
            continue;
        }
        TRY_CUDA(cudaMalloc(&b->operands[i], r->operand_bytes[i]));
        TRY(cuda_pattern_fill(b->operands[i], r->operand_bytes[i], b->stream));
    }
    if (workspace) TRY_CUDA(cudaMalloc(&b->workspace, workspace));
    return OK;
}

static void close_bench(Bench *b)
{
    for (int i = 0; i < b->request->operands; i++)
        if (b->operands[i] && !b->request->by_value[i]) cudaFree(b->operands[i]);
    if (b->workspace) cudaFree(b->workspace);
    if (b->start) cudaEventDestroy(b->start);
    if (b->stop) cudaEventDestroy(b->stop);
    cudnn_context_leave_stream(b->c);
    if (b->stream) cudaStreamDestroy(b->stream);
}

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static Status time_runs(Bench *b, const CudnnPlan *plan, cudnnBackendDescriptor_t pack,
                        double *median_ms)
{
    float ms[TIMED_RUNS];
    for (int i = -WARM_UPS; i < TIMED_RUNS; i++) {
        TRY_CUDA(cudaEventRecord(b->start, b->stream));
        TRY(cudnn_plan_execute(b->c, plan->plan, pack, b->stream));
        TRY_CUDA(cudaEventRecord(b->stop, b->stream));
        TRY_CUDA(cudaEventSynchronize(b->stop));
        if (i >= 0) TRY_CUDA(cudaEventElapsedTime(&ms[i], b->start, b->stop));
    }
    qsort(ms, TIMED_RUNS, sizeof ms[0], compare_floats);
    *median_ms = ((double)ms[TIMED_RUNS / 2 - 1] + (double)ms[TIMED_RUNS / 2]) / 2;
    return OK;
}

static Status time_plan(Bench *b, const CudnnPlan *plan, double *median_ms)
{
    cudnnBackendDescriptor_t pack = NULL;
    TRY(cudnn_plan_make_pack(b->c, &pack, b->request->operands, b->operands, b->workspace));
    Status st = time_runs(b, plan, pack, median_ms);
    cudnn_api_free(&b->c->api, pack);
    return st;
}

static Status time_all(Bench *b, const CudnnPlan *plans, int count, int *fastest, double *ms)
{
    *fastest = -1;
    for (int i = 0; i < count; i++) {
        double one = 0;
        if (time_plan(b, &plans[i], &one) != OK) {
            log_warning("%s: engine %d does not run: %s", b->request->key, plans[i].engine,
                        status_message());
            continue;
        }
        log_debug("%s: engine %d, workspace %zu, %.4f ms", b->request->key, plans[i].engine,
                  plans[i].workspace, one);
        if (*fastest >= 0 && one >= *ms) continue;
        *fastest = i;
        *ms = one;
    }
    return *fastest >= 0 ? OK
                         : fail(ERR_ENV, "none of cuDNN's engines for %s runs", b->request->key);
}

Status cudnn_tune(CudnnContext *c, const PlanRequest *r, const CudnnPlan *plans, int count,
                  int *fastest, double *ms)
{
    Bench b = { .c = c, .request = r };
    size_t workspace = 0;
    for (int i = 0; i < count; i++)
        if (plans[i].workspace > workspace) workspace = plans[i].workspace;
    Status st = open_bench(&b, workspace);
    if (st == OK) st = time_all(&b, plans, count, fastest, ms);
    close_bench(&b);
    return st;
}
