/* time_ops.c - a row of ops prepared, and timed on the device as a network would run it: three
 * passes to warm up, ten timed with events, their median. No cache is flushed between passes. All
 * memory is given back before return, since the memory plan is yet to be made. */
#include "kernels/cuda/time_ops.h"
#include "kernels/cuda/cudnn/cudnn_context.h"
#include "kernels/cuda/pattern.h"
#include <stdlib.h>

enum { WARM_UPS = 3, TIMED_RUNS = 10 };

typedef struct Row {
    CudaBackend *b;
    OpInstance ops[FUSION_MAX_OPS];
    int count;
    Stream stream;
    cudaEvent_t start, stop;
} Row;

/* ---- prepare ---- */

static Status prepare(Row *r, CudaBackend *b, const OpShape *shapes, int count)
{
    *r = (Row){ .b = b, .count = count };
    for (int i = 0; i < count; i++) {
        OpInstance *op = &r->ops[i];
        *op = (OpInstance){ .kind = shapes[i].kind, .backend = &b->base, .attr = shapes[i].attr };
        for (int k = 0; k < OP_MAX_INPUTS; k++) op->in[k].desc = shapes[i].in[k];
        for (int k = 0; k < OP_MAX_OUTPUTS; k++) op->out[k].desc = shapes[i].out[k];
        TRY(backend_prepare_op(op));
    }
    return OK;
}

static void release(Row *r)
{
    for (int i = 0; i < r->count; i++) backend_release_op(&r->ops[i]);
}

Status cuda_time_ops_try(CudaBackend *b, const OpShape *ops, int count)
{
    Row r;
    Status st = prepare(&r, b, ops, count);
    release(&r);
    return st;
}

/* ---- memory ---- */

static Status place(Row *r, OpTensor *t)
{
    if (t->desc.rank == 0) return OK;
    TRY_CUDA(cudaMalloc(&t->data, t->bytes));
    return cuda_pattern_fill(t->data, t->bytes, r->stream.stream);
}

static Status place_all(Row *r)
{
    TRY_CUDA(cudaStreamCreateWithFlags(&r->stream.stream, cudaStreamNonBlocking));
    TRY_CUDA(cudaEventCreateWithFlags(&r->start, cudaEventDefault));
    TRY_CUDA(cudaEventCreateWithFlags(&r->stop, cudaEventDefault));
    for (int i = 0; i < r->count; i++) {
        OpInstance *op = &r->ops[i];
        for (int k = 0; k < OP_MAX_INPUTS; k++) TRY(place(r, &op->in[k]));
        for (int k = 0; k < OP_MAX_OUTPUTS; k++) TRY(place(r, &op->out[k]));
        if (op->workspace_bytes) TRY_CUDA(cudaMalloc(&op->workspace, op->workspace_bytes));
        TRY(r->b->base.v->ops[op->kind]->bind(op));
    }
    return OK;
}

static void free_all(Row *r)
{
    for (int i = 0; i < r->count; i++) {
        OpInstance *op = &r->ops[i];
        for (int k = 0; k < OP_MAX_INPUTS; k++)
            if (op->in[k].data) cudaFree(op->in[k].data);
        for (int k = 0; k < OP_MAX_OUTPUTS; k++)
            if (op->out[k].data) cudaFree(op->out[k].data);
        if (op->workspace) cudaFree(op->workspace);
    }
    if (r->start) cudaEventDestroy(r->start);
    if (r->stop) cudaEventDestroy(r->stop);
    cudnn_context_leave_stream(r->b->cudnn);
    if (r->stream.stream) cudaStreamDestroy(r->stream.stream);
}

/* ---- time ---- */

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static Status time_passes(Row *r, double *ms)
{
    float times[TIMED_RUNS];
    for (int i = -WARM_UPS; i < TIMED_RUNS; i++) {
        TRY_CUDA(cudaEventRecord(r->start, r->stream.stream));
        for (int k = 0; k < r->count; k++)
            TRY(r->b->base.v->ops[r->ops[k].kind]->run(&r->ops[k], &r->stream));
        TRY_CUDA(cudaEventRecord(r->stop, r->stream.stream));
        TRY_CUDA(cudaEventSynchronize(r->stop));
        if (i >= 0) TRY_CUDA(cudaEventElapsedTime(&times[i], r->start, r->stop));
    }
    qsort(times, TIMED_RUNS, sizeof times[0], compare_floats);
    *ms = ((double)times[TIMED_RUNS / 2 - 1] + (double)times[TIMED_RUNS / 2]) / 2;
    return OK;
}

Status cuda_time_ops(CudaBackend *b, const OpShape *ops, int count, double *ms)
{
    Row r;
    Status st = prepare(&r, b, ops, count);
    if (st == OK) st = place_all(&r);
    if (st == OK) st = time_passes(&r, ms);
    free_all(&r);
    release(&r);
    return st;
}
