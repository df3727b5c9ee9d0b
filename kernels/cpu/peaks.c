/* peaks.c - what this CPU gives at best, measured: rates of a step are held against it. */
#include "base/clock.h"
#include "kernels/cpu/view.h"
#include <math.h>
#include <string.h>

#define RUNS         6
#define MEMORY_BYTES ((size_t)128 << 20) /* far above most caches */

static Status alloc_all(Backend *b, OpInstance *op)
{
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        if (op->in[i].bytes) TRY(b->v->alloc(b, op->in[i].bytes, &op->in[i].data));
    for (int i = 0; i < OP_MAX_OUTPUTS; i++)
        if (op->out[i].bytes) TRY(b->v->alloc(b, op->out[i].bytes, &op->out[i].data));
    return op->workspace_bytes ? b->v->alloc(b, op->workspace_bytes, &op->workspace) : OK;
}

static Status time_op(Backend *b, OpInstance *op, Stream *stream, double *seconds)
{
    const OpImpl *impl = b->v->ops[op->kind];
    TRY(backend_prepare_op(op));
    TRY(alloc_all(b, op));
    TRY(impl->bind(op));
    for (int i = 0; i < RUNS; i++) {
        const double start = clock_s();
        TRY(impl->run(op, stream));
        *seconds = fmin(*seconds, clock_s() - start);
    }
    return OK;
}

/* A wide convolution, with hundreds of operations for each byte that it reads, by direct sums: its
 * products are all made. */
static Status measure_product(CpuBackend *b, Stream *stream, double *flops)
{
    const Conv2dAttr a = { .stride_h = 1,
                           .stride_w = 1,
                           .groups = 1,
                           .pad_top = 1,
                           .pad_left = 1,
                           .pad_bottom = 1,
                           .pad_right = 1 };
    const int64_t x[] = { 32 * (int64_t)b->threads, 256, 14, 14 }, w[] = { 256, 256, 3, 3 };
    OpInstance op = { .kind = OP_CONV2D, .backend = &b->base, .attr = &a };
    op.in[CONV_IN_X].desc = op.out[CONV_OUT_Y].desc = tensor_desc(DTYPE_F32, 4, x);
    op.in[CONV_IN_W].desc = tensor_desc(DTYPE_F32, 4, w);
    cpu_view_decide(b, &op.in[CONV_IN_X]);
    const TensorDesc *in[OP_MAX_INPUTS] = { &op.in[CONV_IN_X].desc, &op.in[CONV_IN_W].desc };
    double seconds = INFINITY;
    const CpuUse winograd = b->winograd;
    b->winograd = CPU_USE_NONE;
    Status status = time_op(&b->base, &op, stream, &seconds);
    b->winograd = winograd;
    *flops = op_flops(OP_CONV2D, &a, in, &op.out[CONV_OUT_Y].desc) / seconds;
    backend_release_op(&op);
    for (int i = 0; i < OP_MAX_INPUTS; i++) backend_host_free(&b->base, op.in[i].data);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) backend_host_free(&b->base, op.out[i].data);
    backend_host_free(&b->base, op.workspace);
    return status;
}

/* Two reads to a write, over one of what was read, so that no line is fetched unseen. */
CPU_CLONES static void add(float *y, const float *a, const float *b, int64_t count, float factor)
{
    (void)factor;
    for (int64_t i = 0; i < count; i++) y[i] = a[i] + b[i];
}

static Status measure_memory(CpuBackend *b, double *bytes)
{
    const OpInstance op = { .backend = &b->base };
    OpTensor y = { .desc.dtype = DTYPE_F32, .bytes = MEMORY_BYTES }, x = y;
    double seconds = INFINITY;
    Status status = b->base.v->alloc(&b->base, MEMORY_BYTES, &y.data);
    if (status == OK) status = b->base.v->alloc(&b->base, MEMORY_BYTES, &x.data);
    for (int i = 0; i < RUNS && status == OK; i++) {
        const double start = clock_s();
        cpu_pointwise(&op, add, &y, &y, &x, 0);
        seconds = fmin(seconds, clock_s() - start);
    }
    *bytes = 3 * (double)MEMORY_BYTES / seconds;
    b->base.v->free(&b->base, x.data);
    b->base.v->free(&b->base, y.data);
    return status;
}

Status backend_cpu_peaks(Backend *backend, double *flops, double *bytes)
{
    CpuBackend *b = (CpuBackend *)backend;
    Stream *stream = NULL;
    Status status = backend->v->stream_create(backend, LANE_COMPUTE, &stream);
    if (status == OK) status = measure_product(b, stream, flops);
    if (status == OK) status = measure_memory(b, bytes);
    backend->v->stream_destroy(backend, stream);
    return status;
}
