/* train_plan.c - see train_plan.h. Positions in the training stream are counted in images, so that
 * nothing here depends on rounding twice. */
#include "trainer/config/train_plan.h"
#include <math.h>

/* Both passes of a step read its images, which lie in one batch slot. */
static Status check_passes(const TrainPlan *p, const Config *c)
{
    if (c->optimizer.sam_rho <= 0 || p->accumulate == 1) return OK;
    return fail(
        ERR_USAGE,
        "optimizer.sam_rho: a step would be %lld micro-batches, and both of its passes need "
        "all images at once; make train.accumulate 1%s",
        (long long)p->accumulate,
        c->train.batch_mode == BATCH_GLOBAL
            ? ", with train.batch_per_rank at least a rank's share of train.global_batch"
            : "");
}

Status train_plan_check_norms(const Config *c, int world)
{
    if (c->model.bn_group == 0 || world % c->model.bn_group == 0) return OK;
    return fail(ERR_USAGE, "model.bn_group: %lld ranks a group do not divide %d ranks",
                (long long)c->model.bn_group, world);
}

static Status global_mode(TrainPlan *p, const Config *c, int world)
{
    int64_t global = c->train.global_batch, limit = c->train.batch_per_rank;
    if (global % world != 0) {
        return fail(ERR_USAGE, "train.global_batch: %lld is not divisible by %d ranks",
                    (long long)global, world);
    }
    int64_t share = global / world;
    int64_t accumulate = c->train.accumulate;
    while (accumulate <= share && (share % accumulate != 0 || share / accumulate > limit))
        accumulate++;
    if (accumulate > share) {
        return fail(ERR_USAGE,
                    "train.accumulate: %lld micro-batches are more than the %lld images a rank has "
                    "per step",
                    (long long)c->train.accumulate, (long long)share);
    }
    p->accumulate = accumulate;
    p->batch = share / accumulate;
    return OK;
}

Status train_plan_make(TrainPlan *out, const Config *c, int world, int64_t images)
{
    TrainPlan p = { .images = images,
                    .batch = c->train.batch_per_rank,
                    .accumulate = c->train.accumulate };
    if (c->train.batch_mode == BATCH_GLOBAL) TRY(global_mode(&p, c, world));
    TRY(check_passes(&p, c));
    p.global_batch = p.batch * p.accumulate * world;
    if (p.global_batch > images) {
        return fail(
            ERR_USAGE,
            "%s: a global batch of %lld images is larger than the dataset of %lld images%s%s",
            c->train.batch_mode == BATCH_GLOBAL ? "train.global_batch" : "train.batch_per_rank",
            (long long)p.global_batch, (long long)images, c->data.train[0] ? " in " : "",
            c->data.train);
    }
    p.total_steps = (int64_t)ceil(c->train.epochs * (double)images / (double)p.global_batch - 1e-9);
    if (p.total_steps < 1) p.total_steps = 1;
    if (c->train.max_steps > 0 && p.total_steps > c->train.max_steps)
        p.total_steps = c->train.max_steps;
    *out = p;
    return OK;
}

int64_t train_plan_epoch(const TrainPlan *p, int64_t steps)
{
    return steps * p->global_batch / p->images;
}

bool train_plan_due(const TrainPlan *p, int64_t step, double every_epochs)
{
    if (every_epochs <= 0) return false;
    double period = every_epochs * (double)p->images, batch = (double)p->global_batch;
    return floor((double)(step + 1) * batch / period + 1e-9) >
           floor((double)step * batch / period + 1e-9);
}
