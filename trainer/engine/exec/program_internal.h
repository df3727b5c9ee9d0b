/* program_internal.h - the struct behind program.h, for program.c and executor*.c only. */
#ifndef CONVOY_TRAINER_ENGINE_EXEC_PROGRAM_INTERNAL_H
#define CONVOY_TRAINER_ENGINE_EXEC_PROGRAM_INTERNAL_H
#include "trainer/engine/exec/program.h"

typedef struct Recording { /* one kind of run: program, input slot, TimelineRun */
    int runs;              /* ordinary ones */
    Replay *replay;
    const void *block; /* what it was captured with */
} Recording;

struct Program {
    struct Executor *executor;
    Graph *graph;
    bool accumulate;
    OpTensor *tensors; /* [tensor count] */
    OpInstance *nodes; /* [node count] */
    Plan *plan;
    void *stats;                             /* f64 [STATS_COUNT], the backend's memory */
    const double *result;                    /* of the last run, in host memory */
    Timeline *timelines[TIMELINE_RUN_COUNT]; /* NULL: it does not run so */
    Recording recordings[PROGRAM_SLOTS][TIMELINE_RUN_COUNT];
    /* Such a run could not be captured: all of them are walked. Of each kind by itself, since ranks
     * agree on those with sums in them and on no others. */
    bool unrecordable[TIMELINE_RUN_COUNT];
};

/* Gives a node the addresses of its tensors, once it has all of them. */
Status program_bind_node(Program *p, int index);
#endif
