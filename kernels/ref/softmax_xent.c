/* softmax_xent.c - cross entropy with label smoothing and mixed targets, ranking counts and the
 * gradient of the logits.
 *
 *   log p = logits - log(sum exp(logits)),  loss = -sum t log p,  dlogits = scale (p - t),
 *   t = (1-s) (lambda one_hot(label) + rest one_hot(neighbour's label)) + s/classes
 *
 * scale is that of the step's scalars, times the loss scale where there is one; lambda is 1 and the
 * rest 0 where nothing is mixed. With several views the logits are the mean of an image's rows.
 *
 * Rows labelled -1 are padding: no loss, no count, zero gradient. An image is in the top k if fewer
 * than k other logits are not below its label's: ties, and NaN, count against it. */
#include "kernels/ref/ref.h"

#include <math.h>

typedef struct Target {
    int32_t labels[2]; /* the image's own, its neighbour's */
    double shares[2];
} Target;

typedef struct Rows { /* of one image's views */
    const double *first;
    int64_t stride;
    int views;
} Rows;

static double logit(const Rows *r, int64_t j)
{
    double mean = 0;
    for (int v = 0; v < r->views; v++)
        mean += (double)op_input_view_weight(r->views, v) * r->first[v * r->stride + j];
    return mean;
}

static double log_sum_exp(const Rows *r, int64_t classes)
{
    double max = logit(r, 0), sum = 0;
    for (int64_t j = 1; j < classes; j++) max = logit(r, j) > max ? logit(r, j) : max;
    for (int64_t j = 0; j < classes; j++) sum += exp(logit(r, j) - max);
    return max + log(sum);
}

static int64_t rank_of(const Rows *r, int64_t classes, int32_t label)
{
    int64_t above = 0;
    for (int64_t j = 0; j < classes; j++) above += j != label && !(logit(r, j) < logit(r, label));
    return above;
}

/* dlogits may be NULL and may lie over logits: each element is read before it is written and the
 * row's sum is known before. */
static void run_row(const Rows *r, const Target *t, int64_t classes, double smoothing, double scale,
                    double *stats, double *dlogits)
{
    double total = log_sum_exp(r, classes);
    int64_t rank = rank_of(r, classes, t->labels[t->shares[1] > t->shares[0]]);
    stats[STATS_IMAGES] += 1;
    stats[STATS_TOP1] += rank < 1;
    stats[STATS_TOP5] += rank < 5;
    for (int64_t j = 0; j < classes; j++) {
        double log_p = logit(r, j) - total, share = 0;
        for (int i = 0; i < 2; i++) share += j == t->labels[i] ? t->shares[i] : 0;
        double target = (1 - smoothing) * share + smoothing / (double)classes;
        stats[STATS_LOSS_SUM] -= target * log_p;
        if (dlogits) dlogits[j] = scale * (exp(log_p) - target);
    }
}

static Target target_of(const OpInstance *op, int64_t n, int64_t images)
{
    const int32_t *labels = op->in[XENT_IN_LABELS].data;
    Target t = { { labels[n], labels[n] }, { 1, 0 } };
    int32_t other = labels[op_input_neighbour(n, images)];
    if (!ref_has_in(op, XENT_IN_MIX) || other < 0) return t;
    t.labels[1] = other;
    t.shares[0] = ref_in(op, XENT_IN_MIX)[MIX_LAMBDA];
    t.shares[1] = ref_in(op, XENT_IN_MIX)[MIX_REST];
    return t;
}

static void run(OpInstance *op)
{
    const XentAttr *attr = op->attr;
    const int64_t images = ref_in_dims(op, XENT_IN_LABELS)[0],
                  classes = ref_in_dims(op, XENT_IN_LOGITS)[1];
    double scale = ref_in(op, XENT_IN_SCALARS)[SCALAR_GRAD_SCALE];
    if (ref_has_in(op, XENT_IN_LOSS_SCALE))
        scale *= ref_in(op, XENT_IN_LOSS_SCALE)[LOSS_SCALE_SCALE];
    double *stats = ref_out(op, XENT_OUT_STATS);
    double *dlogits = ref_has_out(op, XENT_OUT_DLOGITS) ? ref_out(op, XENT_OUT_DLOGITS) : NULL;
    for (int i = 0; i < STATS_COUNT; i++) stats[i] = 0;
    for (int64_t n = 0; n < images; n++) {
        double *row = dlogits ? dlogits + n * classes : NULL;
        Rows r = { ref_in(op, XENT_IN_LOGITS) + n * classes, images * classes,
                   op_input_views(attr->views) };
        Target t = target_of(op, n, images);
        if (t.labels[0] >= 0)
            run_row(&r, &t, classes, (double)attr->label_smoothing, scale, stats, row);
        else
            for (int64_t j = 0; row && j < classes; j++) row[j] = 0;
    }
}

REF_LOOPS(ref_softmax_xent, run);
