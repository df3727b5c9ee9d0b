/* schedule.c - see schedule.h. One function per shape, in a table indexed by the config's names. */
#include "trainer/config/schedule.h"
#include "base/log.h"
#include <math.h>

static const double pi = 3.14159265358979323846;

static double lr_cosine(const Schedule *s, double done, double step)
{
    (void)step;
    return s->min_lr + (s->peak_lr - s->min_lr) * 0.5 * (1 + cos(pi * done));
}

static double lr_step(const Schedule *s, double done, double step)
{
    (void)done;
    double lr = s->peak_lr, epoch = step / s->steps_per_epoch;
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
};

double schedule_lr(const Schedule *s, int64_t step)
{
    double at = (double)step;
    if (at < s->warmup_steps) return s->peak_lr * fmin(1, (at + 1) / s->warmup_steps);
    double length = s->total_steps - s->warmup_steps;
    double done = length > 0 ? fmin(1, (at - s->warmup_steps) / length) : 1;
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

Schedule schedule_from_config(const Config *c, int64_t global_batch, int world,
                              int64_t dataset_images, int64_t total_steps)
{
    Schedule s = { .name = c->schedule.name,
                   .min_lr = c->schedule.min_lr,
                   .power = c->schedule.power,
                   .gamma = c->schedule.gamma,
                   .milestones = c->schedule.milestones,
                   .total_steps = (double)total_steps };
    s.peak_lr = scaled_lr(c->optimizer.lr, c->optimizer.lr_scaling, global_batch, world);
    s.steps_per_epoch = (double)dataset_images / (double)global_batch;
    s.warmup_steps = c->schedule.warmup_epochs * s.steps_per_epoch;
    if (s.warmup_steps > 0 && s.warmup_steps >= s.total_steps) {
        log_warning(
            "schedule.warmup_epochs: warm-up of %.0f steps is no shorter than the run of %lld "
            "steps; the learning rate never passes %g of %g",
            s.warmup_steps, (long long)total_steps,
            schedule_lr(&s, total_steps > 0 ? total_steps - 1 : 0), s.peak_lr);
    }
    return s;
}
