/* executor_internal.h - the struct behind executor.h, for executor*.c only. */
#ifndef CONVOY_TRAINER_EXEC_EXECUTOR_INTERNAL_H
#define CONVOY_TRAINER_EXEC_EXECUTOR_INTERNAL_H
#include "trainer/exec/executor.h"
#include "trainer/exec/program_internal.h"

enum { MAX_PROGRAMS = 24, SCALAR_RING = 4 };

typedef struct StateEntry {
    const char *name; /* the first program's graph owns it */
    TensorId id;      /* in the first program */
    bool is_param;
} StateEntry;

struct Executor {
    Backend *backend;
    ExecutorOptions options;
    Stream *lanes[LANE_COUNT];
    Event **events; /* of all timelines, by index */
    int event_count;
    Program *programs[MAX_PROGRAMS];
    int program_count;
    StateEntry *states; /* parameters in slab order, then buffers */
    int state_count;
    const char **param_order;
    int param_count;
    size_t slab_bytes[SLAB_COUNT], workspace_bytes[PLAN_LANE_COUNT], naive_bytes;
    void *slabs[SLAB_COUNT], *workspaces[PLAN_LANE_COUNT];
    OpTensor scalars, loss_scale, clip; /* on the backend; loss_scale: rank 0 if unused */
    /* host memory, pinned where there is a device; so are the next three */
    double (*results)[STATS_COUNT];
    float (*scalar_ring)[SCALAR_COUNT]; /* values on their way to scalars */
    float (*scale_results)[LOSS_SCALE_COUNT];
    float (*clip_results)[CLIP_COUNT];
    float loss_scale_read[LOSS_SCALE_COUNT];
    /* Timed runs on a device: an event before and one behind each item; whose times are wanted,
     * NULL if nobody's. */
    Event **timers, *origin;
    double origin_s; /* clock_s() when the device reached origin */
    int timer_count, timed_from, timed_items;
    double *timed_into;
    ItemTimes timed_when;
    Event *scalar_events[SCALAR_RING]; /* devices: the copy from this place of the ring is done */
    int scalar_next;
};

/* Events up to count exist. Does nothing where lanes are no streams. */
Status executor_reserve_events(Executor *x, int count);
void executor_forget_recordings(Program *p);
#endif
