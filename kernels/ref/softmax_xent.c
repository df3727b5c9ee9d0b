/* softmax_xent.c - cross entropy with label smoothing, ranking counts and the gradient of the logits.
 *
 *   log p = logits - log(sum exp(logits)),  t = (1-s) one_hot(label) + s/classes,  loss = -sum t log p,  dlogits =
 *   scale (p - t)
 *
 * scale is that of the step's scalars, times the loss scale where there is one.
 *
 * Rows labelled -1 are padding: no loss, no count, zero gradient. An image is in the top k if fewer than k other
 * logits are not below its label's: ties, and NaN, count against it. */
#include "kernels/ref/ref.h"

#include <math.h>

static double log_sum_exp(const double *logits, int64_t classes)
{
    double max = logits[0], sum = 0;
    for (int64_t j = 1; j < classes; j++) max = logits[j] > max ? logits[j] : max;
    for (int64_t j = 0; j < classes; j++) sum += exp(logits[j] - max);
    return max + log(sum);
}

static int64_t rank_of(const double *logits, int64_t classes, int32_t label)
{
    int64_t above = 0;
    for (int64_t j = 0; j < classes; j++) above += j != label && !(logits[j] < logits[label]);
    return above;
}

/* dlogits may be NULL and may lie over logits: each element is read before it is written and the row's sum is
 * known before. */
static void run_row(const double *logits, int32_t label, int64_t classes, double smoothing, double scale, double *stats,
                    double *dlogits)
{
    double total = log_sum_exp(logits, classes);
    int64_t rank = rank_of(logits, classes, label);
    stats[STATS_IMAGES] += 1;
    stats[STATS_TOP1] += rank < 1;
    stats[STATS_TOP5] += rank < 5;
    for (int64_t j = 0; j < classes; j++) {
        double log_p = logits[j] - total;
        double target = (j == label ? 1 - smoothing : 0) + smoothing / (double)classes;
        stats[STATS_LOSS_SUM] -= target * log_p;
        if (dlogits) dlogits[j] = scale * (exp(log_p) - target);
    }
}

static Status run(OpInstance *op, Stream *stream)
{
    (void)stream;
    const XentAttr *attr = op->attr;
    const int64_t *d = ref_in_dims(op, XENT_IN_LOGITS);
    const int32_t *labels = op->in[XENT_IN_LABELS].data;
    double scale = ref_in(op, XENT_IN_SCALARS)[SCALAR_GRAD_SCALE];
    if (ref_has_in(op, XENT_IN_LOSS_SCALE)) scale *= ref_in(op, XENT_IN_LOSS_SCALE)[LOSS_SCALE_SCALE];
    double *stats = ref_out(op, XENT_OUT_STATS);
    double *dlogits = ref_has_out(op, XENT_OUT_DLOGITS) ? ref_out(op, XENT_OUT_DLOGITS) : NULL;
    for (int i = 0; i < STATS_COUNT; i++) stats[i] = 0;
    for (int64_t n = 0; n < d[0]; n++) {
        double *row = dlogits ? dlogits + n * d[1] : NULL;
        if (labels[n] >= 0)
            run_row(ref_in(op, XENT_IN_LOGITS) + n * d[1], labels[n], d[1], (double)attr->label_smoothing, scale, stats,
                    row);
        else
            for (int64_t j = 0; row && j < d[1]; j++) row[j] = 0;
    }
    return OK;
}

const OpImpl ref_softmax_xent = { ref_prepare, ref_bind, run, NULL };
