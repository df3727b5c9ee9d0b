/* timeline.h - the order in which a run is issued: nodes, events, reductions, updates, each on its
 * lane.
 *
 * A Timeline is made once, when the memory plan is known, and walked by executor_issue() in every
 * run. Lanes are streams: work on one lane runs in order, work on two lanes is ordered only by an
 * event that the one records and the other waits for. Where lanes are no streams (host memory),
 * there is one lane and no event.
 *
 * STEP. The last micro-batch of a training step also sums gradients over ranks and updates
 * parameters, by the list of operations that rules have made (step.h):
 *   TIMELINE_REDUCE_NONE    one rank on a device: updates follow backward
 *   TIMELINE_REDUCE_DEVICE  a bucket is summed on the communication lane as soon as both compute
 *                           lanes have made its gradients; its update waits for that
 *   TIMELINE_REDUCE_HOST    the host sums: SUM announces (or copies out) a bucket, the host waits
 *                           at backward_end for its gradients and at AWAIT for the sum of the
 *                           others
 * BATCH NORM OVER RANKS. In every run, step or not, what graph_rank_sum() names of a node is summed
 * over a group of ranks behind that node, and nothing reads it before. These sums, those of buckets
 * and that of running statistics are on one lane; which there are, and in which order, follows from
 * graph, plan and options alone, so it is the same on all ranks.
 *
 * With a loss scale all buckets are looked through before the first is updated, and where the norm
 * of all gradients is wanted all are measured.
 *
 * TWO PASSES. A step may be two runs of the same micro-batch (sharpness.h). The first measures the
 * summed gradients and moves the parameters along them instead of updating; the second puts back
 * running statistics as soon as forward has made its own, and parameters before the first update,
 * and is a step otherwise.
 *
 * timeline_check() proves a timeline from nothing but graph, plan, items and what operations say of
 * themselves. */
#ifndef CONVOY_TRAINER_ENGINE_EXEC_TIMELINE_H
#define CONVOY_TRAINER_ENGINE_EXEC_TIMELINE_H
#include "trainer/engine/exec/step.h"
#include "trainer/engine/exec/sums.h"

typedef enum TimelineKind {
    TIMELINE_NODE,   /* index: node */
    TIMELINE_OP,     /* index: of Timeline.ops */
    TIMELINE_SUM,    /* index: of Timeline.sums */
    TIMELINE_AWAIT,  /* likewise; reduce host: the sum is back */
    TIMELINE_RECORD, /* index: event */
    TIMELINE_WAIT,   /* index: event; the lane goes on when it was reached */
    TIMELINE_RESULT  /* stats go to the host */
} TimelineKind;

typedef struct TimelineItem {
    TimelineKind kind;
    Lane lane;
    int index; /* 0 where the kind has none */
} TimelineItem;

typedef enum TimelineReduce {
    TIMELINE_REDUCE_NONE,
    TIMELINE_REDUCE_HOST,
    TIMELINE_REDUCE_DEVICE
} TimelineReduce;

typedef struct TimelineOptions {
    bool events;      /* lanes are streams */
    TimelineRun step; /* the rest is read only for one */
    TimelineReduce reduce;
    bool statistics;       /* running statistics are averaged over ranks */
    const StepOp *ops;     /* borrowed; those of other runs are left out */
    const Bucket *buckets; /* borrowed */
    int op_count, bucket_count;
} TimelineOptions;

typedef struct Timeline {
    TimelineOptions options;
    TimelineItem *items; /* owned */
    Bucket *buckets;     /* owned; options.buckets names it */
    StepOp *ops;         /* owned; options.ops names it */
    SumRange *sums;      /* owned; buckets, running statistics, then norms by node */
    int count;
    int replayable; /* items [0, replayable) need nothing of the host: they can be captured */
    /* reduce host: items from here on follow when the host has seen all before done; else count */
    int backward_end;
    int event_count;
} Timeline;

/* buckets and ops are copied. */
Status timeline_create(Timeline **out, const Graph *g, const Plan *p, const TimelineOptions *o);
void timeline_destroy(Timeline *t); /* NULL ok */

/* Independent proof, with vector clocks over lanes: of two accesses to the same memory, one a
 * write, one happens before the other; every tensor is read as its producer left it; every gradient
 * is in its bucket's sum, every bucket is summed once and updated once, after its sum; every
 * operation of the step has its turn once, as StepWhen says; all lanes have ended when the compute
 * lane ends. ERR_INTERNAL names nodes, operations and tensors. */
Status timeline_check(const Timeline *t, const Graph *g, const Plan *p);

const char *timeline_item_name(const Timeline *t, const Graph *g, int item);
bool timeline_has_sums(const Timeline *t);
const char *timeline_lane_name(Lane lane);
#endif
