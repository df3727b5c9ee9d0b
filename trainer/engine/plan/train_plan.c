/* train_plan.c - see train_plan.h. Positions in the training stream are counted in images, so that
 * nothing here depends on rounding twice. */
#include "trainer/engine/plan/train_plan.h"
#include "trainer/engine/config/units.h"
#include <math.h>

/* Both passes of a step read its images, which lie in one batch slot. */
static Status check_passes(const TrainPlan *p, const Config *c)
{
    int64_t least, most;
    train_plan_micros(p, &least, &most);
    if (c->optimizer.sam_rho <= 0 || most == 1) return OK;
    return fail(ERR_USAGE,
                "optimizer.sam_rho: a step would be %lld micro-batches, but both passes need all "
                "%s at once; set train.accumulate to 1%s",
                (long long)most, units_of(c)->many,
                c->train.batch_mode == BATCH_GLOBAL
                    ? ", and train.batch_per_rank to at least a rank's share of train.global_batch"
                    : "");
}

Status train_plan_check_norms(const Config *c, int world)
{
    if (c->model.bn_group == 0 || world % c->model.bn_group == 0) return OK;
    return fail(ERR_USAGE, "model.bn_group: %d ranks cannot be divided into groups of %lld", world,
                (long long)c->model.bn_group);
}

static Status global_mode(TrainPlan *p, const Config *c, int world)
{
    int64_t global = c->train.global_batch, limit = c->train.batch_per_rank;
    if (global % world != 0) {
        return fail(ERR_USAGE, "train.global_batch: %lld is not divisible by %d ranks",
                    (long long)global, world);
    }
    int64_t share = global / world;
    int64_t accumulate = (int64_t)c->train.accumulate.values[0];
    while (accumulate <= share && (share % accumulate != 0 || share / accumulate > limit))
        accumulate++;
    if (accumulate > share) {
        return fail(
            ERR_USAGE,
            "train.accumulate: %lld micro-batches are more than the %lld %s per rank and step",
            (long long)c->train.accumulate.values[0], (long long)share, units_of(c)->many);
    }
    p->accumulate = accumulate;
    p->batch = share / accumulate;
    return OK;
}

static Status check_batch(const TrainPlan *p, const Config *c, int64_t global_batch,
                          int64_t accumulate)
{
    const char *place = c->data.format == DATA_SYNTHETIC ? "data.synthetic_images" : c->data.train;
    const char *many = units_of(c)->many;
    const int64_t views = c->data.repeated_augmentation;
    if (global_batch % views != 0)
        return fail(ERR_USAGE,
                    "data.repeated_augmentation: a global batch of %lld images (train.accumulate: "
                    "%lld) cannot hold %lld views each",
                    (long long)global_batch, (long long)accumulate, (long long)views);
    if (global_batch <= p->images) return OK;
    return fail(
        ERR_USAGE, "%s: a global batch of %lld %s is larger than the dataset of %lld %s%s%s",
        c->train.batch_mode == BATCH_GLOBAL ? "train.global_batch" : "train.batch_per_rank",
        (long long)global_batch, many, (long long)p->images, many, place[0] ? " in " : "", place);
}

/* Equal neighbours are one phase. */
static Status add_phases(TrainPlan *p, const Config *c, int world)
{
    const ConfigList *list = &c->train.accumulate;
    for (int i = 0; i < list->count && list->count > 1; i++) {
        TrainPhase phase = { .accumulate = (int64_t)list->values[i] };
        phase.global_batch = p->batch * phase.accumulate * world;
        TRY(check_batch(p, c, phase.global_batch, phase.accumulate));
        if (i > 0 && list->values[i] == list->values[i - 1]) continue;
        phase.first_step = i > 0 ? train_plan_step_at(p, i * p->images) : 0;
        phase.first_image = train_plan_images(p, phase.first_step);
        p->phases[p->phase_count++] = phase;
    }
    return OK;
}

Status train_plan_make(TrainPlan *out, const Config *c, int world, int64_t images)
{
    TrainPlan p = { .images = images,
                    .batch = c->train.batch_per_rank,
                    .accumulate = (int64_t)c->train.accumulate.values[0] };
    if (c->train.batch_mode == BATCH_GLOBAL) TRY(global_mode(&p, c, world));
    p.global_batch = p.batch * p.accumulate * world;
    TRY(check_batch(&p, c, p.global_batch, p.accumulate));
    TRY(add_phases(&p, c, world));
    TRY(check_passes(&p, c));
    p.total_steps = (int64_t)ceil(train_plan_steps(&p, c->train.epochs) - 1e-9);
    if (p.total_steps < 1) p.total_steps = 1;
    if (c->train.max_steps > 0 && p.total_steps > c->train.max_steps)
        p.total_steps = c->train.max_steps;
    *out = p;
    return OK;
}

/* ---- phases ---- */

/* The last one whose first step, or first image, is not behind that; *end: of the next one. */
static TrainPhase phase_at(const TrainPlan *p, double step, double image, int64_t *end)
{
    TrainPhase at = { .accumulate = p->accumulate, .global_batch = p->global_batch };
    *end = p->total_steps;
    for (int i = 0; i < p->phase_count; i++) {
        const TrainPhase *next = &p->phases[i];
        if ((double)next->first_step > step || (double)next->first_image > image) {
            if (next->first_step < *end) *end = next->first_step;
            break;
        }
        at = *next;
    }
    return at;
}

void train_plan_enter(TrainPlan *p, int64_t step)
{
    int64_t end;
    const TrainPhase at = phase_at(p, (double)step, INFINITY, &end);
    p->accumulate = at.accumulate;
    p->global_batch = at.global_batch;
}

int64_t train_plan_phase_end(const TrainPlan *p, int64_t step)
{
    int64_t end;
    (void)phase_at(p, (double)step, INFINITY, &end);
    return end;
}

void train_plan_micros(const TrainPlan *p, int64_t *least, int64_t *most)
{
    *least = *most = p->accumulate;
    for (int i = 0; i < p->phase_count; i++) {
        const int64_t micros = p->phases[i].accumulate;
        if (micros < *least) *least = micros;
        if (micros > *most) *most = micros;
    }
}

/* ---- positions ---- */

int64_t train_plan_images(const TrainPlan *p, int64_t steps)
{
    int64_t end;
    const TrainPhase at = phase_at(p, (double)steps, INFINITY, &end);
    return at.first_image + (steps - at.first_step) * at.global_batch;
}

int64_t train_plan_step_at(const TrainPlan *p, int64_t image)
{
    int64_t end;
    const TrainPhase at = phase_at(p, INFINITY, (double)image, &end);
    return at.first_step + (image - at.first_image + at.global_batch - 1) / at.global_batch;
}

double train_plan_steps(const TrainPlan *p, double epochs)
{
    int64_t end;
    const double image = epochs * (double)p->images;
    const TrainPhase at = phase_at(p, INFINITY, image, &end);
    return (double)at.first_step + (image - (double)at.first_image) / (double)at.global_batch;
}

int64_t train_plan_epoch(const TrainPlan *p, int64_t steps)
{
    return train_plan_images(p, steps) / p->images;
}

bool train_plan_due(const TrainPlan *p, int64_t step, double every_epochs)
{
    if (every_epochs <= 0) return false;
    const double period = every_epochs * (double)p->images;
    return floor((double)train_plan_images(p, step + 1) / period + 1e-9) >
           floor((double)train_plan_images(p, step) / period + 1e-9);
}

Status train_plan_check_turns(const Config *c, const TrainPlan *p, bool evaluates)
{
    const bool averages = c->ema.decay > 0 || c->ema.half_life > 0;
    if (averages && !evaluates)
        return fail(ERR_USAGE, "%s: the averaged weights would never be evaluated; set data.val",
                    c->ema.decay > 0 ? "ema.decay" : "ema.half_life");
    if (averages && c->ema.every > p->total_steps)
        return fail(ERR_USAGE,
                    "ema.every: %lld steps, but the run has %lld; the average would remain the "
                    "initial weights",
                    (long long)c->ema.every, (long long)p->total_steps);
    if (c->optimizer.lookahead == LOOKAHEAD_AIRBENCH &&
        c->optimizer.lookahead_steps > p->total_steps)
        return fail(ERR_USAGE,
                    "optimizer.lookahead_steps: %lld steps, but the run has %lld; it would end "
                    "with the initial weights",
                    (long long)c->optimizer.lookahead_steps, (long long)p->total_steps);
    if (c->train.patience > 0 && !evaluates)
        return fail(ERR_USAGE,
                    "train.patience requires evaluations; set data.val or data.val_split");
    if (c->train.patience > 0 && c->train.eval_every == 0)
        return fail(ERR_USAGE, "train.patience counts evaluations, but with train.eval_every: 0 "
                               "there is only one, at the end");
    return OK;
}
