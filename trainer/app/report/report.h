/* report.h - one page about runs: curves, waits, environment, configuration, and how epoch time
 * scales. */
#ifndef CONVOY_TRAINER_APP_REPORT_REPORT_H
#define CONVOY_TRAINER_APP_REPORT_REPORT_H
#include "base/status.h"
#include <stdbool.h>

#define REPORT_RUNS_MAX 256

/* Writes the page out (".html"), the records beside it (".csv" for ".html") and, where runs differ
 * in their number of ranks, the table of epoch times (".scaling.csv"). inputs: run folders, or
 * folders of convoy scale, whose points are runs. ERR_DATA naming a folder that holds neither;
 * ERR_IO. */
Status report_write(const char *out, const char *const *inputs, int count);
/* The page alone, in silence, of runs that may go on; browsers load it again after refresh_s.
 * *ended: all runs have ended, so the page is as report_write() makes it, and so are the files
 * beside it. Runs of a folder of convoy scale never have: others may follow. */
Status report_write_live(const char *out, const char *const *inputs, int count, double refresh_s,
                         bool *ended);
#endif
