/* timelines.c - see timelines.h. */
#include "tests/tools/timelines.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "tests/tools/steps.h"
#include "trainer/engine/exec/timeline.h"
#include "trainer/engine/train/reducer.h"
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 8, WORLD = 8, GROUP = 4, SIDE_DEPTH = 2 };
/* Several buckets in any network, and more in a large one. */
enum { BUCKETS_LEAST = 4, BUCKET_MB = 8, BATCH = 4 };

typedef enum Lanes { LANES_MEMORY, LANES_STREAMS, LANES_SIDE, LANES_COUNT } Lanes;
static const char *const lanes_names[LANES_COUNT] = { "memory", "streams", "side" };
static const char *const reduce_names[] = { [TIMELINE_REDUCE_NONE] = "none",
                                            [TIMELINE_REDUCE_HOST] = "host",
                                            [TIMELINE_REDUCE_DEVICE] = "nccl" };
static const char *const run_names[TIMELINE_RUN_COUNT] = { [TIMELINE_MICRO_BATCH] = "micro",
                                                           [TIMELINE_STEP] = "step",
                                                           [TIMELINE_FIRST_PASS] = "first",
                                                           [TIMELINE_SECOND_PASS] = "second" };

typedef struct Norms { /* of batch */
    const char *word;  /* "" or with a dot */
    int ranks;         /* whose statistics are one; 0: each its own */
    bool frozen;
} Norms;
static const Norms norms[] = {
    { "", 0, false }, { ".groups", GROUP, false }, { ".all", WORLD, false }, { ".frozen", 0, true }
};
enum { NORMS_COUNT = sizeof norms / sizeof norms[0] };
static const char *const norms_networks[] = { "resnet20", "efficientnet_b0", "seresnet50" };

static const char *const endings[COLUMNS] = {
    "",      ".averages",      ".scale",      ".scale.averages",
    ".norm", ".norm.averages", ".norm.scale", ".norm.scale.averages"
};
/* where norm and averages are no choice */
static const char *const first_endings[] = { "", ".scale" };

typedef struct Net {
    Graph *graph;
    Plan *plan;
    Bucket *pieces, whole; /* whole: where nobody waits for a piece of the gradients */
    int piece_count;
    StrBuf labels;
    size_t *label; /* [nodes]: where the node's is in labels */
} Net;

typedef struct Place { /* where a walk is */
    const ModelDef *def;
    const Norms *norms;
    Lanes lanes;
    TimelineReduce reduce;
    TimelineRun run;
    const Net *nets; /* [2]: without and with a loss scale */
} Place;

typedef struct Visitor {
    Status (*row)(void *cookie, const Place *at, const char *name);
    void *cookie;
} Visitor;

/* ---- graphs and plans ---- */

static bool takes_any(void *cookie, const Fusion *fusion)
{
    (void)cookie;
    (void)fusion;
    return true;
}

static Status make_plan(Net *n, Lanes lanes)
{
    const int tensor_count = graph_tensor_count(n->graph), nodes = graph_node_count(n->graph);
    size_t *tensors = mem_calloc((size_t)tensor_count + 1, sizeof *tensors);
    size_t *scratch = mem_calloc((size_t)nodes + 1, sizeof *scratch);
    Status status = tensors && scratch ? OK : ERR_MEMORY;
    for (TensorId id = 0; status == OK && id < tensor_count; id++)
        tensors[id] = tensor_plain_bytes(&graph_tensor(n->graph, id)->desc);
    for (int i = 0; status == OK && i < nodes; i++) scratch[i] = 256;
    const PlanInputs in = { .tensor_bytes = tensors,
                            .node_workspace = scratch,
                            .alignment = 256,
                            .side_depth = lanes == LANES_SIDE ? SIDE_DEPTH : 0 };
    if (status == OK) status = plan_create(&n->plan, n->graph, &in);
    mem_free(tensors);
    mem_free(scratch);
    return status;
}

static Status make_buckets(Net *n)
{
    const size_t all = n->plan->slab_bytes[SLAB_GRAD];
    size_t cap, first;
    Bucket *whole = NULL;
    int count = 0;
    reducer_caps(all, BUCKET_MB, 0, &cap, &first);
    if (all / BUCKETS_LEAST < cap) cap = first = all / BUCKETS_LEAST;
    TRY(plan_buckets(n->plan, n->graph, cap, first, &n->pieces, &n->piece_count));
    TRY(plan_buckets(n->plan, n->graph, all, all, &whole, &count));
    n->whole = whole[0];
    mem_free(whole);
    return count == 1 ? OK : fail(ERR_INTERNAL, "all gradients are %d buckets", count);
}

/* Texts are little else than these. */
static Status make_labels(Net *n)
{
    const int nodes = graph_node_count(n->graph);
    if (!(n->label = mem_calloc((size_t)nodes + 1, sizeof *n->label))) return ERR_MEMORY;
    for (int i = 0; i < nodes; i++) {
        const GraphNode *node = graph_node(n->graph, i);
        n->label[i] = n->labels.length;
        str_printf(&n->labels, "node %d %s %s", i, op_name(node->kind), node->name);
        str_add_n(&n->labels, "", 1);
    }
    return n->labels.failed ? ERR_MEMORY : OK;
}

static Status open_net(Net *n, const Place *at, bool scale)
{
    const FuseOptions fuse = { .add_into_batchnorm_bwd = true,
                               .takes = at->lanes == LANES_SIDE ? takes_any : NULL };
    ModelOptions o = { .width = 1,
                       .stochastic_depth = -1,
                       .dropout = -1,
                       .graph = { .batch = BATCH,
                                  .channels = at->def->input.channels,
                                  .height = at->def->input.size,
                                  .width = at->def->input.size,
                                  .classes = 10,
                                  .tokens = at->def->text ? 16 : 0,
                                  .masked = at->def->text ? 8 : 0,
                                  .training = true,
                                  .bn_frozen = at->norms->frozen,
                                  .bn_ranks = at->norms->ranks,
                                  .loss_scale = scale } };
    for (int c = 0; c < OP_MAX_IMAGE_CHANNELS; c++) o.graph.std[c] = 1;
    TRY(model_build(&n->graph, at->def, &o));
    TRY(graph_fuse(n->graph, &fuse));
    TRY(make_plan(n, at->lanes));
    TRY(make_buckets(n));
    return make_labels(n);
}

static void close_net(Net *n)
{
    str_free(&n->labels);
    mem_free(n->label);
    mem_free(n->pieces);
    plan_destroy(n->plan);
    graph_destroy(n->graph);
}

/* ---- the walk over rows ---- */

static Status visit(const Place *at, const Visitor *v)
{
    char name[TIMELINES_NAME_BYTES];
    const char *sums = at->run == TIMELINE_MICRO_BATCH ? "" : reduce_names[at->reduce];
    snprintf(name, sizeof name, "%s%s.%s%s%s.%s", at->def->name, at->norms->word,
             lanes_names[at->lanes], *sums ? "." : "", sums, run_names[at->run]);
    return v->row(v->cookie, at, name);
}

static Status walk_runs(Place *at, const Visitor *v)
{
    at->run = TIMELINE_MICRO_BATCH;
    TRY(visit(at, v));
    for (int reduce = TIMELINE_REDUCE_NONE; reduce <= TIMELINE_REDUCE_DEVICE; reduce++) {
        at->reduce = (TimelineReduce)reduce;
        if (at->lanes == LANES_MEMORY && at->reduce != TIMELINE_REDUCE_HOST) continue;
        for (int run = TIMELINE_STEP; run < TIMELINE_RUN_COUNT; run++) {
            at->run = (TimelineRun)run;
            TRY(visit(at, v));
        }
    }
    return OK;
}

static Status walk_lanes(Place *at, const Visitor *v)
{
    Net nets[2] = { { 0 } };
    Status status = open_net(&nets[0], at, false);
    if (status == OK) status = open_net(&nets[1], at, true);
    at->nets = nets;
    if (status == OK) status = walk_runs(at, v);
    close_net(&nets[0]);
    close_net(&nets[1]);
    return status == OK ? OK : fail_note(status, "%s", at->def->name);
}

static bool has_all_norms(const ModelDef *def)
{
    for (size_t i = 0; i < sizeof norms_networks / sizeof norms_networks[0]; i++)
        if (strcmp(def->name, norms_networks[i]) == 0) return true;
    return false;
}

static Status walk(const ModelDef *def, const Visitor *v)
{
    for (int k = 0; k < (has_all_norms(def) ? (int)NORMS_COUNT : 1); k++)
        for (int lanes = 0; lanes < LANES_COUNT; lanes++) {
            Place at = { .def = def, .norms = &norms[k], .lanes = (Lanes)lanes };
            TRY(walk_lanes(&at, v));
        }
    return OK;
}

/* ---- one timeline ---- */

static int column_count(TimelineRun run)
{
    static const int counts[TIMELINE_RUN_COUNT] = { [TIMELINE_MICRO_BATCH] = 1,
                                                    [TIMELINE_STEP] = COLUMNS,
                                                    [TIMELINE_FIRST_PASS] = 2,
                                                    [TIMELINE_SECOND_PASS] = COLUMNS };
    return counts[run];
}

static const char *ending_of(TimelineRun run, int column)
{
    return run == TIMELINE_FIRST_PASS ? first_endings[column] : endings[column];
}

static Status create(Timeline **out, const Place *at, const char *ending, const Net **net)
{
    const bool scale = strstr(ending, ".scale") != NULL,
               norm = strstr(ending, ".norm") || at->run == TIMELINE_FIRST_PASS,
               one = at->reduce == TIMELINE_REDUCE_NONE && at->run == TIMELINE_STEP && !norm;
    const Net *n = *net = &at->nets[scale];
    const StepsSpec spec = { .loss_scale = scale,
                             .norm = norm,
                             .averages = strstr(ending, ".averages") != NULL,
                             .statistics = at->reduce != TIMELINE_REDUCE_NONE &&
                                           n->plan->slab_bytes[SLAB_BUFFER] > 0 &&
                                           !at->norms->frozen && at->norms->ranks < WORLD };
    TimelineOptions o = { .events = at->lanes != LANES_MEMORY,
                          .step = at->run,
                          .reduce = at->reduce,
                          .statistics = spec.statistics,
                          .buckets = one ? &n->whole : n->pieces,
                          .bucket_count = one ? 1 : n->piece_count };
    if (at->run == TIMELINE_MICRO_BATCH)
        return timeline_create(out, n->graph, n->plan, &(TimelineOptions){ .events = o.events });
    StepOp *ops = steps_like(&spec, n->plan, o.buckets, o.bucket_count, &o.op_count);
    o.ops = ops;
    const Status status = ops ? timeline_create(out, n->graph, n->plan, &o) : ERR_MEMORY;
    mem_free(ops);
    return status;
}

/* The operations behind one end are one line. */
static bool goes_on(const Timeline *t, int i)
{
    if (i == 0 || t->items[i].kind != TIMELINE_OP) return false;
    const StepOp *op = &t->ops[t->items[i].index];
    const TimelineItem *before = &t->items[i - 1];
    if (before->kind == TIMELINE_RESULT) return op->when == STEP_RESULT;
    return before->kind == TIMELINE_OP && strcmp(t->ops[before->index].name, op->name) == 0 &&
           t->ops[before->index].bucket == op->bucket;
}

static void add_sum(StrBuf *out, const SumRange *r, bool awaits, const Net *n)
{
    const char *does = awaits ? "await" : "sum";
    if (r->of == SUM_GRADS) str_printf(out, " %s bucket %d\n", does, r->index);
    else if (r->of == SUM_STATISTICS) str_printf(out, " %s running statistics\n", does);
    else str_printf(out, " sum over ranks %s\n", n->labels.text + n->label[r->index]);
}

static void add_item(StrBuf *out, const Timeline *t, int i, const Net *n)
{
    const TimelineItem *item = &t->items[i];
    const StepOp *op = item->kind == TIMELINE_OP ? &t->ops[item->index] : NULL;
    if (goes_on(t, i)) return;
    str_add(out, timeline_lane_name(item->lane));
    switch (item->kind) {
    case TIMELINE_NODE:
        str_add(out, " run ");
        str_add(out, n->labels.text + n->label[item->index]);
        str_add(out, "\n");
        break;
    case TIMELINE_OP:
        if (step_of_bucket(op)) str_printf(out, " %s bucket %d\n", op->name, op->bucket);
        else str_printf(out, " %s\n", op->name);
        break;
    case TIMELINE_SUM:
    case TIMELINE_AWAIT:
        add_sum(out, &t->sums[item->index], item->kind == TIMELINE_AWAIT, n);
        break;
    case TIMELINE_RECORD:
        str_printf(out, " record event %d\n", item->index);
        break;
    case TIMELINE_WAIT:
        str_printf(out, " wait for event %d\n", item->index);
        break;
    case TIMELINE_RESULT:
        str_add(out, " result\n");
        break;
    }
}

static void add_text(StrBuf *out, const Timeline *t, const Net *n)
{
    for (int k = 0; k < t->options.bucket_count; k++) {
        const Bucket *b = &t->options.buckets[k];
        str_printf(out, "bucket %d: %zu bytes from %zu on, complete behind node %d\n", k, b->bytes,
                   b->offset, b->ready_after);
    }
    for (int i = 0; i <= t->count; i++) {
        if (i == t->replayable) str_add(out, "-- recorded for replay up to here\n");
        if (i == t->backward_end) str_add(out, "-- the host waits here\n");
        if (i < t->count) add_item(out, t, i, n);
    }
}

static Status text_of(StrBuf *out, const Place *at, const char *ending)
{
    Timeline *t = NULL;
    const Net *net;
    TRY(create(&t, at, ending, &net));
    add_text(out, t, net);
    timeline_destroy(t);
    return out->failed ? ERR_MEMORY : OK;
}

/* ---- rows and texts ---- */

typedef struct Rows {
    StrBuf *out, text;
} Rows;

static Status add_row(void *cookie, const Place *at, const char *name)
{
    Rows *r = cookie;
    str_add(r->out, name);
    for (int k = 0; k < column_count(at->run); k++) {
        str_clear(&r->text);
        TRY(text_of(&r->text, at, ending_of(at->run, k)));
        str_printf(r->out, " %08x", crc32c_update(0, r->text.text, r->text.length));
    }
    str_add(r->out, "\n");
    return r->out->failed ? ERR_MEMORY : OK;
}

Status timelines_rows(const ModelDef *def, StrBuf *out)
{
    Rows r = { .out = out };
    const Status status = walk(def, &(Visitor){ add_row, &r });
    str_free(&r.text);
    return status;
}

const char *timelines_ending(const char *row, int column)
{
    const bool first = strcmp(strrchr(row, '.') + 1, run_names[TIMELINE_FIRST_PASS]) == 0;
    return ending_of(first ? TIMELINE_FIRST_PASS : TIMELINE_STEP, column);
}

typedef struct Wanted {
    const char *name;
    StrBuf *out;
    bool found;
} Wanted;

static Status add_wanted(void *cookie, const Place *at, const char *name)
{
    Wanted *w = cookie;
    for (int k = 0; str_starts_with(w->name, name) && k < column_count(at->run); k++) {
        const char *ending = ending_of(at->run, k);
        if (strcmp(w->name + strlen(name), ending) != 0) continue;
        w->found = true;
        TRY(text_of(w->out, at, ending));
    }
    return OK;
}

Status timelines_text(const char *name, StrBuf *out)
{
    char network[TIMELINES_NAME_BYTES];
    Wanted w = { .name = name, .out = out };
    snprintf(network, sizeof network, "%.*s", (int)strcspn(name, "."), name);
    const ModelDef *def = model_find(network);
    if (def) TRY(walk(def, &(Visitor){ add_wanted, &w }));
    return w.found ? OK : fail(ERR_USAGE, "there is no timeline %s", name);
}
