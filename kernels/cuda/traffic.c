/* traffic.c - see traffic.h. The table of what each op moves. */
#include "kernels/cuda/traffic.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/batchnorm.h"
#include "kernels/cuda/conv2d.h"

typedef void Traffic(const OpInstance *op, OpTraffic *t);

/* The workspace is written by one kernel and read by the next. */
static void through_workspace(const OpInstance *op, OpTraffic *t)
{
    t->other_bytes = 2 * (double)op->workspace_bytes;
}

/* ---- products ----
 *
 * By plans of a library; weights are input 1, their gradient is output 0. Activations that linear
 * layers bring into the workspace first, which are small, are not counted there. */

_Static_assert((int)CONV_IN_W == 1 && (int)CONV_BWD_DATA_IN_W == 1 && (int)CONV_STATS_IN_W == 1 &&
                   (int)CONV_BWD_DATA_NORM_IN_W == 1 && (int)LINEAR_IN_W == 1 &&
                   (int)LINEAR_BWD_DATA_IN_W == 1,
               "by_weights() takes these as one");

/* In 16 bits a compute copy is read, half as large; where there is none (tests of single ops) one
 * is written into the workspace first. */
static void by_weights(const OpInstance *op, OpTraffic *t)
{
    const CudaBackend *b = cuda_backend(op);
    const OpTensor *w = &op->in[1];
    t->product = true;
    if (b->compute == DTYPE_F32) return;
    const bool converts = w->data && !cuda_compute_copy(b, w);
    t->in[1].reads = converts ? 1 : 0.5;
    if (converts) t->other_bytes = (double)w->bytes;
}

static void to_weights(const OpInstance *op, OpTraffic *t)
{
    t->product = true;
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) t->out[i].reads = op->accumulate;
}

/* In 16 bits the gradient comes out in these, into the workspace, and is converted from there. */
static void conv2d_to_weights(const OpInstance *op, OpTraffic *t)
{
    to_weights(op, t);
    if (cuda_backend(op)->compute != DTYPE_F32) t->other_bytes = (double)op->out[0].bytes;
}

/* db needs dy once more. */
static void linear_bwd_weights(const OpInstance *op, OpTraffic *t)
{
    to_weights(op, t);
    if (op->out[LINEAR_BWD_WEIGHTS_OUT_DB].desc.rank) t->in[LINEAR_BWD_WEIGHTS_IN_DY].reads = 2;
}

/* The part of x that windows cover which lie apart. */
static double covered(const OpInstance *op, const OpTensor *w)
{
    const Conv2dAttr *a = op->attr;
    const int64_t *k = w->desc.dims;
    return (k[2] < a->stride_h ? (double)k[2] / a->stride_h : 1) *
           (k[3] < a->stride_w ? (double)k[3] / a->stride_w : 1);
}

static void conv2d(const OpInstance *op, OpTraffic *t)
{
    by_weights(op, t);
    t->product = !conv2d_is_own(op);
    if (op->kind != OP_CONV2D) return;
    t->in[CONV_IN_X].reads = covered(op, &op->in[CONV_IN_W]);
    if (!op->in[CONV_IN_B].desc.rank) return; /* else y is read, and written again */
    t->out[CONV_OUT_Y].reads += 1;
    t->out[CONV_OUT_Y].writes += 1;
}

static void conv2d_bwd_weights(const OpInstance *op, OpTraffic *t)
{
    conv2d_to_weights(op, t);
    t->product = !conv2d_is_own(op);
    if (!t->product) through_workspace(op, t); /* f32 partial sums, and f32 from them */
    t->in[CONV_BWD_WEIGHTS_IN_X].reads = covered(op, &op->out[CONV_BWD_WEIGHTS_OUT_DW]);
    if (op->out[CONV_BWD_WEIGHTS_OUT_DB].desc.rank) t->in[CONV_BWD_WEIGHTS_IN_DY].reads += 1;
}

/* ---- the rest ---- */

/* Partial sums of dg, then dg: both by g. */
static void gate_bwd(const OpInstance *op, OpTraffic *t)
{
    through_workspace(op, t);
    t->in[GATE_BWD_IN_G].reads = 2;
}

/* What blocks leave of the gradients of gamma and beta, and dy where it is cast. */
static void layernorm_bwd(const OpInstance *op, OpTraffic *t)
{
    through_workspace(op, t);
    t->out[LAYERNORM_BWD_OUT_DGAMMA].reads = t->out[LAYERNORM_BWD_OUT_DBETA].reads = op->accumulate;
}

/* Sums first; of x, and of dy in backward. */
static void grn(const OpInstance *op, OpTraffic *t)
{
    through_workspace(op, t);
    t->in[0].reads = 2;
    if (op->kind == OP_GRN) return;
    t->in[LAYERNORM_BWD_IN_X].reads = 2;
    t->out[LAYERNORM_BWD_OUT_DGAMMA].reads = t->out[LAYERNORM_BWD_OUT_DBETA].reads = op->accumulate;
}

/* cuDNN's reads masks there, in parts that write it anew. */
static void attention(const OpInstance *op, OpTraffic *t)
{
    through_workspace(op, t);
    t->product = attention_parts(op) > 0;
    if (t->product) t->other_bytes *= attention_parts(op);
}

/* Of ours by blocks of queries, then by blocks of keys, which find the inner products of dy and
 * y. */
static void attention_bwd(const OpInstance *op, OpTraffic *t)
{
    attention(op, t);
    if (t->product) return;
    t->in[ATTENTION_BWD_IN_DY].reads = t->in[ATTENTION_BWD_IN_QKV].reads =
        t->in[ATTENTION_BWD_IN_LSE].reads = 2;
}

/* Sums that are added to what is there. */
static void tokens_bwd(const OpInstance *op, OpTraffic *t)
{
    t->out[TOKENS_BWD_OUT_DPOSITIONS].reads = t->out[TOKENS_BWD_OUT_DCLASS].reads = op->accumulate;
}

/* Pixels that are left out, and their rows, are not touched. */
static void subsample(const OpInstance *op, OpTraffic *t)
{
    const int64_t *x = op->in[SUBSAMPLE_IN_X].desc.dims, *y = op->out[SUBSAMPLE_OUT_Y].desc.dims;
    t->in[SUBSAMPLE_IN_X].reads = (double)(y[2] * y[3]) / (double)(x[2] * x[3]);
}

static double at_most_once(int64_t rows, const OpTensor *of)
{
    const int64_t all = of->desc.dims[0];
    return rows < all ? (double)rows / (double)all : 1;
}

/* Rows of the tables that places have; of the words mostly another at each place. */
static void embed(const OpInstance *op, OpTraffic *t)
{
    const int64_t places = op->in[EMBED_IN_IDS].desc.dims[0];
    t->in[EMBED_IN_WORDS].reads = at_most_once(places, &op->in[EMBED_IN_WORDS]);
    t->in[EMBED_IN_POSITIONS].reads = at_most_once(places, &op->in[EMBED_IN_POSITIONS]);
}

/* dy once for each table. dwords is cleared, then has the rows of words that occur; so_far has only
 * these. */
static void embed_bwd(const OpInstance *op, OpTraffic *t)
{
    const int64_t places = op->in[EMBED_BWD_IN_IDS].desc.dims[0];
    const OpTensor *so_far = &op->in[EMBED_BWD_IN_SO_FAR], *dwords = &op->out[EMBED_BWD_OUT_DWORDS];
    through_workspace(op, t);
    t->in[EMBED_BWD_IN_DY].reads = (so_far->desc.rank || dwords->desc.rank) + 1 +
                                   (op->out[EMBED_BWD_OUT_DSEGMENTS].desc.rank > 0);
    if (so_far->desc.rank)
        t->in[EMBED_BWD_IN_SO_FAR].reads = t->in[EMBED_BWD_IN_SO_FAR].writes =
            at_most_once(places, so_far);
    if (dwords->desc.rank) {
        const double rows = at_most_once(places, dwords);
        t->out[EMBED_BWD_OUT_DWORDS].reads = op->accumulate ? rows : 0;
        t->out[EMBED_BWD_OUT_DWORDS].writes = op->accumulate ? rows : 1 + rows;
    }
    t->out[EMBED_BWD_OUT_DPOSITIONS].reads = t->out[EMBED_BWD_OUT_DSEGMENTS].reads = op->accumulate;
}

static void pick(const OpInstance *op, OpTraffic *t)
{
    t->in[PICK_IN_X].reads =
        (double)op->out[PICK_OUT_Y].desc.dims[0] / (double)op->in[PICK_IN_X].desc.dims[2];
}

static Traffic *const table[OP_COUNT] = { [OP_CONV2D] = conv2d,
                                          [OP_CONV2D_BWD_DATA] = conv2d,
                                          [OP_CONV2D_BWD_WEIGHTS] = conv2d_bwd_weights,
                                          [OP_CONV2D_STATS] = by_weights,
                                          [OP_CONV2D_BWD_DATA_NORM] = by_weights,
                                          [OP_CONV2D_BWD_WEIGHTS_NORM] = conv2d_to_weights,
                                          [OP_BATCHNORM] = batchnorm_traffic,
                                          [OP_BN_POOL] = batchnorm_traffic,
                                          [OP_BN_POOL_BWD] = batchnorm_bwd_traffic,
                                          [OP_BN_STATISTICS] = batchnorm_traffic,
                                          [OP_BN_SIGNS] = batchnorm_traffic,
                                          [OP_BN_SIGNS_BWD] = batchnorm_bwd_traffic,
                                          [OP_BN_SUMS] = batchnorm_traffic,
                                          [OP_BATCHNORM_BWD] = batchnorm_bwd_traffic,
                                          [OP_BN_BWD_SUMS] = batchnorm_bwd_traffic,
                                          [OP_LINEAR] = by_weights,
                                          [OP_LINEAR_BWD_DATA] = by_weights,
                                          [OP_LINEAR_BWD_WEIGHTS] = linear_bwd_weights,
                                          [OP_SUBSAMPLE] = subsample,
                                          [OP_GATE_BWD] = gate_bwd,
                                          [OP_SOFTMAX_XENT] = through_workspace,
                                          [OP_DROP] = through_workspace,
                                          [OP_LAYERNORM_BWD] = layernorm_bwd,
                                          [OP_GRN] = grn,
                                          [OP_GRN_BWD] = grn,
                                          [OP_ATTENTION] = attention,
                                          [OP_ATTENTION_BWD] = attention_bwd,
                                          [OP_TOKENS_BWD] = tokens_bwd,
                                          [OP_EMBED] = embed,
                                          [OP_EMBED_BWD] = embed_bwd,
                                          [OP_PICK] = pick };

void cuda_traffic_of_op(const OpInstance *op, OpTraffic *t)
{
    if (table[op->kind]) table[op->kind](op, t);
}
