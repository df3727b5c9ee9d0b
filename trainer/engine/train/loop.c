/* loop.c - epochs, evaluation, checkpoints, records.
 *
 * Time is counted in global steps. What is due after a step - an epoch's record, an evaluation, a
 * checkpoint - is arithmetic on the position in the training stream (train_plan.h), so a resumed
 * run does it where an unbroken one would. Order after a step: epoch record, evaluation,
 * checkpoint. Errors that only one rank can have (its disk, its data) ride into the next step's
 * metrics or into an agreement at a checkpoint. */
#include "trainer/engine/train/loop.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/engine/config/units.h"
#include "trainer/engine/rules/penalty.h"
#include "trainer/engine/rules/sharpness.h"
#include "trainer/engine/session/utilization.h"
#include "trainer/engine/train/evaluate.h"
#include "trainer/engine/train/input_report.h"
#include "trainer/engine/train/loop_checkpoint.h"
#include "trainer/engine/train/loop_divergence.h"
#include "trainer/engine/train/loop_spent.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define EARLY_LOOK_S       20.0 /* of training, until the input is judged for the first time */
#define BAD_ALWAYS_ALLOWED 10   /* images; whatever data.max_bad_fraction says of a small dataset */

/* ---- an epoch as every rank saw it ---- */

/* Collective and agreed. *out: one of each rank, on all of them; mem_free. seconds: this rank's. */
static Status gather_rank_epochs(RankEpoch **out, Comm *comm, const Backend *backend,
                                 double seconds)
{
    const DeviceVTable *device = backend->v->device;
    RankEpoch *ranks = mem_calloc((size_t)comm->world, sizeof *ranks);
    *out = NULL;
    Status status = comm_agree(comm, ranks ? OK : ERR_MEMORY);
    if (status != OK) {
        mem_free(ranks);
        return status;
    }
    ranks[comm->rank] =
        (RankEpoch){ .seconds = seconds, .device = device ? device->device_index(backend) : -1 };
    comm_allgather(comm, ranks, sizeof *ranks, "epoch");
    *out = ranks;
    return OK;
}

/* ---- after a step ---- */

static void keep_pending(Loop *l, Status status)
{
    if (l->pending == OK) l->pending = status;
}

static void tell(Loop *l, RecordKind kind, const void *record)
{
    keep_pending(l, run_events_record(l->events, kind, record));
}

static bool record_due(const Loop *l, int64_t step)
{
    return step + 1 == l->s->plan.total_steps || step == l->start.step ||
           (step + 1) % l->s->config->log.every == 0;
}

/* A row tells of the parameters that the step begins with, and counts steps from 0; that of step 1
 * is the first without what a start takes. */
static bool row_due(const Loop *l, int64_t step)
{
    return l->s->config->log.format == LOG_FORMAT_TABLE && step < l->s->plan.total_steps &&
           (step == 1 || step % l->s->config->log.every == 0);
}

/* Before the step is issued, while none is under way. */
static void measure_penalty(Loop *l, int64_t step)
{
    if (!loop_is_main(l) || !row_due(l, step)) return;
    keep_pending(l, penalty_of_parameters(l->s->executor, l->s->config, &l->penalty));
}

/* The share of the devices' peak that the products of the step took; 0: not known. */
static double mfu_of(const Loop *l, int64_t step, double images_per_s)
{
    const int passes = sharpness_in_step(l->s->config, step) ? 2 : 1;
    return l->stage.image_share * passes * images_per_s;
}

/* What a step's work is that of: of text, sequences without room for more tokens. */
static double full_images(const Loop *l, const StepResult *r)
{
    const Config *c = l->s->config;
    return config_is_text(c) ? (double)r->tokens / (double)c->data.tokens
                             : (double)l->s->plan.global_batch;
}

static double epochs_done(const Loop *l, int64_t steps)
{
    return (double)train_plan_images(&l->s->plan, steps) / (double)l->s->plan.images;
}

static void record_step(Loop *l, int64_t step, const StepResult *r)
{
    const TrainPlan *p = &l->s->plan;
    const double images_per_s = (double)p->global_batch / r->seconds;
    const StepRecord record = { .epoch = train_plan_epoch(p, step),
                                .step = step + 1,
                                .epochs = epochs_done(l, step + 1),
                                .loss = r->loss,
                                .lr = r->lr,
                                .images_per_s = images_per_s,
                                .step_ms = r->seconds * 1e3,
                                .data_wait_ms = r->data_wait_s * 1e3,
                                .comm_wait_ms = r->comm_wait_s * 1e3,
                                .loss_scale = r->optimizer.loss_scale,
                                .skipped = r->optimizer.skipped,
                                .measured = r->optimizer.measured,
                                .grad_norm = r->optimizer.grad_norm,
                                .mfu = mfu_of(l, step, full_images(l, r) / r->seconds),
                                .images = p->global_batch,
                                .recorded = record_due(l, step),
                                .has_row = row_due(l, step),
                                .penalty = l->penalty,
                                .epochs_before = epochs_done(l, step),
                                .text = config_is_text(l->s->config),
                                .masks = config_is_masked(l->s->config),
                                .tokens = r->tokens,
                                .tokens_per_s = (double)r->tokens / r->seconds,
                                .masked = (double)r->masked / (double)r->tokens,
                                .ppl = exp(r->loss) };
    l->epoch.seconds += r->seconds;
    l->epoch.images += p->global_batch;
    l->epoch.tokens += r->tokens;
    l->spent.step = step + 1;
    l->spent.images += p->global_batch;
    l->spent.wait_s += r->data_wait_s;
    tell(l, RECORD_STEP, &record);
}

/* What the input did since *start. */
static void report_input(const Loop *l, const LoaderStats *start, double seconds, InputReport *out)
{
    LoaderStats stats;
    loader_stats(l->loader, &stats);
    loader_stats_subtract(&stats, start);
    input_report_make(out, &stats, seconds);
}

static void warn_of_input(Loop *l, const InputReport *report)
{
    if (!l->input.warned)
        l->input.warned = input_report_warn(report, l->s->threads.allowed / l->s->threads.sharers);
}

/* Epochs may last hours: a run that waits for its input hears of it soon. Rank 0 judges by
 * itself. */
static void look_early(Loop *l, int64_t step, const StepResult *r)
{
    InputReport report;
    if (!loop_is_main(l)) return;
    if (step == l->stage.first) loader_stats(l->loader, &l->input.early);
    double before = l->input.seconds;
    if (step > l->stage.first) l->input.seconds += r->seconds;
    if (before >= EARLY_LOOK_S || l->input.seconds < EARLY_LOOK_S) return;
    report_input(l, &l->input.early, l->input.seconds, &report);
    warn_of_input(l, &report);
}

static void record_epoch(Loop *l, int64_t step)
{
    InputReport input;
    RankEpoch *ranks = NULL;
    loop_spent_end(l, COST_TRAIN);
    if (l->s->config->log.format == LOG_FORMAT_EPOCH)
        keep_pending(l, gather_rank_epochs(&ranks, l->s->comm, l->s->backend, l->epoch.seconds));
    report_input(l, &l->epoch.input, l->epoch.seconds, &input);
    loader_stats(l->loader, &l->epoch.input);
    input_report_merge(&input, l->s->comm);
    const double joules = cost_joules(&l->epoch.spent) + cost_joules(&l->epoch.waited);
    EpochRecord record = { .epoch = train_plan_epoch(&l->s->plan, step + 1) - 1,
                           .seconds = l->epoch.seconds,
                           .images = l->epoch.images,
                           .images_per_s = (double)l->epoch.images / l->epoch.seconds,
                           .text = config_is_text(l->s->config),
                           .tokens = l->epoch.tokens,
                           .tokens_per_s = (double)l->epoch.tokens / l->epoch.seconds,
                           .has_input = true,
                           .input = input,
                           .ranks = ranks,
                           .world = l->s->comm->world,
                           .rank_batch = l->s->plan.batch * l->s->plan.accumulate,
                           .steps = l->epoch.images / l->s->plan.global_batch,
                           .has_energy = l->spent.source[0] != '\0',
                           .energy_j = joules,
                           .wait_energy_j = cost_joules(&l->epoch.waited),
                           .joules_per_image = joules / (double)l->epoch.images,
                           .energy_source = l->spent.source };
    l->epoch.seconds = 0;
    l->epoch.images = l->epoch.tokens = 0;
    l->epoch.spent = l->epoch.waited = (Spent){ 0 };
    tell(l, RECORD_EPOCH, &record);
    mem_free(ranks);
    if (l->input.seconds >= EARLY_LOOK_S) warn_of_input(l, &input);
}

static bool has_ema(const Loop *l)
{
    return averaging_traits(l->s->config, AVERAGE_EMA).wanted;
}

/* The averaged weights, in the place of the others for as long as it takes. */
static Status evaluate_ema(Loop *l, EvalResult *out)
{
    Averages *averages = stepper_averages(l->stepper);
    if (!has_ema(l)) return OK;
    TRY(comm_agree(l->s->comm, averages_swap(averages, AVERAGE_EMA)));
    const Status status = evaluate(l->s, out);
    const Status back = averages_swap(averages, AVERAGE_EMA);
    return status == OK ? comm_agree(l->s->comm, back) : status;
}

/* train.patience */
static bool patience_over(const Loop *l)
{
    const int64_t patience = l->s->config->train.patience;
    return patience > 0 && l->best.stale >= patience;
}

static Status evaluate_alone(Loop *l, int64_t step, bool *best)
{
    EvalResult r, ema = { .images = 0 };
    char score[RECORDS_SCORE_BYTES];
    comm_set_progress(l->s->comm, step + 1, "evaluation");
    TRY(evaluate(l->s, &r));
    TRY(evaluate_ema(l, &ema));
    EvalRecord record = evaluate_record(l->s, &r);
    record.epoch = train_plan_epoch(&l->s->plan, step);
    record.step = step + 1;
    record.epochs = epochs_done(l, step + 1);
    record.ema_best = has_ema(l) && l->s->config->ema.best;
    if (has_ema(l)) evaluate_add_ema(&record, &ema);
    tell(l, RECORD_EVAL, &record);
    if (r.bad > 0)
        log_warning("%lld images of data.val could not be decoded; they count as wrong",
                    (long long)r.bad);
    if (!isfinite(record.ema_best ? ema.loss : r.loss))
        log_warning("the loss on data.val is not finite; this evaluation cannot be the best");
    const double had = l->best.score; /* -1: none */
    *best = records_better(&record, had < 0 ? (double)NAN : had);
    if (*best) l->best.score = records_score(&record);
    records_format_score(&record, l->best.score, score);
    l->best.stale = *best ? 0 : l->best.stale + 1;
    if (patience_over(l))
        log_info("train.patience: %lld evaluation%s without improvement on %s%s; the run ends "
                 "after step %lld",
                 (long long)l->best.stale, l->best.stale == 1 ? "" : "s", score,
                 record.ema_best ? " of the averaged weights" : "", (long long)step + 1);
    return OK;
}

/* *best: this evaluation is the best so far. */
static Status evaluate_now(Loop *l, int64_t step, bool *best)
{
    loop_spent_end(l, COST_TRAIN);
    const Status status = evaluate_alone(l, step, best);
    loop_spent_end(l, COST_EVALUATION);
    return status;
}

static bool checkpoint_due(const Loop *l, int64_t step)
{
    const Config *c = l->s->config;
    if (c->checkpoint.every_steps > 0 && (step + 1) % c->checkpoint.every_steps == 0) return true;
    return step + 1 == l->s->plan.total_steps ||
           train_plan_due(&l->s->plan, step, c->checkpoint.every_epochs);
}

/* The same verdict on all ranks: both counts are sums over them. */
static Status check_replaced(Loop *l, const StepResult *r)
{
    const Session *s = l->s;
    l->samples.replaced += r->replaced;
    l->samples.drawn += s->plan.global_batch;
    double drawn = (double)(l->samples.drawn > s->plan.images ? l->samples.drawn : s->plan.images);
    double limit = s->config->data.max_bad_fraction * drawn;
    if ((double)l->samples.replaced <= (limit > BAD_ALWAYS_ALLOWED ? limit : BAD_ALWAYS_ALLOWED))
        return OK;
    return fail(ERR_DATA,
                "%s: %lld of %lld images drawn could not be decoded: more than "
                "data.max_bad_fraction allows",
                s->config->data.train, (long long)l->samples.replaced, (long long)l->samples.drawn);
}

static Status stop_now(Loop *l, int64_t steps, bool eval_due)
{
    TRY(loop_checkpoint_save(l, steps, false, eval_due, true));
    bool restarts = strcmp(l->s->config->checkpoint.resume, "none") == 0;
    return fail(
        ERR_STOPPED,
        "stopped on request after step %lld; checkpoint saved; run the same command%s to continue",
        (long long)steps, restarts ? " with checkpoint.resume=auto" : "");
}

static Status after_step(Loop *l, int64_t step, const StepResult *r)
{
    const TrainPlan *p = &l->s->plan;
    bool best = false, last = step + 1 == p->total_steps;
    bool eval_due = l->s->eval && (last || train_plan_due(p, step, l->s->config->train.eval_every));
    record_step(l, step, r);
    look_early(l, step, r);
    keep_pending(l, loop_checkpoint_poll(l));
    if (train_plan_due(p, step, 1)) record_epoch(l, step);
    TRY(check_replaced(l, r));
    if (r->stop && !last) return stop_now(l, step + 1, eval_due);
    if (eval_due) TRY(loop_divergence_check(l, step + 1));
    Status evaluated = eval_due ? evaluate_now(l, step, &best) : OK;
    if (evaluated == ERR_STOPPED) return stop_now(l, step + 1, true);
    if (evaluated != OK) { /* the training done so far is not lost with it */
        Status saved = loop_checkpoint_save(l, step + 1, false, true, true);
        return saved == OK ? comm_agree(l->s->comm, evaluated) : saved;
    }
    const bool over = patience_over(l);
    if (best || over || checkpoint_due(l, step))
        TRY(loop_checkpoint_save(l, step + 1, best, false, last || over));
    return OK;
}

/* The evaluation that the run was stopped before. */
static Status catch_up(Loop *l)
{
    bool best = false;
    if (!l->start.eval_due || !l->s->eval || l->start.step == 0) return OK;
    TRY(evaluate_now(l, l->start.step - 1, &best));
    if (!best && !patience_over(l)) return OK;
    return loop_checkpoint_save(l, l->start.step, best, false, true);
}

/* Whether the state behind this step is looked at before the next one changes it. */
static bool ends_stretch(const Loop *l, int64_t step)
{
    const TrainPlan *p = &l->s->plan;
    bool eval = l->s->eval && train_plan_due(p, step, l->s->config->train.eval_every);
    return step + 1 == l->stage.end || eval || train_plan_due(p, step, 1) ||
           checkpoint_due(l, step) || row_due(l, step + 1) || tracing_has(l->tracing, step) ||
           tracing_has(l->tracing, step + 1);
}

static Status create_loader(Loop *l)
{
    LoaderOptions options = session_loader_options(l->s, DATA_TRAIN);
    options.first_step = l->stage.first;
    options.last_step = l->stage.end;
    options.shift =
        train_plan_images(&l->s->plan, l->stage.first) - l->stage.first * l->s->plan.global_batch;
    options.trace = tracing_trace(l->tracing);
    prefetch_loader_options(l->s->train_input, &options);
    TRY(loader_create(&l->loader, l->s->train, &options));
    return stepper_set_loader(l->stepper, l->loader);
}

static void tell_stage(const Loop *l, int64_t step, int stage)
{
    const TrainPlan *p = &l->s->plan;
    if (progressive_stage_count(l->s->config) > 1)
        log_info("from step %lld on, training images have %lld pixels", (long long)step + 1,
                 (long long)progressive_image_size(l->s->config, stage));
    if (p->phase_count > 1)
        log_info("from step %lld on, the global batch is %lld %s, %lld per rank and pass",
                 (long long)step + 1, (long long)p->global_batch, units_of(l->s->config)->many,
                 (long long)p->batch);
}

/* From step on images have the size of its stage, and steps the batch of its phase; nothing is
 * under way. */
static Status enter_stage(Loop *l, int64_t step)
{
    Session *s = l->s;
    const int64_t phase_end = train_plan_phase_end(&s->plan, step);
    const int stage = progressive_stage_at(s->config, &s->plan, step);
    Status status = stepper_set_loader(l->stepper, NULL);
    loader_destroy(l->loader);
    l->loader = NULL;
    l->epoch.input = (LoaderStats){ 0 };
    l->input.seconds = 0;
    l->stage.first = step;
    l->stage.end = progressive_stage_end(s->config, &s->plan, stage);
    if (phase_end < l->stage.end) l->stage.end = phase_end;
    train_plan_enter(&s->plan, step);
    session_set_stage(s, stage);
    const double peak = utilization_peak_flops(s, NULL);
    l->stage.image_share = peak > 0 ? utilization_image_flops(s) / peak : 0;
    if (loop_is_main(l)) tell_stage(l, step, stage);
    if (status == OK) status = create_loader(l);
    return comm_agree(s->comm, status);
}

/* Steps run one after the other; a device is given the next one while it works on this one, except
 * where a stretch ends. All ranks learn of a stop or a failure at the same step, finish the one
 * that was already given, and leave. */
static Status run_stretch(Loop *l)
{
    const int64_t total = l->s->plan.total_steps;
    const bool ahead = stepper_runs_ahead(l->stepper);
    bool stop = false;
    l->stage.end = l->start.step;
    for (int64_t step = l->start.step, issued = step; step < total && !patience_over(l); step++) {
        if (step == l->stage.end) TRY(enter_stage(l, step));
        if (issued == step) {
            measure_penalty(l, step);
            stepper_issue(l->stepper, issued++, l->pending);
        }
        if (ahead && !stop && issued == step + 1 && !ends_stretch(l, step))
            stepper_issue(l->stepper, issued++, l->pending);
        StepResult r = stepper_finish(l->stepper);
        if (tracing_step_done(l->tracing, step) != OK) log_warning_here("%s", status_message());
        stop = stop || r.stop;
        const bool diverged = loop_divergence_in(&r);
        while ((r.failed || diverged) && issued > step + 1) {
            (void)stepper_finish(l->stepper);
            issued--;
        }
        if (r.failed) return comm_agree(l->s->comm, r.own_status);
        l->divergence.loss = r.loss;
        if (diverged) {
            record_step(l, step, &r);
            return loop_divergence_end(l, &r);
        }
        r.stop = stop && issued == step + 1;
        TRY(after_step(l, step, &r));
    }
    return comm_agree(l->s->comm, l->pending);
}

/* To the end, however often training diverges and is allowed to go back. */
static Status run_steps(Loop *l)
{
    Status status;
    /* something to go back to */
    if (l->s->config->train.on_nan == ON_NAN_ROLLBACK && !l->start.own)
        TRY(loop_checkpoint_save(l, l->start.step, false, false, true));
    while ((status = run_stretch(l)) == ERR_DIVERGED) TRY(loop_divergence_go_back(l));
    return status;
}

/* ---- the run ---- */

static Status list_names(Loop *l)
{
    const Session *s = l->s;
    SequenceFacts facts;
    StrBuf *classes = &l->checkpoint.class_names, *words = &l->checkpoint.words;
    for (int i = 0; i < dataset_classes(s->train); i++)
        str_printf(classes, "%s%s", i ? "\n" : "", dataset_class_name(s->train, i));
    if (sequences_facts(s->train, &facts) && facts.classified)
        for (int i = 0; i < facts.dictionary->words; i++)
            str_printf(words, "%s%s", i ? "\n" : "", facts.dictionary->names[i]);
    return classes->failed || words->failed ? ERR_MEMORY : OK;
}

static Status open_parts(Loop *l)
{
    Session *s = l->s;
    const char *run_dir = s->config->run.dir;
    SafeTensor *list = NULL;
    int count = 0;
    TRY(train_plan_check_turns(s->config, &s->plan, s->eval != NULL));
    if (!(l->checkpoint.dir = fs_join(run_dir, "checkpoints"))) return ERR_MEMORY;
    TRY(config_dump_yaml(s->config, &l->checkpoint.config_text));
    TRY(list_names(l));
    TRY(stepper_create(&l->stepper, s));
    TRY(tracing_create(&l->tracing, s->config->log.trace_steps, run_dir, s->comm->rank,
                       s->executor));
    stepper_set_tracing(l->stepper, l->tracing);
    if (!loop_is_main(l)) return OK;
    TRY(train_state_list(s->executor, &list, &count));
    const Config *c = s->config;
    /* who goes back may have to go behind the newest one */
    const int64_t least = c->train.on_nan == ON_NAN_ROLLBACK ? 2 : 1;
    Status status =
        checkpoint_writer_create(&l->checkpoint.writer, l->checkpoint.dir, list, count,
                                 c->checkpoint.keep > least ? c->checkpoint.keep : least);
    mem_free(list);
    if (status != OK || c->checkpoint.on_save[0] == '\0') return status;
    TRY(on_save_create(&l->checkpoint.on_save, c->checkpoint.on_save, run_dir,
                       c->checkpoint.on_save_timeout_s));
    checkpoint_writer_spare(l->checkpoint.writer, on_save_needs, l->checkpoint.on_save);
    return OK;
}

/* All that could have refused the run has been asked: from here on its folder changes. */
static Status begin(Loop *l)
{
    const RunEvents *e = l->events;
    return e->begin ? e->begin(e->self, l->start.resumed, l->start.step) : OK;
}

static void warn_of_averages(const Loop *l)
{
    StrBuf text = { 0 };
    for (int k = 0; k < AVERAGE_KIND_COUNT && loop_is_main(l); k++) {
        str_clear(&text);
        averaging_warn_text(&text, l->s->config, &l->s->plan, (AverageKind)k, l->averages.rest[k],
                            l->start.step);
        if (text.length > 0 && !text.failed) log_warning("%s", text.text);
    }
    str_free(&text);
}

static Status run(Loop *l)
{
    TRY(comm_agree(l->s->comm, open_parts(l)));
    TRY(loop_checkpoint_resume(l));
    config_warn(l->s->config, l->start.resumed);
    const int64_t total = l->s->plan.total_steps;
    const bool over = l->start.step >= total || patience_over(l);
    if (over && !(l->start.eval_due && l->s->eval)) {
        log_info("nothing to do: the run already has %lld of %lld steps%s (for a new run, use "
                 "another run.dir)",
                 (long long)l->start.step, (long long)total,
                 patience_over(l) ? ", and train.patience ended it" : "");
        return OK;
    }
    /* the others first: rank 0 changes the folder */
    TRY(comm_agree(l->s->comm, loop_is_main(l) ? OK : begin(l)));
    TRY(comm_agree(l->s->comm, loop_is_main(l) ? begin(l) : OK));
    warn_of_averages(l);
    loop_spent_start(l);
    TRY(catch_up(l));
    return l->start.step < total ? run_steps(l) : OK;
}

/* The run's own sentence, where it has one, outlives that of a trace that could not be written. */
static void finish_trace(Loop *l, Status status)
{
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%s", status_message());
    if (tracing_finish(l->tracing) == OK) return;
    log_warning_here("%s", status_message());
    if (status != OK) fail(status, "%s", sentence);
}

Status loop_run(Session *s, const RunEvents *events, Energy *energy)
{
    Loop l = { .s = s, .events = events, .best.score = -1, .rollback.lr_factor = 1 };
    Status status = loop_spent_begin(&l, energy);
    if (status == OK) status = run(&l);
    log_progress("%s", "");
    Status finished = loop_checkpoint_finish(&l);
    /* what ended well or as asked did so on all ranks */
    if (status == OK || status == ERR_STOPPED) loop_spent_finish(&l);
    if (status == OK) status = comm_agree(s->comm, finished);
    finish_trace(&l, status);
    stepper_destroy(l.stepper);
    loader_destroy(l.loader);
    tracing_destroy(l.tracing);
    checkpoint_writer_destroy(l.checkpoint.writer);
    on_save_destroy(l.checkpoint.on_save);
    str_free(&l.checkpoint.config_text);
    str_free(&l.checkpoint.class_names);
    str_free(&l.checkpoint.words);
    mem_free(l.checkpoint.dir);
    return status;
}
