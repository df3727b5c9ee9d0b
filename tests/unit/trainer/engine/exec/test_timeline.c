/* test_timeline.c - timelines of real networks, proved by timeline_check(); and that it notices
 * what it should. */
#include "base/mem.h"
#include "base/str.h"
#include "models/models.h"
#include "tests/test.h"
#include "tests/tools/plan_check.h"
#include "tests/tools/steps.h"
#include "trainer/engine/exec/executor.h"
#include "trainer/engine/train/reducer.h"
#include <stdio.h>
#include <string.h>

typedef struct Net {
    Graph *graph;
    Plan *plan;
    Bucket *buckets;
    int bucket_count;
} Net;

typedef struct NetSpec {
    const char *name;
    int64_t batch, size, channels, classes;
    int bn_ranks; /* that share the statistics of batch norms; 0: none */
} NetSpec;

static const NetSpec specs[] = {
    { "resnet50", 4, 64, 3, 1000, 0 }, { "resnet18", 2, 32, 3, 10, 0 },
    { "resnet20", 8, 32, 3, 10, 0 },   { "mlp", 16, 28, 1, 10, 0 },
    { "resnet20", 8, 32, 3, 10, 4 },   { "roberta_tiny", 2, 16, 3, 100, 0 },
};

static ModelOptions options_of(const NetSpec *spec)
{
    ModelOptions o = { .width = 1,
                       .graph = { .batch = spec->batch,
                                  .channels = spec->channels,
                                  .height = spec->size,
                                  .width = spec->size,
                                  .classes = spec->classes,
                                  .training = true,
                                  .bn_ranks = spec->bn_ranks,
                                  .loss_scale = true } };
    for (int c = 0; c < OP_MAX_IMAGE_CHANNELS; c++) o.graph.std[c] = 1;
    if (model_find(spec->name)->text) { /* whose words' gradient two nodes make */
        o.graph.tokens = spec->size;
        o.graph.masked = 4;
    }
    return o;
}

/* Every tensor at its plain size, a scratch for every node. */
static Plan *plan_of(const Graph *g, int side_depth)
{
    size_t *tensors = mem_calloc((size_t)graph_tensor_count(g), sizeof *tensors);
    size_t *nodes = mem_calloc((size_t)graph_node_count(g), sizeof *nodes);
    for (TensorId id = 0; id < graph_tensor_count(g); id++)
        tensors[id] = tensor_plain_bytes(&graph_tensor(g, id)->desc);
    for (int i = 0; i < graph_node_count(g); i++) nodes[i] = 256;
    const PlanInputs in = {
        .tensor_bytes = tensors, .node_workspace = nodes, .alignment = 256, .side_depth = side_depth
    };
    Plan *p = NULL;
    CHECK_OK(plan_create(&p, g, &in));
    CHECK_OK(plan_check(p, g));
    mem_free(tensors);
    mem_free(nodes);
    return p;
}

static void open_net(Net *n, const NetSpec *spec, int side_depth)
{
    const FuseOptions fuse = { .add_into_batchnorm_bwd = true };
    ModelOptions o = options_of(spec);
    size_t cap, first;
    *n = (Net){ 0 };
    REQUIRE_OK(model_build(&n->graph, model_find(spec->name), &o));
    REQUIRE_OK(graph_fuse(n->graph, &fuse));
    n->plan = plan_of(n->graph, side_depth);
    reducer_caps(n->plan->slab_bytes[SLAB_GRAD], 200, 0, &cap, &first);
    if (n->plan->slab_bytes[SLAB_GRAD] / 4 < cap) cap = first = n->plan->slab_bytes[SLAB_GRAD] / 4;
    REQUIRE_OK(plan_buckets(n->plan, n->graph, cap, first, &n->buckets, &n->bucket_count));
}

static void close_net(Net *n)
{
    mem_free(n->buckets);
    plan_destroy(n->plan);
    graph_destroy(n->graph);
}

static TimelineOptions step_of(const Net *n, TimelineReduce reduce)
{
    return (TimelineOptions){ .events = true,
                              .step = TIMELINE_STEP,
                              .reduce = reduce,
                              .statistics = reduce != TIMELINE_REDUCE_NONE,
                              .buckets = n->buckets,
                              .bucket_count = n->bucket_count };
}

static StepsSpec spec_of(const TimelineOptions *o, bool loss_scale, bool norm)
{
    return (StepsSpec){
        .loss_scale = loss_scale, .norm = norm, .averages = true, .statistics = o->statistics
    };
}

static int count_kind(const Timeline *t, TimelineKind kind)
{
    int count = 0;
    for (int i = 0; i < t->count; i++) count += t->items[i].kind == kind;
    return count;
}

static int count_ops(const Timeline *t, const char *name)
{
    int count = 0;
    for (int i = 0; i < t->count; i++)
        count += t->items[i].kind == TIMELINE_OP &&
                 str_starts_with(t->ops[t->items[i].index].name, name);
    return count;
}

/* Up to the result, whose place changes from run to run; nothing where the host sums. */
static void check_replayable(const Timeline *t)
{
    if (t->options.reduce == TIMELINE_REDUCE_HOST) CHECK_INT(t->replayable, 0);
    else CHECK(t->items[t->replayable].kind == TIMELINE_RESULT);
}

static int find(const Timeline *t, TimelineKind kind, int index)
{
    for (int i = 0; i < t->count; i++)
        if (t->items[i].kind == kind && t->items[i].index == index) return i;
    return -1;
}

static int find_norm(const Timeline *t, int node)
{
    for (int i = 0; i < t->count; i++) {
        const SumRange *r = &t->sums[t->items[i].kind == TIMELINE_SUM ? t->items[i].index : 0];
        if (t->items[i].kind == TIMELINE_SUM && r->of == SUM_BATCHNORMS && r->index == node)
            return i;
    }
    return -1;
}

static int lane_nodes(const Timeline *t, Lane lane)
{
    int count = 0;
    for (int i = 0; i < t->count; i++)
        count += t->items[i].kind == TIMELINE_NODE && t->items[i].lane == lane;
    return count;
}

TEST(timelines_of_real_networks_are_proved)
{
    static const TimelineReduce reductions[] = { TIMELINE_REDUCE_NONE, TIMELINE_REDUCE_HOST,
                                                 TIMELINE_REDUCE_DEVICE };
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        for (int depth = 0; depth <= 4; depth++) {
            Net n;
            open_net(&n, &specs[i], depth);
            CHECK(n.bucket_count >= 3);
            for (int variant = 0; variant < 12; variant++) {
                const bool norm = variant >= 6, averages = variant % 2 == 0;
                const TimelineOptions o = step_of(&n, reductions[variant % 3]);
                StepsSpec spec = spec_of(&o, variant / 3 % 2 == 1, norm);
                spec.averages = averages;
                Timeline *t = steps_timeline(n.graph, n.plan, &o, &spec);
                CHECK_OK(timeline_check(t, n.graph, n.plan));
                CHECK((lane_nodes(t, LANE_WEIGHTS) > 0) == (depth > 0));
                CHECK_INT(count_ops(t, "update"), n.bucket_count);
                CHECK_INT(count_ops(t, "squares"), norm ? n.bucket_count : 0);
                CHECK_INT(count_ops(t, "averages"), averages ? 2 : 0);
                check_replayable(t);
                timeline_destroy(t);
            }
            TimelineOptions micro = { .events = true };
            Timeline *t = NULL;
            CHECK_OK(timeline_create(&t, n.graph, n.plan, &micro));
            CHECK_OK(timeline_check(t, n.graph, n.plan));
            CHECK(count_kind(t, TIMELINE_OP) == 0 && t->replayable == t->count - 1);
            timeline_destroy(t);
            close_net(&n);
        }
    }
}

/* A step of two passes: the first measures whatever is asked of it and updates nothing. */
TEST(timelines_of_two_passes_are_proved)
{
    static const TimelineReduce reductions[] = { TIMELINE_REDUCE_NONE, TIMELINE_REDUCE_HOST,
                                                 TIMELINE_REDUCE_DEVICE };
    for (size_t i = 1; i < sizeof specs / sizeof specs[0]; i++) {
        Net n;
        open_net(&n, &specs[i], 2);
        for (int variant = 0; variant < 24; variant++) {
            const bool first = variant < 12;
            TimelineOptions o = step_of(&n, reductions[variant % 3]);
            const StepsSpec spec = spec_of(&o, variant / 3 % 2 == 1, first || variant / 6 % 2 == 1);
            o.step = first ? TIMELINE_FIRST_PASS : TIMELINE_SECOND_PASS;
            o.events = !first || variant >= 6;
            Timeline *t = steps_timeline(n.graph, n.plan, &o, &spec);
            CHECK_OK(timeline_check(t, n.graph, n.plan));
            CHECK_INT(count_ops(t, "update"), first ? 0 : n.bucket_count);
            CHECK_INT(count_ops(t, "perturb"), first ? 2 : 0);
            CHECK_INT(count_ops(t, "restore"), first ? 0 : 2);
            CHECK((find(t, TIMELINE_SUM, n.bucket_count) >= 0) ==
                  (!first && o.reduce == TIMELINE_REDUCE_DEVICE));
            CHECK((find(t, TIMELINE_AWAIT, n.bucket_count) >= 0) ==
                  (!first && o.reduce == TIMELINE_REDUCE_HOST));
            CHECK_INT(count_ops(t, "loss scale"), !first && spec.loss_scale);
            check_replayable(t);
            timeline_destroy(t);
        }
        close_net(&n);
    }
}

/* What the host waits for at the end is metrics alone then. */
TEST(statistics_that_are_not_summed_race_with_nothing)
{
    Net n;
    open_net(&n, &specs[2], 2);
    TimelineOptions o = step_of(&n, TIMELINE_REDUCE_HOST);
    o.statistics = false;
    const StepsSpec spec = spec_of(&o, true, true);
    Timeline *t = steps_timeline(n.graph, n.plan, &o, &spec);
    CHECK_INT(count_kind(t, TIMELINE_AWAIT), n.bucket_count + 1);
    CHECK_OK(timeline_check(t, n.graph, n.plan));
    timeline_destroy(t);
    close_net(&n);
}

/* Host memory has one lane, and the order is that of the nodes. */
TEST(a_timeline_without_streams_has_no_events)
{
    Net n;
    open_net(&n, &specs[2], 0);
    TimelineOptions o = step_of(&n, TIMELINE_REDUCE_HOST);
    const StepsSpec spec = spec_of(&o, false, false);
    o.events = false;
    Timeline *t = steps_timeline(n.graph, n.plan, &o, &spec);
    CHECK_OK(timeline_check(t, n.graph, n.plan));
    CHECK(t->event_count == 0 && count_kind(t, TIMELINE_RECORD) == 0 &&
          count_kind(t, TIMELINE_WAIT) == 0);
    for (int i = 0, node = 0, bucket = 0; i < t->count; i++) {
        CHECK(t->items[i].lane == LANE_COMPUTE);
        if (t->items[i].kind == TIMELINE_NODE) CHECK_INT(t->items[i].index, node++);
        if (t->items[i].kind == TIMELINE_SUM) CHECK(n.buckets[bucket++].ready_after == node - 1);
    }
    timeline_destroy(t);
    close_net(&n);
}

/* Weight gradients of the side lane run beside their data gradients: the main lane does not wait at
 * once. */
TEST(weight_gradients_lag_behind)
{
    Net n;
    open_net(&n, &specs[0], 2);
    const int nodes = graph_node_count(n.graph);
    int side = 0;
    for (int i = 0; i < nodes; i++) {
        if (n.plan->nodes[i].lane != PLAN_SIDE) continue;
        int between = 0; /* side nodes issued before the join */
        for (int j = i + 1; j < n.plan->nodes[i].joined_at; j++)
            between += n.plan->nodes[j].lane == PLAN_SIDE;
        CHECK(between == 2 || n.plan->nodes[i].joined_at == nodes);
        side++;
    }
    CHECK_INT(side, 54); /* 53 convolutions and the linear layer */
    close_net(&n);
}

/* ---- what the check must notice ---- */

static void cut(Timeline *t, int at)
{
    memmove(&t->items[at], &t->items[at + 1], (size_t)(t->count - at - 1) * sizeof *t->items);
    t->count--;
    t->replayable -= at < t->replayable;
    t->backward_end -= at < t->backward_end;
}

static void move(Timeline *t, int from, int to)
{
    TimelineItem item = t->items[from];
    int step = to > from ? 1 : -1;
    for (int i = from; i != to; i += step) t->items[i] = t->items[i + step];
    t->items[to] = item;
}

static int find_op(const Timeline *t, const char *name, int bucket)
{
    for (int i = 0; i < t->count; i++) {
        const StepOp *op = &t->ops[t->items[i].kind == TIMELINE_OP ? t->items[i].index : 0];
        if (t->items[i].kind == TIMELINE_OP && strcmp(op->name, name) == 0 && op->bucket == bucket)
            return i;
    }
    return -1;
}

static Timeline *step_timeline_of(const Net *n, TimelineReduce reduce, bool norm)
{
    const TimelineOptions o = step_of(n, reduce);
    const StepsSpec spec = spec_of(&o, true, norm);
    return steps_timeline(n->graph, n->plan, &o, &spec);
}

static Timeline *step_timeline(const Net *n, TimelineReduce reduce)
{
    return step_timeline_of(n, reduce, true);
}

/* Of the waits on each lane, how many the check misses if they alone are taken away. */
static void count_waits(const Net *n, TimelineReduce reduce, int waits[LANE_COUNT],
                        int missed[LANE_COUNT])
{
    Timeline *whole = step_timeline(n, reduce);
    memset(waits, 0, LANE_COUNT * sizeof *waits);
    memset(missed, 0, LANE_COUNT * sizeof *missed);
    for (int i = 0; i < whole->count; i++) {
        if (whole->items[i].kind != TIMELINE_WAIT) continue;
        Timeline *t = step_timeline(n, reduce);
        Lane lane = t->items[i].lane;
        cut(t, i);
        waits[lane]++;
        missed[lane] += timeline_check(t, n->graph, n->plan) == OK;
        timeline_destroy(t);
    }
    timeline_destroy(whole);
}

TEST(every_wait_for_data_is_needed)
{
    static const TimelineReduce reductions[] = { TIMELINE_REDUCE_NONE, TIMELINE_REDUCE_HOST,
                                                 TIMELINE_REDUCE_DEVICE };
    for (size_t i = 1; i < sizeof specs / sizeof specs[0]; i++) {
        for (int k = 0; k < 3; k++) {
            Net n;
            int waits[LANE_COUNT], missed[LANE_COUNT];
            open_net(&n, &specs[i], 2);
            count_waits(&n, reductions[k], waits, missed);
            CHECK(waits[LANE_WEIGHTS] > 0);
            CHECK_INT(missed[LANE_WEIGHTS], 0);
            CHECK_INT(missed[LANE_COMM], 0);
            CHECK((waits[LANE_COMM] > 0) ==
                  (reductions[k] != TIMELINE_REDUCE_NONE || specs[i].bn_ranks > 0));
            /* joins guard memory that something else may happen not to be given */
            CHECK(waits[LANE_COMPUTE] > 0 && missed[LANE_COMPUTE] < waits[LANE_COMPUTE]);
            close_net(&n);
        }
    }
}

TEST(a_missing_wait_is_named)
{
    Net n;
    open_net(&n, &specs[2], 2);
    Timeline *t = step_timeline(&n, TIMELINE_REDUCE_DEVICE);
    int wait = -1;
    /* the second: the first one brings the lane into the run */
    for (int i = 0; i < t->count && wait < 0; i++)
        if (t->items[i].kind == TIMELINE_WAIT && t->items[i].lane == LANE_WEIGHTS &&
            t->items[i].index > 1)
            wait = i;
    REQUIRE(wait > 0);
    int node = wait + 1;
    while (t->items[node].kind != TIMELINE_NODE || t->items[node].lane != LANE_WEIGHTS) node++;
    const char *name = graph_node(n.graph, t->items[node].index)->name;
    cut(t, wait);
    CHECK_STATUS(timeline_check(t, n.graph, n.plan), ERR_INTERNAL);
    CHECK(strstr(status_message(), name) && strstr(status_message(), "weights lane"));
    timeline_destroy(t);
    close_net(&n);
}

static void expect_broken(const Net *n, Timeline *t, const char *text)
{
    CHECK_STATUS(timeline_check(t, n->graph, n->plan), ERR_INTERNAL);
    if (!strstr(status_message(), text)) CHECK_STR(status_message(), text);
    timeline_destroy(t);
}

TEST(wrong_orders_are_noticed)
{
    Net n;
    Timeline *t;
    open_net(&n, &specs[2], 2);
    t = step_timeline(&n, TIMELINE_REDUCE_DEVICE); /* summed before its last gradient */
    move(t, find(t, TIMELINE_SUM, 1), find(t, TIMELINE_SUM, 0) + 1);
    expect_broken(&n, t, "bucket");
    /* updated before it was looked through */
    t = step_timeline_of(&n, TIMELINE_REDUCE_DEVICE, false);
    move(t, find_op(t, "update", 0), find_op(t, "finite check", 0));
    expect_broken(&n, t, "finite check");
    t = step_timeline(&n, TIMELINE_REDUCE_DEVICE); /* updated before the norm is known */
    move(t, find_op(t, "update", 0), find_op(t, "norm", 0));
    expect_broken(&n, t, "norm");
    t = step_timeline(&n, TIMELINE_REDUCE_DEVICE); /* the norm lacks a bucket */
    move(t, find_op(t, "norm", 0), find_op(t, "squares", n.bucket_count - 1));
    expect_broken(&n, t, "squares");
    t = step_timeline(&n, TIMELINE_REDUCE_NONE); /* never measured */
    cut(t, find_op(t, "norm", 0));
    expect_broken(&n, t, "norm");
    t = step_timeline(&n, TIMELINE_REDUCE_HOST); /* measured before the sum is back */
    move(t, find_op(t, "squares", 1), find(t, TIMELINE_AWAIT, 1));
    expect_broken(&n, t, "squares");
    t = step_timeline(&n, TIMELINE_REDUCE_HOST); /* updated before the sum is back */
    move(t, find(t, TIMELINE_AWAIT, 1), find_op(t, "update", 1));
    expect_broken(&n, t, "wait for a bucket's sum");
    t = step_timeline(&n, TIMELINE_REDUCE_NONE); /* twice */
    t->items[find_op(t, "update", 1)].index = t->items[find_op(t, "update", 0)].index;
    expect_broken(&n, t, "update");
    t = step_timeline(&n, TIMELINE_REDUCE_NONE); /* never */
    cut(t, find_op(t, "loss scale", 0));
    expect_broken(&n, t, "loss scale");
    t = step_timeline(&n, TIMELINE_REDUCE_NONE); /* averaged before the last update */
    move(t, find_op(t, "averages", 0), find_op(t, "update", n.bucket_count - 1));
    expect_broken(&n, t, "averages");
    t = step_timeline(&n, TIMELINE_REDUCE_DEVICE); /* statistics averaged before they are means */
    move(t, find_op(t, "averages", 0), find_op(t, "mean of running statistics", 0));
    expect_broken(&n, t, "averages");
    t = step_timeline(&n, TIMELINE_REDUCE_NONE); /* when it is forgotten that the step is none */
    move(t, find_op(t, "loss scale", 0), find_op(t, "averages", 0));
    expect_broken(&n, t, "averages");
    t = step_timeline(&n, TIMELINE_REDUCE_NONE); /* a node too early */
    move(t, find(t, TIMELINE_NODE, 5), find(t, TIMELINE_NODE, 4));
    expect_broken(&n, t, "before it is written");
    /* statistics summed while forward still makes them */
    t = step_timeline(&n, TIMELINE_REDUCE_DEVICE);
    move(t, find(t, TIMELINE_SUM, n.bucket_count), find(t, TIMELINE_NODE, 3));
    expect_broken(&n, t, "statistics");
    t = step_timeline(&n, TIMELINE_REDUCE_DEVICE); /* an event that is recorded only later */
    for (int i = 0; i < t->count; i++)
        if (t->items[i].kind == TIMELINE_WAIT) t->items[i].index = t->event_count - 1;
    expect_broken(&n, t, "is never recorded");
    close_net(&n);
}

static Timeline *pass_timeline(const Net *n, TimelineRun run, TimelineReduce reduce)
{
    TimelineOptions o = step_of(n, reduce);
    const StepsSpec spec = spec_of(&o, true, true);
    o.step = run;
    return steps_timeline(n->graph, n->plan, &o, &spec);
}

TEST(wrong_orders_of_two_passes_are_noticed)
{
    Net n;
    Timeline *t;
    open_net(&n, &specs[2], 2);
    t = pass_timeline(&n, TIMELINE_FIRST_PASS, TIMELINE_REDUCE_DEVICE); /* a bucket is missing */
    move(t, find_op(t, "perturb", 0), find_op(t, "squares", n.bucket_count - 1));
    expect_broken(&n, t, "squares");
    t = pass_timeline(&n, TIMELINE_FIRST_PASS, TIMELINE_REDUCE_NONE);
    cut(t, find_op(t, "perturb", 0));
    expect_broken(&n, t, "perturb");
    /* weights come back while backward still reads them */
    t = pass_timeline(&n, TIMELINE_SECOND_PASS, TIMELINE_REDUCE_NONE);
    move(t, find_op(t, "restore parameters", 0), find(t, TIMELINE_NODE, 40));
    expect_broken(&n, t, "restore");
    t = pass_timeline(&n, TIMELINE_SECOND_PASS, TIMELINE_REDUCE_NONE); /* behind an update */
    move(t, find_op(t, "restore parameters", 0), find_op(t, "update", 0));
    expect_broken(&n, t, "restore");
    t = pass_timeline(&n, TIMELINE_SECOND_PASS, TIMELINE_REDUCE_NONE);
    cut(t, find_op(t, "restore running statistics", 0));
    expect_broken(&n, t, "restore");
    /* statistics come back while forward still makes them, and behind their sum */
    t = pass_timeline(&n, TIMELINE_SECOND_PASS, TIMELINE_REDUCE_NONE);
    move(t, find_op(t, "restore running statistics", 0), find(t, TIMELINE_NODE, 3));
    expect_broken(&n, t, "restore");
    t = pass_timeline(&n, TIMELINE_SECOND_PASS, TIMELINE_REDUCE_DEVICE);
    move(t, find_op(t, "restore running statistics", 0), find(t, TIMELINE_SUM, n.bucket_count));
    expect_broken(&n, t, "restore");
    close_net(&n);
}

/* The first node of that kind. */
static int node_of(const Net *n, OpKind kind)
{
    int i = 0;
    while (graph_node(n->graph, i)->kind != kind) i++;
    return i;
}

TEST(sums_over_ranks_are_in_one_order)
{
    static const TimelineReduce reductions[] = { TIMELINE_REDUCE_HOST, TIMELINE_REDUCE_DEVICE };
    Net n;
    open_net(&n, &specs[4], 2);
    const int sums = node_of(&n, OP_BN_SUMS), back = node_of(&n, OP_BN_BWD_SUMS);
    for (int r = 0; r < 2; r++) {
        Timeline *t = step_timeline(&n, reductions[r]);
        CHECK_INT(count_kind(t, TIMELINE_SUM), 2 * 19 + n.bucket_count + r);
        cut(t, find_norm(t, sums)); /* never */
        expect_broken(&n, t, "sums of norms");
        t = step_timeline(&n, reductions[r]); /* another one twice */
        t->items[find_norm(t, sums)].index = t->items[find_norm(t, back)].index;
        expect_broken(&n, t, "sums of norms");
        t = step_timeline(&n, reductions[r]); /* behind what reads it */
        move(t, find_norm(t, back), find(t, TIMELINE_NODE, back + 1));
        expect_broken(&n, t, "sums of norms");
        t = step_timeline(&n, reductions[r]); /* before what makes it */
        move(t, find_norm(t, sums), find(t, TIMELINE_NODE, sums));
        expect_broken(&n, t, "sums of norms");
        t = step_timeline(&n, reductions[r]); /* beside the buckets */
        t->items[find_norm(t, back)].lane = LANE_COMPUTE;
        expect_broken(&n, t, "is summed on the");
        t = step_timeline(&n, reductions[r]); /* the reader does not wait */
        int wait = find_norm(t, sums);
        while (t->items[wait].kind != TIMELINE_WAIT || t->items[wait].lane != LANE_COMPUTE) wait++;
        cut(t, wait);
        expect_broken(&n, t, "sums of norms");
    }
    close_net(&n);
}

/* Lifetimes that end with the last main node are too short once weight gradients lag. */
TEST(lifetimes_must_reach_the_join)
{
    Net n;
    open_net(&n, &specs[0], 2);
    Plan *without = plan_of(n.graph, 0);
    CHECK(without->slab_bytes[SLAB_ACTIVATION] <= n.plan->slab_bytes[SLAB_ACTIVATION]);
    memcpy(without->nodes, n.plan->nodes,
           (size_t)graph_node_count(n.graph) * sizeof *without->nodes);
    const TimelineOptions o = step_of(&n, TIMELINE_REDUCE_NONE);
    const StepsSpec spec = spec_of(&o, false, false);
    Timeline *t = steps_timeline(n.graph, without, &o, &spec);
    CHECK_STATUS(timeline_check(t, n.graph, without), ERR_INTERNAL);
    CHECK(strstr(status_message(), "at once") != NULL);
    timeline_destroy(t);
    plan_destroy(without);
    close_net(&n);
}
