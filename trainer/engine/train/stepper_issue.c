/* stepper_issue.c - the beginning of a step: its micro-batches are enqueued, and with the last one
 * what the timeline leaves to the step. See stepper.c, whose functions are not called here. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/engine/train/stepper_internal.h"

/* ---- what all of the stepper use ---- */

int stepper_flight_number(const Stepper *s)
{
    return (int)(s->flight - s->flights.list);
}

Program *stepper_last_program(const Stepper *s)
{
    if (s->flight && s->flight->last) return s->flight->last;
    return s->session->plan.accumulate > 1 ? s->session->more : s->session->first;
}

const Timeline *stepper_timeline(const Stepper *s)
{
    return program_timeline(stepper_last_program(s), s->flight->run);
}

void stepper_must(Stepper *s, Status status)
{
    if (status == OK) return;
    log_error("rank %d: %s", s->session->comm->rank, status_message());
    comm_abort(s->session->comm, status_exit_code(status));
}

Status stepper_hand_over(Stepper *s)
{
    const bool failed = s->flight->result.own_status != OK;
    for (int k = 0; s->sum.host && !failed && k < s->buckets.count; k++) {
        TRY(host_reduce_wait(s->sum.host, &stepper_timeline(s)->sums[k]));
        reducer_ready(s->sum.at_hand, k);
    }
    return OK;
}

/* ---- sums over ranks ---- */

static Status start_bucket(Stepper *s, const SumRange *r, Stream *stream)
{
    if (s->sum.host) return host_reduce_fetch(s->sum.host, r, stream);
    if (s->sum.by == TIMELINE_REDUCE_HOST) {
        reducer_ready(s->sum.at_hand, r->index);
        return OK;
    }
    const size_t first = r->offset / sizeof(float), count = r->bytes / sizeof(float);
    float *grads = (float *)executor_slab(s->session->executor, SLAB_GRAD) + first;
    char *sums = s->sum.grads ? (char *)s->sum.grads + first * dtype_bytes(s->sum.type) : NULL;
    return device_comm_allreduce_as(s->session->device_comm, grads, count, s->sum.type, sums,
                                    stream, r->name);
}

/* Of batch norms, over the ranks that share them. Host memory: the communication thread takes the
 * job in the order of all jobs, that of the timeline, and nothing goes on before it is done. */
static Status sum_norms(Stepper *s, const SumRange *r, const OpTensor *t, Stream *stream)
{
    const Session *session = s->session;
    const size_t count = (size_t)tensor_elements(&t->desc);
    const bool group = s->bn_ranks < session->comm->world;
    if (session->device_comm)
        return device_comm_allreduce_group(session->device_comm, t->data, count, DTYPE_F64, group,
                                           stream, r->name);
    CommJob job = { .kind = COMM_ALLREDUCE,
                    .type = COMM_F64,
                    .op = COMM_SUM,
                    .data = t->data,
                    .count = count,
                    .group = group,
                    .name = r->name };
    const double start_s = clock_s();
    comm_post(session->comm, &job);
    comm_wait(session->comm, &job);
    s->flight->result.comm_wait_s += clock_s() - start_s;
    return OK;
}

Status stepper_start_sum(void *stepper, const SumRange *r, const OpTensor *tensor, Stream *stream)
{
    Stepper *s = stepper;
    if (r->of == SUM_GRADS) return start_bucket(s, r, stream);
    if (r->of == SUM_BATCHNORMS) return sum_norms(s, r, tensor, stream);
    return device_comm_allreduce(s->session->device_comm,
                                 executor_slab(s->session->executor, r->slab),
                                 r->bytes / sizeof(float), DTYPE_F32, stream, r->name);
}

Status stepper_await_sum(void *stepper, const SumRange *r, Stream *stream)
{
    Stepper *s = stepper;
    double *wait_s = &s->flight->result.comm_wait_s;
    if (r->of == SUM_GRADS) reducer_wait_bucket(s->sum.at_hand, r->index, wait_s);
    else reducer_wait_rest(s->sum.reducer, wait_s);
    return s->sum.host && r->bytes > 0 ? host_reduce_return(s->sum.host, r, stream) : OK;
}

/* A recording with sums over ranks in it is launched by all of them or by none. */
Status stepper_agree_on_recording(void *stepper, Status own)
{
    const Stepper *s = stepper;
    return comm_agree(s->session->comm, own);
}

/* ---- issuing ---- */

/* The last micro-batch has sums over ranks in it, which all ranks must record and replay together.
 * So they take the same program, with room for the longest of their texts, which all would wait
 * for anyway. */
static Program *program_of(const Stepper *s, int64_t micro, const PrefetchInput *input)
{
    const Session *session = s->session;
    int64_t tokens = input->tokens;
    if (micro + 1 == session->plan.accumulate && tokens < s->flight->last_tokens)
        tokens = s->flight->last_tokens;
    return micro == 0 ? session_program(session->stage_first, session, session->first, tokens)
                      : session_program(session->stage_more, session, session->more, tokens);
}

static Status issue(Stepper *s, Program *p, const RunOptions *o)
{
    Status status = executor_issue(s->session->executor, p, o);
    /* Which sums of its norms the others have is not known. */
    if (s->bn_ranks > 1) stepper_must(s, status);
    return status;
}

/* The same; what ends the step goes with the last one. */
static Program *take_program(Stepper *s, int64_t micro, const PrefetchInput *input)
{
    Program *p = program_of(s, micro, input);
    if (micro + 1 == s->session->plan.accumulate) s->flight->last = p;
    return p;
}

/* How the micro-batch runs; a first pass comes before it. */
static TimelineRun run_of(const Stepper *s, int64_t micro)
{
    return micro + 1 == s->session->plan.accumulate ? s->flight->run : TIMELINE_MICRO_BATCH;
}

/* A rank that failed waits for the others' sums and does nothing with them; neither does one whose
 * own loss is not finite: its parameters tell what has diverged. */
static RunOptions run_options(Stepper *s, const Program *p, int64_t micro, TimelineRun run,
                              const PrefetchInput *input)
{
    double *seconds = run == TIMELINE_MICRO_BATCH ? NULL : s->item_seconds;
    return (RunOptions){ .slot = input->slot,
                         .layout = input->layout,
                         .block = input->block,
                         .step = run,
                         .result = s->flight->first_result + (int)micro,
                         .step_result = stepper_flight_number(s),
                         .failed =
                             s->flight->result.own_status != OK || s->flight->result.diverged_here,
                         .moved = s->flight->perturbed,
                         .sums = &s->sum.over_ranks,
                         .item_seconds = seconds ? seconds + program_step_items(p, run) : NULL,
                         .item_times = tracing_items(s->tracing, p, run) };
}

Status stepper_trace_run(Stepper *s, const Program *p, TimelineRun run)
{
    if (s->session->backend->v->device) TRY(executor_wait(s->session->executor));
    return tracing_add_items(s->tracing, p, run, 0, program_timeline(p, run)->backward_end);
}

Status stepper_issue_rest(Stepper *s, TimelineRun run)
{
    Executor *x = s->session->executor;
    Program *p = stepper_last_program(s);
    const Timeline *line = program_timeline(p, run);
    const RunOptions o =
        run_options(s, p, s->session->plan.accumulate - 1, run, &(PrefetchInput){ 0 });
    TRY(executor_issue_rest(x, p, &o));
    TRY(executor_wait(x));
    return tracing_add_items(s->tracing, p, run, line->backward_end, line->count);
}

/* ---- the first of two passes (sharpness.h) ----
 *
 * It reads the batch slot that the second reads again. On a device both are enqueued, one behind
 * the other; where the host sums, the buckets of the first are summed and waited for here, by a
 * reducer of their own. Metrics of both go with the second. */

static void begin_ascent(Stepper *s)
{
    if (!s->sum.first) return;
    reducer_begin(s->sum.first);
    s->sum.at_hand = s->sum.first;
}

/* Alone for a rank that failed before, where the host sums: it takes part in that. */
static void end_ascent(Stepper *s)
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

static Status run_ascent(Stepper *s, const PrefetchInput *input)
{
    Program *p = stepper_last_program(s);
    const double start_s = clock_s();
    const RunOptions o = run_options(s, p, 0, TIMELINE_FIRST_PASS, input);
    TRY(issue(s, p, &o));
    if (o.item_times) TRY(stepper_trace_run(s, p, TIMELINE_FIRST_PASS));
    tracing_main(s->tracing, "first pass", TRACE_NO_NUMBER, start_s);
    end_ascent(s);
    return OK;
}

/* ---- micro-batches ---- */

/* On host memory all of it is over. On a device the last one is waited for in stepper_finish(),
 * under the watchdog's eyes. */
static Status trace_micro_batch(Stepper *s, const Program *p, int64_t micro)
{
    const TimelineRun run = run_of(s, micro);
    if (s->session->backend->v->device && run != TIMELINE_MICRO_BATCH) return OK;
    return stepper_trace_run(s, p, run);
}

static Status run_micro_batch(Stepper *s, int64_t micro)
{
    Session *session = s->session;
    PrefetchInput input;
    bool more = false;
    double start_s = clock_s();
    TRY(prefetch_next(session->train_input, &input, &more, &s->flight->result.data_wait_s));
    ASSERT(more);
    tracing_main(s->tracing, "wait for data", micro, start_s);
    s->flight->issued++;
    Program *p = take_program(s, micro, &input);
    Status status = s->flight->run == TIMELINE_SECOND_PASS ? run_ascent(s, &input) : OK;
    start_s = clock_s();
    RunOptions o = run_options(s, p, micro, run_of(s, micro), &input);
    if (status == OK) status = issue(s, p, &o);
    if (status == OK && o.item_times) status = trace_micro_batch(s, p, micro);
    tracing_main(s->tracing, "forward and backward", micro, start_s);
    Status done = prefetch_done(session->train_input);
    s->flight->totals[TOTAL_REPLACED] += (double)input.bad;
    return status == OK ? done : status;
}

/* A whole number in two halves of 16 bits: a float is exact up to 2^24 only. */
static void set_halves(float *low, float *high, int64_t value)
{
    *low = (float)(value & 0xffff);
    *high = (float)(value >> 16 & 0xffff);
}

/* What the step's gradients are a mean over. */
static float loss_weight(const Stepper *s)
{
    const StepResult *r = &s->flight->result;
    if (!config_is_masked(s->session->config)) return 1.0f / (float)s->session->plan.global_batch;
    return r->masked > 0 ? 1.0f / (float)r->masked : 0;
}

/* Of the whole step, on all ranks together; micro-batches lie one behind the other, those of a rank
 * together. */
static void count_tokens(Stepper *s, Flight *f)
{
    const Session *session = s->session;
    const TrainPlan *plan = &session->plan;
    StepResult *r = &f->result;
    if (!config_is_text(session->config)) return;
    const int64_t first = train_plan_images(plan, r->step),
                  count = plan->global_batch / plan->batch;
    for (int64_t i = 0; i < count; i++) {
        const SequenceCounts counts =
            sequences_count(session->train, (uint64_t)session->config->train.seed,
                            first + i * plan->batch, plan->batch);
        r->tokens += counts.tokens;
        r->masked += counts.masked;
        if ((i + 1) % plan->accumulate == 0 && f->last_tokens < counts.tokens)
            f->last_tokens = counts.tokens;
    }
}

static Status set_scalars(Stepper *s, int64_t step, double lr, int64_t micro)
{
    const TrainPlan *plan = &s->session->plan;
    const int64_t share = plan->global_batch / s->session->comm->world;
    float scalars[SCALAR_COUNT];
    optimizer_scalars(s->optimizer, lr, step + 1 + s->step_offset, scalars);
    averages_scalars(s->averages, step, step + 1 + s->step_offset - optimizer_skipped(s->optimizer),
                     scalars);
    scalars[SCALAR_GRAD_SCALE] = loss_weight(s);
    set_halves(&scalars[SCALAR_STEP_LOW], &scalars[SCALAR_STEP_HIGH], step);
    set_halves(&scalars[SCALAR_PLACE_LOW], &scalars[SCALAR_PLACE_HIGH],
               s->session->comm->rank * share + micro * plan->batch);
    return executor_set_record(s->session->executor, "scalars", scalars);
}

static Status compute(Stepper *s, Status pending)
{
    TRY(pending);
    for (int64_t micro = 0; micro < s->session->plan.accumulate; micro++) {
        if (micro == 0 || s->drops)
            TRY(set_scalars(s, s->flight->result.step, s->flight->result.lr, micro));
        TRY(run_micro_batch(s, micro));
    }
    return OK;
}

/* What this micro-batch computes is for the sums alone. ahead: of the batches that were given. */
static void run_idle(Stepper *s, int64_t micro, int64_t ahead)
{
    PrefetchInput input = prefetch_slot(s->session->train_input, ahead);
    void *zeros = NULL; /* stand for a batch where there is no slot to take it from: host memory */
    if (!input.block) {
        input.block = zeros = mem_calloc(1, input.layout->bytes);
        if (!zeros) stepper_must(s, fail(ERR_MEMORY, "out of memory"));
    }
    Program *p = take_program(s, micro, &input);
    if (s->flight->run == TIMELINE_SECOND_PASS) stepper_must(s, run_ascent(s, &input));
    const RunOptions o = run_options(s, p, micro, run_of(s, micro), &input);
    stepper_must(s, issue(s, p, &o));
    mem_free(zeros);
}

/* The device's sums and those of norms want every rank: one that failed runs the end of the step,
 * or with norms all that is left of it, on what lies in its slot. */
static void take_part(Stepper *s)
{
    const int64_t last = s->session->plan.accumulate - 1, issued = s->flight->issued;
    const bool two_passes = s->flight->run == TIMELINE_SECOND_PASS, norms = s->bn_ranks > 1;
    if (s->flight->result.own_status == OK) return;
    if (s->sum.by != TIMELINE_REDUCE_DEVICE && !norms) {
        if (two_passes && !s->flight->ascended) end_ascent(s);
        return;
    }
    /* The last one itself failed: which of its sums are in the stream is not known. */
    if (issued > last) stepper_must(s, s->flight->result.own_status);
    for (int64_t micro = norms ? issued : last; micro <= last; micro++)
        run_idle(s, micro, micro - issued);
    prefetch_skip(s->session->train_input, last + 1 - issued);
}

static void mark(Stepper *s)
{
    Event *end;
    stepper_must(s, prefetch_mark(s->session->train_input, &end));
    if (s->session->device_comm) device_comm_watch(s->session->device_comm, end, "step");
}

void stepper_issue(Stepper *s, int64_t step, Status pending)
{
    ASSERT(s->flights.issued - s->flights.finished < FLIGHTS);
    Flight *f = s->flight = &s->flights.list[s->flights.issued % FLIGHTS];
    *f = (Flight){
        .start_s = clock_s(),
        .run = sharpness_in_step(s->session->config, step) ? TIMELINE_SECOND_PASS : TIMELINE_STEP,
        .first_result = (int)((s->flights.issued % FLIGHTS) * s->session->plan.accumulate)
    };
    f->result = (StepResult){ .step = step, .lr = s->lr_factor * schedule_lr(&s->schedule, step) };
    count_tokens(s, f);
    s->flights.issued++;
    comm_set_progress(s->session->comm, step, "step");
    stepper_must(s, tracing_step(s->tracing, step));
    /* Else two steps may be under way, and the reducer, which has one at a time and of it only the
     * metrics, begins in stepper_finish(). */
    if (s->sum.by == TIMELINE_REDUCE_HOST) reducer_begin(s->sum.reducer);
    if (f->run == TIMELINE_SECOND_PASS) begin_ascent(s);
    f->result.own_status = compute(s, pending);
    take_part(s);
    mark(s);
}
