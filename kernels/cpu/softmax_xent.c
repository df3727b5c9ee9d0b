/* softmax_xent.c - cross entropy with label smoothing, accuracy counts and the gradient of the
 * logits; binary cross entropy, class weights, and a teacher's part.
 *
 *   log p = logit - log(sum exp(logit)),  t = (1-s) one_hot(label) + s/classes,
 *   loss = -sum t log p,  dlogits = scale (p - t)
 *
 * A row (image) is walked twice, in pieces that lie in the cache (softmax_row.h): the first walk
 * leaves the exponentials of each piece, by the largest of its own logits, where the gradient will
 * be, and the second, once all pieces' sums are known, makes the gradient of them. A thread takes
 * whole rows, or where those are few all take pieces of them. Which pieces there are depends on the
 * classes alone, their sums are added in order, and one thread adds the rows' four numbers in the
 * order of rows: so the results are the same bits for any number of threads. An image whose row
 * holds a NaN has loss NaN and counts as wrong. */
#include "kernels/cpu/layout.h"
#include "kernels/cpu/softmax_row.h"
#include "kernels/cpu/view.h"
#include "kernels/loss_math.h"
#include <math.h>
#include <string.h>

typedef struct RowStats {
    double value[STATS_COUNT];
} RowStats;

typedef struct Row { /* its labels, then what the first walk finds */
    LossTarget target;
    double label_logits[2]; /* of the target's labels */
    bool counts;            /* it has a label */
    double max, sum;        /* of the logits; of exp(logit - max) */
    double logits;          /* their sum, for label smoothing */
    int64_t not_below;      /* other logits that are not below the label's */
    bool valid;
    LossSoft soft; /* where there is a teacher */
    RowStats stats;
} Row;

/* All that a run knows. Pieces lie behind the rows in the workspace, then copies. */
typedef struct Work {
    const OpInstance *op;
    const XentAttr *attr;
    int64_t images, classes;
    int64_t piece, pieces;   /* classes in one, but for the last; of a row */
    double scale;            /* of the gradient */
    const float *weights;    /* of classes; NULL: 1 */
    const OpTensor *teacher; /* NULL: there is none */
    bool plain;              /* cross entropy without either */
    Row *rows;
    SoftmaxPiece *found;
    float *copies;    /* of logits, NULL: they are read where they lie */
    float *gradients; /* NULL: none are asked for */
    uint16_t *narrow; /* where they go in bf16, or NULL */
} Work;

static double loss_of(const Work *w, const Row *row)
{
    const LossTarget *t = &row->target;
    const double log_sum = row->max + log(row->sum), s = (double)w->attr->label_smoothing;
    double loss = (1 - s) * t->shares[0] * (log_sum - row->label_logits[0]);
    if (t->shares[1] > 0) loss += (1 - s) * t->shares[1] * (log_sum - row->label_logits[1]);
    if (s > 0) loss += s * (log_sum - row->logits / (double)w->classes);
    return loss;
}

static void write_stats(Row *row, double loss)
{
    row->stats.value[STATS_LOSS_SUM] = row->valid ? loss : (double)NAN;
    const bool ranked = row->valid && !row->target.bits[0];
    row->stats.value[STATS_TOP1] = ranked && row->not_below < 1;
    row->stats.value[STATS_TOP5] = ranked && row->not_below < 5;
    row->stats.value[STATS_IMAGES] = 1;
}

/* ---- losses in which each class counts by itself: its target and weight are asked for ---- */

static double weight_of(const Work *w, int64_t k)
{
    return w->weights ? (double)w->weights[k] : 1.0;
}

static double target_at(const Work *w, const LossTarget *t, int64_t k)
{
    return loss_math_smoothed(w->attr, t, k, (double)w->classes);
}

static float teacher_at(const Work *w, int64_t n, int64_t k)
{
    return cpu_lanes_load(w->teacher->data, n * w->classes + k, cpu_layout_type(w->teacher));
}

/* To be called before the gradient overwrites the logits. */
static LossSoft soft_of(const Work *w, int64_t n, const float *logits)
{
    const float temperature = w->attr->temperature;
    float most[2] = { -INFINITY, -INFINITY };
    LossSums sums = { 0 };
    for (int64_t k = 0; k < w->classes; k++) {
        const float both[2] = { logits[k], teacher_at(w, n, k) };
        for (int i = 0; i < 2; i++) most[i] = both[i] > most[i] ? both[i] : most[i];
    }
    for (int64_t k = 0; k < w->classes; k++)
        loss_math_add(&sums, temperature, (float[]){ logits[k], teacher_at(w, n, k) }, most);
    return loss_math_soft(&sums, temperature, most);
}

/* hard: the gradient of the labels' loss at class k, already scaled. */
static float gradient_at(const Work *w, int64_t n, int64_t k, float logit, double hard)
{
    const double a = (double)w->attr->distill;
    if (!w->teacher) return (float)hard;
    const double soft = loss_math_soft_slope(&w->rows[n].soft, logit, teacher_at(w, n, k));
    return (float)((1.0 - a) * hard + w->scale * a * soft);
}

static double run_binary(const Work *w, int64_t n, const float *logits, const LossTarget *t,
                         float *dlogits)
{
    const double factor = w->attr->sum ? 1.0 : 1.0 / (double)w->classes;
    double loss = 0, slope;
    for (int64_t k = 0; k < w->classes; k++) {
        const double each = factor * weight_of(w, k);
        loss += each * loss_math_bce(logits[k], target_at(w, t, k), &slope);
        if (dlogits) dlogits[k] = gradient_at(w, n, k, logits[k], w->scale * each * slope);
    }
    return loss;
}

static double run_weighted(const Work *w, int64_t n, const float *logits, const LossTarget *t,
                           double max, float *dlogits)
{
    double sum = 0, targets = 0, loss = 0;
    for (int64_t k = 0; k < w->classes; k++) sum += exp((double)logits[k] - max);
    const double log_sum = max + log(sum);
    for (int64_t k = 0; k < w->classes; k++) {
        const double wanted = weight_of(w, k) * target_at(w, t, k);
        targets += wanted;
        loss += wanted * (log_sum - (double)logits[k]);
    }
    for (int64_t k = 0; dlogits && k < w->classes; k++) {
        const double p = exp((double)logits[k] - max) / sum;
        dlogits[k] = gradient_at(w, n, k, logits[k],
                                 w->scale * (p * targets - weight_of(w, k) * target_at(w, t, k)));
    }
    return loss;
}

/* ---- tensors ---- */

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

enum { PIECE = 1024, MOST_PIECES = 64 };

static int64_t piece_of(int64_t classes)
{
    const int64_t least = (classes + MOST_PIECES - 1) / MOST_PIECES;
    return least < PIECE ? PIECE : (least + CPU_LANES - 1) / CPU_LANES * CPU_LANES;
}

static int64_t pieces_of(int64_t classes)
{
    return (classes + piece_of(classes) - 1) / piece_of(classes);
}

static Status softmax_xent_prepare(OpInstance *op)
{
    for (int i = XENT_IN_LOGITS; i <= XENT_IN_TEACHER; i++)
        if (op->in[i].desc.rank != 0) cpu_decide_plain(&op->in[i]);
    cpu_decide_plain(&op->out[XENT_OUT_STATS]);
    if (op->out[XENT_OUT_DLOGITS].desc.rank != 0)
        cpu_view_decide(cpu_backend_of(op), &op->out[XENT_OUT_DLOGITS]);
    const int64_t classes = op->in[XENT_IN_LOGITS].desc.dims[1],
                  images = op->in[XENT_IN_LABELS].desc.dims[0];
    op->workspace_bytes =
        (size_t)images * (sizeof(Row) + (size_t)pieces_of(classes) * sizeof(SoftmaxPiece));
    op->workspace_bytes += (size_t)(copies_logits(op) + copies_gradient(op)) *
                           (size_t)(images * classes) * sizeof(float);
    return OK;
}

/* -1 is padding; any other label that is no class is the loader's mistake. */
static bool is_class(int32_t label, int64_t classes)
{
    ASSERT(label >= -1 && label < classes);
    return label >= 0;
}

static float logit_at(const Work *w, int64_t n, int64_t k)
{
    const OpTensor *logits = &w->op->in[XENT_IN_LOGITS];
    const DType type = cpu_layout_type(logits);
    const int64_t at = n * w->classes + k, stride = w->images * w->classes;
    float mean = cpu_lanes_load(logits->data, at, type) * op_input_view_weight(w->attr->views, 0);
    for (int v = 1; v < w->attr->views; v++)
        mean += op_input_view_weight(w->attr->views, v) *
                cpu_lanes_load(logits->data, at + v * stride, type);
    return mean;
}

static Work work_of(const OpInstance *op)
{
    const float *scalars = op->in[XENT_IN_SCALARS].data;
    const float *loss_scale = op->in[XENT_IN_LOSS_SCALE].data;
    Work w = { .op = op,
               .attr = op->attr,
               .images = op->in[XENT_IN_LABELS].desc.dims[0],
               .classes = op->in[XENT_IN_LOGITS].desc.dims[1],
               .scale = (double)scalars[SCALAR_GRAD_SCALE],
               .weights = op->in[XENT_IN_CLASS_WEIGHTS].data,
               .rows = op->workspace,
               .gradients = op->out[XENT_OUT_DLOGITS].data };
    if (loss_scale) w.scale *= (double)loss_scale[LOSS_SCALE_SCALE];
    if (op->in[XENT_IN_TEACHER].data) w.teacher = &op->in[XENT_IN_TEACHER];
    w.plain = w.attr->loss == LOSS_CROSS_ENTROPY && !w.weights && !w.teacher;
    w.piece = piece_of(w.classes);
    w.pieces = pieces_of(w.classes);
    w.found = (SoftmaxPiece *)(void *)(w.rows + w.images);
    float *behind = (float *)(void *)(w.found + w.images * w.pieces);
    if (copies_logits(op)) {
        w.copies = behind;
        behind += w.images * w.classes;
    }
    if (!copies_gradient(op)) return w;
    w.narrow = op->out[XENT_OUT_DLOGITS].data;
    w.gradients = behind;
    return w;
}

static const float *logits_of(const Work *w, int64_t n)
{
    const float *from = w->copies ? w->copies : w->op->in[XENT_IN_LOGITS].data;
    return from + n * w->classes;
}

/* Of piece i. */
static int64_t length_of(const Work *w, int64_t i)
{
    const int64_t left = w->classes - i * w->piece;
    return left < w->piece ? left : w->piece;
}

/* ---- the steps of a row ---- */

/* Before anything is written: the gradient may lie over the logits. */
static void begin_row(const Work *w, int64_t n)
{
    const int32_t *labels = w->op->in[XENT_IN_LABELS].data;
    Row *row = &w->rows[n];
    memset(row, 0, sizeof *row);
    row->counts = is_class(labels[n], w->classes);
    if (!row->counts) return;
    row->target = loss_math_target(labels, w->op->in[XENT_IN_TARGETS].data,
                                   w->op->in[XENT_IN_MIX].data, n, w->images, w->classes);
    for (int i = 0; i < 2; i++)
        row->label_logits[i] = (double)logit_at(w, n, row->target.labels[i]);
}

static void survey_piece(const Work *w, int64_t n, int64_t i)
{
    const Row *row = &w->rows[n];
    const int64_t first = i * w->piece, count = length_of(w, i), at = n * w->classes + first;
    const bool counted = row->target.shares[1] > row->target.shares[0];
    if (!row->counts) return;
    for (int64_t k = 0; w->copies && k < count; k++) w->copies[at + k] = logit_at(w, n, first + k);
    w->found[n * w->pieces + i] = cpu_softmax_row_survey(
        logits_of(w, n) + first, count, (float)row->label_logits[counted],
        w->attr->label_smoothing > 0, w->plain && w->gradients ? w->gradients + at : NULL);
}

static void finish_row(const Work *w, int64_t n)
{
    const SoftmaxPiece *p = w->found + n * w->pieces;
    Row *row = &w->rows[n];
    float *gradient = w->gradients ? w->gradients + n * w->classes : NULL;
    if (!row->counts) return;
    row->valid = true;
    row->max = (double)p[0].most;
    for (int64_t i = 1; i < w->pieces; i++)
        if ((double)p[i].most > row->max) row->max = (double)p[i].most;
    row->not_below = -1; /* itself */
    for (int64_t i = 0; i < w->pieces; i++) {
        row->sum += p[i].sum * exp((double)p[i].most - row->max);
        row->logits += p[i].logits;
        row->not_below += p[i].not_below;
        row->valid &= !p[i].has_nan;
    }
    if (w->teacher) row->soft = soft_of(w, n, logits_of(w, n));
    const double hard = w->plain ? loss_of(w, row)
                        : w->attr->loss == LOSS_BCE
                            ? run_binary(w, n, logits_of(w, n), &row->target, gradient)
                            : run_weighted(w, n, logits_of(w, n), &row->target, row->max, gradient);
    const double a = w->teacher ? (double)w->attr->distill : 0.0;
    write_stats(row, w->teacher ? (1.0 - a) * hard + a * row->soft.loss : hard);
}

/* Of a row's plain cross entropy. The labels' own are made apart, in double: near 1 - 1. */
static void make_slopes(const Work *w, int64_t n, int64_t i)
{
    const Row *row = &w->rows[n];
    const LossTarget *t = &row->target;
    const bool same = t->labels[0] == t->labels[1];
    const double s = (double)w->attr->label_smoothing, even = s / (double)w->classes,
                 share = exp((double)w->found[n * w->pieces + i].most - row->max) / row->sum;
    const int64_t first = i * w->piece, count = length_of(w, i);
    float *e = w->gradients + n * w->classes + first, label_e[2] = { 0, 0 };
    for (int k = 0; k < 2; k++)
        if (t->labels[k] >= first && t->labels[k] < first + count)
            label_e[k] = e[t->labels[k] - first];
    cpu_softmax_row_slopes(e, count, (float)(w->scale * share), (float)(w->scale * even));
    for (int k = 0; k < 1 + (t->shares[1] > 0 && !same); k++) {
        const double target = same ? t->shares[0] + t->shares[1] : t->shares[k];
        if (t->labels[k] >= first && t->labels[k] < first + count)
            e[t->labels[k] - first] =
                (float)(w->scale * ((double)label_e[k] * share - even - (1 - s) * target));
    }
}

static void end_piece(const Work *w, int64_t n, int64_t i)
{
    const int64_t at = n * w->classes + i * w->piece, count = length_of(w, i);
    if (!w->gradients) return;
    if (!w->rows[n].counts) memset(w->gradients + at, 0, (size_t)count * sizeof *w->gradients);
    else if (w->plain) make_slopes(w, n, i);
    if (w->narrow) cpu_lanes_narrow(w->narrow + at, w->gradients + at, count);
}

static void run_row(const Work *w, int64_t n)
{
    begin_row(w, n);
    for (int64_t i = 0; i < w->pieces; i++) survey_piece(w, n, i);
    finish_row(w, n);
    for (int64_t i = 0; i < w->pieces; i++) end_piece(w, n, i);
}

/* Few rows: each step by the whole team. */
static void run_pieces(const Work *w, int threads)
{
    const int64_t count = w->images * w->pieces;
    for (int64_t n = 0; n < w->images; n++) begin_row(w, n);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < count; i++) survey_piece(w, i / w->pieces, i % w->pieces);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t n = 0; n < w->images; n++) finish_row(w, n);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < count; i++) end_piece(w, i / w->pieces, i % w->pieces);
}

enum { EACH_ROWS = 4 }; /* for a thread, at least, if it takes whole ones */

static void softmax_xent_run(OpInstance *op)
{
    const Work w = work_of(op);
    const int threads = cpu_team(op, w.images * w.classes);
    double *stats = op->out[XENT_OUT_STATS].data;
    if (w.pieces > 1 && w.images < (int64_t)EACH_ROWS * threads) run_pieces(&w, threads);
    else
#pragma omp parallel for schedule(static) num_threads(threads)
        for (int64_t n = 0; n < w.images; n++) run_row(&w, n);
    for (int i = 0; i < STATS_COUNT; i++) {
        stats[i] = 0;
        for (int64_t n = 0; n < w.images; n++) stats[i] += w.rows[n].stats.value[i];
    }
}

CPU_LOOPS(cpu_softmax_xent, "rows", softmax_xent_prepare, softmax_xent_run);
