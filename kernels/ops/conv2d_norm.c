/* conv2d_norm.c - convolutions that take over parts of the batch norms beside them: shapes, work,
 * printing.
 *
 * Each is a convolution pass of conv2d.c, whose rows check what they share: x [N,C,H,W], w
 * [K,C/G,R,S], y [N,K,P,Q]. */
#include "kernels/ops/infer.h"

static Status need_vectors(const OpSlots *s, int slot, int64_t channels)
{
    return s->in[slot] ? infer_need_dims(s, slot, 2, (int64_t[]){ 2, channels }) : OK;
}

/* ---- forward ---- */

static Status infer_stats(const OpSlots *s)
{
    const TensorDesc *conv[OP_MAX_INPUTS] = {
        [CONV_IN_X] = s->in[CONV_STATS_IN_X], [CONV_IN_W] = s->in[CONV_STATS_IN_W]
    };
    const TensorDesc *x = conv[CONV_IN_X], *residual = s->in[CONV_STATS_IN_RESIDUAL];
    TRY(op_infer(OP_CONV2D, s->attr, conv, &s->wanted[CONV_STATS_OUT_Y],
                 &s->out[CONV_STATS_OUT_Y]));
    TRY(need_vectors(s, CONV_STATS_IN_AFFINE, x->dims[1]));
    TRY(need_vectors(s, CONV_STATS_IN_RESIDUAL_AFFINE, x->dims[1]));
    if (residual) TRY(infer_need_like(s, CONV_STATS_IN_RESIDUAL, x));
    const bool gives_z = s->wanted[CONV_STATS_OUT_Z] || s->out[CONV_STATS_OUT_Z].rank;
    if ((residual && !s->in[CONV_STATS_IN_AFFINE]) ||
        (s->in[CONV_STATS_IN_RESIDUAL_AFFINE] && !residual) || gives_z != (residual != NULL))
        return fail(ERR_INTERNAL,
                    "%s: a residual requires an affine of x; z is an output exactly where there is "
                    "a residual",
                    op_name(s->kind));
    TRY(infer_output(s, CONV_STATS_OUT_SUMS, DTYPE_F32, 2,
                     (int64_t[]){ 2, s->in[CONV_STATS_IN_W]->dims[0] }));
    return infer_output_like(s, CONV_STATS_OUT_Z, x);
}

/* ---- gradient of x ---- */

/* From gamma on the vectors of a norm, from dgamma on the results at its dz. */
static Status infer_norm_gradient(const OpSlots *s, int gamma, int dgamma, int64_t c)
{
    TRY(infer_need_dims(s, gamma, 1, &c));
    TRY(infer_need_dims(s, gamma + 1, 1, &c));
    TRY(infer_need_dims(s, gamma + 2, 2, (int64_t[]){ 2, c }));
    TRY(infer_output(s, dgamma, DTYPE_F32, 1, &c));
    TRY(infer_output(s, dgamma + 1, DTYPE_F32, 1, &c));
    return infer_output(s, dgamma + 2, DTYPE_F32, 2, (int64_t[]){ 3, c });
}

static Status infer_residual_gradient(const OpSlots *s, const TensorDesc *x)
{
    const int dy2 = CONV_BWD_DATA_NORM_IN_DY2, residual = CONV_BWD_DATA_NORM_IN_RESIDUAL,
              gamma = CONV_BWD_DATA_NORM_IN_RESIDUAL_GAMMA,
              dgamma = CONV_BWD_DATA_NORM_OUT_RESIDUAL_DGAMMA;
    bool results = false;
    for (int i = dgamma; i < OP_MAX_OUTPUTS; i++)
        results = results || s->wanted[i] || s->out[i].rank;
    if (!s->in[dy2] != !s->in[residual] || (s->in[gamma] && !s->in[residual]) ||
        results != (s->in[gamma] != NULL))
        return fail(ERR_INTERNAL,
                    "%s: a residual and a second dy require each other; outputs of the residual's "
                    "norm require its vectors",
                    op_name(s->kind));
    if (!s->in[residual]) return OK;
    TRY(infer_need_like(s, dy2, x));
    TRY(infer_need_like(s, residual, x));
    return s->in[gamma] ? infer_norm_gradient(s, gamma, dgamma, x->dims[1]) : OK;
}

static Status infer_bwd_data(const OpSlots *s)
{
    const TensorDesc *conv[] = { [CONV_BWD_DATA_IN_DY] = s->in[CONV_BWD_DATA_NORM_IN_DY],
                                 [CONV_BWD_DATA_IN_W] = s->in[CONV_BWD_DATA_NORM_IN_W] };
    const TensorDesc *x = s->in[CONV_BWD_DATA_NORM_IN_X];
    TRY(infer_need(s, CONV_BWD_DATA_NORM_IN_X, DTYPE_F32, 4));
    const int64_t c = x->dims[1];
    TRY(infer_output_like(s, CONV_BWD_DATA_NORM_OUT_DZ, x));
    TRY(op_infer(OP_CONV2D_BWD_DATA, s->attr, conv, s->wanted, &s->out[CONV_BWD_DATA_NORM_OUT_DZ]));
    TRY(infer_norm_gradient(s, CONV_BWD_DATA_NORM_IN_GAMMA, CONV_BWD_DATA_NORM_OUT_DGAMMA, c));
    return infer_residual_gradient(s, x);
}

/* ---- gradient of w ---- */

static Status infer_bwd_weights(const OpSlots *s)
{
    /* the first two inputs are the same */
    TRY(op_infer(OP_CONV2D_BWD_WEIGHTS, s->attr, s->in, s->wanted, s->out));
    return need_vectors(s, CONV_BWD_WEIGHTS_NORM_IN_AFFINE,
                        s->in[CONV_BWD_WEIGHTS_NORM_IN_X]->dims[1]);
}

/* ---- work: that of the convolution, and what batch norm counts for its share per element ---- */

static double flops_stats(const void *attr, const TensorDesc *const *in, const TensorDesc *out)
{
    const TensorDesc *conv[] = { in[CONV_STATS_IN_X], in[CONV_STATS_IN_W] };
    double norm = 3.0 * (double)tensor_elements(&out[CONV_STATS_OUT_Y]);
    if (in[CONV_STATS_IN_AFFINE]) norm += 4.0 * (double)tensor_elements(in[CONV_STATS_IN_X]);
    return op_flops(OP_CONV2D, attr, conv, out) + norm;
}

static double flops_bwd_data(const void *attr, const TensorDesc *const *in, const TensorDesc *out)
{
    const double norms = in[CONV_BWD_DATA_NORM_IN_RESIDUAL_GAMMA] ? 2 : 1;
    return op_flops(OP_CONV2D_BWD_DATA, attr, in, out) +
           6.0 * norms * (double)tensor_elements(in[CONV_BWD_DATA_NORM_IN_X]);
}

static double flops_bwd_weights(const void *attr, const TensorDesc *const *in,
                                const TensorDesc *out)
{
    return op_flops(OP_CONV2D_BWD_WEIGHTS, attr, in, out) +
           4.0 * (double)tensor_elements(in[CONV_BWD_WEIGHTS_NORM_IN_X]);
}

static void print_conv2d_norm(const void *attr, char *out, size_t bytes)
{
    op_def(OP_CONV2D)->print(attr, out, bytes);
}

const OpDef op_row_conv2d_stats = {
    .attr_bytes = sizeof(Conv2dAttr),
    .in_names = { "x", "w", "affine?", "residual?", "residual_affine?" },
    .out_names = { "y", "sums", "z?" },
    .infer = infer_stats,
    .flops = flops_stats,
    .print = print_conv2d_norm,
};

const OpDef op_row_conv2d_bwd_data_norm = {
    .attr_bytes = sizeof(Conv2dAttr),
    .in_names = { "dy", "w", "x", "gamma", "beta", "saved", "dy2?", "residual?", "residual_gamma?",
                  "residual_beta?", "residual_saved?" },
    .out_names = { "dz", "dgamma", "dbeta", "coefficients", "residual_dgamma?", "residual_dbeta?",
                   "residual_coefficients?" },
    .infer = infer_bwd_data,
    .flops = flops_bwd_data,
    .print = print_conv2d_norm,
};

const OpDef op_row_conv2d_bwd_weights_norm = {
    .attr_bytes = sizeof(Conv2dAttr),
    .in_names = { "x", "dy", "affine" },
    .out_names = { "dw" },
    .infer = infer_bwd_weights,
    .flops = flops_bwd_weights,
    .print = print_conv2d_norm,
};
