/* loop_checkpoint.c - see loop_checkpoint.h. */
#include "trainer/engine/train/loop_checkpoint.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/engine/config/units.h"
#include "trainer/engine/files/checkpoint_model.h"
#include "trainer/engine/files/weights.h"
#include "trainer/engine/train/first_weights.h"
#include "trainer/engine/train/loop_spent.h"
#include <stdio.h>
#include <string.h>

#define ON_SAVE_PERIOD_S 0.02

static Status poll_on_save(const Loop *l)
{
    OnSaveResult result;
    while (l->checkpoint.on_save && on_save_poll(l->checkpoint.on_save, &result))
        TRY(run_events_record(l->events, RECORD_ON_SAVE,
                              &(OnSaveRecord){ .step = result.step - l->start.step_offset,
                                               .outcome = on_save_outcome_name(result.outcome),
                                               .code = result.code,
                                               .seconds = result.seconds }));
    return OK;
}

Status loop_checkpoint_poll(const Loop *l)
{
    bool done = false;
    int64_t steps = 0;
    const char *path = NULL;
    if (!l->checkpoint.writer) return OK;
    TRY(poll_on_save(l));
    TRY(checkpoint_poll(l->checkpoint.writer, &done, &steps, &path));
    if (!done) return OK;
    /* as in the records of steps; files are named by the updates that are in them */
    const CheckpointRecord record = { steps - l->start.step_offset, path };
    TRY(run_events_record(l->events, RECORD_CHECKPOINT, &record));
    return l->checkpoint.on_save ? on_save_submit(l->checkpoint.on_save, steps, path) : OK;
}

/* Ranks meet again and again meanwhile, so that none takes rank 0 for lost. */
Status loop_checkpoint_finish(Loop *l)
{
    if (l->s->config->checkpoint.on_save[0] == '\0') return OK;
    if (l->checkpoint.on_save) on_save_finish(l->checkpoint.on_save);
    for (int64_t busy = 1; busy;) {
        busy = l->checkpoint.on_save && !on_save_idle(l->checkpoint.on_save);
        comm_allreduce(l->s->comm, &busy, 1, COMM_I64, COMM_MAX, "on_save");
        comm_beat(l->s->comm);
        if (busy) clock_sleep_s(ON_SAVE_PERIOD_S);
    }
    return poll_on_save(l);
}

/* CheckpointMeta.norm_images */
static int64_t norm_images(const Session *s)
{
    return s->config->model.bn_group > 0 ? session_bn_ranks(s) * s->plan.batch : 0;
}

static void put_rests(Loop *l, int64_t steps, CheckpointMeta *meta)
{
    const Config *c = l->s->config;
    const TrainPlan *p = &l->s->plan;
    for (int k = 0; k < AVERAGE_KIND_COUNT; k++) {
        AverageRest *r = &l->averages.rest[k];
        *r = averaging_rest(c, p, (AverageKind)k, *r, l->averages.step, steps);
        meta->average_rest[k] = averaging_traits(c, (AverageKind)k).wanted ? r->share : -1;
        meta->average_images[k] = train_plan_images(p, r->since);
    }
    l->averages.step = steps;
}

static Status save_on_main(Loop *l, int64_t steps, bool best, bool eval_due)
{
    const Session *s = l->s;
    const int64_t images = train_plan_images(&s->plan, steps);
    double start_s = clock_s();
    StrBuf spent = { 0 };
    SequenceFacts facts;
    TRY(train_state_stage(s->executor, l->checkpoint.writer, l->divergence.tensor));
    tracing_copy(l->tracing, "checkpoint to staging memory", steps, start_s);
    TRY(loop_checkpoint_poll(l)); /* the file before, while its record is to be had */
    CheckpointMeta meta = { .step = steps + l->start.step_offset,
                            .run_step = steps,
                            .images = images,
                            .epoch = train_plan_epoch(&s->plan, steps),
                            .seed = s->config->train.seed,
                            .global_batch = images - train_plan_images(&s->plan, steps - 1),
                            .dataset_images = s->plan.images,
                            .norm_images = norm_images(s),
                            .best_score = l->best.score,
                            .stale = l->best.stale,
                            .val_print = s->val_print,
                            .eval_due = eval_due,
                            .lr_factor = l->rollback.lr_factor,
                            .rollbacks = l->rollback.count,
                            .diverged = l->rollback.diverged,
                            .rolled_to = l->rollback.to,
                            .class_names = l->checkpoint.class_names.text,
                            .words = l->checkpoint.words.text,
                            .teacher = s->teacher.print,
                            .named_classes = dataset_named_classes(s->train),
                            .pairs = sequences_facts(s->train, &facts) && facts.pairs,
                            .model = s->config->model.name,
                            .config = l->checkpoint.config_text.text };
    put_rests(l, steps, &meta);
    cost_write(&l->spent.sums, &spent);
    meta.spent = spent.text;
    Status status =
        spent.failed ? ERR_MEMORY : checkpoint_submit(l->checkpoint.writer, &meta, best);
    str_free(&spent);
    return status;
}

Status loop_checkpoint_save(Loop *l, int64_t steps, bool best, bool eval_due, bool wait)
{
    Status status = OK;
    loop_spent_end(l, COST_TRAIN);
    comm_set_progress(l->s->comm, steps, "checkpoint");
    l->divergence.steps = steps;
    l->divergence.symptom = NULL;
    if (loop_is_main(l)) status = save_on_main(l, steps, best, eval_due);
    if (loop_is_main(l) && status == OK && wait) status = checkpoint_flush(l->checkpoint.writer);
    if (status == OK) status = loop_checkpoint_poll(l);
    status = comm_agree(l->s->comm, status);
    loop_spent_end(l, COST_CHECKPOINT);
    return status;
}

/* Of a run that goes back and has a checkpoint. */
static Status find_before(const Loop *l, SafeFile **file, CheckpointMeta *meta, char **path)
{
    const int64_t below = l->start.below;
    TRY(checkpoint_find(file, meta, l->checkpoint.dir, below, path));
    if (!*file) TRY(checkpoint_find(file, meta, l->checkpoint.dir, below + 1, path));
    return *file ? OK
                 : fail(ERR_DATA, "%s: there is no checkpoint left to roll back to",
                        l->checkpoint.dir);
}

/* Finds what to resume from: *file NULL if nothing. path: mem_free. A file named by hand starts a
 * run folder; once that holds checkpoints of its own, they are newer, and the same command
 * continues from them. */
static Status find_resume(const Loop *l, SafeFile **file, CheckpointMeta *meta, char **path,
                          bool *own)
{
    const char *resume = l->s->config->checkpoint.resume;
    *own = true;
    if (l->start.below > 0) return find_before(l, file, meta, path);
    if (strcmp(resume, "none") == 0) return OK;
    TRY(checkpoint_find(file, meta, l->checkpoint.dir, INT64_MAX, path));
    if (*file || strcmp(resume, "auto") == 0) return OK;
    *own = false;
    if (!(*path = mem_strdup(resume))) return ERR_MEMORY;
    Status status = checkpoint_open(file, meta, resume);
    if (status == OK) status = weights_check_finite(*file, true, resume);
    return status == OK ? OK : fail_note(status, "checkpoint.resume");
}

/* The step of this run's stream at which a checkpoint continues. */
static int64_t resume_step(const Loop *l, const CheckpointMeta *meta)
{
    const TrainPlan *p = &l->s->plan;
    int64_t step = train_plan_step_at(p, meta->images);
    if (train_plan_images(p, step) > meta->images) step--;
    const int64_t position = train_plan_images(p, step), next = train_plan_images(p, step + 1);
    if (meta->run_step == step && position == meta->images) return step;
    const char *many = units_of(l->s->config)->many;
    char batches[96] = "earlier steps had other batch sizes";
    if (meta->global_batch != next - position)
        snprintf(batches, sizeof batches, "the global batch was %lld %s and is now %lld",
                 (long long)meta->global_batch, many, (long long)(next - position));
    log_warning("%s: step %lld of the checkpoint is now step %lld", batches,
                (long long)meta->run_step, (long long)step);
    if (meta->images > position)
        log_warning("%lld %s are seen again", (long long)(meta->images - position), many);
    return step;
}

/* *changed: in which keys the checkpoint's configuration was another; *math: of those that change
 * results. */
static Status compare_settings(const Loop *l, const CheckpointMeta *meta, const char *path,
                               StrBuf *changed, StrBuf *math)
{
    Config *then = NULL;
    TRY(checkpoint_model_config(&then, meta, path));
    Status status = config_difference(then, l->s->config, changed);
    if (status == OK) status = config_math_difference(then, l->s->config, math);
    if (status == OK && math->length > 0)
        log_warning("settings differ from the checkpoint's: %s", math->text);
    const char *init = l->s->config->model.init;
    if (status == OK && init[0] && strcmp(init, then->model.init) != 0)
        log_warning("model.init is not used: the run continues from %s", path);
    config_destroy(then);
    return status;
}

static Status check_resumable(const Loop *l, const CheckpointMeta *meta, const char *path,
                              StrBuf *changed, StrBuf *math)
{
    const Session *s = l->s;
    if (strcmp(meta->model, s->config->model.name) != 0) {
        return fail(ERR_DATA, "%s: the checkpoint is of %s, but model.name is %s", path,
                    meta->model, s->config->model.name);
    }
    if (norm_images(s) > 0 && meta->norm_images > 0 && norm_images(s) != meta->norm_images) {
        return fail(
            ERR_USAGE,
            "model.bn_group: %lld images shared statistics in the checkpoint's run, now %lld do",
            (long long)meta->norm_images, (long long)norm_images(s));
    }
    if (meta->dataset_images != s->plan.images) {
        log_warning(
            "%s was trained on %lld %s, data.train now has %lld: the order of samples changes",
            path, (long long)meta->dataset_images, units_of(s->config)->many,
            (long long)s->plan.images);
    }
    return compare_settings(l, meta, path, changed, math);
}

static Status check_and_restore(Loop *l, const SafeFile *file, const CheckpointMeta *meta,
                                const char *path, StrBuf *changed)
{
    StrBuf math = { 0 };
    Status status = check_resumable(l, meta, path, changed, &math);
    if (status == OK) {
        status = train_state_restore(l->s->executor, file, path);
        if (status == ERR_DATA && math.length > 0) status = fail_note(status, "%s", math.text);
    }
    str_free(&math);
    return status;
}

/* A continued run keeps its teacher; one that only starts from a checkpoint may have another. */
static Status check_teacher(const Loop *l, const CheckpointMeta *meta, const char *path, bool own)
{
    const Teacher *t = &l->s->teacher;
    if (t->print == meta->teacher) return OK;
    if (own && t->print && meta->teacher)
        return fail(
            ERR_DATA,
            "train.teacher: %s has other weights than this run's teacher had; restore them, "
            "or start a new run with checkpoint.resume=%s",
            t->path, path);
    log_warning("train.teacher: %s was trained with%s teacher, and the run continues with%s", path,
                !meta->teacher ? "out a"
                : t->print     ? " another"
                               : " a",
                t->print ? " this one" : "out one");
    return OK;
}

/* An average that is not in the file starts here. */
static void take_rests(Loop *l, const CheckpointMeta *meta)
{
    l->averages.step = l->start.step;
    for (int k = 0; k < AVERAGE_KIND_COUNT; k++) {
        AverageRest *r = &l->averages.rest[k];
        *r = (AverageRest){ 1, l->start.step };
        if (meta->average_rest[k] >= 0)
            *r = (AverageRest){ meta->average_rest[k],
                                train_plan_step_at(&l->s->plan, meta->average_images[k]) };
    }
}

static Status take_checkpoint(Loop *l, const SafeFile *file, const CheckpointMeta *meta,
                              const char *path, bool own, StrBuf *changed)
{
    TRY(check_teacher(l, meta, path, own));
    TRY(check_and_restore(l, file, meta, path, changed));
    l->start.resumed = true;
    l->start.step = resume_step(l, meta);
    l->start.step_offset = meta->step - l->start.step;
    take_rests(l, meta);
    const bool other_val = own && meta->best_score >= 0 && l->s->val && meta->val_print &&
                           meta->val_print != l->s->val_print;
    if (other_val)
        log_warning("data.val has other %s or labels than those of the best in %s; the best starts "
                    "from scratch",
                    units_of(l->s->config)->many, path);
    else if (own) { /* the best of another run is not in this folder */
        l->best.score = meta->best_score;
        l->best.stale = meta->stale;
    }
    /* a run that goes back knows what it has spent since */
    if (own && l->start.below == 0) cost_read(meta->spent, &l->spent.sums);
    l->start.eval_due = own && meta->eval_due;
    l->start.own = own;
    l->rollback = (LoopRollback){ .count = meta->rollbacks,
                                  .diverged = meta->diverged,
                                  .to = meta->rolled_to,
                                  .lr_factor = meta->lr_factor };
    log_info("resumed from %s at step %lld", path, (long long)l->start.step);
    if (l->rollback.count > 0)
        log_info("the learning rate has a factor of %g: this run diverged and was rolled back %lld "
                 "times",
                 l->rollback.lr_factor, (long long)l->rollback.count);
    const char *differs = changed->text ? changed->text : "";
    return run_events_record(l->events, RECORD_RESUME,
                             &(ResumeRecord){ l->start.step, path, differs, other_val });
}

/* Rank 0 reads. */
static Status resume_on_main(Loop *l)
{
    SafeFile *file = NULL;
    CheckpointMeta meta = { 0 };
    char *path = NULL;
    bool own = true;
    StrBuf changed = { 0 };
    Status status = find_resume(l, &file, &meta, &path, &own);
    if (status == OK && file) status = take_checkpoint(l, file, &meta, path, own, &changed);
    else if (status == OK && (status = session_draw(l->s)) == OK) status = first_weights_make(l->s);
    safetensors_close(file);
    str_free(&changed);
    mem_free(path);
    return status;
}

/* Weights went before. */
static Status broadcast_states(Loop *l)
{
    const Executor *x = l->s->executor;
    for (int k = 0; k < state_count(x); k++) {
        const State *s = state_at(x, k);
        if (s->def.saved && s->def.kind != STATE_WEIGHTS)
            TRY(session_broadcast_memory(l->s, s->data, s->bytes, state_kind_name(s->def.kind)));
    }
    return comm_agree(l->s->comm, optimizer_state_changed(stepper_optimizer(l->stepper)));
}

static Status start_averages(Loop *l)
{
    for (int k = 0; k < AVERAGE_KIND_COUNT; k++) l->averages.rest[k] = (AverageRest){ 1, 0 };
    return comm_agree(l->s->comm, train_state_begin(l->s->executor));
}

Status loop_checkpoint_resume(Loop *l)
{
    TRY(comm_agree(l->s->comm, loop_is_main(l) ? resume_on_main(l) : OK));
    comm_broadcast(l->s->comm, &l->start, sizeof l->start, 0, "resume position");
    comm_broadcast(l->s->comm, &l->rollback, sizeof l->rollback, 0, "times that the run went back");
    comm_broadcast(l->s->comm, &l->best, sizeof l->best, 0, "best evaluation");
    stepper_set_lr_factor(l->stepper, l->rollback.lr_factor);
    stepper_set_step_offset(l->stepper, l->start.step_offset);
    TRY(session_broadcast(l->s));
    return l->start.resumed ? broadcast_states(l) : start_averages(l);
}

Status loop_checkpoint_go_back(Loop *l, int64_t below, double lr_factor)
{
    const int64_t count = l->rollback.count + 1,
                  diverged = l->divergence.steps + l->start.step_offset;
    loop_spent_end(l, COST_TRAIN);
    TRY(comm_agree(l->s->comm, loop_is_main(l) ? checkpoint_flush(l->checkpoint.writer) : OK));
    TRY(comm_agree(l->s->comm, loop_checkpoint_poll(l)));
    l->start.below = below;
    TRY(loop_checkpoint_resume(l));
    l->rollback =
        (LoopRollback){ count, diverged, l->start.step + l->start.step_offset, lr_factor };
    stepper_set_lr_factor(l->stepper, lr_factor);
    if (l->events->go_back) l->events->go_back(l->events->self, l->start.step);
    /* of steps that are done again */
    l->epoch.seconds = 0;
    l->epoch.images = l->epoch.tokens = 0;
    l->epoch.spent = l->epoch.waited = (Spent){ 0 };
    return OK;
}
