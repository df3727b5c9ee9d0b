/* top_screen.h - what a run's records say about it now: read line by line, told in a few lines of
 * text. */
#ifndef CONVOY_TRAINER_CMD_TOP_SCREEN_H
#define CONVOY_TRAINER_CMD_TOP_SCREEN_H
#include "base/str.h"
#include "trainer/log/records.h"

enum { TOP_GPUS_MAX = 64, TOP_HISTORY = 64 };

typedef struct TopScreen { /* zero-initialise by top_screen_init() */
    bool started, stepped, evaluated, saved, sent, ended;
    Arena *texts; /* of the records; NULL: none yet */
    /* the last of each kind; texts of an evaluation and of GPUs are not kept */
    StartRecord start;
    StepRecord step;
    EvalRecord eval;
    CheckpointRecord checkpoint;
    OnSaveRecord on_save;
    SpentRecord spent;
    DoneRecord done;
    double seconds_per_image; /* smoothed */
    double best_top1, checkpoint_time;
    int64_t best_step;
    /* Unix time of the last record; the longest gap between the last two of them */
    double last_time, gap_s;
    int gpus;
    bool gpu_known[TOP_GPUS_MAX];
    GpuRecord gpu[TOP_GPUS_MAX];
    double history[TOP_HISTORY]; /* means of stride losses each */
    int history_count, stride, pending;
    double pending_sum;
} TopScreen;

void top_screen_init(TopScreen *t);
void top_screen_free(TopScreen *t);
/* One line of metrics.jsonl. What is no record of a run is passed over: a run that writes may have
 * begun a line. */
void top_screen_add_line(TopScreen *t, const char *line, size_t bytes);
/* Several lines. name: the run's. now_s: Unix seconds. */
void top_screen_describe(const TopScreen *t, const char *name, double now_s, StrBuf *out);
#endif
