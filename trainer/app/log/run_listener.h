/* run_listener.h - what hears of a run while it trains: its records, the console, its monitors. */
#ifndef CONVOY_TRAINER_APP_LOG_RUN_LISTENER_H
#define CONVOY_TRAINER_APP_LOG_RUN_LISTENER_H
#include "trainer/app/log/runlog.h"
#include "trainer/app/monitor/monitor.h"
#include "trainer/engine/events/run_events.h"

typedef struct RunListener { /* the first three are the caller's, borrowed; all else begins as 0 */
    RunLog *log;
    Comm *comm;
    const Config *config;
    Monitor *monitor;
    double epochs, images; /* those of the run; images of an epoch */
    int64_t first_step, steps;
    struct { /* since the last step record */
        double seconds;
        int64_t images, tokens;
    } recent;
    struct { /* since the last row of the table */
        double seconds;
        int64_t samples; /* tokens of text */
    } row;
    double shown_s, seconds_per_image; /* the line on the console */
} RunListener;

/* Borrows l. */
RunEvents run_listener_events(RunListener *l);
#endif
