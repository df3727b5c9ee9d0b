/* top_screen.h - what a run's records say about it now: read line by line, told in a few lines of
 * text. */
#ifndef CONVOY_TRAINER_CMD_TOP_SCREEN_H
#define CONVOY_TRAINER_CMD_TOP_SCREEN_H
#include "base/str.h"

enum { TOP_GPUS_MAX = 64, TOP_HISTORY = 64, TOP_TEXT_BYTES = 200 };

typedef struct TopGpu {
    bool known;
    /* NaN: not told */
    double utilization, utilization_min, memory_bytes, power_w, temperature_c, clock_mhz;
} TopGpu;

typedef struct TopScreen { /* zero-initialise by top_screen_init() */
    bool started, stepped, evaluated, saved, sent, ended;
    char model[TOP_TEXT_BYTES], device[TOP_TEXT_BYTES], host[TOP_TEXT_BYTES],
        reason[TOP_TEXT_BYTES];
    double world, classes, steps, epochs, images, global_batch;
    double step, epoch, epochs_done, loss, lr, images_per_s, step_ms, data_wait_ms, comm_wait_ms,
        grad_norm, mfu;
    double seconds_per_image; /* smoothed */
    double eval_step, eval_loss, eval_top1, eval_top5, ema_top1, best_top1, best_step;
    double checkpoint_step, checkpoint_time, on_save_step;
    char on_save_outcome[TOP_TEXT_BYTES];
    double joules, money, host_s; /* by the run so far; NaN: not told */
    double price_per_host_hour, price_per_kwh, pue;
    char currency[TOP_TEXT_BYTES], price_note[TOP_TEXT_BYTES];
    int code;
    /* Unix time of the last record; the longest gap between the last two of them */
    double last_time, gap_s;
    int gpus;
    TopGpu gpu[TOP_GPUS_MAX];
    double history[TOP_HISTORY]; /* means of stride losses each */
    int history_count, stride, pending;
    double pending_sum;
} TopScreen;

void top_screen_init(TopScreen *t);
/* One line of metrics.jsonl. What is no record of a run is passed over: a run that writes may have
 * begun a line. */
void top_screen_add_line(TopScreen *t, const char *line, size_t bytes);
/* Several lines. name: the run's. now_s: Unix seconds. */
void top_screen_describe(const TopScreen *t, const char *name, double now_s, StrBuf *out);
#endif
