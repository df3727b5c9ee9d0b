/* run_listener.c - see run_listener.h. */
#include "trainer/app/log/run_listener.h"

#include "base/log.h"
#include <string.h>

static Status start(void *self, const StartRecord *r, Energy *energy)
{
    RunListener *l = self;
    const bool device = strcmp(r->device, "cpu") != 0;
    l->epochs = r->epochs;
    l->images = (double)r->images;
    l->steps = r->steps;
    TRY(comm_agree(l->comm, runlog_record(l->log, RECORD_START, r)));
    TRY(comm_agree(l->comm, monitor_create(&l->monitor, l->config, l->comm, device)));
    monitor_run(l->monitor, r->steps, energy);
    return OK;
}

static Status begin(void *self, bool resumed, int64_t step)
{
    RunListener *l = self;
    l->first_step = step + 1;
    TRY(runlog_begin(l->log, l->config, l->comm->world));
    if (l->comm->library[0]) log_detail("MPI: %s", l->comm->library);
    return monitor_begin(l->monitor, resumed, step);
}

static void print_row(RunListener *l, const StepRecord *r)
{
    l->row.seconds += 1e-3 * r->step_ms;
    l->row.samples += r->text ? r->tokens : r->images;
    if (!r->has_row) return;
    runlog_row(l->log, &(ConsoleRow){ .step = r->step - 1,
                                      .epochs = r->epochs_before,
                                      .speed = (double)l->row.samples / l->row.seconds,
                                      .loss = r->loss,
                                      .penalty = r->penalty,
                                      .lr = r->lr });
    l->row.seconds = 0;
    l->row.samples = 0;
}

static void show_progress(RunListener *l, const StepRecord *r)
{
    const double pace = 1e-3 * r->step_ms / (double)r->images;
    const bool always = r->step == l->steps || r->step == l->first_step;
    l->seconds_per_image =
        l->seconds_per_image > 0 ? 0.98 * l->seconds_per_image + 0.02 * pace : pace;
    if (!log_progress_due(&l->shown_s) && !always) return;
    runlog_progress(l->log, r, l->steps,
                    (l->epochs - r->epochs) * l->images * l->seconds_per_image);
}

static Status record_gpus(RunListener *l)
{
    GpuRecord gpus[GAUGES_GPUS_MAX];
    int count = 0;
    if (!monitor_take_gpus(l->monitor, gpus, &count)) return OK;
    for (int i = 0; i < count; i++) TRY(runlog_record(l->log, RECORD_GPU, &gpus[i]));
    return OK;
}

static Status record_step(RunListener *l, const StepRecord *step)
{
    StepRecord r = *step;
    Status status = OK;
    l->recent.seconds += 1e-3 * r.step_ms;
    l->recent.images += r.images;
    l->recent.tokens += r.tokens;
    r.recent_images_per_s = (double)l->recent.images / l->recent.seconds;
    r.recent_tokens_per_s = (double)l->recent.tokens / l->recent.seconds;
    r.recent_mfu = r.mfu * (r.recent_images_per_s / r.images_per_s);
    monitor_step(l->monitor, &r);
    status = record_gpus(l);
    print_row(l, &r);
    if (r.recorded && status == OK) status = runlog_record(l->log, RECORD_STEP, &r);
    if (r.recorded) {
        l->recent.seconds = 0;
        l->recent.images = l->recent.tokens = 0;
    }
    show_progress(l, &r);
    return status;
}

static Status record(void *self, RecordKind kind, const void *record)
{
    RunListener *l = self;
    if (kind == RECORD_STEP) return record_step(l, record);
    /* of epochs monitors are not told: their steps say it all */
    if (kind == RECORD_EVAL) monitor_eval(l->monitor, record);
    if (kind == RECORD_CHECKPOINT)
        monitor_checkpoint(l->monitor, ((const CheckpointRecord *)record)->step);
    return runlog_record(l->log, kind, record);
}

/* Of steps that are done again nothing is kept. */
static void go_back(void *self, int64_t step)
{
    RunListener *l = self;
    monitor_go_back(l->monitor, step);
    l->first_step = step + 1;
    l->recent.seconds = l->row.seconds = 0;
    l->recent.images = l->recent.tokens = l->row.samples = 0;
}

static void end(void *self)
{
    RunListener *l = self;
    monitor_destroy(l->monitor);
    l->monitor = NULL;
}

RunEvents run_listener_events(RunListener *l)
{
    return (RunEvents){
        .self = l, .start = start, .begin = begin, .record = record, .go_back = go_back, .end = end
    };
}
