/* evaluate.c - see evaluate.h. The loader gives every rank the same number of batches and pads with
 * label -1; a padded place counts nowhere. */
#include "trainer/engine/train/evaluate.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/engine/config/units.h"
#include "trainer/engine/guard/signals.h"
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
    int64_t next, end; /* positions of this rank that are not yet read */
    float *logits;     /* of a batch, all views */
    int32_t *labels;
} Details;

/* The logits of an image are the mean of those of its views, and the first of the largest says the
 * class, counted from 1 so that 0 is none. */
static EvalImage judge(float *logits, int64_t classes, int64_t view_stride, int views,
                       int32_t label)
{
    int64_t best = -1;
    double sum = 0;
    for (int64_t c = 0; c < classes; c++) {
        float mean = 0;
        for (int v = 0; v < views; v++)
            mean += op_input_view_weight(views, v) * logits[c + v * view_stride];
        logits[c] = mean;
        if (mean > (best < 0 ? -INFINITY : logits[best])) best = c;
    }
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
    for (int64_t n = 0; n < batch && d->next < d->end; n++, d->next++)
        if (d->labels[n] >= 0)
            d->images[d->next] = judge(d->logits + n * classes, classes, batch * classes,
                                       (int)(logits->desc.dims[0] / batch), d->labels[n]);
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
    if (status == OK && details->images) status = executor_wait(s->executor);
    if (status == OK && details->images) status = add_details(s, p, &input, details);
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
    const bool masked = config_is_masked(s->config);
    const double images = sums[SUM_DECODED] + sums[SUM_BAD],
                 given = masked ? sums[SUM_MASKED] : sums[SUM_DECODED];
    if ((int64_t)images != dataset_images(s->val) || sums[SUM_WEIGHT] != given) /* on all ranks */
        return fail(ERR_INTERNAL, "evaluation counted %.0f of %lld samples, %.0f of %.0f labels",
                    images, (long long)dataset_images(s->val), sums[SUM_WEIGHT], given);
    /* an image that cannot be decoded counts as wrong; of masked words only they count */
    const double judged = masked ? sums[SUM_WEIGHT] : images;
    *out = (EvalResult){ .images = (int64_t)images,
                         .bad = (int64_t)sums[SUM_BAD],
                         .loss = sums[SUM_LOSS] / sums[SUM_WEIGHT],
                         .top1 = sums[SUM_TOP1] / judged,
                         .top5 = sums[SUM_TOP5] / judged,
                         .tokens = (int64_t)sums[SUM_TOKENS],
                         .masked = (int64_t)sums[SUM_MASKED] };
    return OK;
}

Status evaluate(Session *s, EvalResult *out)
{
    Details none = { .images = NULL };
    return evaluate_all(s, out, &none);
}

EvalRecord evaluate_record(const Session *s, const EvalResult *r)
{
    return (EvalRecord){ .images = r->images,
                         .classes = s->classes,
                         .loss = r->loss,
                         .top1 = r->top1,
                         .top5 = r->top5,
                         .text = config_is_text(s->config),
                         .masks = config_is_masked(s->config),
                         .tokens = r->tokens,
                         .masked = (double)r->masked / (double)r->tokens,
                         .ppl = exp(r->loss) };
}

Status evaluate_images(Session *s, EvalResult *out, EvalImage *images)
{
    const int64_t rows =
        program_tensor(s->eval, graph_logits(program_graph(s->eval)))->desc.dims[0];
    const int64_t count = dataset_images(s->val), rank = s->comm->rank, world = s->comm->world;
    Details d = { .images = images,
                  .next = count * rank / world, /* the loader's share of this rank */
                  .end = count * (rank + 1) / world,
                  .logits = mem_alloc((size_t)(rows * s->classes) * sizeof(float)),
                  .labels = mem_alloc((size_t)rows * sizeof(int32_t)) };
    memset(images, 0, (size_t)count * sizeof *images);
    Status status = comm_agree(s->comm, d.logits && d.labels ? OK : ERR_MEMORY);
    if (status == OK) status = evaluate_all(s, out, &d);
    for (int64_t i = 0; i < count; i++) images[i].predicted -= 1;
    mem_free(d.logits);
    mem_free(d.labels);
    return status;
}
