/* attention.c - multi-head attention and its gradient on the device: which tensors, of which type;
 * by our own kernels or by cuDNN. All but lse are of the compute type.
 *
 * Ours can do all that there is to do, but use no tensor cores, and nothing has to be compiled for
 * them; cuDNN's engines are for 16 bits. They read what is dropped as a mask, and of sequences that
 * differ where each lies, which kernels of ours write into the workspace first. What decides is
 * CudaOptions.attention:
 *   KERNELS_OWN    ours
 *   KERNELS_CUDNN  cuDNN, wherever it has an engine
 *   KERNELS_AUTO   the same, but where both can be run and the answer kept, cuDNN only if it is
 *                  faster (decision.h)
 * Each shape of each pass is decided once. What forward leaves means the same by either hand, so
 * backward may be the other's. */
#include "kernels/cuda/attention.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cudnn/attention_plan.h"
#include "kernels/cuda/cudnn/cudnn_context.h"
#include "kernels/cuda/decision.h"
#include "kernels/drop.h"
#include "kernels/ops/attention.h"
#include <inttypes.h>
#include <string.h>

static Status decide_attention(OpInstance *op, OpTensor *qkv, OpTensor *y, OpTensor *lse,
                               OpTensor *scalars, OpTensor *starts)
{
    const CudaBackend *b = cuda_backend(op);
    const AttentionSizes z = attention_sizes(op->attr, &qkv->desc, &starts->desc);
    if (z.positions > INT32_MAX / 2 || z.n * z.heads * (z.length / 16 + 1) > INT32_MAX)
        return fail(ERR_USAGE,
                    "attention of %" PRId64 " sequences of %" PRId64 " positions: too large", z.n,
                    z.length);
    cuda_decide_activation(b, qkv);
    cuda_decide_activation(b, y);
    if (lse->desc.rank) cuda_decide_plain(lse);
    if (scalars->desc.rank) cuda_decide_plain(scalars);
    if (starts->desc.rank) cuda_decide_plain(starts);
    return OK;
}

/* ---- by whom ---- */

static bool takes_cudnn(const OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    const AttentionAttr *a = op->attr;
    const bool times = b->options.attention == KERNELS_AUTO && cudnn_context_times(b->cudnn);
    AttentionAttr alike; /* of layers that drop as much or as little */
    if (b->on_trial != TRIAL_NONE) return b->on_trial == TRIAL_CUDNN;
    if (b->options.attention == KERNELS_OWN || b->compute == DTYPE_F32) return false;
    memset(&alike, 0, sizeof alike);
    alike.heads = a->heads;
    alike.longest = a->longest;
    alike.drop.rate = a->drop.rate > 0 ? 0.5f : 0;
    return cuda_decision_of_op(op, &alike, op_name(op->kind), times ? KERNELS_AUTO : KERNELS_CUDNN,
                               true);
}

static AttentionShape shape_of(const OpInstance *op, const AttentionSizes *z, bool statistics)
{
    const AttentionAttr *a = op->attr;
    return (AttentionShape){ .n = z->n,
                             .heads = z->heads,
                             .length = z->length,
                             .width = z->width,
                             .packed = a->longest > 0 ? z->positions : 0,
                             .scale = z->scale,
                             .factor = a->drop.rate > 0 ? drop_address(&a->drop, 0, 0).factor : 0,
                             .io = cuda_backend(op)->compute,
                             .statistics = statistics };
}

/* Where in the workspace what our kernels write for a plan lies, and then the plan's own. */
typedef struct Extra {
    size_t mask, places, own; /* from which byte on */
} Extra;

static Extra extra_of(const AttentionPlan *plan)
{
    const AttentionShape *part = attention_plan_part(plan);
    const size_t mask = attention_plan_mask_bytes(part),
                 places = attention_plan_places_bytes(part, attention_plan_parts(plan));
    return (Extra){ .mask = 0, .places = mask, .own = mask + places };
}

/* op->state: cuDNN's plan, or NULL. */
static Status choose_plan(OpInstance *op, AttentionGraph pass, const OpTensor *qkv,
                          const OpTensor *starts)
{
    CudaBackend *b = cuda_backend(op);
    const AttentionSizes z = attention_sizes(op->attr, &qkv->desc, &starts->desc);
    const AttentionShape shape =
        shape_of(op, &z, pass == ATTENTION_FORWARD && op->out[ATTENTION_OUT_LSE].desc.rank != 0);
    AttentionPlan *plan = NULL;
    op->implementation = "attention_tiles";
    if (!takes_cudnn(op)) return OK;
    TRY(attention_plan_create(&plan, b, pass, &shape));
    op->state = plan;
    op->implementation = attention_plan_name(plan);
    op->workspace_bytes = extra_of(plan).own + attention_plan_workspace(plan);
    return OK;
}

static void release_attention(OpInstance *op)
{
    attention_plan_destroy(op->state);
    op->state = NULL;
}

/* A head's first query, key or value (part 0, 1, 2). */
static void *part_of(const OpInstance *op, const OpTensor *qkv, int part)
{
    const CudaBackend *b = cuda_backend(op);
    const AttentionSizes z = attention_sizes(op->attr, &qkv->desc, NULL);
    return (char *)qkv->data + (size_t)attention_channel(&z, part, 0) * dtype_bytes(b->compute);
}

int attention_parts(const OpInstance *op)
{
    return op->state ? attention_plan_parts(op->state) : 0;
}

/* ---- the two passes ---- */

static AttentionPass make_pass(const OpInstance *op, const OpTensor *qkv, const OpTensor *y,
                               const OpTensor *lse, const OpTensor *scalars, const OpTensor *starts)
{
    const CudaBackend *b = cuda_backend(op);
    const AttentionAttr *a = op->attr;
    const AttentionSizes z = attention_sizes(a, &qkv->desc, &starts->desc);
    return (AttentionPass){ .drop = a->drop,
                            .dtype = b->compute,
                            .n = (int)z.n,
                            .heads = a->heads,
                            .length = (int)z.length,
                            .width = (int)z.width,
                            .positions = (int)z.positions,
                            .qkv_cp = (int)cuda_view(b, qkv).cp,
                            .y_cp = (int)cuda_view(b, y).cp,
                            .scale = z.scale,
                            .scalars = a->drop.rate > 0 ? scalars->data : NULL,
                            .starts = starts->data,
                            .qkv = qkv->data,
                            .lse = lse->data };
}

static Status bind_plan(OpInstance *op, const OpTensor *qkv, void **operands)
{
    char *workspace = op->workspace;
    const Extra e = extra_of(op->state);
    const int64_t list = attention_plan_places_row(attention_plan_part(op->state)->n);
    for (int i = 0; i < 3; i++) operands[ATTENTION_OP_Q + i] = part_of(op, qkv, i);
    operands[ATTENTION_OP_MASK] = workspace + e.mask;
    for (int i = 0; i < ATTENTION_PLACES; i++)
        operands[ATTENTION_OP_LENGTHS + i] =
            workspace + e.places + (size_t)(i * list) * sizeof(int32_t);
    return attention_plan_bind(op->state, operands, workspace + e.own);
}

/* p: the pass, as our own kernels would run it. */
static Status run_plan(const OpInstance *op, const AttentionPass *p, cudaStream_t stream)
{
    const AttentionShape *part = attention_plan_part(op->state);
    const Extra e = extra_of(op->state);
    char *workspace = op->workspace;
    const AttentionExtra extra = { .mask = workspace + e.mask,
                                   .places = (int32_t *)(void *)(workspace + e.places),
                                   .parts = attention_plan_parts(op->state),
                                   .n = (int)part->n,
                                   .mask_row = (int)attention_plan_mask_row(part->length),
                                   .places_row = (int)attention_plan_places_row(part->n) };
    if (p->starts) TRY_CUDA(cuda_launch_attention_places(p, &extra, stream));
    for (int i = 0; i < extra.parts; i++) {
        if (p->scalars) TRY_CUDA(cuda_launch_attention_mask(p, &extra, i, stream));
        TRY(attention_plan_run(op->state, i, stream));
    }
    return p->starts ? CUDA_STATUS(cuda_launch_attention_rest(p, stream)) : OK;
}

static Status run_pass(const OpInstance *op, AttentionPass *p, const Stream *stream)
{
    if (!op->state) return CUDA_STATUS(cuda_launch_attention(p, stream->stream));
    return run_plan(op, p, stream->stream);
}

static Status prepare_attention(OpInstance *op)
{
    TRY(decide_attention(op, &op->in[ATTENTION_IN_QKV], &op->out[ATTENTION_OUT_Y],
                         &op->out[ATTENTION_OUT_LSE], &op->in[ATTENTION_IN_SCALARS],
                         &op->in[ATTENTION_IN_STARTS]));
    return choose_plan(op, ATTENTION_FORWARD, &op->in[ATTENTION_IN_QKV],
                       &op->in[ATTENTION_IN_STARTS]);
}

static Status bind(OpInstance *op)
{
    void *operands[ATTENTION_OPERAND_COUNT] = {
        [ATTENTION_OP_Y] = op->out[ATTENTION_OUT_Y].data,
        [ATTENTION_OP_LSE] = op->out[ATTENTION_OUT_LSE].data,
    };
    if (!op->state) return OK;
    return bind_plan(op, &op->in[ATTENTION_IN_QKV], operands);
}

static Status run_attention(OpInstance *op, Stream *stream)
{
    const OpTensor *y = &op->out[ATTENTION_OUT_Y];
    AttentionPass p = make_pass(op, &op->in[ATTENTION_IN_QKV], y, &op->out[ATTENTION_OUT_LSE],
                                &op->in[ATTENTION_IN_SCALARS], &op->in[ATTENTION_IN_STARTS]);
    p.y = y->data;
    return run_pass(op, &p, stream);
}

static Status prepare_bwd(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    OpTensor *lse = &op->in[ATTENTION_BWD_IN_LSE];
    TRY(decide_attention(op, &op->in[ATTENTION_BWD_IN_QKV], &op->in[ATTENTION_BWD_IN_Y], lse,
                         &op->in[ATTENTION_BWD_IN_SCALARS], &op->in[ATTENTION_BWD_IN_STARTS]));
    cuda_decide_activation(b, &op->in[ATTENTION_BWD_IN_DY]);
    cuda_decide_activation(b, &op->out[ATTENTION_BWD_OUT_DQKV]);
    op->workspace_bytes = lse->bytes;
    return choose_plan(op, ATTENTION_BWD, &op->in[ATTENTION_BWD_IN_QKV],
                       &op->in[ATTENTION_BWD_IN_STARTS]);
}

static Status bind_bwd(OpInstance *op)
{
    const OpTensor *dqkv = &op->out[ATTENTION_BWD_OUT_DQKV];
    void *operands[ATTENTION_OPERAND_COUNT] = {
        [ATTENTION_OP_Y] = op->in[ATTENTION_BWD_IN_Y].data,
        [ATTENTION_OP_DY] = op->in[ATTENTION_BWD_IN_DY].data,
        [ATTENTION_OP_DQ] = part_of(op, dqkv, 0),
        [ATTENTION_OP_DK] = part_of(op, dqkv, 1),
        [ATTENTION_OP_DV] = part_of(op, dqkv, 2),
        [ATTENTION_OP_LSE] = op->in[ATTENTION_BWD_IN_LSE].data,
    };
    if (!op->state) return OK;
    return bind_plan(op, &op->in[ATTENTION_BWD_IN_QKV], operands);
}

static Status run_attention_bwd(OpInstance *op, Stream *stream)
{
    AttentionPass p = make_pass(op, &op->in[ATTENTION_BWD_IN_QKV], &op->in[ATTENTION_BWD_IN_Y],
                                &op->in[ATTENTION_BWD_IN_LSE], &op->in[ATTENTION_BWD_IN_SCALARS],
                                &op->in[ATTENTION_BWD_IN_STARTS]);
    p.dy = op->in[ATTENTION_BWD_IN_DY].data;
    p.made = op->in[ATTENTION_BWD_IN_Y].data;
    p.dqkv = op->out[ATTENTION_BWD_OUT_DQKV].data;
    p.inner = op->workspace;
    return run_pass(op, &p, stream);
}

const OpImpl cuda_attention = { prepare_attention, bind, run_attention, release_attention };
const OpImpl cuda_attention_bwd = { prepare_bwd, bind_bwd, run_attention_bwd, release_attention };
