/* stepper_ascent.c - the first pass of a step that has two (sharpness.h), on the batch slot that the
 * second reads again. On a device both are enqueued, one behind the other; where the host sums, the
 * buckets of the first are summed and waited for here, by a reducer of their own, and the metrics of
 * both go with the second. */
#include "base/clock.h"
#include "trainer/train/stepper_internal.h"

Status stepper_ascent_create(Stepper *s)
{
    if (s->sum.by != TIMELINE_REDUCE_HOST) return OK;
    const ReducerOptions o = { .buckets = s->buckets.list,
                               .bucket_count = s->buckets.count,
                               .grads = s->sum.host
                                            ? host_reduce_grads(s->sum.host)
                                            : executor_slab(s->session->executor, SLAB_GRAD) };
    return reducer_create(&s->sum.first, s->session->comm, &o);
}

void stepper_ascent_begin(Stepper *s)
{
    if (!s->sum.first) return;
    reducer_begin(s->sum.first);
    s->sum.at_hand = s->sum.first;
}

void stepper_ascent_end(Stepper *s)
{
    Flight *f = s->flight;
    f->ascended = true;
    f->perturbed = f->result.own_status == OK;
    if (!s->sum.first) return;
    stepper_must(s, stepper_hand_over(s));
    reducer_backward_done(s->sum.first);
    stepper_must(s, stepper_issue_rest(s, TIMELINE_FIRST_PASS));
    reducer_wait_rest(s->sum.first, &f->result.comm_wait_s);
    s->sum.at_hand = s->sum.reducer;
}

Status stepper_ascent_run(Stepper *s, const PrefetchInput *input)
{
    Program *p = stepper_last_program(s);
    const double start_s = clock_s();
    const RunOptions o = stepper_run_options(s, 0, TIMELINE_FIRST_PASS, input);
    TRY(executor_issue(s->session->executor, p, &o));
    if (o.item_times) TRY(stepper_trace_run(s, p, TIMELINE_FIRST_PASS));
    tracing_main(s->tracing, "first pass", TRACE_NO_NUMBER, start_s);
    stepper_ascent_end(s);
    return OK;
}
