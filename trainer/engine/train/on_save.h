/* on_save.h - runs checkpoint.on_save (docs/watching.md): a thread runs one command at a time; with
 * the run it dies, and all that it has started or left in the background. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_ON_SAVE_H
#define CONVOY_TRAINER_ENGINE_TRAIN_ON_SAVE_H
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum OnSaveOutcome {
    ON_SAVE_DONE,
    ON_SAVE_FAILED,
    ON_SAVE_TIMED_OUT,
    ON_SAVE_SKIPPED
} OnSaveOutcome;
typedef struct OnSaveResult {
    OnSaveOutcome outcome;
    int64_t step;
    int code; /* exit code; 128 and the signal; -1 where there is none */
    double seconds;
} OnSaveResult;
/* "done", "failed", "timed out", "skipped" */
const char *on_save_outcome_name(OnSaveOutcome outcome);

typedef struct OnSave OnSave;
/* Copies the strings. limit_s: for a command, and for all that is left at the end. */
Status on_save_create(OnSave **out, const char *command, const char *run_dir, double limit_s);
/* The file is complete. Never waits; copies path. Call on_save_poll() until it is false before. */
Status on_save_submit(OnSave *h, int64_t step, const char *path);
/* Takes the next result that nobody has taken; false if there is none. Never waits. */
bool on_save_poll(OnSave *h, OnSaveResult *out);
/* Whether the file of this step is read or waits to be: the checkpoint writer must not delete it.
 * cookie: the OnSave; from any thread. */
bool on_save_needs(void *cookie, int64_t step);
/* No further submit: what is left has limit_s from here. */
void on_save_finish(OnSave *h);
bool on_save_idle(OnSave *h);    /* nothing runs or waits */
void on_save_destroy(OnSave *h); /* waits for what runs, not for what waits; NULL ok */
#endif
