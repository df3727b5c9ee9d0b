/* averaging.c - see averaging.h. */
#include "trainer/engine/plan/averaging.h"
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

AverageRest averaging_rest(const Config *c, const TrainPlan *p, AverageKind kind, AverageRest r,
                           int64_t from, int64_t to)
{
    for (int64_t step = from; step < to; step++) {
        const double w = averaging_weight(c, p, kind, step, step + 1);
        if (w >= 1) r = (AverageRest){ .share = 1, .since = step + 1 };
        else if (w > 0) r.share *= 1 - w;
    }
    return r;
}

/* Of timm's, for this many turns: the nearest number below 1 with one digit behind its nines that
 * leaves REST_FITTING of a share. */
static double fitting_decay(double share, int64_t turns)
{
    const double away = 1 - pow(REST_FITTING / share, 1 / fmax(1, (double)turns)),
                 digit = pow(10, floor(log10(away)));
    return 1 - ceil(away / digit) * digit;
}

static void add_fitting(StrBuf *out, const Config *c, const TrainPlan *p, AverageRest then,
                        AverageRest end, int64_t from)
{
    const bool copied = end.since > from;
    const int64_t every = c->ema.every, begin = copied ? end.since : from;
    Config warm = *c;
    warm.ema.warmup = true;
    str_printf(out, "ema.decay=%.10g ",
               fitting_decay(copied ? 1 : then.share, p->total_steps / every - begin / every));
    if (averaging_rest(&warm, p, AVERAGE_EMA, then, from, p->total_steps).share <= REST_MOST)
        str_add(out, "or ema.warmup=true ");
    str_add(out, "would be enough");
}

void averaging_warn_text(StrBuf *out, const Config *c, const TrainPlan *p, AverageKind kind,
                         AverageRest then, int64_t from)
{
    const bool ema = kind == AVERAGE_EMA, half = c->ema.half_life > 0;
    const int64_t total = p->total_steps, first = 2 * c->optimizer.lookahead_steps;
    char old[64] = "the initial ones";
    if (!averaging_traits(c, kind).wanted || from >= total) return;
    if (!ema && c->optimizer.lookahead == LOOKAHEAD_TIMM) {
        if (first > total)
            str_printf(out,
                       "optimizer.lookahead_steps: lookahead starts with update %lld, but the run "
                       "has %lld",
                       (long long)first, (long long)total);
        return;
    }
    const AverageRest r = averaging_rest(c, p, kind, then, from, total);
    if (r.share <= REST_MOST || 2 * r.since > total) return;
    if (r.since > 1) snprintf(old, sizeof old, "those of step %lld", (long long)r.since);
    str_printf(out,
               "%s: after %lld updates, at the end of the run, %.4g %% of the %s weights are still "
               "%s%s; ",
               !ema   ? "optimizer.lookahead_steps"
               : half ? "ema.half_life"
                      : "ema.decay",
               (long long)(then.since > 1 ? total - then.since : total), 100 * r.share,
               ema ? "averaged" : "slow", old,
               !ema          ? ", and they are the final weights"
               : c->ema.best ? ", and they choose the best"
                             : "");
    if (ema && !half && c->ema.rule == EMA_TIMM && !c->ema.warmup)
        add_fitting(out, c, p, then, r, from);
    else str_add(out, "use a smaller number");
}
