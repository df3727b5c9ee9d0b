/* time_ops.c - rows of ops prepared, and timed on the device as a network would run them, against
 * each other (contest.h). What an op of a row wrote an op behind it reads, so that a row of several
 * finds in the cache what it would find there. No cache is flushed between passes. All memory is
 * given back before return, since the memory plan is yet to be made. */
#include "kernels/cuda/time_ops.h"
#include "base/mem.h"
#include "kernels/cuda/contest.h"
#include "kernels/cuda/cudnn/cudnn_context.h"
#include "kernels/cuda/pattern.h"
#include "kernels/ops/attention.h"

typedef struct Row {
    CudaBackend *b;
    OpInstance ops[FUSION_MAX_OPS];
    /* the earlier op's output that an input is; NULL: memory of its own */
    const OpTensor *from[FUSION_MAX_OPS][OP_MAX_INPUTS];
    int count;
} Row;

typedef struct Race {
    Row rows[2];
    Stream stream;
} Race;

/* ---- prepare ---- */

static bool is_read(const Row *r, int op, const OpTensor *t)
{
    for (int k = 0; k < OP_MAX_INPUTS; k++)
        if (r->from[op][k] == t) return true;
    return false;
}

/* Shapes do not say which tensor they are of. An input is taken for the youngest result in the row
 * that lies as it does and that this op does not read yet. */
static const OpTensor *find_source(const Row *r, int op, const OpTensor *input)
{
    for (int i = op - 1; i >= 0; i--)
        for (int k = 0; k < OP_MAX_OUTPUTS; k++) {
            const OpTensor *out = &r->ops[i].out[k];
            const bool alike = out->desc.rank && out->desc.dtype == input->desc.dtype &&
                               out->layout == input->layout && out->bytes == input->bytes &&
                               tensor_same_shape(&out->desc, &input->desc);
            if (alike && !is_read(r, op, out)) return out;
        }
    return NULL;
}

static Status prepare_ops(Row *r, const OpShape *shapes)
{
    for (int i = 0; i < r->count; i++) {
        OpInstance *op = &r->ops[i];
        *op =
            (OpInstance){ .kind = shapes[i].kind, .backend = &r->b->base, .attr = shapes[i].attr };
        for (int k = 0; k < OP_MAX_INPUTS; k++) op->in[k].desc = shapes[i].in[k];
        for (int k = 0; k < OP_MAX_OUTPUTS; k++) op->out[k].desc = shapes[i].out[k];
        TRY(backend_prepare_op(op));
        for (int k = 0; k < OP_MAX_INPUTS; k++) r->from[i][k] = find_source(r, i, &op->in[k]);
    }
    return OK;
}

static Status prepare(Row *r, CudaBackend *b, const CudaTimedRow *row)
{
    const KernelTrial outer = b->on_trial;
    *r = (Row){ .b = b, .count = row->count };
    b->on_trial = row->trial;
    const Status st = prepare_ops(r, row->ops);
    b->on_trial = outer;
    return st;
}

static void release(Row *r)
{
    for (int i = 0; i < r->count; i++) backend_release_op(&r->ops[i]);
}

Status cuda_time_ops_try(CudaBackend *b, const CudaTimedRow *row)
{
    Row r;
    Status st = prepare(&r, b, row);
    release(&r);
    return st;
}

/* ---- memory ---- */

/* Sequences of equal length. Waits until they are there. */
static Status fill_starts(const OpInstance *op, const OpTensor *starts, cudaStream_t stream)
{
    ASSERT(op->kind == OP_ATTENTION || op->kind == OP_ATTENTION_BWD);
    const int qkv = op->kind == OP_ATTENTION ? (int)ATTENTION_IN_QKV : (int)ATTENTION_BWD_IN_QKV;
    const AttentionSizes z = attention_sizes(op->attr, &op->in[qkv].desc, &starts->desc);
    const int64_t even = z.positions / z.n, length = even < z.length ? even : z.length;
    int32_t *list FREED = mem_alloc(starts->bytes);
    if (!list) return ERR_MEMORY;
    for (int64_t n = 0; n <= z.n; n++) list[n] = (int32_t)(n * length);
    TRY_CUDA(cudaMemcpyAsync(starts->data, list, starts->bytes, cudaMemcpyHostToDevice, stream));
    return CUDA_STATUS(cudaStreamSynchronize(stream));
}

static Status place(const OpInstance *op, OpTensor *t, const Stream *s)
{
    if (t->desc.rank == 0) return OK;
    TRY_CUDA(cudaMalloc(&t->data, t->bytes));
    if (t->desc.dtype == DTYPE_I32) return fill_starts(op, t, s->stream);
    return cuda_pattern_fill(t->data, t->bytes, s->stream);
}

static Status place_all(Row *r, const Stream *s)
{
    for (int i = 0; i < r->count; i++) {
        OpInstance *op = &r->ops[i];
        for (int k = 0; k < OP_MAX_OUTPUTS; k++) TRY(place(op, &op->out[k], s));
        for (int k = 0; k < OP_MAX_INPUTS; k++) {
            if (r->from[i][k]) op->in[k].data = r->from[i][k]->data;
            else TRY(place(op, &op->in[k], s));
        }
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
            if (op->in[k].data && !r->from[i][k]) cudaFree(op->in[k].data);
        for (int k = 0; k < OP_MAX_OUTPUTS; k++)
            if (op->out[k].data) cudaFree(op->out[k].data);
        if (op->workspace) cudaFree(op->workspace);
    }
}

/* ---- time ---- */

static Status run(void *cookie, int which, cudaStream_t stream)
{
    Race *race = cookie;
    Row *r = &race->rows[which];
    ASSERT(stream == race->stream.stream);
    for (int k = 0; k < r->count; k++)
        TRY(r->b->base.v->ops[r->ops[k].kind]->run(&r->ops[k], &race->stream));
    return OK;
}

static Status hold(Race *race, CudaBackend *b, const char *what, const CudaTimedRow rows[2],
                   double ms[2])
{
    for (int i = 0; i < 2; i++) TRY(prepare(&race->rows[i], b, &rows[i]));
    TRY_CUDA(cudaStreamCreateWithFlags(&race->stream.stream, cudaStreamNonBlocking));
    for (int i = 0; i < 2; i++) TRY(place_all(&race->rows[i], &race->stream));
    const CudaContest c = { .what = what,
                            .count = 2,
                            .names = { rows[0].name, rows[1].name },
                            .run = run,
                            .cookie = race,
                            .stream = race->stream.stream,
                            .busy_s = &b->busy_s };
    TRY(cuda_contest_hold(&c, ms));
    return ms[0] < 0 || ms[1] < 0 ? fail(ERR_ENV, "one of two ways does not run") : OK;
}

Status cuda_time_ops(CudaBackend *b, const char *what, const CudaTimedRow rows[2], double ms[2])
{
    Race race = { .stream = { NULL } };
    const Status st = hold(&race, b, what, rows, ms);
    for (int i = 0; i < 2; i++) {
        free_all(&race.rows[i]);
        release(&race.rows[i]);
    }
    cudnn_context_leave_stream(b->cudnn);
    if (race.stream.stream) cudaStreamDestroy(race.stream.stream);
    return st;
}
