/* softmax_xent.c - cross entropy with label smoothing, accuracy counts and the gradient of the
 * logits, a row (image) at a time; binary cross entropy and class weights.
 *
 *   log p = logit - log(sum exp(logit)),  t = (1-s) one_hot(label) + s/classes,
 *   loss = -sum t log p,  dlogits = scale (p - t)
 *
 * Exponentials and sums are in double: rows are short beside everything else in a step. Each row
 * leaves its four numbers in the workspace and one thread adds them in the order of rows, so stats
 * are the same bits for any number of threads. An image whose row holds a NaN has loss NaN and
 * counts as wrong. */
#include "kernels/cpu/layout.h"
#include "kernels/cpu/view.h"
#include "kernels/loss_math.h"
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

typedef struct Target {
    int32_t labels[2]; /* the image's own, its neighbour's */
    double shares[2];
} Target;

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

/* label_logits: of the target's labels. */
static double loss_of(const double *label_logits, const Row *row, const Target *t, double log_sum,
                      double smoothing, int64_t classes)
{
    double loss = (1 - smoothing) * t->shares[0] * (log_sum - label_logits[0]);
    if (t->shares[1] > 0) loss += (1 - smoothing) * t->shares[1] * (log_sum - label_logits[1]);
    if (smoothing > 0) loss += smoothing * (log_sum - row->sum / (double)classes);
    return loss;
}

static void write_stats(RowStats *stats, double loss, const Row *row, bool valid)
{
    stats->value[STATS_LOSS_SUM] = valid ? loss : (double)NAN;
    stats->value[STATS_TOP1] = valid && row->not_below < 1;
    stats->value[STATS_TOP5] = valid && row->not_below < 5;
    stats->value[STATS_IMAGES] = 1;
}

/* dlogits: NULL, or a row that may lie over logits: every element is read before it is written. */
static void run_row(const float *logits, int64_t classes, const Target *t, double smoothing,
                    double scale, RowStats *stats, float *dlogits)
{
    const bool other = t->shares[1] > 0, same = t->labels[0] == t->labels[1];
    Row row = survey(logits, classes, t->labels[t->shares[1] > t->shares[0]]);
    bool valid = !has_nan(logits, classes);
    const double label_logits[2] = { (double)logits[t->labels[0]], (double)logits[t->labels[1]] };
    double sum = 0, even = smoothing / (double)classes;
    for (int64_t k = 0; k < classes; k++) {
        double e = exp((double)logits[k] - (double)row.max);
        sum += e;
        if (dlogits) dlogits[k] = (float)e;
    }
    double loss = loss_of(label_logits, &row, t, (double)row.max + log(sum), smoothing, classes);
    write_stats(stats, loss, &row, valid);
    if (!dlogits) return;
    const double label_e[2] = { (double)dlogits[t->labels[0]], (double)dlogits[t->labels[1]] };
    for (int64_t k = 0; k < classes; k++)
        dlogits[k] = (float)(scale * ((double)dlogits[k] / sum - even));
    for (int i = 0; i < 1 + (other && !same); i++) {
        double share = same ? t->shares[0] + t->shares[1] : t->shares[i];
        dlogits[t->labels[i]] =
            (float)(scale * (label_e[i] / sum - even - (1 - smoothing) * share));
    }
}

/* ---- losses in which each class counts by itself: its target and weight are asked for ---- */

typedef struct ClassLoss {
    const XentAttr *attr;
    const float *weights; /* NULL: 1 */
    int64_t classes;
    double scale; /* of the gradient */
} ClassLoss;

static double weight_of(const ClassLoss *l, int64_t k)
{
    return l->weights ? (double)l->weights[k] : 1.0;
}

static double target_at(const ClassLoss *l, const Target *t, int64_t k)
{
    const double share =
        (k == t->labels[0] ? t->shares[0] : 0) + (k == t->labels[1] ? t->shares[1] : 0);
    return loss_math_target(l->attr, share, (double)l->classes);
}

static double run_binary(const ClassLoss *l, const float *logits, const Target *t, float *dlogits)
{
    const double factor = l->attr->sum ? 1.0 : 1.0 / (double)l->classes;
    double loss = 0, slope;
    for (int64_t k = 0; k < l->classes; k++) {
        const double each = factor * weight_of(l, k);
        loss += each * loss_math_bce(logits[k], target_at(l, t, k), &slope);
        if (dlogits) dlogits[k] = (float)(l->scale * each * slope);
    }
    return loss;
}

static double run_weighted(const ClassLoss *l, const float *logits, const Target *t, double max,
                           float *dlogits)
{
    double sum = 0, targets = 0, loss = 0;
    for (int64_t k = 0; k < l->classes; k++) sum += exp((double)logits[k] - max);
    const double log_sum = max + log(sum);
    for (int64_t k = 0; k < l->classes; k++) {
        const double wanted = weight_of(l, k) * target_at(l, t, k);
        targets += wanted;
        loss += wanted * (log_sum - (double)logits[k]);
    }
    for (int64_t k = 0; dlogits && k < l->classes; k++) {
        const double p = exp((double)logits[k] - max) / sum;
        dlogits[k] = (float)(l->scale * (p * targets - weight_of(l, k) * target_at(l, t, k)));
    }
    return loss;
}

static void run_classes(const ClassLoss *l, const float *logits, const Target *t, RowStats *stats,
                        float *dlogits)
{
    const Row row = survey(logits, l->classes, t->labels[t->shares[1] > t->shares[0]]);
    const bool valid = !has_nan(logits, l->classes);
    const double loss = l->attr->loss == LOSS_BCE
                            ? run_binary(l, logits, t, dlogits)
                            : run_weighted(l, logits, t, (double)row.max, dlogits);
    write_stats(stats, loss, &row, valid);
}

/* Rows of f32 in the workspace: of logits that are not one f32 tensor, and of a gradient that is to
 * be rounded. */
static bool copies_logits(const OpInstance *op)
{
    const XentAttr *attr = op->attr;
    return attr->views > VIEWS_ONE || cpu_layout_type(&op->in[XENT_IN_LOGITS]) != DTYPE_F32;
}

static bool copies_gradient(const OpInstance *op)
{
    const OpTensor *dlogits = &op->out[XENT_OUT_DLOGITS];
    return dlogits->desc.rank != 0 && cpu_layout_type(dlogits) != DTYPE_F32;
}

static Status softmax_xent_prepare(OpInstance *op)
{
    for (int i = XENT_IN_LOGITS; i <= XENT_IN_CLASS_WEIGHTS; i++)
        if (op->in[i].desc.rank != 0) cpu_decide_plain(&op->in[i]);
    cpu_decide_plain(&op->out[XENT_OUT_STATS]);
    if (op->out[XENT_OUT_DLOGITS].desc.rank != 0)
        cpu_view_decide(cpu_backend_of(op), &op->out[XENT_OUT_DLOGITS]);
    const int64_t *d = op->in[XENT_IN_LOGITS].desc.dims,
                  images = op->in[XENT_IN_LABELS].desc.dims[0];
    op->workspace_bytes = (size_t)d[0] * sizeof(RowStats);
    op->workspace_bytes +=
        (size_t)(copies_logits(op) + copies_gradient(op)) * (size_t)(images * d[1]) * sizeof(float);
    return OK;
}

/* -1 is padding; any other label that is no class is the loader's mistake. */
static bool is_class(int32_t label, int64_t classes)
{
    ASSERT(label >= -1 && label < classes);
    return label >= 0;
}

static Target target_of(const OpInstance *op, int64_t n, int64_t images, int64_t classes)
{
    const int32_t *labels = op->in[XENT_IN_LABELS].data;
    const float *mix = op->in[XENT_IN_MIX].data;
    Target t = { { labels[n], labels[n] }, { 1, 0 } };
    if (!mix || !is_class(labels[op_input_neighbour(n, images)], classes)) return t;
    t.labels[1] = labels[op_input_neighbour(n, images)];
    t.shares[0] = (double)mix[MIX_LAMBDA];
    t.shares[1] = (double)mix[MIX_REST];
    return t;
}

/* The logits of image n. */
static const float *logits_row(const OpInstance *op, int64_t n, int64_t images, int64_t classes,
                               float *copies)
{
    const XentAttr *attr = op->attr;
    const void *logits = op->in[XENT_IN_LOGITS].data;
    const DType type = cpu_layout_type(&op->in[XENT_IN_LOGITS]);
    const int64_t a = n * classes, stride = images * classes;
    if (!copies_logits(op)) return (const float *)logits + a;
    for (int64_t k = 0; k < classes; k++) {
        float mean = cpu_lanes_load(logits, a + k, type) * op_input_view_weight(attr->views, 0);
        for (int v = 1; v < attr->views; v++)
            mean += op_input_view_weight(attr->views, v) *
                    cpu_lanes_load(logits, a + v * stride + k, type);
        copies[a + k] = mean;
    }
    return copies + a;
}

static void softmax_xent_run(OpInstance *op)
{
    const XentAttr *attr = op->attr;
    const float *scalars = op->in[XENT_IN_SCALARS].data;
    const float *loss_scale = op->in[XENT_IN_LOSS_SCALE].data;
    const int32_t *labels = op->in[XENT_IN_LABELS].data;
    double *stats = op->out[XENT_OUT_STATS].data, scale = (double)scalars[SCALAR_GRAD_SCALE];
    if (loss_scale) scale *= (double)loss_scale[LOSS_SCALE_SCALE];
    RowStats *rows = op->workspace;
    int64_t images = op->in[XENT_IN_LABELS].desc.dims[0],
            classes = op->in[XENT_IN_LOGITS].desc.dims[1];
    float *copies = (float *)(void *)(rows + op->in[XENT_IN_LOGITS].desc.dims[0]);
    const bool narrows = copies_gradient(op);
    void *dlogits = op->out[XENT_OUT_DLOGITS].data;
    float *gradients = narrows ? copies + copies_logits(op) * images * classes : dlogits;
    const ClassLoss by_class = { attr, op->in[XENT_IN_CLASS_WEIGHTS].data, classes, scale };
    const bool plain = attr->loss == LOSS_CROSS_ENTROPY && !by_class.weights;
    int threads = cpu_team(op, images * classes);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t n = 0; n < images; n++) {
        float *gradient = gradients ? gradients + n * classes : NULL;
        memset(&rows[n], 0, sizeof rows[n]);
        if (is_class(labels[n], classes)) {
            const Target t = target_of(op, n, images, classes);
            const float *row = logits_row(op, n, images, classes, copies);
            if (!plain) run_classes(&by_class, row, &t, &rows[n], gradient);
            else
                run_row(row, classes, &t, (double)attr->label_smoothing, scale, &rows[n], gradient);
        } else if (gradient) memset(gradient, 0, (size_t)classes * sizeof *gradient);
        if (narrows) cpu_lanes_narrow((uint16_t *)dlogits + n * classes, gradient, classes);
    }
    for (int i = 0; i < STATS_COUNT; i++) {
        stats[i] = 0;
        for (int64_t n = 0; n < images; n++) stats[i] += rows[n].value[i];
    }
}

CPU_LOOPS(cpu_softmax_xent, "rows", softmax_xent_prepare, softmax_xent_run);
