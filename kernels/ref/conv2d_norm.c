/* conv2d_norm.c - convolutions that take over parts of the batch norms beside them.
 *
 * Each is put together from the plain passes of conv2d.c, run on a tensor that is made here: z,
 * which is what is convolved, or g, the gradient of the convolution's input. With n = N*H*W, xh =
 * (x - mean) istd:
 *   dz = g where gamma xh + beta > 0      dbeta = sum dz      dgamma = sum dz xh
 * (at the end of a block with the residual in that sum, itself normalised or not)
 *   a = gamma istd      b = -gamma istd^2 dgamma / n      c = -a dbeta / n - b mean
 * so that a dz + b x + c is the dx of batchnorm.c. */
#include "base/mem.h"
#include "kernels/ref/ref.h"

static double affine(const double *vectors, int64_t channels, int64_t c, double v)
{
    return vectors ? v * vectors[c] + vectors[channels + c] : v;
}

static const double *optional_in(const OpInstance *op, int slot)
{
    return ref_has_in(op, slot) ? ref_in(op, slot) : NULL;
}

/* Channel of element i. */
static int64_t channel_of(const int64_t *dims, int64_t i)
{
    return i / (dims[2] * dims[3]) % dims[1];
}

static double rectify(double v)
{
    return v <= 0 ? 0 : v; /* NaN passes */
}

/* ---- forward ---- */

static void make_z(const OpInstance *op, double *z)
{
    const int64_t *d = ref_in_dims(op, CONV_STATS_IN_X);
    const double *x = ref_in(op, CONV_STATS_IN_X), *vectors = optional_in(op, CONV_STATS_IN_AFFINE);
    const double *residual = optional_in(op, CONV_STATS_IN_RESIDUAL),
                 *residual_vectors = optional_in(op, CONV_STATS_IN_RESIDUAL_AFFINE);
    for (int64_t i = 0; i < tensor_elements(&op->in[CONV_STATS_IN_X].desc); i++) {
        int64_t c = channel_of(d, i);
        double v = affine(vectors, d[1], c, x[i]);
        if (residual) v += affine(residual_vectors, d[1], c, residual[i]);
        z[i] = vectors ? rectify(v) : v;
    }
}

static void make_sums(const OpInstance *op)
{
    const int64_t *d = ref_out_dims(op, CONV_STATS_OUT_Y);
    const double *y = ref_out(op, CONV_STATS_OUT_Y);
    double *sums = ref_out(op, CONV_STATS_OUT_SUMS);
    for (int64_t c = 0; c < 2 * d[1]; c++) sums[c] = 0;
    for (int64_t i = 0; i < tensor_elements(&op->out[CONV_STATS_OUT_Y].desc); i++) {
        int64_t c = channel_of(d, i);
        sums[c] += y[i];
        sums[d[1] + c] += y[i] * y[i];
    }
}

static Status run_stats(OpInstance *op, Stream *stream)
{
    OpInstance conv = { .kind = OP_CONV2D, .backend = op->backend, .attr = op->attr };
    conv.in[CONV_IN_X] = op->in[CONV_STATS_IN_X];
    conv.in[CONV_IN_W] = op->in[CONV_STATS_IN_W];
    conv.out[CONV_OUT_Y] = op->out[CONV_STATS_OUT_Y];
    double *z = ref_has_out(op, CONV_STATS_OUT_Z) ? ref_out(op, CONV_STATS_OUT_Z)
                                                  : mem_alloc(op->in[CONV_STATS_IN_X].bytes);
    if (!z) return ERR_MEMORY;
    make_z(op, z);
    conv.in[CONV_IN_X].data = z;
    Status st = ref_conv2d.run(&conv, stream);
    make_sums(op);
    if (!ref_has_out(op, CONV_STATS_OUT_Z)) mem_free(z);
    return st;
}

/* ---- gradient of x ---- */

/* A norm whose gradient at dz is asked for. */
typedef struct NormEnd {
    const double *x, *gamma, *beta, *saved; /* [N,C,H,W], [C], [C], [2,C] */
    double *dgamma, *dbeta, *coefficients;
} NormEnd;

/* Of the slots that begin so. */
static NormEnd norm_at(const OpInstance *op, int x, int gamma, int dgamma)
{
    return (NormEnd){ ref_in(op, x),          ref_in(op, gamma),   ref_in(op, gamma + 1),
                      ref_in(op, gamma + 2),  ref_out(op, dgamma), ref_out(op, dgamma + 1),
                      ref_out(op, dgamma + 2) };
}

static double normalised(const NormEnd *e, int64_t channels, int64_t c, int64_t i)
{
    return (e->x[i] - e->saved[c]) * e->saved[channels + c];
}

/* What the ReLU had. */
static double relu_input(const NormEnd *e, int64_t channels, int64_t c, int64_t i)
{
    return e->gamma[c] * normalised(e, channels, c, i) + e->beta[c];
}

static void finish_channel(const OpInstance *op, const NormEnd *e, int64_t c)
{
    const OpTensor *x = &op->in[CONV_BWD_DATA_NORM_IN_X];
    const int64_t *d = x->desc.dims;
    const double istd = e->saved[d[1] + c], n = (double)(d[0] * d[2] * d[3]);
    const double *dz = ref_out(op, CONV_BWD_DATA_NORM_OUT_DZ);
    double dgamma = 0, dbeta = 0, *out = e->coefficients;
    for (int64_t i = 0; i < tensor_elements(&x->desc); i++) {
        if (channel_of(d, i) != c) continue;
        dbeta += dz[i];
        dgamma += dz[i] * normalised(e, d[1], c, i);
    }
    out[c] = e->gamma[c] * istd;
    out[d[1] + c] = -e->gamma[c] * istd * istd * dgamma / n;
    out[2 * d[1] + c] = -out[c] * dbeta / n - out[d[1] + c] * e->saved[c];
    ref_store_gradient(op, &e->dgamma[c], dgamma);
    ref_store_gradient(op, &e->dbeta[c], dbeta);
}

static Status run_bwd_data(OpInstance *op, Stream *stream)
{
    const OpTensor *x = &op->in[CONV_BWD_DATA_NORM_IN_X];
    const int64_t *d = x->desc.dims;
    const double *dy2 = optional_in(op, CONV_BWD_DATA_NORM_IN_DY2),
                 *residual = optional_in(op, CONV_BWD_DATA_NORM_IN_RESIDUAL);
    const bool dual = ref_has_in(op, CONV_BWD_DATA_NORM_IN_RESIDUAL_GAMMA);
    const NormEnd norm = norm_at(op, CONV_BWD_DATA_NORM_IN_X, CONV_BWD_DATA_NORM_IN_GAMMA,
                                 CONV_BWD_DATA_NORM_OUT_DGAMMA);
    const NormEnd other =
        norm_at(op, CONV_BWD_DATA_NORM_IN_RESIDUAL, CONV_BWD_DATA_NORM_IN_RESIDUAL_GAMMA,
                CONV_BWD_DATA_NORM_OUT_RESIDUAL_DGAMMA);
    OpInstance conv = { .kind = OP_CONV2D_BWD_DATA, .backend = op->backend, .attr = op->attr };
    conv.in[CONV_BWD_DATA_IN_DY] = op->in[CONV_BWD_DATA_NORM_IN_DY];
    conv.in[CONV_BWD_DATA_IN_W] = op->in[CONV_BWD_DATA_NORM_IN_W];
    conv.out[CONV_BWD_DATA_OUT_DX] = op->out[CONV_BWD_DATA_NORM_OUT_DZ];
    TRY(ref_conv2d_bwd_data.run(&conv, stream));
    double *dz = ref_out(op, CONV_BWD_DATA_NORM_OUT_DZ);
    for (int64_t i = 0; i < tensor_elements(&x->desc); i++) {
        const int64_t c = channel_of(d, i);
        double z = relu_input(&norm, d[1], c, i);
        if (residual) z += dual ? relu_input(&other, d[1], c, i) : residual[i];
        if (dy2) dz[i] += dy2[i];
        if (z <= 0) dz[i] = 0;
    }
    for (int64_t c = 0; c < d[1]; c++) {
        finish_channel(op, &norm, c);
        if (dual) finish_channel(op, &other, c);
    }
    return OK;
}

/* ---- gradient of w ---- */

static Status run_bwd_weights(OpInstance *op, Stream *stream)
{
    const OpTensor *x = &op->in[CONV_BWD_WEIGHTS_NORM_IN_X];
    const double *from = x->data, *vectors = ref_in(op, CONV_BWD_WEIGHTS_NORM_IN_AFFINE);
    OpInstance conv = { .kind = OP_CONV2D_BWD_WEIGHTS,
                        .backend = op->backend,
                        .attr = op->attr,
                        .accumulate = op->accumulate };
    double *z = mem_alloc(x->bytes);
    if (!z) return ERR_MEMORY;
    for (int64_t i = 0; i < tensor_elements(&x->desc); i++)
        z[i] = rectify(affine(vectors, x->desc.dims[1], channel_of(x->desc.dims, i), from[i]));
    conv.in[CONV_BWD_WEIGHTS_IN_X] = *x;
    conv.in[CONV_BWD_WEIGHTS_IN_X].data = z;
    conv.in[CONV_BWD_WEIGHTS_IN_DY] = op->in[CONV_BWD_WEIGHTS_NORM_IN_DY];
    conv.out[CONV_BWD_WEIGHTS_OUT_DW] = op->out[CONV_BWD_WEIGHTS_NORM_OUT_DW];
    Status st = ref_conv2d_bwd_weights.run(&conv, stream);
    mem_free(z);
    return st;
}

const OpImpl ref_conv2d_stats = { ref_prepare, ref_bind, run_stats, NULL };
const OpImpl ref_conv2d_bwd_data_norm = { ref_prepare, ref_bind, run_bwd_data, NULL };
const OpImpl ref_conv2d_bwd_weights_norm = { ref_prepare, ref_bind, run_bwd_weights, NULL };
