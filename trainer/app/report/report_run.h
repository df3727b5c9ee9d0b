/* report_run.h - a run folder, read back for a report as it was left: unfinished, resumed, with a
 * torn last line, with losses that are not finite.
 *
 * A number that is not there is NaN, a text that is not there is "". Records of steps that a
 * resumed run repeated are replaced by the later ones, and what came after the resumed checkpoint
 * is dropped. Steps and evaluations have their elapsed_s, of training, over all parts; NaN where
 * not known. top5 is NaN where there are no more than five classes. */
#ifndef CONVOY_TRAINER_APP_REPORT_REPORT_RUN_H
#define CONVOY_TRAINER_APP_REPORT_REPORT_RUN_H
#include "base/mem.h"
#include "trainer/engine/config/units.h"
#include "trainer/engine/events/records.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct ReportRange { /* over the GPUs of a host; NaN where none tells */
    double sum, low, high;
    int count;
} ReportRange;
enum { REPORT_GAUGES = 5 }; /* used share, bytes of memory, watts, MHz, degrees Celsius */
typedef struct ReportLook { /* at all GPUs of rank 0's host at once */
    int64_t step, last_gpu; /* step: done before */
    double epochs, elapsed_s;
    ReportRange gauge[REPORT_GAUGES];
} ReportLook;
enum { REPORT_GPUS_MAX = 64 };
typedef struct ReportGpu { /* over all looks at one */
    int64_t looks;
    double utilization_min;
    ReportRange gauge[REPORT_GAUGES];
} ReportGpu;

typedef struct ReportRun {
    Arena *arena;
    const char *dir, *name;      /* name: short, and different from that of every other run */
    StartRecord start;           /* of the last start record */
    int starts, resumes;         /* records */
    bool world_changed;          /* between starts */
    bool cold;                   /* no epoch has ended since the last start */
    double seconds;              /* of training, over all parts */
    double earlier_s;            /* of parts before */
    double first_s, last_s;      /* Unix time of the first and the last record; 0: none */
    bool done;                   /* training has ended since its last start */
    int64_t code;                /* its exit code */
    const char *reason;          /* and why */
    int64_t lines, broken_lines; /* broken: no JSON object, not counting a torn last line */
    bool torn;
    StepRecord *steps;
    EpochRecord *epochs;
    EvalRecord *evals;
    ReportLook *looks;
    ReportGpu *gpus; /* [REPORT_GPUS_MAX]; NULL: no record of any */
    int colour;      /* of html_colour(), in every plot and table */
    int64_t step_count, epoch_count, eval_count, look_count;
    int64_t first_eval;        /* those before were of other images than the run evaluates now */
    SpentParts spent;          /* by all that was recorded, work that was lost too */
    int64_t trained_images;    /* in that */
    const char *energy_source; /* of the last record; "": nothing is measured */
    Config *config;            /* NULL: config.yaml is not there or cannot be read */
    const char *config_text;   /* "" then */
    /* of a point of convoy scale: its measured steps come behind these; else -1 */
    int64_t warmup_steps;
} ReportRun;

/* What all GPUs, or all looks, have told of a gauge, as a mean; NaN: nothing. */
double report_run_mean(const ReportRange *r);

/* Reads dir/metrics.jsonl and dir/config.yaml. ERR_DATA if there is no metrics.jsonl; anything
 * inside that cannot be used is left out and counted. name is copied. */
Status report_run_read(ReportRun *out, const char *dir, const char *name);
void report_run_free(ReportRun *r); /* zeroed ok */

/* Of a run; of all of them, where all are on images or all on text. */
const Units *report_run_units(const ReportRun *runs, int count);
/* Whether all of them learn to fill in masked words. */
bool report_run_all_masked(const ReportRun *runs, int count);
/* The evaluation by the run itself, the best by records_better(), the first of equal ones; NULL:
 * none. */
const EvalRecord *report_run_best(const ReportRun *r);
/* The first recorded step whose loss is not finite; NULL: none. */
const StepRecord *report_run_nonfinite(const ReportRun *r);
#endif
