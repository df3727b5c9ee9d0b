/* grn.c - y = x (1 + gamma s) + beta with s = norm / (mean of norms over the channels + eps), norm
 * of a channel of an image, and its gradients. With d the sum of dy x over a channel's positions
 * and r = 1 / (mean + eps):
 *
 *   dx = dy (1 + gamma s) + x / norm (r gamma d - r^2 mean(gamma d norm)), dy alone where norm is 0
 *   dgamma[c] = sum of s d, dbeta[c] = sum of dy, both over all images */
#include "kernels/ref/ref.h"
#include <math.h>

static double product(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

/* Of an image. */
static double inverse_mean(const OpInstance *op, const double *x, int64_t channels, int64_t hw)
{
    double norms = 0;
    for (int64_t c = 0; c < channels; c++) norms += sqrt(product(x + c * hw, x + c * hw, hw));
    const LayerNormAttr *attr = op->attr;
    return 1 / (norms / (double)channels + (double)attr->eps);
}

static void run_forward(OpInstance *op)
{
    const int64_t *d = ref_in_dims(op, LAYERNORM_IN_X), hw = d[2] * d[3];
    const double *gamma = ref_in(op, LAYERNORM_IN_GAMMA), *beta = ref_in(op, LAYERNORM_IN_BETA);
    for (int64_t n = 0; n < d[0]; n++) {
        const double *x = ref_in(op, LAYERNORM_IN_X) + n * d[1] * hw,
                     r = inverse_mean(op, x, d[1], hw);
        double *y = ref_out(op, LAYERNORM_OUT_Y) + n * d[1] * hw;
        for (int64_t c = 0; c < d[1]; c++, x += hw, y += hw) {
            const double s = sqrt(product(x, x, hw)) * r;
            for (int64_t i = 0; i < hw; i++) y[i] = x[i] * (1 + gamma[c] * s) + beta[c];
        }
    }
}

/* dx may lie over dy. */
static void run_backward(OpInstance *op)
{
    const int64_t *d = ref_in_dims(op, LAYERNORM_BWD_IN_X), hw = d[2] * d[3];
    const double *gamma = ref_in(op, LAYERNORM_BWD_IN_GAMMA);
    double *dgamma = ref_out(op, LAYERNORM_BWD_OUT_DGAMMA),
           *dbeta = ref_out(op, LAYERNORM_BWD_OUT_DBETA);
    for (int64_t c = 0; c < d[1] && !op->accumulate; c++) dgamma[c] = dbeta[c] = 0;
    for (int64_t n = 0; n < d[0]; n++) {
        const double *x = ref_in(op, LAYERNORM_BWD_IN_X) + n * d[1] * hw,
                     *dy = ref_in(op, LAYERNORM_BWD_IN_DY) + n * d[1] * hw,
                     r = inverse_mean(op, x, d[1], hw);
        double *dx = ref_out(op, LAYERNORM_BWD_OUT_DX) + n * d[1] * hw, mean = 0;
        for (int64_t c = 0; c < d[1]; c++)
            mean += gamma[c] * product(dy + c * hw, x + c * hw, hw) *
                    sqrt(product(x + c * hw, x + c * hw, hw)) / (double)d[1];
        for (int64_t c = 0; c < d[1]; c++, x += hw, dy += hw, dx += hw) {
            const double norm = sqrt(product(x, x, hw)), products = product(dy, x, hw),
                         more = norm > 0 ? (r * gamma[c] * products - r * r * mean) / norm : 0;
            dgamma[c] += norm * r * products;
            for (int64_t i = 0; i < hw; i++) {
                dbeta[c] += dy[i];
                dx[i] = dy[i] * (1 + gamma[c] * norm * r) + x[i] * more;
            }
        }
    }
}

REF_LOOPS(ref_grn, run_forward);
REF_LOOPS(ref_grn_bwd, run_backward);
