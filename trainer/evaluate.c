/* evaluate.c - see evaluate.h. The loader gives every rank the same number of batches and pads with label -1; a padded
 * place counts nowhere. */
#include "trainer/evaluate.h"

enum { SUM_LOSS, SUM_TOP1, SUM_TOP5, SUM_DECODED, SUM_BAD, SUM_COUNT };

static void add_batch(double sums[SUM_COUNT], const double *stats, int64_t bad)
{
    sums[SUM_LOSS] += stats[STATS_LOSS_SUM];
    sums[SUM_TOP1] += stats[STATS_TOP1];
    sums[SUM_TOP5] += stats[STATS_TOP5];
    sums[SUM_DECODED] += stats[STATS_IMAGES];
    sums[SUM_BAD] += (double)bad;
}

static Status evaluate_batch(Session *s, double sums[SUM_COUNT], bool *more)
{
    PrefetchInput input;
    Event *end;
    double wait_s = 0;
    TRY(prefetch_next(s->eval_input, &input, more, &wait_s));
    if (!*more) return OK;
    RunOptions o = { .slot = input.slot, .images = input.images, .labels = input.labels };
    Status status = executor_issue(s->executor, s->eval, &o);
    Status done = prefetch_done(s->eval_input);
    if (status == OK) status = done;
    if (status == OK) status = prefetch_mark(s->eval_input, &end);
    if (status == OK) status = prefetch_wait(s->eval_input);
    comm_beat(s->comm);
    if (status == OK) add_batch(sums, program_stats(s->eval), input.bad);
    return status;
}

static Status evaluate_share(Session *s, double sums[SUM_COUNT])
{
    Loader *loader;
    LoaderOptions options = session_loader_options(s, DATA_VAL);
    prefetch_loader_options(s->eval_input, &options);
    TRY(loader_create(&loader, s->val, &options));
    bool more = true;
    Status status = prefetch_attach(s->eval_input, loader);
    while (more && status == OK) status = evaluate_batch(s, sums, &more);
    Status detached = prefetch_attach(s->eval_input, NULL);
    loader_destroy(loader);
    return status == OK ? detached : status;
}

Status evaluate(Session *s, EvalResult *out)
{
    double sums[SUM_COUNT] = { 0 };
    TRY(comm_agree(s->comm, evaluate_share(s, sums)));
    comm_allreduce(s->comm, sums, SUM_COUNT, COMM_F64, COMM_SUM, "evaluation sums");
    double images = sums[SUM_DECODED] + sums[SUM_BAD];
    if ((int64_t)images != dataset_images(s->val)) { /* the same on all ranks */
        return fail(ERR_INTERNAL, "evaluation counted %.0f of %lld images", images, (long long)dataset_images(s->val));
    }
    *out = (EvalResult){ .images = (int64_t)images,
                         .bad = (int64_t)sums[SUM_BAD],
                         .loss = sums[SUM_LOSS] / sums[SUM_DECODED],
                         .top1 = sums[SUM_TOP1] / images,
                         .top5 = sums[SUM_TOP5] / images };
    return OK;
}
