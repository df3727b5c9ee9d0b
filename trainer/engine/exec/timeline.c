/* timeline.c - makes timelines. A builder emits items and keeps, for each lane, how much of every
 * other lane it is known to have waited for; so no wait is emitted twice. */
#include "trainer/engine/exec/timeline.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>

#define NO_EVENT (-1)

typedef struct Builder {
    Timeline *t;
    const Graph *g;
    const Plan *p;
    size_t capacity;
    int issued[LANE_COUNT];           /* pieces of work on the lane */
    int seen[LANE_COUNT][LANE_COUNT]; /* [a][b]: work of lane b that lane a has waited for */
    /* the newest event of the lane, and what waiting for it means */
    int event[LANE_COUNT], at_event[LANE_COUNT][LANE_COUNT];
    int *node_event, *node_position;     /* [nodes]: event behind a side node; place on its lane */
    int *bucket_event, *bucket_position; /* [buckets]: behind its sum on the communication lane */
    int statistics, next_norm;           /* in Timeline.sums */
    bool failed;
} Builder;

static void emit(Builder *b, TimelineKind kind, Lane lane, int index)
{
    Timeline *t = b->t;
    b->failed = b->failed || !mem_grow(&t->items, (size_t)t->count, &b->capacity, sizeof *t->items);
    if (b->failed) return;
    t->items[t->count++] = (TimelineItem){ .kind = kind, .lane = lane, .index = index };
}

static void emit_work(Builder *b, TimelineKind kind, Lane lane, int index)
{
    emit(b, kind, lane, index);
    b->issued[lane]++;
    b->seen[lane][lane] = b->issued[lane];
}

/* The event behind all that lane has been given so far. */
static int mark(Builder *b, Lane lane)
{
    if (!b->t->options.events) return NO_EVENT;
    if (b->event[lane] != NO_EVENT &&
        memcmp(b->at_event[lane], b->seen[lane], sizeof b->seen[lane]) == 0)
        return b->event[lane];
    b->event[lane] = b->t->event_count++;
    memcpy(b->at_event[lane], b->seen[lane], sizeof b->seen[lane]);
    emit(b, TIMELINE_RECORD, lane, b->event[lane]);
    return b->event[lane];
}

/* lane waits for an event of another lane behind which the first position pieces of its work
 * lie. */
static void wait_for(Builder *b, Lane lane, Lane other, int event, int position)
{
    if (!b->t->options.events || b->seen[lane][other] >= position) return;
    emit(b, TIMELINE_WAIT, lane, event);
    b->seen[lane][other] = position;
    /* What other had waited for is waited for too; that is kept of its newest event alone. */
    for (int l = 0; b->event[other] == event && l < LANE_COUNT; l++)
        if (b->at_event[other][l] > b->seen[lane][l]) b->seen[lane][l] = b->at_event[other][l];
}

/* lane waits for all that other has been given so far. */
static void wait_all(Builder *b, Lane lane, Lane other)
{
    if (!b->t->options.events || b->seen[lane][other] >= b->issued[other]) return;
    wait_for(b, lane, other, mark(b, other), b->issued[other]);
}

/* The operations of a step that have their turn now: on the compute lane, which all that they read
 * has been joined with. */
static void emit_ops(Builder *b, StepWhen when, int bucket)
{
    const TimelineOptions *o = &b->t->options;
    for (int i = 0; i < o->op_count; i++)
        if (o->ops[i].when == when && o->ops[i].bucket == bucket &&
            step_in_run(&o->ops[i], o->step))
            emit_work(b, TIMELINE_OP, LANE_COMPUTE, i);
}

static bool has_ops(const Builder *b, StepWhen when)
{
    const TimelineOptions *o = &b->t->options;
    for (int i = 0; i < o->op_count; i++)
        if (o->ops[i].when == when && step_in_run(&o->ops[i], o->step)) return true;
    return false;
}

/* ---- nodes ---- */

static Lane lane_of(const Builder *b, int node)
{
    return b->t->options.events && b->p->nodes[node].lane == PLAN_SIDE ? LANE_WEIGHTS
                                                                       : LANE_COMPUTE;
}

/* The place on the compute lane of the last node that made something which node reads; 0 if none
 * did. */
static int newest_producer(const Builder *b, int node)
{
    const GraphNode *n = graph_node(b->g, node);
    int newest = 0;
    for (int k = 0; k < OP_MAX_INPUTS; k++) {
        int producer = n->in[k] == TENSOR_NONE ? -1 : graph_tensor(b->g, n->in[k])->producer;
        if (producer < 0 || lane_of(b, producer) != LANE_COMPUTE) continue;
        if (b->node_position[producer] > newest) newest = b->node_position[producer];
    }
    return newest;
}

/* A node of the side lane: it waits for what it reads. The first one of a run always waits, so that
 * the lane takes part in a capture, and follows all work of the run before. */
static void emit_side(Builder *b, int node)
{
    int needed = newest_producer(b, node);
    if (b->issued[LANE_WEIGHTS] == 0 || b->seen[LANE_WEIGHTS][LANE_COMPUTE] < needed)
        wait_all(b, LANE_WEIGHTS, LANE_COMPUTE);
    emit_work(b, TIMELINE_NODE, LANE_WEIGHTS, node);
    b->node_position[node] = b->issued[LANE_WEIGHTS];
    b->node_event[node] = mark(b, LANE_WEIGHTS);
}

/* The main lane waits for side nodes that are joined at node (or at the end: node = number of
 * nodes). */
static void join_side(Builder *b, int node)
{
    int last = -1;
    for (int i = 0; i < node; i++)
        if (lane_of(b, i) == LANE_WEIGHTS && b->p->nodes[i].joined_at <= node) last = i;
    /* the side lane runs in order: the last one stands for all before it */
    if (last >= 0)
        wait_for(b, LANE_COMPUTE, LANE_WEIGHTS, b->node_event[last], b->node_position[last]);
}

static void emit_node(Builder *b, int node)
{
    if (lane_of(b, node) == LANE_WEIGHTS) {
        emit_side(b, node);
        return;
    }
    join_side(b, node);
    emit_work(b, TIMELINE_NODE, LANE_COMPUTE, node);
    b->node_position[node] = b->issued[LANE_COMPUTE];
}

/* ---- reductions ---- */

static Lane reduce_lane(const Builder *b)
{
    return b->t->options.events ? LANE_COMM : LANE_COMPUTE;
}

/* The communication lane waits for a node that was issued. Weight gradients first: their events
 * tell of the compute lane too. */
static void wait_for_node(Builder *b, int node)
{
    Lane lane = reduce_lane(b), other = lane_of(b, node);
    int position = b->node_position[node];
    if (lane == LANE_COMPUTE || b->seen[lane][other] >= position) return;
    /* Side nodes have an event each; for the compute lane one is recorded here. */
    if (other == LANE_WEIGHTS) wait_for(b, lane, other, b->node_event[node], position);
    else wait_all(b, lane, other);
}

static void mark_sum(Builder *b, int bucket)
{
    Lane lane = reduce_lane(b);
    b->bucket_event[bucket] = mark(b, lane);
    b->bucket_position[bucket] = b->issued[lane];
}

/* The last node on lane that completes a gradient of the bucket; -1 if none does. */
static int last_writer(const Builder *b, const Bucket *bucket, Lane lane)
{
    int last = -1;
    for (TensorId id = 0; id < graph_tensor_count(b->g); id++) {
        const GraphTensor *t = graph_tensor(b->g, id);
        const size_t offset = b->p->entries[id].offset;
        if (t->role != ROLE_GRAD || offset < bucket->offset ||
            offset >= bucket->offset + bucket->bytes)
            continue;
        if (lane_of(b, t->last_writer) == lane && t->last_writer > last) last = t->last_writer;
    }
    return last;
}

static void emit_bucket(Builder *b, int bucket)
{
    const Bucket *range = &b->t->options.buckets[bucket];
    const int weights = last_writer(b, range, LANE_WEIGHTS),
              compute = last_writer(b, range, LANE_COMPUTE);
    if (weights >= 0) wait_for_node(b, weights);
    if (compute >= 0) wait_for_node(b, compute);
    emit_work(b, TIMELINE_SUM, reduce_lane(b), bucket);
    if (b->t->options.reduce == TIMELINE_REDUCE_DEVICE) mark_sum(b, bucket);
}

/* All of the compute lane waits for the sum: what reads it mostly follows at once. */
static void emit_rank_sum(Builder *b, int node)
{
    if (graph_rank_sum(graph_node(b->g, node)) == TENSOR_NONE) return;
    wait_for_node(b, node);
    emit_work(b, TIMELINE_SUM, reduce_lane(b), b->next_norm++);
    if (reduce_lane(b) != LANE_COMPUTE) wait_all(b, LANE_COMPUTE, reduce_lane(b));
}

/* Running statistics are complete when forward is. */
static bool ends_forward(const Builder *b, int node)
{
    int nodes = graph_node_count(b->g);
    if (graph_node(b->g, node)->phase != PHASE_FORWARD) return false;
    return node + 1 == nodes || graph_node(b->g, node + 1)->phase == PHASE_BACKWARD;
}

static void emit_nodes(Builder *b)
{
    const TimelineOptions *o = &b->t->options;
    const bool reduces = o->step && o->reduce != TIMELINE_REDUCE_NONE;
    int next_bucket = 0;
    for (int i = 0; i < graph_node_count(b->g); i++) {
        emit_node(b, i);
        emit_rank_sum(b, i);
        if (ends_forward(b, i)) emit_ops(b, STEP_FORWARD, 0);
        if (o->step && o->statistics && o->reduce == TIMELINE_REDUCE_DEVICE && ends_forward(b, i)) {
            wait_for_node(b, i);
            emit_work(b, TIMELINE_SUM, reduce_lane(b), b->statistics);
        }
        while (reduces && next_bucket < o->bucket_count && o->buckets[next_bucket].ready_after <= i)
            emit_bucket(b, next_bucket++);
    }
    join_side(b, graph_node_count(b->g));
}

/* ---- the end of a step ---- */

/* The compute lane goes on with the sum of this bucket. */
static void emit_sum(Builder *b, int bucket)
{
    Lane lane = reduce_lane(b);
    if (b->t->options.reduce == TIMELINE_REDUCE_NONE) return;
    if (b->t->options.reduce == TIMELINE_REDUCE_HOST) {
        emit_work(b, TIMELINE_AWAIT, lane, bucket);
        mark_sum(b, bucket);
    }
    if (lane == LANE_COMPUTE) return;
    wait_for(b, LANE_COMPUTE, lane, b->bucket_event[bucket], b->bucket_position[bucket]);
}

/* What a loss scale or a norm makes of an update is known only when all gradients are, so the first
 * update waits for the last bucket; without them bucket 0 is updated while others are summed. */
static void emit_updates(Builder *b)
{
    const TimelineOptions *o = &b->t->options;
    const bool all_first = has_ops(b, STEP_MEASURE);
    for (int k = 0; all_first && k < o->bucket_count; k++) {
        emit_sum(b, k);
        emit_ops(b, STEP_MEASURE, k);
    }
    emit_ops(b, STEP_MOVE, 0);
    emit_ops(b, STEP_PREPARE, 0);
    for (int k = 0; k < o->bucket_count; k++) {
        if (!all_first) emit_sum(b, k);
        emit_ops(b, STEP_UPDATE, k);
    }
}

static void emit_statistics(Builder *b)
{
    const TimelineOptions *o = &b->t->options;
    if (o->step == TIMELINE_FIRST_PASS) return;
    if (o->reduce == TIMELINE_REDUCE_HOST)
        emit_work(b, TIMELINE_AWAIT, reduce_lane(b), b->statistics);
    if (!o->statistics) return;
    if (reduce_lane(b) != LANE_COMPUTE) wait_all(b, LANE_COMPUTE, reduce_lane(b));
    emit_ops(b, STEP_STATISTICS, 0);
}

static void emit_all(Builder *b)
{
    const TimelineOptions *o = &b->t->options;
    Timeline *t = b->t;
    const bool host = o->step && o->reduce == TIMELINE_REDUCE_HOST;
    emit_nodes(b);
    t->replayable = t->count;
    if (host) {
        /* The host sums metrics while it waits for gradients, so it needs the stats already here;
         * what scale and norm became follows below. */
        emit_work(b, TIMELINE_RESULT, LANE_COMPUTE, 0);
        t->replayable = 0; /* announcing a bucket is the host's work */
        t->backward_end = t->count;
    }
    if (o->step) {
        emit_updates(b);
        emit_statistics(b);
    }
    emit_ops(b, STEP_AVERAGE, 0);
    emit_ops(b, STEP_END, 0);
    if (host) {
        if (reduce_lane(b) != LANE_COMPUTE) wait_all(b, LANE_COMPUTE, reduce_lane(b));
    } else {
        t->replayable = t->count; /* where results go differs from run to run */
        emit_work(b, TIMELINE_RESULT, LANE_COMPUTE, 0);
    }
    emit_ops(b, STEP_RESULT, 0);
    if (!host) t->backward_end = t->count;
}

static Status make_sums(Builder *b)
{
    const TimelineOptions *o = &b->t->options;
    const int nodes = graph_node_count(b->g);
    const size_t statistics = o->statistics ? b->p->slab_bytes[SLAB_BUFFER] : 0;
    SumRange *next = b->t->sums =
        mem_calloc((size_t)(o->bucket_count + 1 + nodes), sizeof *b->t->sums);
    if (!next) return ERR_MEMORY;
    for (int k = 0; k < o->bucket_count; k++)
        *next++ = (SumRange){ SUM_GRADS,           k,           SLAB_GRAD, o->buckets[k].offset,
                              o->buckets[k].bytes, TENSOR_NONE, "" };
    for (int k = 0; k < o->bucket_count; k++)
        snprintf(b->t->sums[k].name, sizeof b->t->sums[k].name, "bucket %d", k);
    b->statistics = o->bucket_count;
    b->next_norm = o->bucket_count + 1;
    *next++ = (SumRange){ SUM_STATISTICS, 0,           SLAB_BUFFER,         0,
                          statistics,     TENSOR_NONE, "running statistics" };
    for (int i = 0; i < nodes; i++) {
        const TensorId id = graph_rank_sum(graph_node(b->g, i));
        if (id != TENSOR_NONE)
            *next++ = (SumRange){ SUM_BATCHNORMS, i, SLAB_EXTERNAL, 0, 0, id, "sums of norms" };
    }
    return OK;
}

static Status fill_timeline(Builder *b)
{
    const size_t nodes = (size_t)graph_node_count(b->g);
    const TimelineOptions *o = &b->t->options;
    Bucket *buckets = b->t->buckets = mem_calloc((size_t)o->bucket_count + 1, sizeof *buckets);
    StepOp *ops = b->t->ops = mem_calloc((size_t)o->op_count + 1, sizeof *ops);
    if (buckets && o->bucket_count)
        memcpy(buckets, o->buckets, (size_t)o->bucket_count * sizeof *buckets);
    if (ops && o->op_count) memcpy(ops, o->ops, (size_t)o->op_count * sizeof *ops);
    b->t->options.buckets = buckets;
    b->t->options.ops = ops;
    b->node_event = mem_calloc(nodes + 1, sizeof *b->node_event);
    b->node_position = mem_calloc(nodes + 1, sizeof *b->node_position);
    b->bucket_event = mem_calloc((size_t)o->bucket_count + 1, sizeof *b->bucket_event);
    b->bucket_position = mem_calloc((size_t)o->bucket_count + 1, sizeof *b->bucket_position);
    for (int l = 0; l < LANE_COUNT; l++) b->event[l] = NO_EVENT;
    if (!buckets || !ops || !b->node_event || !b->node_position || !b->bucket_event ||
        !b->bucket_position)
        return ERR_MEMORY;
    TRY(make_sums(b));
    emit_all(b);
    return b->failed ? ERR_MEMORY : OK;
}

Status timeline_create(Timeline **out, const Graph *g, const Plan *p, const TimelineOptions *o)
{
    *out = NULL;
    Timeline *t = mem_calloc(1, sizeof *t);
    if (!t) return ERR_MEMORY;
    t->options = *o;
    if (!o->step) t->options.bucket_count = t->options.op_count = 0;
    if (o->reduce == TIMELINE_REDUCE_NONE || o->step == TIMELINE_FIRST_PASS)
        t->options.statistics = false;
    Builder b = { .t = t, .g = g, .p = p };
    Status status = fill_timeline(&b);
    mem_free(b.node_event);
    mem_free(b.node_position);
    mem_free(b.bucket_event);
    mem_free(b.bucket_position);
    if (status != OK) timeline_destroy(t);
    else *out = t;
    return status;
}

void timeline_destroy(Timeline *t)
{
    if (!t) return;
    mem_free(t->buckets);
    mem_free(t->ops);
    mem_free(t->sums);
    mem_free(t->items);
    mem_free(t);
}

const char *timeline_item_name(const Timeline *t, const Graph *g, int item)
{
    static const char *const sums[SUM_OF_COUNT][2] = {
        [SUM_GRADS] = { "sum of a bucket", "wait for a bucket's sum" },
        [SUM_STATISTICS] = { "sum of statistics", "wait for statistics and metrics" },
        [SUM_BATCHNORMS] = { "sums of norms", "wait for sums of norms" }
    };
    const TimelineItem *i = &t->items[item];
    switch (i->kind) {
    case TIMELINE_NODE:
        return graph_node(g, i->index)->name;
    case TIMELINE_OP:
        return t->ops[i->index].name;
    case TIMELINE_SUM:
    case TIMELINE_AWAIT:
        return sums[t->sums[i->index].of][i->kind == TIMELINE_AWAIT];
    case TIMELINE_RECORD:
        return "record";
    case TIMELINE_WAIT:
        return "wait";
    case TIMELINE_RESULT:
        break;
    }
    return "result";
}

bool timeline_has_sums(const Timeline *t)
{
    for (int i = 0; i < t->count; i++)
        if (t->items[i].kind == TIMELINE_SUM) return true;
    return false;
}

const char *timeline_lane_name(Lane lane)
{
    static const char *const names[LANE_COUNT] = { [LANE_COMPUTE] = "compute",
                                                   [LANE_WEIGHTS] = "weights",
                                                   [LANE_COPY] = "copy",
                                                   [LANE_COMM] = "comm" };
    return names[lane];
}
