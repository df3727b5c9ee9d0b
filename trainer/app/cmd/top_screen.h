/* top_screen.h - what a run's records say about it now: read line by line, told in a few lines of
 * text. */
#ifndef CONVOY_TRAINER_APP_CMD_TOP_SCREEN_H
#define CONVOY_TRAINER_APP_CMD_TOP_SCREEN_H
#include "base/str.h"
#include "trainer/engine/events/records.h"

enum { TOP_GPUS_MAX = 64, TOP_HISTORY = 64 };

typedef struct TopScreen {        /* zero-initialise by top_screen_init() */
    bool seen[RECORD_KINDS];      /* a step, an evaluation, an end: since what made it void */
    RunRecord last[RECORD_KINDS]; /* of those */
    Arena *texts;                 /* of start, on_save, spent and done; NULL: none yet */
    double seconds_per_image;     /* smoothed */
    EvalRecord best;
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
