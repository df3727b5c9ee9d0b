/* averaging.c - see averaging.h. */
#include "trainer/config/averaging.h"
#include <math.h>
#include <stdio.h>

#define NO_TURN (-1.0)
/* timm's exponent of the warm-up, and airbench94's of Lookahead's schedule */
#define WARMUP_POWER   (2.0 / 3.0)
#define AIRBENCH_DECAY 0.95
/* the share of old weights that is too much; that a fitting decay leaves */
#define REST_MOST    0.1
#define REST_FITTING 0.01

AverageTraits averaging_traits(const Config *c, AverageKind kind)
{
    const LookaheadForm form = c->optimizer.lookahead;
    const AverageTraits traits[AVERAGE_KIND_COUNT] = {
        [AVERAGE_LOOKAHEAD] = { "lookahead.", form != LOOKAHEAD_OFF, form == LOOKAHEAD_AIRBENCH },
        [AVERAGE_EMA] = { "ema.", c->ema.decay > 0 || c->ema.half_life > 0, true },
    };
    return traits[kind];
}

static double timm_ema(const Config *c, int64_t update)
{
    const double every = (double)c->ema.every;
    double decay = c->ema.half_life > 0 ? exp2(-every / c->ema.half_life) : c->ema.decay;
    if (update % c->ema.every != 0) return NO_TURN;
    if (update <= 1) return 1;
    if (c->ema.warmup) decay = fmin(decay, 1 - pow((double)update, -WARMUP_POWER));
    return 1 - decay;
}

static double torchvision_ema(const Config *c, const TrainPlan *p, int64_t step)
{
    const int64_t epoch = train_plan_epoch(p, step),
                  first = train_plan_step_at(p, epoch * p->images),
                  batch = train_plan_images(p, step + 1) - train_plan_images(p, step);
    const double adjust = (double)(batch * c->ema.every) / c->train.epochs,
                 warmup = c->schedule.warmup_steps > 0
                              ? (double)train_plan_images(p, c->schedule.warmup_steps) /
                                    (double)p->images
                              : c->schedule.warmup_epochs;
    if ((step - first) % c->ema.every != 0) return NO_TURN;
    /* its average begins anew at each turn in the warm-up, so that the next one copies */
    if ((double)epoch < warmup || (step == first && (double)epoch < warmup + 1)) return 1;
    return fmin(1, (1 - c->ema.decay) * adjust);
}

static double lookahead(const Config *c, const TrainPlan *p, int64_t step, int64_t update)
{
    const int64_t steps = c->optimizer.lookahead_steps;
    const bool airbench = c->optimizer.lookahead == LOOKAHEAD_AIRBENCH;
    const double done = (double)(step + 1) / (double)p->total_steps;
    if (update % steps != 0) return airbench && step + 1 == p->total_steps ? 0 : NO_TURN;
    if (airbench) return 1 - pow(AIRBENCH_DECAY, (double)steps) * done * done * done;
    return update == steps ? 1 : c->optimizer.lookahead_alpha;
}

double averaging_weight(const Config *c, const TrainPlan *p, AverageKind kind, int64_t step,
                        int64_t update)
{
    if (!averaging_traits(c, kind).wanted) return NO_TURN;
    if (kind == AVERAGE_LOOKAHEAD) return lookahead(c, p, step, update);
    return c->ema.rule == EMA_TIMM ? timm_ema(c, update) : torchvision_ema(c, p, step);
}

/* ---- runs that are too short for their average ---- */

typedef struct Rest {
    double share;
    int64_t since, turns; /* the step behind which it was last a copy; turns that moved it since */
} Rest;

static Rest rest_of(const Config *c, const TrainPlan *p, AverageKind kind, int64_t from)
{
    const int64_t end = p->total_steps;
    Rest r = { .share = 2 * from <= end, .since = from };
    for (int64_t step = from; step < end && r.share > REST_MOST; step++) {
        const double w = averaging_weight(c, p, kind, step, step + 1);
        if (w >= 1) r = (Rest){ .share = 2 * (step + 1) <= end, .since = step + 1 };
        if (w <= 0 || w >= 1) continue;
        r.share *= 1 - w;
        r.turns++;
    }
    return r;
}

/* Of timm's: the nearest number below 1 with one digit behind its nines that leaves REST_FITTING.
 */
static double fitting_decay(const Rest *r)
{
    const double away = 1 - pow(REST_FITTING, 1 / fmax(1, (double)r->turns)),
                 digit = pow(10, floor(log10(away)));
    return 1 - ceil(away / digit) * digit;
}

void averaging_warn_text(StrBuf *out, const Config *c, const TrainPlan *p, AverageKind kind,
                         int64_t from)
{
    const bool ema = kind == AVERAGE_EMA, half = c->ema.half_life > 0;
    char old[64] = "the initial ones";
    if (!averaging_traits(c, kind).wanted || (!ema && c->optimizer.lookahead != LOOKAHEAD_AIRBENCH))
        return;
    const Rest r = rest_of(c, p, kind, from);
    if (r.share <= REST_MOST) return;
    if (r.since > 1) snprintf(old, sizeof old, "those of step %lld", (long long)r.since);
    str_printf(out,
               "%s: after %lld updates, at the end of the run, %.4g %% of the %s weights are still "
               "%s%s; ",
               !ema   ? "optimizer.lookahead_steps"
               : half ? "ema.half_life"
                      : "ema.decay",
               (long long)(p->total_steps - from), 100 * r.share, ema ? "averaged" : "slow", old,
               !ema          ? ", with which it ends"
               : c->ema.best ? ", and they choose the best"
                             : "");
    if (ema && !half && c->ema.rule == EMA_TIMM && !c->ema.warmup)
        str_printf(out, "ema.decay=%.10g or ema.warmup=true would do", fitting_decay(&r));
    else str_add(out, "take a smaller number");
}
