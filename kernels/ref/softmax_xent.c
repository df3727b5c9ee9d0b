/* softmax_xent.c - cross entropy and binary cross entropy with label smoothing, mixed targets and
 * class weights, ranking counts and the gradient of the logits.
 *
 *   log p = logits - log(sum exp(logits)),  t = (1-s) share + s/classes,
 *   share = lambda one_hot(label) + rest one_hot(neighbour's label),
 *   loss = -sum w t log p,  dlogits = scale (p sum(w t) - w t)
 * or, with t > threshold in the place of t where there is one, and f = 1/classes or 1,
 *   loss = f sum w (log(1 + exp(logits)) - t logits),  dlogits = scale f w (logistic(logits) - t)
 *
 * With a teacher's logits, and p, q the softmaxes of logits / T and of those / T, loss and dlogits
 * are 1 - a of the above and a of
 *   loss = T^2 sum q (log q - log p),  dlogits = scale T (p - q)
 *
 * scale is that of the step's scalars, times the loss scale where there is one; lambda is 1 and the
 * rest 0 where nothing is mixed. With several views the logits are the mean of an image's rows.
 *
 * Where there are rows of bits, they are the one_hots, and s/2 is what smoothing adds.
 *
 * Rows labelled -1 are padding: no loss, no count, zero gradient. An image is in the top k if fewer
 * than k other logits are not below its label's: ties, and NaN, count against it. */
#include "kernels/ref/ref.h"

#include <math.h>

typedef struct Target {
    int32_t labels[2]; /* the image's own, its neighbour's */
    double shares[2];
    const uint8_t *bits[2]; /* NULL: labels */
} Target;

typedef struct Rows { /* of one image's views */
    const double *first;
    int64_t stride;
    int views;
    const double *teacher;       /* its logits; NULL: none */
    double total, teacher_total; /* log_sum_exp() of both, by the temperature */
} Rows;

static double logit(const Rows *r, int64_t j)
{
    double mean = 0;
    for (int v = 0; v < r->views; v++)
        mean += (double)op_input_view_weight(r->views, v) * r->first[v * r->stride + j];
    return mean;
}

/* Of the logits divided by t. */
static double log_sum_exp(const Rows *r, int64_t classes, double t)
{
    double max = logit(r, 0), sum = 0;
    for (int64_t j = 1; j < classes; j++) max = logit(r, j) > max ? logit(r, j) : max;
    for (int64_t j = 0; j < classes; j++) sum += exp((logit(r, j) - max) / t);
    return max / t + log(sum);
}

static int64_t rank_of(const Rows *r, int64_t classes, int32_t label)
{
    int64_t above = 0;
    for (int64_t j = 0; j < classes; j++) above += j != label && !(logit(r, j) < logit(r, label));
    return above;
}

typedef struct Loss { /* of all rows */
    const XentAttr *attr;
    const double *weights; /* NULL: 1 */
    int64_t classes;
    double scale;
} Loss;

static double weight(const Loss *l, int64_t j)
{
    return l->weights ? l->weights[j] : 1;
}

static double target(const Loss *l, const Target *t, int64_t j)
{
    const double s = (double)l->attr->label_smoothing, threshold = (double)l->attr->threshold;
    double share = 0;
    for (int i = 0; i < 2; i++)
        share += (t->bits[0] ? both_bit(t->bits[i], j) : j == t->labels[i]) ? t->shares[i] : 0;
    const double v = (1 - s) * share + s / (t->bits[0] ? 2 : (double)l->classes);
    return l->attr->loss == LOSS_BCE && threshold > 0 ? v > threshold : v;
}

static double log_soft(const Loss *l, const Rows *r, int64_t j)
{
    return logit(r, j) / (double)l->attr->temperature - r->total;
}

static double log_wanted(const Loss *l, const Rows *r, int64_t j)
{
    return r->teacher[j] / (double)l->attr->temperature - r->teacher_total;
}

static double run_teacher(const Loss *l, const Rows *r)
{
    const double t = (double)l->attr->temperature;
    double loss = 0;
    for (int64_t j = 0; j < l->classes; j++)
        loss += t * t * exp(log_wanted(l, r, j)) * (log_wanted(l, r, j) - log_soft(l, r, j));
    return loss;
}

/* hard: that of the labels' loss, without scale. */
static double gradient(const Loss *l, const Rows *r, int64_t j, double hard)
{
    const double t = (double)l->attr->temperature, a = (double)l->attr->distill;
    if (!r->teacher) return l->scale * hard;
    const double soft = t * (exp(log_soft(l, r, j)) - exp(log_wanted(l, r, j)));
    return l->scale * ((1 - a) * hard + a * soft);
}

/* dlogits may be NULL and may lie over logits: each element is read before it is written and the
 * row's sums are known before. */
static double run_entropy(const Loss *l, const Rows *r, const Target *t, double *dlogits)
{
    const double total = log_sum_exp(r, l->classes, 1);
    double loss = 0, targets = 0;
    for (int64_t j = 0; j < l->classes; j++) targets += weight(l, j) * target(l, t, j);
    for (int64_t j = 0; j < l->classes; j++) {
        const double log_p = logit(r, j) - total, wanted = weight(l, j) * target(l, t, j);
        loss -= wanted * log_p;
        if (dlogits) dlogits[j] = gradient(l, r, j, exp(log_p) * targets - wanted);
    }
    return loss;
}

static double run_binary(const Loss *l, const Rows *r, const Target *t, double *dlogits)
{
    const double factor = l->attr->sum ? 1 : 1 / (double)l->classes;
    double loss = 0;
    for (int64_t j = 0; j < l->classes; j++) {
        const double z = logit(r, j), each = factor * weight(l, j), wanted = target(l, t, j);
        loss += each * ((z > 0 ? z : 0) + log1p(exp(-fabs(z))) - wanted * z);
        if (dlogits) dlogits[j] = gradient(l, r, j, each * (1 / (1 + exp(-z)) - wanted));
    }
    return loss;
}

static void run_row(const Loss *l, const Rows *r, const Target *t, double *stats, double *dlogits)
{
    int64_t rank = rank_of(r, l->classes, t->labels[t->shares[1] > t->shares[0]]);
    const double a = r->teacher ? (double)l->attr->distill : 0,
                 soft = r->teacher ? run_teacher(l, r) : 0;
    stats[STATS_IMAGES] += 1;
    stats[STATS_TOP1] += rank < 1 && !t->bits[0];
    stats[STATS_TOP5] += rank < 5 && !t->bits[0];
    stats[STATS_LOSS_SUM] += (1 - a) * (l->attr->loss == LOSS_BCE ? run_binary(l, r, t, dlogits)
                                                                  : run_entropy(l, r, t, dlogits)) +
                             a * soft;
}

static Target target_of(const OpInstance *op, int64_t n, int64_t images)
{
    const int32_t *labels = op->in[XENT_IN_LABELS].data;
    const uint8_t *bits = op->in[XENT_IN_TARGETS].data;
    const int64_t row = bits ? ref_in_dims(op, XENT_IN_TARGETS)[1] : 0,
                  neighbour = op_input_neighbour(n, images);
    Target t = { { labels[n], labels[n] }, { 1, 0 }, { NULL, NULL } };
    if (bits) t.bits[0] = t.bits[1] = bits + n * row;
    int32_t other = labels[neighbour];
    if (!ref_has_in(op, XENT_IN_MIX) || other < 0) return t;
    t.labels[1] = other;
    if (bits) t.bits[1] = bits + neighbour * row;
    t.shares[0] = ref_in(op, XENT_IN_MIX)[MIX_LAMBDA];
    t.shares[1] = ref_in(op, XENT_IN_MIX)[MIX_REST];
    return t;
}

static Rows rows_of(const OpInstance *op, int64_t n, int64_t images, int64_t classes)
{
    const XentAttr *attr = op->attr;
    Rows r = { .first = ref_in(op, XENT_IN_LOGITS) + n * classes,
               .stride = images * classes,
               .views = op_input_views(attr->views) };
    if (!ref_has_in(op, XENT_IN_TEACHER)) return r;
    const Rows teacher = { .first = ref_in(op, XENT_IN_TEACHER) + n * classes,
                           .views = op_input_views(VIEWS_ONE) };
    r.teacher = teacher.first;
    r.total = log_sum_exp(&r, classes, (double)attr->temperature);
    r.teacher_total = log_sum_exp(&teacher, classes, (double)attr->temperature);
    return r;
}

static void run_softmax_xent(OpInstance *op)
{
    const XentAttr *attr = op->attr;
    const int64_t images = ref_in_dims(op, XENT_IN_LABELS)[0],
                  classes = ref_in_dims(op, XENT_IN_LOGITS)[1];
    Loss loss = { .attr = attr,
                  .classes = classes,
                  .scale = ref_in(op, XENT_IN_SCALARS)[SCALAR_GRAD_SCALE] };
    if (ref_has_in(op, XENT_IN_LOSS_SCALE))
        loss.scale *= ref_in(op, XENT_IN_LOSS_SCALE)[LOSS_SCALE_SCALE];
    if (ref_has_in(op, XENT_IN_CLASS_WEIGHTS)) loss.weights = ref_in(op, XENT_IN_CLASS_WEIGHTS);
    double *stats = ref_out(op, XENT_OUT_STATS);
    double *dlogits = ref_has_out(op, XENT_OUT_DLOGITS) ? ref_out(op, XENT_OUT_DLOGITS) : NULL;
    for (int i = 0; i < STATS_COUNT; i++) stats[i] = 0;
    for (int64_t n = 0; n < images; n++) {
        double *row = dlogits ? dlogits + n * classes : NULL;
        const Rows r = rows_of(op, n, images, classes);
        Target t = target_of(op, n, images);
        if (t.labels[0] >= 0) run_row(&loss, &r, &t, stats, row);
        else
            for (int64_t j = 0; row && j < classes; j++) row[j] = 0;
    }
}

REF_LOOPS(ref_softmax_xent, run_softmax_xent);
