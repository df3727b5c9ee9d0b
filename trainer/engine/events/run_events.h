/* run_events.h - what a run tells its caller while it happens: one table of callbacks.
 *
 * All are called on the thread that trains, in this order: start, the record RESUME where there is
 * one, begin, other records and go_back, end. Every rank calls them at the same points, but RESUME,
 * CHECKPOINT and ON_SAVE are rank 0's alone, and only its records are kept. What they are given is
 * borrowed, and gone when they return. An error of start, begin or record ends the run with it,
 * agreed among ranks; it does not stop the step that is under way. A member that is NULL is not
 * called. */
#ifndef CONVOY_TRAINER_ENGINE_EVENTS_RUN_EVENTS_H
#define CONVOY_TRAINER_ENGINE_EVENTS_RUN_EVENTS_H
#include "trainer/engine/energy/energy.h"
#include "trainer/engine/events/records.h"

typedef struct RunEvents {
    void *self; /* the first argument of each */
    /* Collective; the run is open: its data, network and device are known. energy is there until
     * end. */
    Status (*start)(void *self, const StartRecord *r, Energy *energy);
    /* All that could have refused the run has been asked: it goes on behind this step, and only now
     * does its folder change. resumed: from a checkpoint. Rank 0 is the last. */
    Status (*begin)(void *self, bool resumed, int64_t step);
    /* Every step's record, those of epochs, evaluations, checkpoints and whatever else records.h
     * lists but START, GPU and DONE. */
    Status (*record)(void *self, RecordKind kind, const void *record);
    void (*go_back)(void *self, int64_t step); /* it has diverged, and goes on behind this step */
    void (*end)(void *self);                   /* always the last, also where start never came */
} RunEvents;

static inline Status run_events_record(const RunEvents *e, RecordKind kind, const void *record)
{
    return e->record ? e->record(e->self, kind, record) : OK;
}
#endif
