/* loop_divergence.c - see loop_divergence.h. */
#include "trainer/engine/train/loop_divergence.h"
#include "base/log.h"
#include "trainer/engine/train/loop_checkpoint.h"
#include <math.h>
#include <stdio.h>

static bool loss_is_bad(const StepResult *r)
{
    return !r->unmasked && !isfinite(r->loss);
}

/* What of a step is no finite number; NULL: all is well. Gradients that are not finite are an
 * ordinary step where the loss is scaled: it is skipped and shrinks the scale, to a limit. */
static const char *symptom(const StepResult *r)
{
    const OptimizerResult *o = &r->optimizer;
    if (r->failed) return NULL;
    if (loss_is_bad(r)) return "the loss";
    if (o->exhausted) return "gradients stay infinite, and the loss scale";
    return o->loss_scale <= 0 && o->measured && !isfinite(o->grad_norm)
               ? "the norm of the gradients"
               : NULL;
}

bool loop_divergence_in(const StepResult *r)
{
    return symptom(r) != NULL;
}

/* The lowest rank whose own images gave the bad loss looks, since its parameters may be as they
 * were then; where there is none, rank 0. */
static Status find_tensor(Loop *l, bool here)
{
    const Session *s = l->s;
    int64_t looks = here ? s->comm->rank : s->comm->world;
    Status status = OK;
    comm_allreduce(s->comm, &looks, 1, COMM_I64, COMM_MIN, "divergence");
    if (looks == s->comm->world) looks = 0;
    if (looks == s->comm->rank) status = train_state_find_bad(s->executor, l->divergence.tensor);
    comm_broadcast(s->comm, l->divergence.tensor, sizeof l->divergence.tensor, (int)looks,
                   "divergence");
    return comm_agree(s->comm, status);
}

Status loop_divergence_end(Loop *l, const StepResult *r)
{
    l->divergence.steps = r->step + 1;
    l->divergence.symptom = symptom(r);
    l->divergence.value = loss_is_bad(r)           ? r->loss
                          : r->optimizer.exhausted ? r->optimizer.loss_scale
                                                   : r->optimizer.grad_norm;
    l->divergence.loss = r->loss;
    TRY(find_tensor(l, r->diverged_here));
    return fail(ERR_DIVERGED, "step %lld: training has diverged", (long long)l->divergence.steps);
}

Status loop_divergence_check(Loop *l, int64_t steps)
{
    TRY(find_tensor(l, false));
    if (l->divergence.tensor[0] == '\0') return OK;
    l->divergence.steps = steps;
    l->divergence.symptom = NULL;
    return fail(ERR_DIVERGED, "step %lld: training has diverged", (long long)steps);
}

static void describe(const Loop *l, char *out, size_t bytes)
{
    const char *tensor = l->divergence.tensor, *symptom = l->divergence.symptom;
    int n =
        snprintf(out, bytes, "step %lld: training has diverged: ", (long long)l->divergence.steps);
    if (!symptom) snprintf(out + n, bytes - (size_t)n, "%s is not finite", tensor);
    else
        snprintf(out + n, bytes - (size_t)n, "%s is %g; %s%s", symptom, l->divergence.value,
                 tensor[0] ? "the first tensor that is not finite is "
                           : "parameters and statistics are still finite",
                 tensor);
}

/* Where to go back to: the newest checkpoint. Where that was done before and did not get the run
 * past the place, the one before: what was saved shortly ahead of an infinity may be lost
 * already. */
static int64_t limit_of_steps(const Loop *l)
{
    const int64_t at = l->divergence.steps + l->start.step_offset;
    const bool past = l->rollback.count == 0 || at > l->rollback.diverged;
    return past ? INT64_MAX - 1 : l->rollback.to > 0 ? l->rollback.to : 1;
}

static Status record(Loop *l, int64_t count, double lr_factor)
{
    const DivergedRecord r = { .step = l->divergence.steps,
                               .loss = l->divergence.loss,
                               .tensor = l->divergence.tensor,
                               .lr_factor = lr_factor,
                               .rollbacks = count,
                               .then = count > l->rollback.count ? "rollback" : "stop" };
    return comm_agree(l->s->comm, run_events_record(l->events, RECORD_DIVERGED, &r));
}

Status loop_divergence_go_back(Loop *l)
{
    char what[512];
    const Config *c = l->s->config;
    const bool allowed = c->train.on_nan == ON_NAN_ROLLBACK,
               back = allowed && l->rollback.count < c->train.rollback_limit;
    const double lr_factor = l->rollback.lr_factor * (back ? c->train.rollback_lr : 1);
    const int64_t count = l->rollback.count + back;
    describe(l, what, sizeof what);
    TRY(record(l, count, lr_factor));
    if (!allowed)
        return fail(ERR_DIVERGED,
                    "%s; checkpoints are from before that; try a lower optimizer.lr, a longer "
                    "warm-up, optimizer.clip_norm or train.on_nan=rollback",
                    what);
    if (!back)
        return fail(ERR_DIVERGED,
                    "%s; it was already rolled back %lld times (train.rollback_limit)", what,
                    (long long)count);
    if (loop_is_main(l))
        log_warning("%s; rollback %lld of at most %lld, with %g of the learning rate", what,
                    (long long)count, (long long)c->train.rollback_limit, lr_factor);
    return loop_checkpoint_go_back(l, limit_of_steps(l), lr_factor);
}
