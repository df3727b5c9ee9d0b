/* executor_internal.h - the struct behind executor.h, for executor*.c and state.c only. */
#ifndef CONVOY_TRAINER_ENGINE_EXEC_EXECUTOR_INTERNAL_H
#define CONVOY_TRAINER_ENGINE_EXEC_EXECUTOR_INTERNAL_H
#include "trainer/engine/exec/executor.h"
#include "trainer/engine/exec/program_internal.h"
#include "trainer/engine/exec/state.h"

enum { MAX_PROGRAMS = 24, EXECUTOR_RECORDS_MAX = 4, EXECUTOR_KEPT_MAX = 16, RECORD_RING = 4 };

typedef struct EventList {
    Event **list;
    int count;
} EventList;

typedef struct Record {
    const char *name; /* a program's graph owns it */
    OpTensor tensor;
    void *ring; /* [RECORD_RING] values on their way there */
    size_t place_bytes;
    Event *copied[RECORD_RING]; /* devices: the copy from this place is done */
    int next;
} Record;

struct Executor {
    Backend *backend;
    ExecutorOptions options;
    Stream *lanes[LANE_COUNT];
    EventList events; /* of all timelines, by index */
    Program *programs[MAX_PROGRAMS];
    int program_count;
    TensorId *states; /* in the first program: parameters in slab order, then buffers */
    int state_count;
    const char **param_order;
    int param_count;
    size_t slab_bytes[SLAB_COUNT], workspace_bytes[PLAN_LANE_COUNT], naive_bytes;
    void *slabs[SLAB_COUNT], *workspaces[PLAN_LANE_COUNT];
    bool borrows_grads;
    void *staging; /* executor_staging.c */
    size_t staging_bytes;
    Record *records[EXECUTOR_RECORDS_MAX];
    int record_count;
    State kept[EXECUTOR_KEPT_MAX]; /* state.h's table */
    int kept_count;
    StepOp *steps; /* executor_add_step() */
    int step_count;
    double (*results)[STATS_COUNT]; /* executor_alloc_host() */
    /* Timed runs on a device: an event before and one behind each item; whose times are wanted,
     * NULL if nobody's. */
    EventList timers;
    Event *origin;
    double origin_s; /* clock_s() when the device reached origin */
    int timed_from, timed_items;
    double *timed_into;
    ItemTimes timed_when;
};

void executor_forget_recordings(Program *p);
/* Makes sure that the list has this many events. */
Status executor_reserve(Executor *x, EventList *l, int count,
                        Status (*create)(Backend *b, Event **out));
bool executor_run_brings(const char *input); /* by RunOptions */
/* What p's weight gradients take at most where several are converted together. */
size_t executor_staging_bytes(const Program *p);
/* Says which are: none of two buckets. p is bound; may be called again. */
Status executor_stage(Program *p, const Bucket *buckets, int bucket_count);
Status executor_alloc_records(Executor *x);
void executor_free_records(Executor *x);
#endif
