/* evaluate.c - see evaluate.h. The loader gives every rank the same number of batches and pads with label -1; a padded
 * place counts nowhere. */
#include "trainer/evaluate.h"

enum { SUM_LOSS, SUM_TOP1, SUM_TOP5, SUM_DECODED, SUM_BAD, SUM_COUNT };

static Status evaluate_batch(Session *s, Loader *loader, double sums[SUM_COUNT], bool *more)
{
    Batch batch;
    double wait_s = 0;
    TRY(loader_next(loader, &batch, more, &wait_s));
    if (!*more) return OK;
    Status status = program_set_input(s->eval, "images", batch.images);
    if (status == OK) status = program_set_input(s->eval, "labels", batch.labels);
    if (status == OK) status = executor_run(s->executor, s->eval, NULL);
    const double *stats = program_stats(s->eval);
    sums[SUM_LOSS] += stats[STATS_LOSS_SUM];
    sums[SUM_TOP1] += stats[STATS_TOP1];
    sums[SUM_TOP5] += stats[STATS_TOP5];
    sums[SUM_DECODED] += stats[STATS_IMAGES];
    sums[SUM_BAD] += (double)batch.bad;
    loader_release(loader, &batch);
    return status;
}

static Status evaluate_share(Session *s, double sums[SUM_COUNT])
{
    Loader *loader;
    LoaderOptions options = session_loader_options(s, DATA_VAL);
    TRY(loader_create(&loader, s->val, &options));
    bool more = true;
    Status status = OK;
    while (more && status == OK) status = evaluate_batch(s, loader, sums, &more);
    loader_destroy(loader);
    return status;
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
