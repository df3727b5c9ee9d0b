/* tolerance_norm.c - how much rounding can show in each result of batch norm, and in layer norm's
 * dx and dgamma, in units of eps.
 *
 * Per channel of n elements, A = |x| + |mean| is what x - mean is computed from, so an element of
 * (x - mean) is uncertain by A. Then
 *   var     V = 2 mean(|x - mean| A) + var istd is uncertain by istd V / (2 (var + eps))
 *   xh      X = istd A + |xh| (1 + V / (2 (var + eps)))     V = 0 in eval, frozen and backward
 *   y       |gamma| X + |beta| + |residual|
 *   dbeta   sum |dz|                    dgamma  sum |dz| X        as the sums over ranks
 *   sums    of x sum D, of its square sum D^2 + 2 |mean| D, where D = |x - mean| + max |x - mean|
 *           bounds x - guess
 *   dx      |gamma| istd (|dz| + mean|dz| + |xh| mean(|dz| X) + X mean(|dz xh|))
 * SiLU has slopes up to 1.1, and its slope changes by at most half of what its argument does: y is
 * allowed 1.1 times that, and dz = |dy| (1.1 + (|gamma| X + |beta|) / 2) for |dy| above.
 * Layer norm's are as these, dx with a position's channels for n and gamma dy for dz. Its variance
 * is to be found from x - mean, whatever the mean: V = 0.
 * The sums over n are allowed no factor that grows with n: a backend must add in parts or in
 * float64. */
#include "tests/ops/check.h"

#include <math.h>

typedef struct Channel {
    int64_t c, n, channels, hw;
    double mean, istd, var_eps, var_scale; /* var_scale: V, 0 where statistics are given */
    bool curved;                           /* the activation's slope is not told by a sign */
} Channel;

static int64_t at(const Channel *k, int64_t i)
{
    return (i / k->hw * k->channels + k->c) * k->hw + i % k->hw;
}

static Channel channel_of(const Host *x, const Host *saved, int64_t c)
{
    const int64_t *d = x->desc.dims;
    Channel k = { .c = c, .channels = d[1], .hw = x->desc.rank == 4 ? d[2] * d[3] : 1 };
    k.n = d[0] * k.hw;
    k.mean = saved->v[c];
    k.istd = saved->v[d[1] + c];
    k.var_eps = 1 / (k.istd * k.istd);
    return k;
}

static double centred_scale(const Channel *k, const Host *x, int64_t i)
{
    return fabs(x->v[at(k, i)]) + fabs(k->mean);
}

static void find_var_scale(Channel *k, const Host *x)
{
    double sum = 0;
    for (int64_t i = 0; i < k->n; i++)
        if (!isnan(x->v[at(k, i)])) /* statistics that are given know nothing of it */
            sum += fabs(x->v[at(k, i)] - k->mean) * centred_scale(k, x, i);
    k->var_scale = 2 * sum / (double)k->n + k->var_eps;
}

static double xh_scale(const Channel *k, const Host *x, int64_t i)
{
    double xh = fabs(x->v[at(k, i)] - k->mean) * k->istd;
    return k->istd * centred_scale(k, x, i) + xh * (1 + k->var_scale / (2 * k->var_eps));
}

static double mean_abs(const Channel *k, const Host *x)
{
    double sum = 0;
    for (int64_t i = 0; i < k->n; i++) sum += fabs(x->v[at(k, i)]);
    return sum / (double)k->n;
}

static void forward_channel(const Problem *p, const Host *in, Channel *k, bool input, int slot,
                            double *scale)
{
    const Host *x = &in[BN_IN_X], *residual = &in[BN_IN_RESIDUAL];
    if (p->attr.bn.mode == BN_TRAIN) find_var_scale(k, x);
    if (input) {
        double r = fabs(in[slot].v[k->c]), m = (double)p->attr.bn.momentum;
        double n = (double)(p->attr.bn.ranks ? p->attr.bn.ranks * k->n : k->n);
        scale[k->c] =
            r + m * (slot == BN_IN_RUNNING_MEAN ? mean_abs(k, x) : k->var_scale * n / (n - 1));
    } else if (slot == BN_OUT_SAVED) {
        scale[k->c] = p->attr.bn.mode == BN_TRAIN ? mean_abs(k, x) : fabs(k->mean);
        scale[k->channels + k->c] = k->istd * (1 + k->var_scale / (2 * k->var_eps));
    } else {
        double gamma = fabs(in[BN_IN_GAMMA].v[k->c]), beta = fabs(in[BN_IN_BETA].v[k->c]);
        double slope = op_act(p->attr.bn.act)->by_sign ? 1 : 1.1;
        for (int64_t i = 0; i < k->n; i++)
            scale[at(k, i)] = slope * (gamma * xh_scale(k, x, i) + beta +
                                       (residual->desc.rank ? fabs(residual->v[at(k, i)]) : 0));
    }
}

/* Upper bound of |dz|: the mask of ReLU only lowers it. */
static double dz_scale(const Channel *k, const Host *in, int64_t i)
{
    double dz = fabs(in[BN_BWD_IN_DY].v[at(k, i)]);
    if (in[BN_BWD_IN_DY2].desc.rank) dz += fabs(in[BN_BWD_IN_DY2].v[at(k, i)]);
    if (!k->curved) return dz;
    double z = fabs(in[BN_BWD_IN_GAMMA].v[k->c]) * xh_scale(k, &in[BN_BWD_IN_X], i) +
               fabs(in[BN_BWD_IN_BETA].v[k->c]);
    return dz * (1.1 + z / 2);
}

static void backward_channel(const Problem *p, const Host *in, const Channel *k, int slot,
                             const double *result, double *scale)
{
    const Host *x = &in[BN_BWD_IN_X];
    double sum_dz = 0, sum_dz_x = 0, sum_dz_xh = 0, n = (double)k->n;
    for (int64_t i = 0; i < k->n; i++) {
        double dz = dz_scale(k, in, i);
        sum_dz += dz;
        sum_dz_x += dz * xh_scale(k, x, i);
        sum_dz_xh += dz * fabs(x->v[at(k, i)] - k->mean) * k->istd;
    }
    if (slot == BN_BWD_OUT_DGAMMA) scale[k->c] = sum_dz_x + fabs(result[k->c]);
    if (slot == BN_BWD_OUT_DBETA) scale[k->c] = sum_dz + fabs(result[k->c]);
    if (slot != BN_BWD_OUT_DX) return;
    if (p->kind == OP_BN_BWD_SUMS) {
        scale[k->c] = sum_dz;
        scale[k->channels + k->c] = sum_dz_x;
        return;
    }
    double factor = fabs(in[BN_BWD_IN_GAMMA].v[k->c]) * k->istd;
    for (int64_t i = 0; i < k->n; i++) {
        double xh = fabs(x->v[at(k, i)] - k->mean) * k->istd;
        scale[at(k, i)] = factor * (dz_scale(k, in, i) + sum_dz / n + xh * sum_dz_x / n +
                                    xh_scale(k, x, i) * sum_dz_xh / n);
    }
}

static void sums_channel(const Host *x, int64_t c, double *scale)
{
    const int64_t *d = x->desc.dims;
    Channel k = { .c = c, .channels = d[1], .hw = x->desc.rank == 4 ? d[2] * d[3] : 1 };
    double most = 0;
    k.n = d[0] * k.hw;
    for (int64_t i = 0; i < k.n; i++) k.mean += x->v[at(&k, i)] / (double)k.n;
    for (int64_t i = 0; i < k.n; i++) most = fmax(most, fabs(x->v[at(&k, i)] - k.mean));
    scale[c] = scale[k.channels + c] = 0;
    for (int64_t i = 0; i < k.n; i++) {
        const double off = fabs(x->v[at(&k, i)] - k.mean) + most;
        scale[c] += off;
        scale[k.channels + c] += off * off + 2 * fabs(k.mean) * off;
    }
}

/* Of one position's channels, which lie `step` elements apart from `base` on; dgamma's are sums
 * over positions. */
static void layernorm_position(const Problem *p, const Host *in, int64_t base, int64_t step,
                               int slot, double *scale)
{
    const double *x = &in[LAYERNORM_BWD_IN_X].v[base], *dy = &in[LAYERNORM_BWD_IN_DY].v[base],
                 *gamma = in[LAYERNORM_BWD_IN_GAMMA].v;
    const int64_t channels = in[LAYERNORM_BWD_IN_X].desc.dims[1];
    const double n = (double)channels;
    double mean = 0, var = 0, sum_g = 0, sum_g_x = 0, sum_g_xh = 0;
    for (int64_t c = 0; c < channels; c++) mean += x[c * step] / n;
    for (int64_t c = 0; c < channels; c++) var += pow(x[c * step] - mean, 2) / n;
    const double istd = 1 / sqrt(var + (double)p->attr.layernorm.eps);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t c = 0; c < channels; c++) {
            const double xh = fabs(x[c * step] - mean) * istd, g = fabs(gamma[c] * dy[c * step]),
                         xh_scale = istd * (fabs(x[c * step]) + fabs(mean)) + xh;
            if (pass == 0) {
                sum_g += g / n;
                sum_g_x += g * xh_scale / n;
                sum_g_xh += g * xh / n;
                if (slot == LAYERNORM_BWD_OUT_DGAMMA) scale[c] += fabs(dy[c * step]) * xh_scale;
            } else if (slot == LAYERNORM_BWD_OUT_DX)
                scale[base + c * step] = istd * (g + sum_g + xh * sum_g_x + xh_scale * sum_g_xh);
        }
}

static void layernorm_scale(const Problem *p, const Host *in, const Host *result, int slot,
                            double *scale)
{
    const TensorDesc *x = &in[LAYERNORM_BWD_IN_X].desc;
    const int64_t positions = x->rank == 4 ? x->dims[2] * x->dims[3] : 1;
    if (slot == LAYERNORM_BWD_OUT_DGAMMA) /* covers what it is added to */
        for (int64_t c = 0; c < x->dims[1]; c++) scale[c] = fabs(result->v[c]);
    for (int64_t n = 0; n < x->dims[0]; n++)
        for (int64_t i = 0; i < positions; i++)
            layernorm_position(p, in, n * x->dims[1] * positions + i, positions, slot, scale);
}

void tolerance_norm_scale(const Problem *p, const Host *in, const Result *ref, bool input, int slot,
                          double *scale)
{
    bool forward = p->kind == OP_BATCHNORM;
    if (p->kind == OP_LAYERNORM_BWD) {
        layernorm_scale(p, in, &ref->out[slot], slot, scale);
        return;
    }
    const Host *x = forward || p->kind == OP_BN_SUMS ? &in[BN_IN_X] : &in[BN_BWD_IN_X];
    const Host *saved = forward ? &ref->out[BN_OUT_SAVED] : &in[BN_BWD_IN_SAVED];
    for (int64_t c = 0; c < x->desc.dims[1]; c++) {
        if (p->kind == OP_BN_SUMS) {
            sums_channel(&in[BN_SUMS_IN_X], c, scale);
            continue;
        }
        Channel k = channel_of(x, saved, c);
        k.curved = !op_act(p->attr.bn.act)->by_sign;
        if (forward) forward_channel(p, in, &k, input, slot, scale);
        else
            backward_channel(p, in, &k, slot, ref->out[slot].v,
                             scale); /* with accumulation the result's size covers the start's */
    }
}
