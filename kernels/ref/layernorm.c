/* layernorm.c - y = gamma xhat + beta with xhat = (x - mean) / sqrt(var + eps) over the channels of
 * one position, and its gradients:
 *
 *   dx = (g - mean(g) - xhat mean(g xhat)) / sqrt(var + eps), g = dy gamma
 *   dgamma[c] = sum of dy xhat, dbeta[c] = sum of dy, both over all positions */
#include "kernels/ref/ref.h"
#include <math.h>

typedef struct Positions {
    int64_t n, c, hw;
} Positions;

static Positions positions_of(const TensorDesc *x)
{
    return (Positions){ x->dims[0], x->dims[1], x->rank == 4 ? x->dims[2] * x->dims[3] : 1 };
}

/* Of the channels of a position: x[0], x[hw], ... */
static void moments(const OpInstance *op, const Positions *p, const double *x, double *mean,
                    double *inv_std)
{
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < p->c; c++) sum += x[c * p->hw];
    *mean = sum / (double)p->c;
    for (int64_t c = 0; c < p->c; c++) squares += (x[c * p->hw] - *mean) * (x[c * p->hw] - *mean);
    const LayerNormAttr *attr = op->attr;
    *inv_std = 1 / sqrt(squares / (double)p->c + (double)attr->eps);
}

static void run_forward(OpInstance *op)
{
    const Positions p = positions_of(&op->in[LAYERNORM_IN_X].desc);
    const double *gamma = ref_in(op, LAYERNORM_IN_GAMMA), *beta = ref_in(op, LAYERNORM_IN_BETA);
    for (int64_t i = 0; i < p.n * p.hw; i++) {
        const int64_t at = i / p.hw * p.c * p.hw + i % p.hw;
        const double *x = ref_in(op, LAYERNORM_IN_X) + at;
        double *y = ref_out(op, LAYERNORM_OUT_Y) + at, mean, inv_std;
        moments(op, &p, x, &mean, &inv_std);
        for (int64_t c = 0; c < p.c; c++)
            y[c * p.hw] = gamma[c] * (x[c * p.hw] - mean) * inv_std + beta[c];
    }
}

/* dx may lie over dy. */
static void run_backward(OpInstance *op)
{
    const Positions p = positions_of(&op->in[LAYERNORM_BWD_IN_X].desc);
    const double *gamma = ref_in(op, LAYERNORM_BWD_IN_GAMMA);
    double *dgamma = ref_out(op, LAYERNORM_BWD_OUT_DGAMMA),
           *dbeta = ref_out(op, LAYERNORM_BWD_OUT_DBETA);
    for (int64_t c = 0; c < p.c && !op->accumulate; c++) dgamma[c] = dbeta[c] = 0;
    for (int64_t i = 0; i < p.n * p.hw; i++) {
        const int64_t at = i / p.hw * p.c * p.hw + i % p.hw;
        const double *x = ref_in(op, LAYERNORM_BWD_IN_X) + at,
                     *dy = ref_in(op, LAYERNORM_BWD_IN_DY) + at;
        double *dx = ref_out(op, LAYERNORM_BWD_OUT_DX) + at, mean, inv_std, sum = 0, product = 0;
        moments(op, &p, x, &mean, &inv_std);
        for (int64_t c = 0; c < p.c; c++) {
            const double xhat = (x[c * p.hw] - mean) * inv_std, d = dy[c * p.hw];
            sum += d * gamma[c] / (double)p.c;
            product += d * gamma[c] * xhat / (double)p.c;
            dgamma[c] += d * xhat;
            dbeta[c] += d;
        }
        for (int64_t c = 0; c < p.c; c++) {
            const double xhat = (x[c * p.hw] - mean) * inv_std;
            dx[c * p.hw] = inv_std * (dy[c * p.hw] * gamma[c] - sum - xhat * product);
        }
    }
}

REF_LOOPS(ref_layernorm, run_forward);
REF_LOOPS(ref_layernorm_bwd, run_backward);
