/* record.h - what a supervisor leaves in the run folder: launch.jsonl, launch.status.json; its lock
 * (lock.h) goes with them.
 *
 * launch.jsonl: one object a line, appended: event (start, hosts, run, exit, lost, cooldown, done)
 * and time. The status file is replaced as a whole. Both are for readers; nothing is read back from
 * them but by convoy launch --status. */
#ifndef CONVOY_TRAINER_APP_LAUNCH_RECORD_H
#define CONVOY_TRAINER_APP_LAUNCH_RECORD_H
#include "base/json.h"
#include "trainer/app/launch/hosts.h"

typedef struct Record Record;
/* Makes run_dir, takes the lock (waiting and failing as lock_take() does), opens launch.jsonl. */
Status record_open(Record **out, const char *run_dir, double silent_s, double wait_s);
void record_close(Record *r);      /* NULL ok */
bool record_renew_lock(Record *r); /* as lock_renew() */

/* An event: begin, fields with json.h, end. A line that cannot be written is a warning, once: the
 * run is worth more. */
JsonWriter *record_begin(Record *r, const char *event);
void record_end(Record *r);
void record_hosts(JsonWriter *w, const char *key, const HostList *hosts); /* ["a:2", "b:2"] */

typedef struct LaunchState { /* what launch.status.json says */
    const char *state;       /* waiting, probing, running, stopping, done */
    const HostList *hosts;   /* in use, or found so far */
    const HostBook *book;
    int attempt, restarts, max_restarts, min_hosts, max_hosts;
    double since_s;   /* Unix time of the last change of state */
    const char *last; /* what happened last, "" for nothing */
} LaunchState;
void record_state(Record *r, const LaunchState *state);
/* Prints the status of the run in run_dir for people, whether its supervisor lives or not.
 * ERR_DATA: was never launched. */
Status record_print_state(const char *run_dir);
#endif
