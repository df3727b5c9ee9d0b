/* runlog.h - the run folder and what a run says: metrics.jsonl, log.txt, the console (by
 * log.format), log.file.
 *
 * Rank 0 writes; other ranks only write to their own log.file. metrics.jsonl is flushed line by
 * line; a torn last line of an earlier run is cut off first. While another process writes there, a
 * run (one with a config) waits for its end, at most 30 s.
 *
 * A run is opened first and begun once it is known to be good. Until then records and log lines are
 * held back, and dropped where it never begins. A folder in which nothing has trained yet may be
 * begun at once, so that it reports a failure. Nothing here allocates after runlog_begin. ERR_IO on
 * a failed write (disk full). */
#ifndef CONVOY_TRAINER_APP_LOG_RUNLOG_H
#define CONVOY_TRAINER_APP_LOG_RUNLOG_H
#include "base/status.h"
#include "trainer/app/log/console.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/events/records.h"
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

/* Writes a record: kind says which struct of records.h it is. What people want to know of it is
 * said, too, and what the last lines of a run tell is kept. */
Status runlog_record(RunLog *r, RecordKind kind, const void *record);
void runlog_row(RunLog *r, const ConsoleRow *row); /* of the table; rank 0 prints it */
/* Where rank keeps a log of its own by log.file; NULL: nowhere. mem_free. */
Status runlog_file_name(char **out, const Config *config, int rank, int world);
/* code: exit code; reason: "completed" or the error sentence. Always the last line. Best effort:
 * never fails. r NULL ok. */
void runlog_done(RunLog *r, int code, const char *reason);
/* The same from any thread of a process that is about to end without returning; r NULL ok. */
void runlog_last_words(const RunLog *r, int code, const char *reason);
/* The live line (terminal) or one plain line: epoch, step of steps, loss, lr, images/s or
 * tokens/s, data wait share, ETA. */
void runlog_progress(RunLog *r, const StepRecord *s, int64_t total_steps, double eta_s);
#endif
