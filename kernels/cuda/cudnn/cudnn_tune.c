/* cudnn_tune.c - plans timed on the device and compared with each other (contest.h).
 *
 * Operands are random numbers (pattern.h), or what the request has as an example. No cache is
 * flushed between runs; in a training step, too, the inputs were written just before. All memory is
 * given back before return, since the memory plan is yet to be made. */
#include "kernels/cuda/cudnn/cudnn_tune.h"
#include "base/log.h"
#include "kernels/cuda/contest.h"
#include "kernels/cuda/cudnn/cudnn_context.h"
#include "kernels/cuda/pattern.h"
#include <stdio.h>
#include <string.h>

typedef struct Bench {
    CudnnContext *c;
    const PlanRequest *request;
    const CudnnPlan *plans;
    int count;
    void *operands[CUDNN_MAX_OPERANDS], *workspace;
    cudnnBackendDescriptor_t packs[CUDA_CONTEST_MOST];
    CudaContest contest;
} Bench;

static Status open_bench(Bench *b, size_t workspace)
{
    const PlanRequest *r = b->request;
    TRY_CUDA(cudaStreamCreateWithFlags(&b->contest.stream, cudaStreamNonBlocking));
    for (int i = 0; i < r->operands; i++) {
        if (r->by_value[i]) {
            /* only read; the list knows no const */
            memcpy(&b->operands[i], &r->by_value[i], sizeof b->operands[i]);
            continue;
        }
        TRY_CUDA(cudaMalloc(&b->operands[i], r->operand_bytes[i]));
        TRY(cuda_pattern_fill(b->operands[i], r->operand_bytes[i], b->contest.stream));
        if (r->example[i])
            TRY_CUDA(cudaMemcpyAsync(b->operands[i], r->example[i], r->operand_bytes[i],
                                     cudaMemcpyHostToDevice, b->contest.stream));
        if (r->written >> i & 1)
            b->contest.outputs[b->contest.output_count++] =
                (CudaContestOutput){ b->operands[i], r->operand_bytes[i], r->operand_types[i] };
    }
    TRY_CUDA(cudaStreamSynchronize(b->contest.stream));
    if (workspace) TRY_CUDA(cudaMalloc(&b->workspace, workspace));
    for (int i = 0; i < b->count; i++)
        TRY(cudnn_plan_make_pack(b->c, &b->packs[i], r->operands, b->operands, b->workspace));
    return OK;
}

static void close_bench(Bench *b)
{
    for (int i = 0; i < b->count; i++)
        if (b->packs[i]) cudnn_api_free(&b->c->api, b->packs[i]);
    for (int i = 0; i < b->request->operands; i++)
        if (b->operands[i] && !b->request->by_value[i]) cudaFree(b->operands[i]);
    if (b->workspace) cudaFree(b->workspace);
    cudnn_context_leave_stream(b->c);
    if (b->contest.stream) cudaStreamDestroy(b->contest.stream);
}

static Status run(void *cookie, int which, cudaStream_t stream)
{
    const Bench *b = cookie;
    return cudnn_plan_execute(b->c, b->plans[which].plan, b->packs[which], stream);
}

/* Of one plan there is nothing to compare, but it has to run, and its time is kept with it. */
static Status time_all(Bench *b, int *fastest, double *ms)
{
    char names[CUDA_CONTEST_MOST][32];
    double times[CUDA_CONTEST_MOST];
    CudaContest *c = &b->contest;
    *fastest = -1;
    for (int i = 0; i < b->count; i++) {
        snprintf(names[i], sizeof names[i], "cuDNN's engine %d", b->plans[i].engine);
        c->names[i] = names[i];
    }
    if (b->count == 1) c->output_count = 0;
    TRY(cuda_contest_hold(c, times));
    for (int i = 0; i < b->count; i++) {
        if (times[i] < 0) continue;
        log_debug("%s: engine %d, workspace %zu, %.4f ms", c->what, b->plans[i].engine,
                  b->plans[i].workspace, times[i]);
        if (*fastest >= 0 && times[i] >= *ms) continue;
        *fastest = i;
        *ms = times[i];
    }
    return *fastest >= 0 ? OK : fail(ERR_ENV, "none of cuDNN's engines for %s works", c->what);
}

Status cudnn_tune(CudnnContext *c, const PlanRequest *r, const CudnnPlan *plans, int count,
                  int *fastest, double *ms)
{
    Bench b = { .c = c, .request = r, .plans = plans, .count = count };
    size_t workspace = 0;
    ASSERT(count <= CUDA_CONTEST_MOST);
    b.contest = (CudaContest){
        .what = r->key, .count = count, .run = run, .cookie = &b, .busy_s = &c->busy_s
    };
    for (int i = 0; i < count; i++)
        if (plans[i].workspace > workspace) workspace = plans[i].workspace;
    Status st = open_bench(&b, workspace);
    if (st == OK) st = time_all(&b, fastest, ms);
    close_bench(&b);
    return st;
}
