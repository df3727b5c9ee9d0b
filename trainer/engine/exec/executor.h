/* executor.h - graphs made runnable: prepared on a backend, planned into slabs, bound, run node by
 * node.
 *
 * An Executor owns the slabs that all its programs share: parameters, gradients, batch-norm
 * statistics, one activation slab and, per lane, one workspace as large as the hungriest program
 * needs. Programs (training, accumulating training, evaluation) are added first, then
 * executor_commit() allocates and binds; after that runs only run. The first program decides how
 * parameters lie in memory; later ones take that as given. No program runs while another does.
 *
 * RUNNING. A run walks the program's timeline (timeline.h). On host memory executor_issue() returns
 * when it is done, a step's when backward is: norms, updates and averages follow in
 * executor_issue_rest(). On a device executor_issue() only enqueues, and executor_wait() waits. A
 * device replays what it has run once: per program, input slot and kind of run, the first run is
 * ordinary, the second is captured, from then on the capture is launched as a whole. A program of
 * which a run cannot be captured says so and is walked from then on: on every rank where it holds
 * sums over ranks (Sums.agree), since those are replayed by all or by none. */
#ifndef CONVOY_TRAINER_ENGINE_EXEC_EXECUTOR_H
#define CONVOY_TRAINER_ENGINE_EXEC_EXECUTOR_H
#include "data/batch_layout.h"
#include "kernels/backend.h"
#include "trainer/engine/exec/program.h"

typedef struct Executor Executor;

/* executor_create()'s and device.side_depth's; two weight gradients should fill what the data
 * gradients leave idle */
#define EXECUTOR_SIDE_DEPTH 2

typedef struct ExecutorOptions {
    int side_depth; /* weight gradients under way beside the rest (plan.h); 0: none */
    bool replay;    /* devices: capture and replay */
    int results;    /* runs whose results are kept apart between two executor_wait(); 0: 1 */
} ExecutorOptions;

typedef struct ExecutorMemory { /* bytes */
    size_t params, grads, buffers, activations, activations_naive, teacher;
    size_t workspace, side_workspace;
    size_t param_copies; /* kept by the backend (DeviceVTable.param_copy_bytes) */
} ExecutorMemory;

/* Borrows backend until destroyed. A device gets the side lane and replay; executor_configure()
 * changes that. */
Status executor_create(Executor **out, Backend *backend);
void executor_configure(Executor *x, const ExecutorOptions *o); /* before the first executor_add */
void executor_destroy(Executor *x);                             /* NULL ok; destroys its programs */

/* Prepares and plans g (owned by the executor from here on, also on error). accumulate: parameter
 * gradients are added to. */
Status executor_add(Executor *x, Graph *g, bool accumulate, Program **out);
/* Bytes that commit will allocate; valid once all programs are added. */
void executor_memory(const Executor *x, ExecutorMemory *out);
/* Where the GRAD slab lies, before commit: zero-filled memory of the backend's device, as large as
 * executor_memory() says. Borrowed until x is destroyed. */
void executor_borrow_grads(Executor *x, void *memory);
/* Allocates the slabs and binds all programs. */
Status executor_commit(Executor *x);
/* STEPS. What follows the gradients is a list of operations (step.h), to which rules add theirs;
 * copied. */
Status executor_add_step(Executor *x, const StepOp *op);
void executor_remove_steps(Executor *x, const void *owner);
int executor_step_count(const Executor *x);
const StepOp *executor_step(const Executor *x, int index);
/* Enqueues or does it. result: the place that a copy to the host goes to. */
Status executor_run_step(Executor *x, const StepOp *op, int result, Stream *stream);
/* How the last micro-batch of a step runs in p (o->step: TIMELINE_STEP, or one of two passes over
 * it); after commit. events and operations are set by the executor. */
Status executor_plan_step(Executor *x, Program *p, const TimelineOptions *o);

/* RECORDS. An input that no run brings (RunOptions) is a record: memory of the executor's, one for
 * all programs with an input of that name, which other operations may read and write too. What it
 * means is its users' affair. NULL: no program has it. After commit. */
const OpTensor *executor_record(const Executor *x, const char *name);
/* From the next run on. Copies values and does not wait for runs under way. */
Status executor_set_record(Executor *x, const char *name, const void *values);

/* Memory that the host shares with the backend's streams. */
Status executor_alloc_host(Executor *x, size_t bytes, void **out);
void executor_free_host(Executor *x, void *p); /* NULL ok */
/* Enqueues a copy within the backend's memory, of whole floats. */
Status executor_copy(Executor *x, void *to, const void *from, size_t bytes, Stream *stream);

typedef struct ItemTimes { /* [items of the timeline]: when each ran, clock_s() */
    double *start_s, *end_s;
} ItemTimes;

typedef struct RunOptions { /* zero-initialise what is not needed */
    /* below PROGRAM_SLOTS; runs of one slot have the same addresses as inputs */
    int slot;
    /* The program's inputs, by their names; what it has no input for is not used. block NULL: as
     * program_set_input() left them; such a run is not replayed */
    const BatchLayout *layout;
    const void *block;
    TimelineRun step; /* as executor_plan_step() said */
    int result;       /* which of ExecutorOptions.results this run fills; a second pass none */
    int step_result;  /* which place its STEP_RESULT fills */
    bool failed;      /* this rank: it takes part in sums alone (StepNeed) */
    bool moved;       /* by a first pass */
    const Sums *sums; /* over ranks; NULL where the run has none */
    /* [items of the timeline]: the time of each is added, by executor_wait() at the latest (bench).
     * Weight gradients run on the compute lane then, nothing is replayed, and the device times
     * itself. */
    double *item_seconds;
    /* Likewise when each item ran, on the lane that it has in any run (a trace).
     * executor_time_origin() comes first. Not with item_seconds. */
    const ItemTimes *item_times;
} RunOptions;
/* Waits, and takes the time by which a device's times of items and events are told from here on. */
Status executor_time_origin(Executor *x);
/* When the device reached an event of timer_create(), on the host's clock_s(). It must have been
 * reached. */
Status executor_event_time(Executor *x, Event *event, double *time_s);
/* Up to backward_end of the timeline: all of it unless the host reduces. o may be NULL. */
Status executor_issue(Executor *x, Program *p, const RunOptions *o);
Status executor_issue_rest(Executor *x, Program *p, const RunOptions *o); /* from backward_end on */
/* until all that was issued is done */
Status executor_wait(Executor *x);
Status executor_run(Executor *x, Program *p, const RunOptions *o); /* issue and wait */
/* [STATS_COUNT]; once the run is done */
const double *executor_result(const Executor *x, int result);

/* Parameters and buffers, by the names and order of the first program (PARAM slab order, then
 * buffers). */
int executor_state_count(const Executor *x);
const char *executor_state_name(const Executor *x, int index);
const OpTensor *executor_state(const Executor *x, int index); /* data valid after commit */
bool executor_state_is_param(const Executor *x, int index);
/* A parameter that is not frozen. */
bool executor_state_trains(const Executor *x, int index);
/* Ascends as the network declares its parameters and buffers, from the images on. */
int executor_state_order(const Executor *x, int index);
const GraphTensor *executor_state_tensor(const Executor *x, int index);
/* Fills every parameter and buffer by its init rule (models.h). */
Status executor_init_states(Executor *x, uint64_t seed);
/* Copies a state to and from plain row-major host memory. */
Status executor_export_state(const Executor *x, int index, void *host);
Status executor_import_state(Executor *x, int index, const void *host);
/* To be called after anything but a run or the calls above has written to the PARAM slab. */
Status executor_params_changed(Executor *x);
size_t executor_state_offset(const Executor *x, int index); /* in its slab */
void *executor_slab(const Executor *x, Slab slab);
size_t executor_slab_bytes(const Executor *x, Slab slab);
Backend *executor_backend(const Executor *x);
Stream *executor_stream(const Executor *x); /* LANE_COMPUTE */
/* NULL where the lane does not exist; after commit */
Stream *executor_lane(const Executor *x, Lane lane);
#endif
