/* evaluate.c - see evaluate.h. The loader gives every rank the same number of batches and pads with
 * label -1; a padded place counts nowhere. */
#include "trainer/engine/train/evaluate.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/engine/config/units.h"
#include "trainer/engine/guard/signals.h"
#include "trainer/engine/train/ranking.h"
#include <math.h>
#include <string.h>

#define AGREE_BATCHES 8 /* so soon all ranks hear of an error, or of a request to stop */

/* SUM_WEIGHT: what the loss is a mean over, images that could be decoded or masked words. */
enum {
    SUM_LOSS,
    SUM_TOP1,
    SUM_TOP5,
    SUM_WEIGHT,
    SUM_DECODED,
    SUM_BAD,
    SUM_TOKENS,
    SUM_MASKED,
    SUM_COUNT
};

static void add_batch(double sums[SUM_COUNT], const double *stats, const PrefetchInput *input)
{
    sums[SUM_LOSS] += stats[STATS_LOSS_SUM];
    sums[SUM_TOP1] += stats[STATS_TOP1];
    sums[SUM_TOP5] += stats[STATS_TOP5];
    sums[SUM_WEIGHT] += stats[STATS_IMAGES];
    sums[SUM_DECODED] += (double)input->count;
    sums[SUM_BAD] += (double)input->bad;
    sums[SUM_TOKENS] += (double)input->tokens;
    sums[SUM_MASKED] += (double)input->masked;
}

/* Where what is said of each image goes. */
typedef struct Details {
    EvalImage *images; /* of the whole set, zero where another rank's; NULL: nobody asks */
    float *scores;     /* [share of this rank, classes] of images with any number of labels; NULL */
    double *ap;        /* [classes], with scores */
    int64_t first, next, end; /* positions of this rank; that are not yet read */
    float *logits;            /* of a batch, all views; NULL: neither images nor scores */
    int32_t *labels;
} Details;

/* The logits of an image are the mean of those of its views. */
static void average_views(float *logits, int64_t classes, int64_t view_stride, int views)
{
    for (int64_t c = 0; c < classes; c++) {
        float mean = 0;
        for (int v = 0; v < views; v++)
            mean += op_input_view_weight(views, v) * logits[c + v * view_stride];
        logits[c] = mean;
    }
}

/* The first of the largest says the class, counted from 1 so that 0 is none. */
static EvalImage judge(const float *logits, int64_t classes, int32_t label)
{
    int64_t best = -1;
    double sum = 0;
    for (int64_t c = 0; c < classes; c++)
        if (logits[c] > (best < 0 ? -INFINITY : logits[best])) best = c;
    for (int64_t c = 0; best >= 0 && c < classes; c++)
        sum += exp((double)(logits[c] - logits[best]));
    if (best < 0 || !isfinite(sum)) return (EvalImage){ 0 };
    return (EvalImage){ (double)best + 1, 1 / sum,
                        exp((double)(logits[label] - logits[best])) / sum };
}

static Status add_details(Session *s, const Program *p, const PrefetchInput *input, Details *d)
{
    const Graph *g = program_graph(p);
    const OpTensor *logits = program_tensor(p, graph_logits(g));
    OpTensor labels = *program_tensor(p, graph_input(g, "labels"));
    const int64_t batch = labels.desc.dims[0], classes = logits->desc.dims[1];
    labels.data = batch_layout_at(input->layout, input->block, "labels");
    TRY(s->backend->v->export_tensor(s->backend, logits, d->logits));
    TRY(s->backend->v->export_tensor(s->backend, &labels, d->labels));
    for (int64_t n = 0; n < batch && d->next < d->end; n++, d->next++) {
        float *row = d->logits + n * classes;
        average_views(row, classes, batch * classes, (int)(logits->desc.dims[0] / batch));
        if (d->images && d->labels[n] >= 0) d->images[d->next] = judge(row, classes, d->labels[n]);
        for (int64_t c = 0; d->scores && c < classes; c++)
            d->scores[(d->next - d->first) * classes + c] =
                d->labels[n] < 0 || isnan(row[c]) ? -INFINITY : row[c];
    }
    return OK;
}

static Status evaluate_batch(Session *s, double sums[SUM_COUNT], Details *details, bool *more)
{
    PrefetchInput input;
    Event *end;
    double wait_s = 0;
    TRY(prefetch_next(s->eval_input, &input, more, &wait_s));
    if (!*more) return OK;
    RunOptions o = { .slot = input.slot, .layout = input.layout, .block = input.block };
    Program *p = session_program(s->stage_eval, s, s->eval, input.tokens);
    Status status = executor_issue(s->executor, p, &o);
    /* while the slot, and with it the labels, is still this batch's */
    if (status == OK && details->logits) status = executor_wait(s->executor);
    if (status == OK && details->logits) status = add_details(s, p, &input, details);
    Status done = prefetch_done(s->eval_input);
    if (status == OK) status = done;
    if (status == OK) status = prefetch_mark(s->eval_input, &end);
    if (status == OK) status = prefetch_wait(s->eval_input);
    comm_beat(s->comm);
    if (status == OK) add_batch(sums, program_stats(p), &input);
    return status;
}

static void show_progress(const Session *s, int64_t batches, double start_s, double *shown_s)
{
    const int64_t all = dataset_images(s->val);
    const int64_t done = batches * s->plan.batch * s->comm->world;
    const Units *u = units_of(s->config);
    if (s->config->log.format != LOG_FORMAT_LINE || done >= all || !log_progress_due(shown_s))
        return;
    StrBuf left = { 0 };
    const double rate = (double)done / (*shown_s - start_s);
    str_add_duration(&left, (double)(all - done) / rate);
    if (!left.failed)
        log_progress("evaluating: %lld of %lld %s, %.1f %s, %s left", (long long)done,
                     (long long)all, u->many, rate, u->rate, left.text);
    str_free(&left);
}

/* Agreed on every few batches, of which all ranks have as many. status: that of getting ready. */
static Status evaluate_batches(Session *s, double sums[SUM_COUNT], Details *details, Status status)
{
    bool more = true;
    const double start_s = clock_s();
    double shown_s = start_s;
    for (int64_t batches = 1; more; batches++) {
        if (status == OK) status = evaluate_batch(s, sums, details, &more);
        if (status == OK) show_progress(s, batches, start_s, &shown_s);
        if (status == OK && more && batches % AGREE_BATCHES != 0) continue;
        if (status == OK && more && signals_stop_requested())
            status = fail(ERR_STOPPED, "stopped on request during an evaluation; run the same "
                                       "command to repeat it and continue");
        TRY(comm_agree(s->comm, status));
    }
    return OK;
}

/* Agreed. */
static Status evaluate_share(Session *s, double sums[SUM_COUNT], Details *details)
{
    Loader *loader = NULL;
    LoaderOptions options = session_loader_options(s, DATA_VAL);
    prefetch_loader_options(s->eval_input, &options);
    Status status = loader_create(&loader, s->val, &options);
    if (status == OK) status = prefetch_attach(s->eval_input, loader);
    status = evaluate_batches(s, sums, details, status);
    Status detached = loader ? prefetch_attach(s->eval_input, NULL) : OK;
    loader_destroy(loader);
    return status == OK ? comm_agree(s->comm, detached) : status;
}

static Status evaluate_all(Session *s, EvalResult *out, Details *details)
{
    double sums[SUM_COUNT] = { 0 };
    TRY(evaluate_share(s, sums, details));
    comm_allreduce(s->comm, sums, SUM_COUNT, COMM_F64, COMM_SUM, "evaluation sums");
    if (details->images)
        comm_allreduce(s->comm, details->images,
                       (size_t)dataset_images(s->val) * sizeof *details->images / sizeof(double),
                       COMM_F64, COMM_SUM, "evaluated images");
    if (details->scores)
        TRY(ranking_of_classes(details->ap, s->comm, s->val, details->scores, s->classes));
    const bool masked = config_is_masked(s->config);
    const double images = sums[SUM_DECODED] + sums[SUM_BAD],
                 given = masked ? sums[SUM_MASKED] : sums[SUM_DECODED];
    if ((int64_t)images != dataset_images(s->val) || sums[SUM_WEIGHT] != given) /* on all ranks */
        return fail(ERR_INTERNAL, "evaluation counted %.0f of %lld samples, %.0f of %.0f labels",
                    images, (long long)dataset_images(s->val), sums[SUM_WEIGHT], given);
    /* an image that cannot be decoded counts as wrong; of masked words only they count */
    const double judged = masked ? sums[SUM_WEIGHT] : images;
    *out = (EvalResult){ .map = (double)NAN,
                         .images = (int64_t)images,
                         .bad = (int64_t)sums[SUM_BAD],
                         .loss = sums[SUM_LOSS] / sums[SUM_WEIGHT],
                         .top1 = details->scores ? (double)NAN : sums[SUM_TOP1] / judged,
                         .top5 = details->scores ? (double)NAN : sums[SUM_TOP5] / judged,
                         .tokens = (int64_t)sums[SUM_TOKENS],
                         .masked = (int64_t)sums[SUM_MASKED] };
    if (details->scores) out->map = ranking_mean(details->ap, s->classes, &out->map_classes);
    return OK;
}

static void free_details(Details *d, const double *ap)
{
    mem_free(d->logits);
    mem_free(d->labels);
    mem_free(d->scores);
    if (!ap) mem_free(d->ap);
}

/* images, ap: NULL where nobody asks for them. */
static Status evaluate_with(Session *s, EvalResult *out, EvalImage *images, double *ap)
{
    const bool multi = s->config->data.labels == LABELS_MULTI;
    const int64_t rows =
        program_tensor(s->eval, graph_logits(program_graph(s->eval)))->desc.dims[0];
    const int64_t count = dataset_images(s->val), rank = s->comm->rank, world = s->comm->world;
    const size_t classes = (size_t)s->classes;
    Details d = { .images = images,
                  .ap = ap,
                  .first = count * rank / world, /* the loader's share of this rank */
                  .end = count * (rank + 1) / world };
    bool made = true;
    d.next = d.first;
    if (images || multi) {
        d.logits = mem_alloc((size_t)rows * classes * sizeof *d.logits);
        d.labels = mem_alloc((size_t)rows * sizeof *d.labels);
        made = d.logits && d.labels;
    }
    if (multi) {
        d.scores = mem_alloc(((size_t)(d.end - d.first) * classes + 1) * sizeof *d.scores);
        if (!ap) d.ap = mem_calloc(classes, sizeof *d.ap);
        made = made && d.scores && d.ap;
    }
    Status status = comm_agree(s->comm, made ? OK : ERR_MEMORY);
    if (status == OK) status = evaluate_all(s, out, &d);
    free_details(&d, ap);
    return status;
}

Status evaluate(Session *s, EvalResult *out)
{
    return evaluate_with(s, out, NULL, NULL);
}

Status evaluate_classes(Session *s, EvalResult *out, double *ap)
{
    return evaluate_with(s, out, NULL, ap);
}

EvalRecord evaluate_record(const Session *s, const EvalResult *r)
{
    return (EvalRecord){ .images = r->images,
                         .classes = s->classes,
                         .loss = r->loss,
                         .top1 = r->top1,
                         .top5 = r->top5,
                         .map = r->map,
                         .map_classes = r->map_classes,
                         .multi = s->config->data.labels == LABELS_MULTI,
                         .ema_loss = (double)NAN,
                         .ema_top1 = (double)NAN,
                         .ema_top5 = (double)NAN,
                         .ema_map = (double)NAN,
                         .text = config_is_text(s->config),
                         .masks = config_is_masked(s->config),
                         .tokens = r->tokens,
                         .masked = (double)r->masked / (double)r->tokens,
                         .ppl = exp(r->loss) };
}

void evaluate_add_ema(EvalRecord *e, const EvalResult *r)
{
    e->has_ema = true;
    e->ema_loss = r->loss;
    e->ema_top1 = r->top1;
    e->ema_top5 = r->top5;
    e->ema_map = r->map;
}

Status evaluate_images(Session *s, EvalResult *out, EvalImage *images)
{
    const int64_t count = dataset_images(s->val);
    memset(images, 0, (size_t)count * sizeof *images);
    const Status status = evaluate_with(s, out, images, NULL);
    for (int64_t i = 0; i < count; i++) images[i].predicted -= 1;
    return status;
}
