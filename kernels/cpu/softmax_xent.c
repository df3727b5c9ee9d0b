/* softmax_xent.c - cross entropy with label smoothing, accuracy counts and the gradient of the logits, a row (image) at
 * a time.
 *
 *   log p = logit - log(sum exp(logit)),  t = (1-s) one_hot(label) + s/classes,  loss = -sum t log p,  dlogits = scale
 * (p - t)
 *
 * Exponentials and sums are in double: rows are short beside everything else in a step. Each row leaves its four
 * numbers in the workspace and one thread adds them in the order of rows, so stats are the same bits for any number of
 * threads. An image whose row holds a NaN has loss NaN and counts as wrong. */
#include "kernels/cpu/lanes.h"
#include <math.h>
#include <string.h>

typedef struct RowStats {
    double value[STATS_COUNT];
} RowStats;

typedef struct Row { /* what the first walk over a row finds */
    float max;
    double sum;        /* of the logits, for label smoothing; NaN if one of them is */
    int64_t not_below; /* other logits that are not below the label's */
} Row;

static Row survey(const float *logits, int64_t classes, int32_t label)
{
    Row row = { .max = logits[0] };
    for (int64_t k = 0; k < classes; k++) {
        row.max = logits[k] > row.max ? logits[k] : row.max;
        row.sum += (double)logits[k];
        row.not_below += k != label && logits[k] >= logits[label];
    }
    return row;
}

static bool has_nan(const float *logits, int64_t classes)
{
    bool found = false;
    for (int64_t k = 0; k < classes; k++) found |= logits[k] != logits[k];
    return found;
}

/* dlogits: NULL, or a row that may lie over logits: every element is read before it is written. */
static void run_row(const float *logits, int64_t classes, int32_t label, double smoothing, double scale,
                    RowStats *stats, float *dlogits)
{
    Row row = survey(logits, classes, label);
    bool valid = !has_nan(logits, classes);
    double label_logit = (double)logits[label], sum = 0, even = smoothing / (double)classes;
    for (int64_t k = 0; k < classes; k++) {
        double e = exp((double)logits[k] - (double)row.max);
        sum += e;
        if (dlogits) dlogits[k] = (float)e;
    }
    double log_sum = (double)row.max + log(sum), loss = (1 - smoothing) * (log_sum - label_logit);
    if (smoothing > 0) loss += smoothing * (log_sum - row.sum / (double)classes);
    stats->value[STATS_LOSS_SUM] = valid ? loss : (double)NAN;
    stats->value[STATS_TOP1] = valid && row.not_below < 1;
    stats->value[STATS_TOP5] = valid && row.not_below < 5;
    stats->value[STATS_IMAGES] = 1;
    if (!dlogits) return;
    double label_e = (double)dlogits[label];
    for (int64_t k = 0; k < classes; k++) dlogits[k] = (float)(scale * ((double)dlogits[k] / sum - even));
    dlogits[label] = (float)(scale * (label_e / sum - even - (1 - smoothing)));
}

static Status softmax_xent_prepare(OpInstance *op)
{
    for (int i = XENT_IN_LOGITS; i <= XENT_IN_LOSS_SCALE; i++)
        if (op->in[i].desc.rank != 0) cpu_decide_plain(&op->in[i]);
    cpu_decide_plain(&op->out[XENT_OUT_STATS]);
    if (op->out[XENT_OUT_DLOGITS].desc.rank != 0) cpu_decide_plain(&op->out[XENT_OUT_DLOGITS]);
    op->workspace_bytes = (size_t)op->in[XENT_IN_LOGITS].desc.dims[0] * sizeof(RowStats);
    op->implementation = "rows";
    return OK;
}

/* -1 is padding; any other label that is no class is the loader's mistake. */
static bool is_class(int32_t label, int64_t classes)
{
    ASSERT(label >= -1 && label < classes);
    return label >= 0;
}

static Status softmax_xent_run(OpInstance *op, Stream *stream)
{
    const XentAttr *attr = op->attr;
    const float *logits = op->in[XENT_IN_LOGITS].data, *scalars = op->in[XENT_IN_SCALARS].data;
    const float *loss_scale = op->in[XENT_IN_LOSS_SCALE].data;
    const int32_t *labels = op->in[XENT_IN_LABELS].data;
    double *stats = op->out[XENT_OUT_STATS].data, scale = (double)scalars[SCALAR_GRAD_SCALE];
    if (loss_scale) scale *= (double)loss_scale[LOSS_SCALE_SCALE];
    float *dlogits = op->out[XENT_OUT_DLOGITS].data;
    RowStats *rows = op->workspace;
    int64_t images = op->in[XENT_IN_LOGITS].desc.dims[0], classes = op->in[XENT_IN_LOGITS].desc.dims[1];
    int threads = cpu_team(op, images * classes);
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t n = 0; n < images; n++) {
        float *gradient = dlogits ? dlogits + n * classes : NULL;
        memset(&rows[n], 0, sizeof rows[n]);
        if (is_class(labels[n], classes))
            run_row(logits + n * classes, classes, labels[n], (double)attr->label_smoothing, scale, &rows[n], gradient);
        else if (gradient) memset(gradient, 0, (size_t)classes * sizeof *gradient);
    }
    for (int i = 0; i < STATS_COUNT; i++) {
        stats[i] = 0;
        for (int64_t n = 0; n < images; n++) stats[i] += rows[n].value[i];
    }
    return OK;
}

const OpImpl cpu_softmax_xent = { .prepare = softmax_xent_prepare, .bind = cpu_bind_nothing, .run = softmax_xent_run };
