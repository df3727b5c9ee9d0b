/* series_run.h - runs the points of a series that are not finished, one after the other, through
 * mpirun; or prints how. */
#ifndef CONVOY_TRAINER_APP_SCALE_SERIES_RUN_H
#define CONVOY_TRAINER_APP_SCALE_SERIES_RUN_H
#include "trainer/app/scale/series.h"

typedef struct SeriesRunOptions {
    const char *program; /* path of convoy */
    /* more words for mpirun; NULL: none, and --oversubscribe where this host needs it */
    const char *mpirun_args;
} SeriesRunOptions;

/* The output of each point goes to NAME.log in the folder of the series, which is written after
 * every point. A point that fails ends it, with its status and the name of its log. ERR_STOPPED
 * when asked to stop (signals.h): the point that ran is begun anew next time. ERR_IO where another
 * is at work there. */
Status series_run(const Series *s, const SeriesRunOptions *o);

typedef enum PrintKind { PRINT_MPIRUN, PRINT_SBATCH } PrintKind;
/* A line for every point that is not finished, to be given to a shell. per_node: ranks on a node,
 * for sbatch. ERR_USAGE where a number of ranks above that is no multiple of it. */
Status series_run_print(const Series *s, const SeriesRunOptions *o, PrintKind kind,
                        int64_t per_node);
#endif
