/* linear.c - the fully connected layer and its gradients by oneDNN's matrix multiplication on plain
 * row-major tensors.
 *
 * Weights stay plain: dnnl_sgemm packs what it needs, and beta = 1 adds a bias that was written
 * first, or accumulates a gradient, for nothing. An x of rank 4 may be blocked; then it (or its
 * gradient) passes through a plain copy in the workspace. */
#include "base/mem.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/steps.h"
#include "kernels/cpu/view.h"
#include <string.h>

typedef struct LinearState {
    CpuSteps steps; /* empty, or the one reorder of x or dx */
    float *x;       /* plain x or dx: the tensor itself or the copy */
    bool copied;
} LinearState;

/* Decides the plain slots and reorders x between its layout and plain if it has one. */
static Status prepare(OpInstance *op, OpTensor *x, CpuPlace place, int slot)
{
    CpuBackend *b = (CpuBackend *)op->backend;
    LinearState *s = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    op->implementation = "sgemm";
    cpu_view_decide(b, x);
    for (int i = 0; i < OP_MAX_INPUTS; i++) {
        if (op->in[i].desc.rank) cpu_decide_plain(&op->in[i]);
        ASSERT(&op->in[i] == x || !op->in[i].layout);
    }
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) {
        if (op->out[i].desc.rank) cpu_decide_plain(&op->out[i]);
        ASSERT(&op->out[i] == x || !op->out[i].layout);
    }
    s->copied = x->layout != NULL;
    if (!s->copied) return OK;
    const Layout *plain;
    TRY(cpu_layout_plain(b, &plain, x->desc.rank, x->desc.dims));
    /* the first piece of the workspace, where bind() looks for it */
    CpuOperand copy = cpu_steps_operand_workspace(&s->steps, plain);
    ASSERT(copy.offset == 0);
    if (place == PLACE_INPUT) {
        TRY(cpu_steps_add_reorder(b, &s->steps, cpu_steps_operand_in(slot, x->layout), copy));
    } else {
        TRY(cpu_steps_add_reorder(b, &s->steps, copy, cpu_steps_operand_out(slot, x->layout)));
    }
    op->workspace_bytes = s->steps.workspace_bytes;
    return OK;
}

static Status prepare_forward(OpInstance *op)
{
    return prepare(op, &op->in[LINEAR_IN_X], PLACE_INPUT, LINEAR_IN_X);
}

static Status prepare_bwd_data(OpInstance *op)
{
    return prepare(op, &op->out[LINEAR_BWD_DATA_OUT_DX], PLACE_OUTPUT, LINEAR_BWD_DATA_OUT_DX);
}

static Status prepare_bwd_weights(OpInstance *op)
{
    return prepare(op, &op->in[LINEAR_BWD_WEIGHTS_IN_X], PLACE_INPUT, LINEAR_BWD_WEIGHTS_IN_X);
}

static Status bind(OpInstance *op)
{
    LinearState *s = op->state;
    void *x = op->kind == OP_LINEAR_BWD_DATA ? op->out[LINEAR_BWD_DATA_OUT_DX].data
                                             : op->in[0].data; /* slot 0 is x in the other two */
    s->x = s->copied ? op->workspace : x;
    return cpu_steps_bind(&s->steps, op);
}

static Status run_forward(OpInstance *op, Stream *stream)
{
    const LinearState *s = op->state;
    const int64_t n = op->out[LINEAR_OUT_Y].desc.dims[0], k = op->in[LINEAR_IN_W].desc.dims[0],
                  c = op->in[LINEAR_IN_W].desc.dims[1];
    const float *w = op->in[LINEAR_IN_W].data, *bias = op->in[LINEAR_IN_B].data;
    float *y = op->out[LINEAR_OUT_Y].data;
    TRY(cpu_steps_run(&s->steps, ((const CpuBackend *)op->backend)->threads, stream));
    if (bias)
        for (int64_t i = 0; i < n; i++) memcpy(y + i * k, bias, (size_t)k * sizeof *y);
    TRY_DNNL(dnnl_sgemm('N', 'T', n, k, c, 1.0F, s->x, c, w, c, bias ? 1.0F : 0.0F, y, k));
    return OK;
}

static Status run_bwd_data(OpInstance *op, Stream *stream)
{
    const LinearState *s = op->state;
    const OpTensor *dy = &op->in[LINEAR_BWD_DATA_IN_DY], *w = &op->in[LINEAR_BWD_DATA_IN_W];
    const int64_t n = dy->desc.dims[0], k = w->desc.dims[0], c = w->desc.dims[1];
    TRY_DNNL(dnnl_sgemm('N', 'N', n, c, k, 1.0F, dy->data, k, w->data, c, 0.0F, s->x, c));
    return cpu_steps_run(&s->steps, ((const CpuBackend *)op->backend)->threads, stream);
}

/* db[k] (+)= sum over n of dy[n][k], in the order of n whatever the team. */
CPU_CLONES static void sum_rows(float *restrict db, const float *restrict dy, int64_t n, int64_t k,
                                bool add)
{
    if (!add) memset(db, 0, (size_t)k * sizeof *db);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++) db[j] += dy[i * k + j];
}

static Status run_bwd_weights(OpInstance *op, Stream *stream)
{
    const LinearState *s = op->state;
    const OpTensor *dy = &op->in[LINEAR_BWD_WEIGHTS_IN_DY],
                   *dw = &op->out[LINEAR_BWD_WEIGHTS_OUT_DW];
    const int64_t n = dy->desc.dims[0], k = dw->desc.dims[0], c = dw->desc.dims[1];
    float *db = op->out[LINEAR_BWD_WEIGHTS_OUT_DB].data;
    TRY(cpu_steps_run(&s->steps, ((const CpuBackend *)op->backend)->threads, stream));
    if (db) sum_rows(db, dy->data, n, k, op->accumulate);
    TRY_DNNL(dnnl_sgemm('T', 'N', k, c, n, 1.0F, dy->data, k, s->x, c, op->accumulate ? 1.0F : 0.0F,
                        dw->data, c));
    return OK;
}

static void release(OpInstance *op)
{
    LinearState *s = op->state;
    if (s) cpu_steps_release(&s->steps);
    mem_free(s);
    op->state = NULL;
}

const OpImpl cpu_linear = { prepare_forward, bind, run_forward, release };
const OpImpl cpu_linear_bwd_data = { prepare_bwd_data, bind, run_bwd_data, release };
const OpImpl cpu_linear_bwd_weights = { prepare_bwd_weights, bind, run_bwd_weights, release };
