/* runlog.h - the run folder and what a run says: metrics.jsonl, log.txt, the console (by
 * log.format), log.file.
 *
 * Rank 0 writes; other ranks only write to their own log.file, where there is one. metrics.jsonl is
 * appended to and flushed line by line; a torn last line of an earlier run is cut off first. While
 * another process writes there, a run (one with a config) waits for its end, at most 30 s: an
 * earlier start may still be ending on a host that was cut off.
 *
 * A run is opened first and begun once it is known to be good. Until then its folder stays as an
 * earlier run has left it: records and log lines are held back, and dropped where it never begins.
 * A folder in which nothing has trained yet may be begun at once, so that it tells of a failure.
 *
 * Nothing here allocates after runlog_begin (buffers are kept). ERR_IO on a failed write (disk
 * full). */
#ifndef CONVOY_TRAINER_LOG_RUNLOG_H
#define CONVOY_TRAINER_LOG_RUNLOG_H
#include "base/status.h"
#include "trainer/config/cost.h"
#include "trainer/files/on_save.h"
#include "trainer/log/console.h"
#include "trainer/log/input_report.h"
#include "trainer/monitor/gauges.h"
#include <stdint.h>

typedef struct RunLog RunLog;
/* Makes dir and takes its lock. dir NULL: no run folder, console only. config NULL: no run, but
 * records to be added to one: log.format is line, and it has begun. */
Status runlog_open(RunLog **out, const char *dir, int rank, const Config *config);
bool runlog_is_new(const RunLog *r); /* nothing has trained in the folder yet; rank 0 knows */
/* Writes config.yaml, opens log.txt and this rank's log.file, writes what was held back. Where the
 * configuration in the folder is another, that stays as config-1.yaml, config-2.yaml ... Nothing
 * where it was done before. ERR_USAGE where the pattern of log.file is wrong. */
Status runlog_begin(RunLog *r, const Config *config, int world);
void runlog_close(RunLog *r); /* NULL ok */

typedef struct StartRecord {
    const char *model, *dataset, *backend, *host, *version;
    const char *device, *precision, *device_reason; /* "cuda", "bf16", and why in one line */
    /* cpus: that rank 0 may run on; threads of a rank */
    int world, hosts, cpus, compute_threads;
    /* more ranks than CPUs, or GPUs, to compute on */
    bool oversubscribed;
    int64_t images, val_images, classes, parameters, global_batch, steps;
    double epochs;                  /* that the steps make */
    double data_s, plans_s;         /* Session has them */
    double peak_flops, image_flops; /* utilization.h; peak_flops 0: not known, none is recorded */
    const char *peak_source;
} StartRecord;
typedef struct StepRecord {
    int64_t epoch, step; /* epoch: from 0, as in all records; step: from 1 */
    double epochs;       /* done behind the step */
    double loss, lr, images_per_s, step_ms, data_wait_ms, comm_wait_ms;
    double loss_scale; /* 0: there is none, and neither is the next in the record */
    int64_t skipped;
    bool measured; /* the next is in the record */
    double grad_norm;
    double recent_images_per_s; /* since the record before */
    double mfu;                 /* a share; 0: not known, and not in the record */
} StepRecord;
typedef struct EvalRecord {
    int64_t epoch, step, images, classes;
    double epochs, loss, top1, top5; /* epochs: of training, done behind the step */
    const char *checkpoint; /* by convoy eval: what was evaluated; NULL: by the run itself */
    bool foreign;           /* of other images or weights than the run's: no point of its curve */
    bool has_ema, ema_best; /* of averaged weights too, and by those the best is chosen */
    double ema_loss, ema_top1, ema_top5;
} EvalRecord;
typedef struct DivergedRecord {
    int64_t step;
    double loss;
    const char *tensor; /* the first that is not finite; "": none */
    double lr_factor;   /* of the learning rate from here on, where the run goes back */
    int64_t rollbacks;  /* this one too */
    bool back;
} DivergedRecord;
typedef struct EpochRecord {
    int64_t epoch;
    double seconds;
    int64_t images;
    double images_per_s;
    const InputReport *input; /* NULL: not known */
    const RankEpoch *ranks;   /* of all ranks, with log.format epoch; else NULL */
    int world;
    int64_t rank_batch, steps;
    double trained_j, waited_j; /* its steps': joules but for waits for data, and in those */
    const char *energy_source;  /* of energy_describe(); "": energy is not known */
} EpochRecord;
typedef struct SpentRecord { /* when a part of a run ends */
    CostPart part;
    int64_t step, images; /* images: trained on in it */
    Spent spent, total;   /* total: by the run so far */
    const Config *config; /* its prices */
    const char *source;   /* as energy_source */
} SpentRecord;

Status runlog_start(RunLog *r, const StartRecord *s);
Status runlog_step(RunLog *r, const StepRecord *s);
void runlog_row(RunLog *r, const ConsoleRow *row); /* of the table; rank 0 prints it */
Status runlog_epoch(RunLog *r, const EpochRecord *e);
Status runlog_eval(RunLog *r, const EvalRecord *e);
Status runlog_spent(RunLog *r, const SpentRecord *s);
Status runlog_checkpoint(RunLog *r, int64_t step, const char *path);
Status runlog_on_save(RunLog *r, const OnSaveResult *result);
Status runlog_gpus(RunLog *r, const GpuGauges *gpus, int count); /* a record each */
/* changed: keys that the checkpoint's part had otherwise, as config_difference() says it; "" for
 * none. other_val: no evaluation before was of the same images. */
Status runlog_resume(RunLog *r, int64_t step, const char *path, const char *changed,
                     bool other_val);
Status runlog_diverged(RunLog *r, const DivergedRecord *d);
/* Where rank keeps a log of its own by log.file; NULL: nowhere. mem_free. */
Status runlog_file_name(char **out, const Config *config, int rank, int world);
/* code: exit code; reason: "completed" or the error sentence. Always the last line. Best effort:
 * never fails. r NULL ok. */
void runlog_done(RunLog *r, int code, const char *reason);
/* The same from any thread of a process that is about to end without returning; r NULL ok. */
void runlog_last_words(const RunLog *r, int code, const char *reason);
/* The live line (terminal) or one plain line: epoch, step of steps, loss, lr, images/s, data wait
 * share, ETA. */
void runlog_progress(RunLog *r, const StepRecord *s, int64_t total_steps, double eta_s);
#endif
