/* series.h - a scaling experiment: one config trained on several numbers of ranks, several times
 * each.
 *
 * A point is one run: a number of ranks and a repeat. Its run folder is in the folder of the series
 * and shows whether the point is finished; so a series continues where it stopped, and anybody may
 * run points. Repeats are the outer loop, so that a machine that slows down slows all numbers of
 * ranks. scale.jsonl there is rewritten after every point, for convoy report. */
#ifndef CONVOY_TRAINER_APP_SCALE_SERIES_H
#define CONVOY_TRAINER_APP_SCALE_SERIES_H
#include "trainer/app/launch/words.h"
#include "trainer/app/report/report_run.h"
#include "trainer/engine/config/config.h"

#define SERIES_SETS_MAX 24 /* keys that a point sets */

typedef struct Series {
    const char *config_path; /* borrowed */
    const char *const *sets; /* the user's, borrowed */
    int set_count;
    Config *config; /* of both */
    char *dir;
    int point_count;
} Series;

typedef struct Point {
    int64_t ranks, repeat; /* repeat counts from 1 */
    char name[32];         /* n2-r1: its run folder in that of the series */
    char *run_dir;
    char *sets[SERIES_SETS_MAX]; /* "key=value" */
    int set_count;
} Point;

/* Loads the config with the user's sets. ERR_USAGE. */
Status series_open(Series *out, const char *config_path, const char *const *sets, int set_count);
void series_close(Series *s);
/* Point number index of point_count, in the order in which they are run. */
Status series_point(Point *out, const Series *s, int index);
void series_point_free(Point *p); /* zeroed ok */
/* "train CONFIG --set ..." for this point, without a program in front. */
void series_point_command(const Point *p, const Series *s, Words *out);

/* Looks whether the point is finished; then *run is its run (report_run_free), else zeroed.
 * ERR_USAGE where the folder holds a finished run of other settings, naming them. */
Status series_point_find(const Point *p, const Series *s, ReportRun *run, bool *finished);

/* Writes scale.jsonl from the finished points. *finished: how many there are. */
Status series_write(const Series *s, int *finished);
/* Prints epoch time and efficiency of the finished points. */
Status series_print(const Series *s);
#endif
