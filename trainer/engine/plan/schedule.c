/* schedule.c - see schedule.h. One function per shape, in a table indexed by the config's names. */
#include "trainer/engine/plan/schedule.h"
#include "base/log.h"
#include <math.h>

static const double pi = 3.14159265358979323846;

static double epochs_before(const Schedule *s, double step)
{
    return (double)train_plan_images(&s->plan, (int64_t)step) / (double)s->plan.images;
}

static double lr_cosine(const Schedule *s, double done, double step)
{
    (void)step;
    return s->min_lr + (s->peak_lr - s->min_lr) * 0.5 * (1 + cos(pi * done));
}

static double lr_step(const Schedule *s, double done, double step)
{
    (void)done;
    double lr = s->peak_lr, epoch = epochs_before(s, step);
    for (int i = 0; i < s->milestones.count; i++) {
        if (epoch >= s->milestones.values[i]) lr *= s->gamma;
    }
    return lr > s->min_lr ? lr : s->min_lr;
}

static double lr_poly(const Schedule *s, double done, double step)
{
    (void)step;
    return s->min_lr + (s->peak_lr - s->min_lr) * pow(1 - done, s->power);
}

static double lr_triangular(const Schedule *s, double done, double step)
{
    (void)step;
    return s->min_lr + (s->peak_lr - s->min_lr) * (1 - done);
}

/* A stair begins with the first step at which its epochs are complete, to rounding. */
static double lr_exponential(const Schedule *s, double done, double step)
{
    (void)done;
    double stairs = floor(epochs_before(s, step) / s->decay_epochs + 1e-9);
    return fmax(s->min_lr, s->peak_lr * pow(s->gamma, stairs));
}

static double lr_constant(const Schedule *s, double done, double step)
{
    (void)done;
    (void)step;
    return s->peak_lr;
}

typedef double (*LrFunction)(const Schedule *s, double done, double step);
static const LrFunction shapes[SCHEDULE_SHAPE_COUNT] = {
    [SCHEDULE_COSINE] = lr_cosine,
    [SCHEDULE_STEP] = lr_step,
    [SCHEDULE_POLY] = lr_poly,
    [SCHEDULE_CONSTANT] = lr_constant,
    [SCHEDULE_EXPONENTIAL] = lr_exponential,
    [SCHEDULE_TRIANGULAR] = lr_triangular,
};

static double warmup_lr(const Schedule *s, double step)
{
    if (s->warmup_lr < 0) return s->peak_lr * fmin(1, (step + 1) / s->warmup_steps);
    return s->warmup_lr + (s->peak_lr - s->warmup_lr) * step / s->warmup_steps;
}

double schedule_lr(const Schedule *s, int64_t step)
{
    double at = (double)step;
    if (at < s->warmup_steps) return warmup_lr(s, at);
    double done = s->decay_steps > 0 ? fmin(1, (at - s->decay_start) / s->decay_steps) : 1;
    return shapes[s->name](s, done, at);
}

/* What lr_scaling makes of optimizer.lr. */
static double scaled_lr(double lr, LrScaling lr_scaling, int64_t global_batch, int world)
{
    switch (lr_scaling) {
    case LR_LINEAR:
        return lr * (double)global_batch / 256;
    case LR_SQRT:
        return lr * sqrt((double)global_batch / 256);
    case LR_WORLD_SIZE:
        return lr * world;
    case LR_NONE:
    case LR_SCALING_COUNT:
        break;
    }
    return lr;
}

static void warn_of_warmup(const Schedule *s, const char *key)
{
    const int64_t total_steps = s->plan.total_steps;
    if (s->warmup_steps <= 0 || s->warmup_steps < s->total_steps) return;
    log_warning("%s: the warm-up (%.0f steps) is as long as the run (%lld) or longer; the learning "
                "rate reaches only %g of %g",
                key, s->warmup_steps, (long long)total_steps,
                schedule_lr(s, total_steps > 0 ? total_steps - 1 : 0), s->peak_lr);
}

Schedule schedule_from_config(const Config *c, const TrainPlan *plan, int world)
{
    Schedule s = { .name = c->schedule.name,
                   .min_lr = c->schedule.min_lr,
                   .power = c->schedule.power,
                   .gamma = c->schedule.gamma,
                   .decay_epochs = c->schedule.decay_epochs,
                   .milestones = c->schedule.milestones,
                   .warmup_lr = c->schedule.warmup_lr,
                   .total_steps = (double)plan->total_steps,
                   .plan = *plan };
    const bool by_steps = c->schedule.warmup_steps > 0;
    s.peak_lr = scaled_lr(c->optimizer.lr, c->optimizer.lr_scaling, plan->global_batch, world);
    s.warmup_steps = by_steps ? (double)c->schedule.warmup_steps
                              : train_plan_steps(plan, c->schedule.warmup_epochs);
    s.decay_start = c->schedule.decay_from == DECAY_FROM_START ? 0 : s.warmup_steps;
    s.decay_steps = c->schedule.decay_steps > 0 ? (double)c->schedule.decay_steps
                                                : s.total_steps - s.decay_start;
    warn_of_warmup(&s, by_steps ? "schedule.warmup_steps" : "schedule.warmup_epochs");
    return s;
}
