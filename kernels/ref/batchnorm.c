/* batchnorm.c - y = act((x - mean) * istd * gamma + beta + residual), and its gradients.
 *
 * Over a channel of n = N*H*W elements, with xh = (x - mean) * istd and dz = (dy + dy2) * act'(y):
 *   dbeta = sum dz        dgamma = sum dz*xh        dresidual = dz
 *   dx = gamma*istd*(dz - dbeta/n - xh*dgamma/n)   where mean and istd came from x (train)
 *   dx = gamma*istd*dz                             where they are constants (frozen)
 * The sums inside dx are of this batch alone, also when dgamma and dbeta accumulate. Each element
 * is read before it is written and a channel's sums are complete before dx is, so dx may lie over
 * dy and dresidual over dy2. */
#include "kernels/ref/ref.h"

#include <math.h>

typedef struct Span {
    int64_t n, c, hw;
} Span;

static Span span_of(const TensorDesc *d)
{
    Span s = { d->dims[0], d->dims[1], 1 };
    for (int i = 2; i < d->rank; i++) s.hw *= d->dims[i];
    return s;
}

/* Element i of channel c, i in [0, n*hw). */
static int64_t element(const Span *s, int64_t c, int64_t i)
{
    return (i / s->hw * s->c + c) * s->hw + i % s->hw;
}

static void channel_statistics(const OpInstance *op, const Span *s, int64_t c, double *mean,
                               double *var)
{
    const double *x = ref_in(op, BN_IN_X);
    int64_t count = s->n * s->hw;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) sum += x[element(s, c, i)];
    *mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++) {
        double d = x[element(s, c, i)] - *mean;
        squares += d * d;
    }
    *var = squares / (double)count;
}

/* From the sums over ranks; float64 has digits enough for the difference. */
static void total_statistics(const OpInstance *op, int64_t c, double count, double *mean,
                             double *var)
{
    const double *sums = ref_in(op, BN_IN_SUMS);
    *mean = sums[c] / count;
    *var = sums[ref_in_dims(op, BN_IN_SUMS)[1] + c] / count - *mean * *mean;
    if (*var < 0) *var = 0;
}

static int64_t ranks_of(const BatchNormAttr *attr)
{
    return attr->ranks > 0 ? attr->ranks : 1;
}

static void update_running(const OpInstance *op, int64_t c, int64_t count, double mean, double var)
{
    const BatchNormAttr *attr = op->attr;
    double *running_mean = op->in[BN_IN_RUNNING_MEAN].data,
           *running_var = op->in[BN_IN_RUNNING_VAR].data;
    double m = (double)attr->momentum, unbiased = var * (double)count / (double)(count - 1);
    running_mean[c] = (1 - m) * running_mean[c] + m * mean;
    running_var[c] = (1 - m) * running_var[c] + m * unbiased;
}

static void run_forward(OpInstance *op)
{
    const BatchNormAttr *attr = op->attr;
    Span s = span_of(&op->in[BN_IN_X].desc);
    const double *x = ref_in(op, BN_IN_X), *gamma = ref_in(op, BN_IN_GAMMA),
                 *beta = ref_in(op, BN_IN_BETA);
    const double *residual = ref_has_in(op, BN_IN_RESIDUAL) ? ref_in(op, BN_IN_RESIDUAL) : NULL;
    double *y = ref_out(op, BN_OUT_Y),
           *saved = ref_has_out(op, BN_OUT_SAVED) ? ref_out(op, BN_OUT_SAVED) : NULL;
    for (int64_t c = 0; c < s.c; c++) {
        double mean = ref_in(op, BN_IN_RUNNING_MEAN)[c], var = ref_in(op, BN_IN_RUNNING_VAR)[c];
        if (attr->mode == BN_TRAIN) {
            const int64_t count = s.n * s.hw * ranks_of(attr);
            if (attr->ranks) total_statistics(op, c, (double)count, &mean, &var);
            else channel_statistics(op, &s, c, &mean, &var);
            update_running(op, c, count, mean, var);
        }
        double istd = 1 / sqrt(var + (double)attr->eps);
        if (saved) {
            saved[c] = mean;
            saved[s.c + c] = istd;
        }
        for (int64_t i = 0; i < s.n * s.hw; i++) {
            int64_t at = element(&s, c, i);
            double z = (x[at] - mean) * istd * gamma[c] + beta[c];
            y[at] = ref_activate(attr->act, residual ? z + residual[at] : z);
        }
    }
}

typedef struct Backward { /* one channel's view of the slots */
    const OpInstance *op;
    Span s;
    double mean, istd, gamma, beta;
} Backward;

static double normalised(const Backward *b, int64_t at)
{
    return (ref_in(b->op, BN_BWD_IN_X)[at] - b->mean) * b->istd;
}

static double gradient_of_z(const Backward *b, int64_t at)
{
    const BatchNormAttr *attr = b->op->attr;
    double dz = ref_in(b->op, BN_BWD_IN_DY)[at];
    if (ref_has_in(b->op, BN_BWD_IN_DY2)) dz += ref_in(b->op, BN_BWD_IN_DY2)[at];
    if (attr->act == ACT_NONE) return dz;
    /* the sign of y is that of z; what needs more of z has no residual, and z is recomputed */
    double y = ref_has_in(b->op, BN_BWD_IN_Y) ? ref_in(b->op, BN_BWD_IN_Y)[at]
                                              : normalised(b, at) * b->gamma + b->beta;
    return ref_activate_bwd(attr->act, dz, y);
}

static void sum_gradients(const Backward *b, int64_t c, double *dgamma, double *dbeta)
{
    *dgamma = *dbeta = 0;
    for (int64_t i = 0; i < b->s.n * b->s.hw; i++) {
        int64_t at = element(&b->s, c, i);
        double dz = gradient_of_z(b, at);
        *dbeta += dz;
        *dgamma += dz * normalised(b, at);
    }
}

static void backward_channel(const Backward *b, int64_t c)
{
    const OpInstance *op = b->op;
    const BatchNormAttr *attr = op->attr;
    double dgamma, dbeta, count = (double)(b->s.n * b->s.hw * ranks_of(attr));
    sum_gradients(b, c, &dgamma, &dbeta);
    if (ref_has_out(op, BN_BWD_OUT_DGAMMA)) {
        ref_store_gradient(op, &ref_out(op, BN_BWD_OUT_DGAMMA)[c], dgamma);
        ref_store_gradient(op, &ref_out(op, BN_BWD_OUT_DBETA)[c], dbeta);
    }
    if (attr->ranks) {
        dbeta = ref_in(op, BN_BWD_IN_SUMS)[c];
        dgamma = ref_in(op, BN_BWD_IN_SUMS)[b->s.c + c];
    }
    bool train = attr->mode == BN_TRAIN;
    for (int64_t i = 0; i < b->s.n * b->s.hw; i++) {
        int64_t at = element(&b->s, c, i);
        double dz = gradient_of_z(b, at), xh = normalised(b, at);
        double centred = train ? dz - dbeta / count - xh * dgamma / count : dz;
        if (ref_has_out(op, BN_BWD_OUT_DRESIDUAL)) ref_out(op, BN_BWD_OUT_DRESIDUAL)[at] = dz;
        ref_out(op, BN_BWD_OUT_DX)[at] = b->gamma * b->istd * centred;
    }
}

static void sums_channel(const Backward *b, int64_t c)
{
    const OpInstance *op = b->op;
    double dgamma, dbeta, *sums = ref_out(op, BN_BWD_SUMS_OUT_SUMS);
    sum_gradients(b, c, &dgamma, &dbeta);
    sums[c] = dbeta;
    sums[b->s.c + c] = dgamma;
    ref_store_gradient(op, &ref_out(op, BN_BWD_SUMS_OUT_DGAMMA)[c], dgamma);
    ref_store_gradient(op, &ref_out(op, BN_BWD_SUMS_OUT_DBETA)[c], dbeta);
    for (int64_t i = 0; ref_has_out(op, BN_BWD_SUMS_OUT_DRESIDUAL) && i < b->s.n * b->s.hw; i++) {
        int64_t at = element(&b->s, c, i);
        ref_out(op, BN_BWD_SUMS_OUT_DRESIDUAL)[at] = gradient_of_z(b, at);
    }
}

static void run_sums(OpInstance *op)
{
    const Span s = span_of(&op->in[BN_SUMS_IN_X].desc);
    double *sums = ref_out(op, BN_SUMS_OUT_SUMS);
    for (int64_t c = 0; c < s.c; c++) {
        sums[c] = sums[s.c + c] = 0;
        for (int64_t i = 0; i < s.n * s.hw; i++) {
            const double x = ref_in(op, BN_SUMS_IN_X)[element(&s, c, i)];
            sums[c] += x;
            sums[s.c + c] += x * x;
        }
    }
}

static void run_channels(const OpInstance *op, void (*channel)(const Backward *b, int64_t c))
{
    Span s = span_of(&op->in[BN_BWD_IN_X].desc);
    const double *saved = ref_in(op, BN_BWD_IN_SAVED);
    for (int64_t c = 0; c < s.c; c++) {
        Backward b = { op,
                       s,
                       saved[c],
                       saved[s.c + c],
                       ref_in(op, BN_BWD_IN_GAMMA)[c],
                       ref_in(op, BN_BWD_IN_BETA)[c] };
        channel(&b, c);
    }
}

static void run_backward(OpInstance *op)
{
    run_channels(op, backward_channel);
}

static void run_backward_sums(OpInstance *op)
{
    run_channels(op, sums_channel);
}

REF_LOOPS(ref_batchnorm, run_forward);
REF_LOOPS(ref_batchnorm_bwd, run_backward);
REF_LOOPS(ref_bn_sums, run_sums);
REF_LOOPS(ref_bn_bwd_sums, run_backward_sums);
