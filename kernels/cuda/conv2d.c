/* conv2d.c - convolution and its two gradients on the CUDA backend.
 *
 * The three are one relation between x, w and y, all in the compute type while a plan runs
 * (conv_plan.h). Parameters and their gradients, however, are f32:
 *
 *   w   in a 16-bit type is read from the compute copy that OP_UPDATE keeps; where the parameter
 *       lies outside the attached slab (checks of single ops) it is converted into the workspace
 *       before each run.
 *   dw  in a 16-bit type is written to the workspace, or staged, and from there converted into, or
 *       added to, the f32 gradient (staging.h): no engine writes f32 from 16-bit inputs. In f32 the
 *       plan writes or adds to the gradient itself.
 *
 * A bias is added behind the plan, in place, and its gradient is summed, by kernels of our own
 * (bias.h).
 *
 * WORKSPACE is that tensor, if there is one, behind it what the plan wants, and then sums of db.
 *
 * Convolutions with a filter for each channel may be run by kernels of our own (depthwise.h), which
 * write dw in f32. */
#include "kernels/cuda/conv2d.h"
#include "base/mem.h"
#include "kernels/cuda/bias.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/cudnn/conv_plan.h"
#include "kernels/cuda/decision.h"
#include "kernels/cuda/depthwise.h"
#include "kernels/cuda/staging.h"

/* ---- one filter for each channel: our own kernels or cuDNN ----
 *
 * Ours need nothing compiled and next to no workspace. What decides is CudaOptions.depthwise:
 *   KERNELS_OWN    ours, wherever there are some
 *   KERNELS_CUDNN  cuDNN, wherever it has an engine
 *   KERNELS_AUTO   cuDNN where it was measured to be faster (decision.h)
 * Each shape of each pass is decided once. */

static bool cudnn_takes(const OpInstance *op, ConvPass pass)
{
    static const char *const names[CONV_PASS_COUNT] = { [CONV_FORWARD] = "depthwise",
                                                        [CONV_BWD_DATA] = "depthwise_bwd_data",
                                                        [CONV_BWD_WEIGHTS] =
                                                            "depthwise_bwd_weights" };
    return cuda_decision_of_op(op, op->attr, names[pass], cuda_backend(op)->options.depthwise,
                               false);
}

/* Whether our kernels are to run this pass of an op whose tensors are decided. May time both. */
static bool depthwise_is_own(const OpInstance *op, ConvPass pass, const ConvShape *shape)
{
    const CudaBackend *b = cuda_backend(op);
    if (!depthwise_takes(shape)) return false;
    if (b->on_trial != TRIAL_NONE) return b->on_trial == TRIAL_OWN;
    return b->options.depthwise == KERNELS_OWN || !cudnn_takes(op, pass);
}

/* ---- all passes ---- */

enum { ROLE_X, ROLE_W, ROLE_Y, ROLE_COUNT };

/* Where each role stands among the slots of an op. */
static const struct PassRow {
    struct {
        bool output;
        int slot;
    } roles[ROLE_COUNT];
} passes[CONV_PASS_COUNT] = {
    [CONV_FORWARD] = { { { false, CONV_IN_X }, { false, CONV_IN_W }, { true, CONV_OUT_Y } } },
    [CONV_BWD_DATA] = { { { true, CONV_BWD_DATA_OUT_DX },
                          { false, CONV_BWD_DATA_IN_W },
                          { false, CONV_BWD_DATA_IN_DY } } },
    [CONV_BWD_WEIGHTS] = { { { false, CONV_BWD_WEIGHTS_IN_X },
                             { true, CONV_BWD_WEIGHTS_OUT_DW },
                             { false, CONV_BWD_WEIGHTS_IN_DY } } },
};

typedef struct ConvState {
    Staged dw;      /* gradient of w */
    ConvPlan *plan; /* this, or own */
    Depthwise *own;
    int64_t weights; /* elements, padding included */
    /* in the workspace: weights in the compute type, rounded up to the alignment; 0 for f32 */
    size_t weights_bytes;
    bool convert; /* forward and data gradient: w has no compute copy */
    RowGrid rows; /* of dy, for db */
    size_t sums;  /* in the workspace, of db */
} ConvState;

static OpTensor *tensor_of(OpInstance *op, ConvPass pass, int role)
{
    const int slot = passes[pass].roles[role].slot;
    return passes[pass].roles[role].output ? &op->out[slot] : &op->in[slot];
}

Status conv2d_decide(const CudaBackend *b, const Conv2dAttr *attr, OpTensor *x, OpTensor *w,
                     OpTensor *y)
{
    const int64_t channels = x->desc.dims[1], filters = w->desc.dims[0];
    if (attr->groups > 1 && (channels % b->pad || filters % b->pad))
        return fail(ERR_USAGE,
                    "conv2d: %d groups from %lld to %lld channels: on CUDA both must be multiples "
                    "of %d in this precision",
                    attr->groups, (long long)channels, (long long)filters, b->pad);
    cuda_decide_activation(b, x);
    cuda_decide_activation(b, y);
    cuda_decide(b, w, attr->groups > 1 ? CUDA_KRSC_GROUPED : CUDA_KRSC, DTYPE_F32);
    return OK;
}

ConvShape conv2d_shape(const CudaBackend *b, const Conv2dAttr *attr, const OpTensor *x,
                       const OpTensor *w, const OpTensor *y)
{
    const CudaView from = cuda_view(b, x), to = cuda_view(b, y);
    return (ConvShape){ .n = from.n,
                        .c = from.cp,
                        .h = from.h,
                        .w = from.w,
                        .k = to.cp,
                        .r = w->desc.dims[2],
                        .s = w->desc.dims[3],
                        .p = to.h,
                        .q = to.w,
                        .attr = *attr,
                        .io = b->compute,
                        .tf32 = b->precision == PRECISION_TF32 };
}

int64_t conv2d_weights(const ConvShape *s)
{
    return s->k * s->r * s->s * (s->c / s->attr.groups);
}

size_t conv2d_weights_bytes(const CudaBackend *b, const ConvShape *s)
{
    const size_t align = b->base.v->alignment;
    if (b->compute == DTYPE_F32) return 0;
    return ((size_t)conv2d_weights(s) * dtype_bytes(b->compute) + align - 1) / align * align;
}

static Status prepare_conv2d(OpInstance *op, ConvPass pass)
{
    CudaBackend *b = cuda_backend(op);
    OpTensor *x = tensor_of(op, pass, ROLE_X), *w = tensor_of(op, pass, ROLE_W),
             *y = tensor_of(op, pass, ROLE_Y);
    ConvState *s = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    TRY(conv2d_decide(b, op->attr, x, w, y));
    const ConvShape shape = conv2d_shape(b, op->attr, x, w, y);
    const bool own = depthwise_is_own(op, pass, &shape),
               writes_f32 = pass == CONV_BWD_WEIGHTS && (own || b->compute == DTYPE_F32);
    const bool added = op->accumulate && writes_f32; /* only parameter gradients accumulate */
    if (own) TRY(depthwise_create(&s->own, b, pass, &shape, added));
    else TRY(conv_plan_create(&s->plan, b, pass, &shape, added));
    s->weights = conv2d_weights(&shape);
    ASSERT((size_t)s->weights * sizeof(float) == w->bytes);
    s->weights_bytes = writes_f32 ? 0 : conv2d_weights_bytes(b, &shape);
    if (pass == CONV_BWD_WEIGHTS && !writes_f32)
        s->dw = (Staged){ .count = s->weights, .bytes = s->weights_bytes };
    op->workspace_bytes =
        s->weights_bytes + (own ? depthwise_workspace(s->own) : conv_plan_workspace(s->plan));
    op->implementation = own ? depthwise_name(s->own) : conv_plan_name(s->plan);
    return OK;
}

/* Room for db's sums behind what is asked for. */
static Status prepare_bias_gradient(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    const CudaView dy = cuda_view(b, &op->in[CONV_BWD_WEIGHTS_IN_DY]);
    OpTensor *db = &op->out[CONV_BWD_WEIGHTS_OUT_DB];
    ConvState *s = op->state;
    if (!db->desc.rank) return OK;
    cuda_decide(b, db, CUDA_VECTOR, DTYPE_F32);
    if (!row_grid_make(&s->rows, dy.rows, dy.vectors, b->sm_count, BIAS_BLOCKS_PER_SM))
        return fail(ERR_USAGE, "bias over %lld rows of %lld channels: too large",
                    (long long)dy.rows, (long long)dy.c);
    s->sums = cuda_take_workspace(op, (size_t)row_grid_partials(&s->rows) * (size_t)dy.cp *
                                          sizeof(float));
    return OK;
}

static Status bind_plan(OpInstance *op, const void *a, const void *b, void *out)
{
    const ConvState *s = op->state;
    void *workspace = op->workspace ? (char *)op->workspace + s->weights_bytes : NULL;
    if (!s->own) return conv_plan_bind(s->plan, a, b, out, workspace);
    depthwise_bind(s->own, a, b, out, workspace);
    return OK;
}

static Status run_plan(const ConvState *s, Stream *stream)
{
    return s->own ? depthwise_run(s->own, stream->stream) : conv_plan_run(s->plan, stream->stream);
}

/* The weights that the plan reads. */
static const void *weights_for(OpInstance *op, const OpTensor *w)
{
    ConvState *s = op->state;
    const void *copy = cuda_compute_copy(cuda_backend(op), w);
    s->convert = copy == NULL;
    return copy ? copy : op->workspace;
}

static Status convert_weights(OpInstance *op, const OpTensor *w, Stream *stream)
{
    const ConvState *s = op->state;
    if (!s->convert) return OK;
    return CUDA_STATUS(cuda_launch_cast(w->data, DTYPE_F32, op->workspace,
                                        cuda_backend(op)->compute, s->weights, stream->stream));
}

bool conv2d_is_own(const OpInstance *op)
{
    return ((const ConvState *)op->state)->own != NULL;
}

static void release_conv(OpInstance *op)
{
    ConvState *s = op->state;
    if (!s) return;
    conv_plan_destroy(s->plan);
    depthwise_destroy(s->own);
    staging_release(&s->dw);
}

/* ---- forward ---- */

static Status prepare_forward(OpInstance *op)
{
    if (op->in[CONV_IN_B].desc.rank)
        cuda_decide(cuda_backend(op), &op->in[CONV_IN_B], CUDA_VECTOR, DTYPE_F32);
    return prepare_conv2d(op, CONV_FORWARD);
}

static Status bind_forward(OpInstance *op)
{
    return bind_plan(op, op->in[CONV_IN_X].data, weights_for(op, &op->in[CONV_IN_W]),
                     op->out[CONV_OUT_Y].data);
}

static Status run_forward(OpInstance *op, Stream *stream)
{
    const OpTensor *bias = &op->in[CONV_IN_B], *y = &op->out[CONV_OUT_Y];
    TRY(convert_weights(op, &op->in[CONV_IN_W], stream));
    TRY(run_plan(op->state, stream));
    if (!bias->desc.rank) return OK;
    const CudaView v = cuda_view(cuda_backend(op), y);
    return CUDA_STATUS(
        cuda_launch_bias(y->data, v.dtype, bias->data, v.rows, v.vectors, stream->stream));
}

/* ---- gradient of x ---- */

static Status prepare_bwd_data(OpInstance *op)
{
    return prepare_conv2d(op, CONV_BWD_DATA);
}

static Status bind_bwd_data(OpInstance *op)
{
    return bind_plan(op, op->in[CONV_BWD_DATA_IN_DY].data,
                     weights_for(op, &op->in[CONV_BWD_DATA_IN_W]),
                     op->out[CONV_BWD_DATA_OUT_DX].data);
}

static Status run_bwd_data(OpInstance *op, Stream *stream)
{
    TRY(convert_weights(op, &op->in[CONV_BWD_DATA_IN_W], stream));
    return run_plan(op->state, stream);
}

/* ---- gradient of w ---- */

static Status prepare_bwd_weights(OpInstance *op)
{
    TRY(prepare_conv2d(op, CONV_BWD_WEIGHTS));
    return prepare_bias_gradient(op);
}

static Status bind_bwd_weights(OpInstance *op)
{
    const ConvState *s = op->state;
    return bind_plan(op, op->in[CONV_BWD_WEIGHTS_IN_X].data, op->in[CONV_BWD_WEIGHTS_IN_DY].data,
                     staging_address(op, &s->dw));
}

static Status run_bwd_weights(OpInstance *op, Stream *stream)
{
    const ConvState *s = op->state;
    const OpTensor *dy = &op->in[CONV_BWD_WEIGHTS_IN_DY], *db = &op->out[CONV_BWD_WEIGHTS_OUT_DB];
    const CudaView v = cuda_view(cuda_backend(op), dy);
    if (db->desc.rank)
        TRY_CUDA(cuda_launch_bias_gradient(&s->rows, dy->data, v.dtype, db->data, v.cp,
                                           op->accumulate, cuda_workspace(op, s->sums),
                                           stream->stream));
    TRY(run_plan(s, stream));
    return staging_run(op, &s->dw, stream->stream);
}

const OpImpl cuda_conv2d = { prepare_forward, bind_forward, run_forward, release_conv };
const OpImpl cuda_conv2d_bwd_data = { prepare_bwd_data, bind_bwd_data, run_bwd_data, release_conv };
const OpImpl cuda_conv2d_bwd_weights = { prepare_bwd_weights, bind_bwd_weights, run_bwd_weights,
                                         release_conv };
