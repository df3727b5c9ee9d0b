/* loop.c - epochs, evaluation, checkpoints, records.
 *
 * Time is counted in global steps. What is due after a step - an epoch's record, an evaluation, a checkpoint - is
 * arithmetic on the position in the training stream (runplan.h), so a resumed run does it where an unbroken one would.
 * Order after a step: epoch record, evaluation, checkpoint. Errors that only one rank can have (its disk, its data)
 * ride into the next step's metrics or into an agreement at a checkpoint. */
#include "trainer/loop.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/evaluate.h"
#include "trainer/state.h"
#include "trainer/step.h"
#include <string.h>

#define TERMINAL_PERIOD_S 0.2
#define PLAIN_PERIOD_S    10.0

typedef struct Loop {
    Session *s;
    RunLog *log;
    char *checkpoint_dir;
    Loader *loader;
    Stepper *stepper;
    CheckpointWriter *writer; /* rank 0 only */
    StrBuf config_text;       /* resolved YAML, for checkpoints */
    int64_t first_step;
    double best_top1;
    Status pending; /* this rank's error from outside a step */
    double epoch_seconds, progress_s, seconds_per_step;
    int64_t epoch_images;
} Loop;

static bool is_main(const Loop *l)
{
    return l->s->comm->rank == 0;
}

/* ---- checkpoints ---- */

static Status save_on_main(Loop *l, int64_t steps, bool best)
{
    const Session *s = l->s;
    TRY(state_stage(s->executor, stepper_optimizer(l->stepper), s->backend, l->writer));
    CheckpointMeta meta = { .step = steps,
                            .images = steps * s->plan.global_batch,
                            .epoch = runplan_epoch(&s->plan, steps),
                            .seed = (uint64_t)s->config->train.seed,
                            .config_hash = config_math_hash(s->config),
                            .global_batch = s->plan.global_batch,
                            .dataset_images = s->plan.images,
                            .best_top1 = l->best_top1,
                            .model = s->config->model.name,
                            .config = l->config_text.text };
    return checkpoint_submit(l->writer, &meta, best);
}

/* Records a checkpoint once it is on disk, and a failed write as this rank's pending error. */
static Status poll_writer(const Loop *l)
{
    bool done = false;
    int64_t steps = 0;
    const char *path = NULL;
    if (!l->writer) return OK;
    TRY(checkpoint_poll(l->writer, &done, &steps, &path));
    return done ? runlog_checkpoint(l->log, steps, path) : OK;
}

/* After steps steps. wait: return only when the file is on disk. */
static Status save(Loop *l, int64_t steps, bool best, bool wait)
{
    Status status = OK;
    comm_set_progress(l->s->comm, steps, "checkpoint");
    if (is_main(l)) status = save_on_main(l, steps, best);
    if (is_main(l) && status == OK && wait) status = checkpoint_flush(l->writer);
    if (status == OK) status = poll_writer(l);
    return comm_agree(l->s->comm, status);
}

/* Finds what to resume from: *file NULL if nothing. path: mem_free. */
static Status find_resume(const Loop *l, SafeFile **file, CheckpointMeta *meta, char **path)
{
    const char *resume = l->s->config->checkpoint.resume;
    *file = NULL;
    *path = NULL;
    if (strcmp(resume, "none") == 0) return OK;
    if (strcmp(resume, "auto") == 0) return checkpoint_find(file, meta, l->checkpoint_dir, path);
    if (!(*path = mem_strdup(resume))) return ERR_MEMORY;
    Status status = checkpoint_open(file, meta, resume);
    return status == OK ? OK : fail_note(status, "checkpoint.resume");
}

/* The step of this run's stream at which a checkpoint continues. */
static int64_t resume_step(const Loop *l, const CheckpointMeta *meta)
{
    const RunPlan *p = &l->s->plan;
    if (meta->images % p->global_batch != 0) {
        log_warning("checkpoint at image %lld, but the global batch is now %lld: up to %lld images are seen again",
                    (long long)meta->images, (long long)p->global_batch, (long long)(meta->images % p->global_batch));
    }
    return meta->images / p->global_batch;
}

static Status warn_differences(const Loop *l, const CheckpointMeta *meta)
{
    StrBuf text = { 0 };
    Status status = OK;
    if (meta->config_hash != config_math_hash(l->s->config)) {
        status = config_math_difference(l->s->config, meta->config, &text);
        if (status == OK && text.length > 0)
            log_warning("resuming with other settings than the checkpoint's: %s", text.text);
    }
    str_free(&text);
    return status;
}

static Status check_resumable(const Loop *l, const CheckpointMeta *meta, const char *path)
{
    const Session *s = l->s;
    if (strcmp(meta->model, s->config->model.name) != 0) {
        return fail(ERR_DATA, "%s: a checkpoint of %s, but model.name is %s", path, meta->model, s->config->model.name);
    }
    if (meta->dataset_images != s->plan.images) {
        log_warning("%s was trained on %lld images, data.train now has %lld: the order of samples changes", path,
                    (long long)meta->dataset_images, (long long)s->plan.images);
    }
    return warn_differences(l, meta);
}

/* Rank 0 reads; first_step and best_top1 are set there. */
static Status resume_on_main(Loop *l)
{
    SafeFile *file = NULL;
    CheckpointMeta meta = { 0 };
    char *path = NULL;
    Status status = find_resume(l, &file, &meta, &path);
    if (status == OK && file) {
        status = check_resumable(l, &meta, path);
        if (status == OK)
            status = state_restore(l->s->executor, stepper_optimizer(l->stepper), l->s->backend, file, path);
        if (status == OK) {
            l->first_step = resume_step(l, &meta);
            l->best_top1 = meta.best_top1;
            log_info("resumed from %s at step %lld", path, (long long)l->first_step);
            status = runlog_resume(l->log, l->first_step, path);
        }
    }
    safetensors_close(file);
    mem_free(path);
    return status;
}

static void broadcast_optimizer(Loop *l)
{
    const Optimizer *o = stepper_optimizer(l->stepper);
    for (int s = 0; s < optimizer_state_count(o); s++) {
        comm_broadcast(l->s->comm, optimizer_state_slab(o, s), executor_slab_bytes(l->s->executor, SLAB_PARAM), 0,
                       "optimizer state");
    }
}

static Status resume(Loop *l)
{
    double carried[2];
    TRY(comm_agree(l->s->comm, is_main(l) ? resume_on_main(l) : OK));
    carried[0] = (double)l->first_step;
    carried[1] = l->best_top1;
    comm_broadcast(l->s->comm, carried, sizeof carried, 0, "resume position");
    l->first_step = (int64_t)carried[0];
    l->best_top1 = carried[1];
    if (l->first_step == 0) return OK;
    session_broadcast(l->s);
    broadcast_optimizer(l);
    return OK;
}

/* ---- after a step ---- */

static void keep_pending(Loop *l, Status status)
{
    if (l->pending == OK) l->pending = status;
}

static void record_step(Loop *l, int64_t step, const StepResult *r)
{
    const RunPlan *p = &l->s->plan;
    int64_t total = p->total_steps;
    StepRecord record = { .epoch = runplan_epoch(p, step),
                          .step = step + 1,
                          .loss = r->loss,
                          .lr = r->lr,
                          .images_per_s = (double)p->global_batch / r->seconds,
                          .step_ms = r->seconds * 1e3,
                          .data_wait_ms = r->data_wait_s * 1e3,
                          .comm_wait_ms = r->comm_wait_s * 1e3 };
    l->epoch_seconds += r->seconds;
    l->epoch_images += p->global_batch;
    l->seconds_per_step = l->seconds_per_step > 0 ? 0.98 * l->seconds_per_step + 0.02 * r->seconds : r->seconds;
    bool last = step + 1 == total || step == l->first_step;
    if (last || (step + 1) % l->s->config->log.every == 0) keep_pending(l, runlog_step(l->log, &record));
    double now = clock_s(), period = log_console_is_terminal() ? TERMINAL_PERIOD_S : PLAIN_PERIOD_S;
    if (!last && now - l->progress_s < period) return;
    l->progress_s = now;
    runlog_progress(l->log, &record, total, (double)(total - step - 1) * l->seconds_per_step);
}

static void record_epoch(Loop *l, int64_t step)
{
    EpochRecord record = { .epoch = runplan_epoch(&l->s->plan, step + 1) - 1,
                           .seconds = l->epoch_seconds,
                           .images = l->epoch_images,
                           .images_per_s = (double)l->epoch_images / l->epoch_seconds };
    l->epoch_seconds = 0;
    l->epoch_images = 0;
    keep_pending(l, runlog_epoch(l->log, &record));
}

/* *best: this evaluation is the best so far. */
static Status evaluate_now(Loop *l, int64_t step, bool *best)
{
    EvalResult r;
    comm_set_progress(l->s->comm, step + 1, "evaluation");
    TRY(evaluate(l->s, &r));
    EvalRecord record = { .epoch = runplan_epoch(&l->s->plan, step),
                          .step = step + 1,
                          .images = r.images,
                          .loss = r.loss,
                          .top1 = r.top1,
                          .top5 = r.top5 };
    keep_pending(l, runlog_eval(l->log, &record));
    if (r.bad > 0) log_warning("%lld images of data.val could not be decoded: counted as wrong", (long long)r.bad);
    *best = r.top1 > l->best_top1;
    if (*best) l->best_top1 = r.top1;
    return OK;
}

static bool checkpoint_due(const Loop *l, int64_t step)
{
    const Config *c = l->s->config;
    if (c->checkpoint.every_steps > 0 && (step + 1) % c->checkpoint.every_steps == 0) return true;
    return step + 1 == l->s->plan.total_steps || runplan_due(&l->s->plan, step, c->checkpoint.every_epochs);
}

static Status after_step(Loop *l, int64_t step, const StepResult *r)
{
    const RunPlan *p = &l->s->plan;
    bool best = false, last = step + 1 == p->total_steps;
    record_step(l, step, r);
    keep_pending(l, poll_writer(l));
    if (runplan_due(p, step, 1)) record_epoch(l, step);
    if (r->stop && !last) {
        TRY(save(l, step + 1, false, true));
        return fail(ERR_STOPPED,
                    "stopped by a signal after step %lld; checkpoint saved, run the same command to continue",
                    (long long)step + 1);
    }
    if (l->s->eval && (last || runplan_due(p, step, l->s->config->train.eval_every))) TRY(evaluate_now(l, step, &best));
    if (best || checkpoint_due(l, step)) TRY(save(l, step + 1, best, last));
    return OK;
}

static Status run_steps(Loop *l)
{
    for (int64_t step = l->first_step; step < l->s->plan.total_steps; step++) {
        StepResult r = stepper_run(l->stepper, step, l->pending, NULL);
        if (r.failed) return comm_agree(l->s->comm, r.own_status);
        TRY(after_step(l, step, &r));
    }
    return comm_agree(l->s->comm, l->pending);
}

/* ---- the run ---- */

static Status open_parts(Loop *l, const char *run_dir)
{
    Session *s = l->s;
    SafeTensor *list = NULL;
    int count = 0;
    if (!(l->checkpoint_dir = fs_join(run_dir, "checkpoints"))) return ERR_MEMORY;
    TRY(config_dump_yaml(s->config, &l->config_text));
    TRY(stepper_create(&l->stepper, s));
    if (!is_main(l)) return OK;
    TRY(state_list(s->executor, stepper_optimizer(l->stepper), &list, &count));
    Status status = checkpoint_writer_create(&l->writer, l->checkpoint_dir, list, count, s->config->checkpoint.keep);
    mem_free(list);
    return status;
}

static Status start_loader(Loop *l)
{
    LoaderOptions options = session_loader_options(l->s, DATA_TRAIN);
    options.first_step = l->first_step;
    if (l->first_step >= l->s->plan.total_steps) return OK;
    TRY(loader_create(&l->loader, l->s->train, &options));
    stepper_set_loader(l->stepper, l->loader);
    return OK;
}

static Status run(Loop *l, const char *run_dir)
{
    TRY(comm_agree(l->s->comm, open_parts(l, run_dir)));
    TRY(resume(l));
    if (l->first_step >= l->s->plan.total_steps) {
        log_info("nothing to do: the run already has %lld of %lld steps", (long long)l->first_step,
                 (long long)l->s->plan.total_steps);
        return OK;
    }
    TRY(comm_agree(l->s->comm, start_loader(l)));
    return run_steps(l);
}

Status loop_run(Session *s, RunLog *log, const char *run_dir)
{
    Loop l = { .s = s, .log = log, .best_top1 = -1 };
    Status status = run(&l, run_dir);
    log_progress("%s", "");
    stepper_destroy(l.stepper);
    loader_destroy(l.loader);
    checkpoint_writer_destroy(l.writer);
    str_free(&l.config_text);
    mem_free(l.checkpoint_dir);
    return status;
}
