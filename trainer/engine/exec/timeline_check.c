/* timeline_check.c - the proof of a timeline (timeline.h). It shares no code with timeline.c and
 * trusts nothing but the graph, the plan's addresses, and what operations say that they touch.
 *
 * ORDER. The walk keeps a vector clock per lane: how much of each lane's work is certainly done
 * when the lane's next piece starts. An event carries its lane's clock, a wait takes it over. Item
 * a happens before item b if b's clock covers a's place on its lane.
 *
 * MEMORY. Every item is turned into accesses: ranges of slabs, of the two workspaces, of tensors
 * outside the slabs, of memory of the rules' own. Two accesses to the same bytes, one of them a
 * write, must be ordered; then the order of issue is the order of time, and what a reader finds is
 * what the last writer before it left. */
#include "base/mem.h"
#include "trainer/engine/exec/timeline.h"
#include <string.h>

/* Where bytes lie: slabs first, then what is not in one. */
enum { SPACE_WORKSPACE = SLAB_COUNT, SPACE_OWN = SPACE_WORKSPACE + PLAN_LANE_COUNT };

typedef struct Access {
    int item, space;
    size_t begin, end;
    bool write;
    bool anew;       /* of the rules' own: it holds nothing before */
    TensorId tensor; /* TENSOR_NONE: a range, not a tensor */
    const char *own; /* its name, or NULL */
} Access;

typedef struct Check {
    const Timeline *t;
    const Graph *g;
    const Plan *p;
    /* [items]: of the lane when the item starts, with its own place in its own lane */
    int (*clock)[LANE_COUNT];
    int (*event)[LANE_COUNT]; /* [events]: clock at the record; all -1: not recorded yet */
    Access *accesses;
    int count, capacity;
} Check;

static bool is_work(const TimelineItem *item)
{
    return item->kind != TIMELINE_RECORD && item->kind != TIMELINE_WAIT;
}

static const char *item_name(const Check *c, int item)
{
    return timeline_item_name(c->t, c->g, item);
}

static const StepOp *op_of(const Check *c, int item) /* NULL: it is none */
{
    const TimelineItem *i = &c->t->items[item];
    return i->kind == TIMELINE_OP ? &c->t->ops[i->index] : NULL;
}

static const char *memory_name(const Check *c, const Access *a)
{
    if (a->own) return a->own;
    return a->tensor == TENSOR_NONE ? "memory" : graph_tensor(c->g, a->tensor)->name;
}

/* ---- order ---- */

static bool happens_before(const Check *c, int a, int b)
{
    Lane lane = c->t->items[a].lane;
    return c->clock[b][lane] >= c->clock[a][lane];
}

static Status walk_item(Check *c, int index, int now[LANE_COUNT][LANE_COUNT])
{
    const TimelineItem *item = &c->t->items[index];
    int *mine = now[item->lane];
    if (item->kind == TIMELINE_RECORD) {
        memcpy(c->event[item->index], mine, sizeof c->event[0]);
    } else if (item->kind == TIMELINE_WAIT) {
        const int *other = c->event[item->index];
        if (other[0] < 0) {
            return fail(ERR_INTERNAL,
                        "timeline: the %s lane waits for event %d, which is never recorded",
                        timeline_lane_name(item->lane), item->index);
        }
        for (int l = 0; l < LANE_COUNT; l++)
            if (other[l] > mine[l]) mine[l] = other[l];
    } else {
        mine[item->lane]++;
    }
    memcpy(c->clock[index], mine, sizeof c->clock[0]);
    return OK;
}

/* A capture records only lanes that were forked from the compute lane. */
static Status check_fork(const Check *c, int index, bool entered[LANE_COUNT])
{
    const TimelineItem *item = &c->t->items[index];
    bool joins = item->kind == TIMELINE_WAIT || item->lane == LANE_COMPUTE;
    if (!entered[item->lane] && !joins) {
        return fail(ERR_INTERNAL,
                    "timeline: %s is on the %s lane before that lane has waited for another",
                    item_name(c, index), timeline_lane_name(item->lane));
    }
    entered[item->lane] = true;
    return OK;
}

static Status walk(Check *c)
{
    int now[LANE_COUNT][LANE_COUNT] = { { 0 } };
    bool entered[LANE_COUNT] = { false };
    for (int e = 0; e < c->t->event_count; e++) memset(c->event[e], -1, sizeof c->event[0]);
    for (int i = 0; i < c->t->count; i++) {
        const TimelineItem *item = &c->t->items[i];
        if (!is_work(item) && (item->index < 0 || item->index >= c->t->event_count))
            return fail(ERR_INTERNAL, "timeline: there is no event %d", item->index);
        if (item->kind == TIMELINE_OP && (item->index < 0 || item->index >= c->t->options.op_count))
            return fail(ERR_INTERNAL, "timeline: there is no operation %d", item->index);
        TRY(check_fork(c, i, entered));
        TRY(walk_item(c, i, now));
    }
    return OK;
}

/* Everything before end is done when the compute lane gets there. */
static Status check_joined(const Check *c, int end)
{
    int last = end - 1;
    while (last >= 0 && c->t->items[last].lane != LANE_COMPUTE) last--;
    for (int i = 0; i < end; i++) {
        if (!is_work(&c->t->items[i]) || (last >= 0 && happens_before(c, i, last))) continue;
        return fail(ERR_INTERNAL,
                    "timeline: %s (%s lane) may still run when the compute lane has ended",
                    item_name(c, i), timeline_lane_name(c->t->items[i].lane));
    }
    return OK;
}

/* ---- memory ---- */

static void add(Check *c, Access a)
{
    ASSERT(c->count < c->capacity);
    c->accesses[c->count++] = a;
}

static void touch(Check *c, int item, TensorId id, bool write)
{
    if (id == TENSOR_NONE) return;
    const PlanEntry *e = &c->p->entries[id];
    Access a = { .item = item, .space = e->slab, .begin = e->offset, .write = write, .tensor = id };
    if (e->slab == SLAB_EXTERNAL) a.begin = 2 * (size_t)id; /* each is memory of its own */
    a.end = a.begin + (e->slab == SLAB_EXTERNAL ? 1 : e->bytes);
    if (a.end > a.begin) add(c, a);
}

static void touch_range(Check *c, int item, int space, size_t begin, size_t bytes, bool write)
{
    Access a = {
        .item = item, .space = space, .begin = begin, .end = begin + bytes, .write = write
    };
    a.tensor = TENSOR_NONE;
    if (bytes > 0) add(c, a);
}

static void touch_node(Check *c, int item, int node)
{
    const GraphNode *n = graph_node(c->g, node);
    for (int k = 0; k < OP_MAX_INPUTS; k++) {
        const TensorRole role =
            n->in[k] == TENSOR_NONE ? ROLE_INPUT : graph_tensor(c->g, n->in[k])->role;
        touch(c, item, n->in[k], role == ROLE_BUFFER);
        if (role == ROLE_GRAD) touch(c, item, n->in[k], true); /* and added to */
    }
    for (int k = 0; k < OP_MAX_OUTPUTS; k++) touch(c, item, n->out[k], true);
    /* one byte stands for all: nodes that share a workspace must not overlap in time */
    touch_range(c, item, SPACE_WORKSPACE + (int)c->p->nodes[node].lane, 0, 1, true);
}

static void touch_sum(Check *c, int item, bool write)
{
    const SumRange *r = &c->t->sums[c->t->items[item].index];
    if (r->tensor != TENSOR_NONE) touch(c, item, r->tensor, write);
    else touch_range(c, item, (int)r->slab, r->offset, r->bytes, write);
}

static void touch_use(Check *c, int item, const StepUse *u)
{
    const TensorId input = u->slab == SLAB_EXTERNAL ? graph_input(c->g, u->name) : TENSOR_NONE;
    const bool own = u->slab == SLAB_EXTERNAL, write = u->mode != STEP_READS;
    if (input != TENSOR_NONE) touch(c, item, input, write);
    else
        add(c, (Access){ .item = item,
                         .space = own ? SPACE_OWN : (int)u->slab,
                         .begin = u->offset,
                         .end = u->offset + u->bytes,
                         .write = write,
                         .anew = own && u->mode == STEP_WRITES,
                         .tensor = TENSOR_NONE,
                         .own = own ? u->name : NULL });
}

static void touch_op(Check *c, int item)
{
    const StepOp *op = op_of(c, item);
    for (int k = 0; k < step_use_count(op); k++) touch_use(c, item, &op->use[k]);
}

static void touch_item(Check *c, int i)
{
    const TimelineItem *item = &c->t->items[i];
    /* a sum of gradients by the host is written back at AWAIT */
    const bool here = c->t->options.reduce == TIMELINE_REDUCE_DEVICE;
    switch (item->kind) {
    case TIMELINE_NODE:
        touch_node(c, i, item->index);
        break;
    case TIMELINE_OP:
        touch_op(c, i);
        break;
    case TIMELINE_SUM:
        touch_sum(c, i, here || c->t->sums[item->index].of == SUM_BATCHNORMS);
        break;
    case TIMELINE_AWAIT:
        touch_sum(c, i, true);
        break;
    case TIMELINE_RESULT:
        touch(c, i, graph_input(c->g, "stats"), false);
        break;
    case TIMELINE_RECORD:
    case TIMELINE_WAIT:
        break;
    }
}

static bool overlap(const Access *a, const Access *b)
{
    return a->space == b->space && a->begin < b->end && b->begin < a->end;
}

static Status fail_race(const Check *c, const Access *a, const Access *b)
{
    return fail(ERR_INTERNAL,
                "timeline: %s (%s lane, %s) and %s (%s lane, %s) may touch the same memory at once",
                item_name(c, a->item), timeline_lane_name(c->t->items[a->item].lane),
                memory_name(c, a), item_name(c, b->item),
                timeline_lane_name(c->t->items[b->item].lane), memory_name(c, b));
}

/* Of accesses to the same bytes, one a write, the earlier issued happens before. */
static Status check_races(const Check *c)
{
    for (int j = 0; j < c->count; j++) {
        const Access *b = &c->accesses[j];
        for (int i = 0; i < j; i++) {
            const Access *a = &c->accesses[i];
            if ((!a->write && !b->write) || a->item == b->item || !overlap(a, b)) continue;
            if (!happens_before(c, a->item, b->item)) return fail_race(c, a, b);
        }
    }
    return OK;
}

static bool made_by_nodes(TensorRole role)
{
    return role == ROLE_ACTIVATION || role == ROLE_GRAD || role == ROLE_OUTPUT;
}

/* The tensor is as its producer left it; parameters are those of before the step. Loss scale and
 * running statistics are read and written by turns. */
static Status check_read(const Check *c, int index)
{
    const Access *read = &c->accesses[index], *last = NULL;
    const TensorRole role = graph_tensor(c->g, read->tensor)->role;
    for (int i = 0; i < index; i++) {
        const Access *a = &c->accesses[i];
        if (a->write && a->item != read->item && overlap(a, read)) last = a;
    }
    if (made_by_nodes(role) && !last) {
        return fail(ERR_INTERNAL, "timeline: %s reads %s before it is written",
                    item_name(c, read->item), memory_name(c, read));
    }
    if (!last || last->tensor == read->tensor || role == ROLE_BUFFER || role == ROLE_INPUT)
        return OK;
    return fail(ERR_INTERNAL, "timeline: %s reads %s after %s has written %s there",
                item_name(c, read->item), memory_name(c, read), item_name(c, last->item),
                memory_name(c, last));
}

/* What is made anew in a step is made before it is read. */
static Status check_made(const Check *c, int index)
{
    const Access *made = &c->accesses[index];
    for (int i = 0; i < index; i++) {
        const Access *a = &c->accesses[i];
        if (a->item == made->item || !overlap(a, made)) continue;
        return fail(ERR_INTERNAL, "timeline: %s uses %s before %s makes it", item_name(c, a->item),
                    made->own, item_name(c, made->item));
    }
    return OK;
}

static Status check_memory(Check *c)
{
    for (int i = 0; i < c->t->count; i++) touch_item(c, i);
    TRY(check_races(c));
    for (int i = 0; i < c->count; i++) {
        const Access *a = &c->accesses[i];
        if (!a->write && a->tensor != TENSOR_NONE) TRY(check_read(c, i));
        if (a->anew) TRY(check_made(c, i));
    }
    return OK;
}

/* ---- what a step must do ---- */

/* One item of this kind and index, or none where none is wanted. */
static Status check_once(const Check *c, TimelineKind kind, int index, bool wanted,
                         const char *name)
{
    int found = 0;
    for (int i = 0; i < c->t->count; i++)
        found += c->t->items[i].kind == kind && c->t->items[i].index == index;
    if (found == (wanted ? 1 : 0)) return OK;
    return fail(ERR_INTERNAL, "timeline: %s (%d) appears %d times instead of %d", name, index,
                found, wanted ? 1 : 0);
}

static Status check_order(const Check *c, int before, int after)
{
    if (before < after && happens_before(c, before, after)) return OK;
    return fail(ERR_INTERNAL, "timeline: %s %d does not come before %s %d", item_name(c, before),
                c->t->items[before].index, item_name(c, after), c->t->items[after].index);
}

/* Whether b has its turn behind a, which comes before it in the list. */
static bool ascends(const Check *c, int a, int b)
{
    const StepOp *first = &c->t->ops[a], *second = &c->t->ops[b];
    if (first->when != second->when) return first->when < second->when;
    return first->bucket != second->bucket ? first->bucket < second->bucket : a < b;
}

/* Every operation of the run once, each behind the one that has its turn before. */
static Status check_turns(const Check *c)
{
    const TimelineOptions *o = &c->t->options;
    int last = -1;
    for (int i = 0; i < c->t->count; i++) {
        if (!op_of(c, i)) continue;
        if (last >= 0 && (!happens_before(c, last, i) ||
                          !ascends(c, c->t->items[last].index, c->t->items[i].index)))
            return fail(ERR_INTERNAL, "timeline: %s %d comes after %s %d", item_name(c, i),
                        op_of(c, i)->bucket, item_name(c, last), op_of(c, last)->bucket);
        last = i;
    }
    for (int i = 0; i < o->op_count; i++)
        TRY(check_once(c, TIMELINE_OP, i, step_in_run(&o->ops[i], o->step), o->ops[i].name));
    return OK;
}

/* What an access to memory that may be summed is to the sum. */
static int turn_of_access(const Check *c, const Access *a)
{
    enum { MAKES, CORRECTS, STARTS, ENDS, USES };
    const TimelineKind kind = c->t->items[a->item].kind;
    if (kind == TIMELINE_NODE) return a->write || a->space == SLAB_GRAD ? MAKES : USES;
    if (kind == TIMELINE_SUM || kind == TIMELINE_AWAIT) return kind == TIMELINE_SUM ? STARTS : ENDS;
    return kind == TIMELINE_OP && op_of(c, a->item)->when == STEP_FORWARD ? CORRECTS : USES;
}

static bool may_be_summed(const Access *a)
{
    return a->space == SLAB_GRAD || a->space == SLAB_BUFFER;
}

/* Gradients, running statistics and sums of norms are made, then summed, then used; where nothing
 * is summed, made and then used. */
static Status check_around_sums(const Check *c)
{
    for (int i = 0; i < c->count; i++) {
        const Access *a = &c->accesses[i];
        const bool norms = c->t->items[a->item].kind == TIMELINE_SUM && a->tensor != TENSOR_NONE;
        for (int k = 0; (norms || may_be_summed(a)) && k < c->count; k++) {
            const Access *b = &c->accesses[k];
            if (!overlap(a, b) || (norms && a->tensor != b->tensor)) continue;
            const int first = turn_of_access(c, a), second = turn_of_access(c, b);
            if (first < second) TRY(check_order(c, a->item, b->item));
            if (first > second) TRY(check_order(c, b->item, a->item));
        }
    }
    return OK;
}

/* What is to be summed is, once; all on one lane: there the order in which sums are issued is that
 * in which they run. */
static Status check_sums(const Check *c)
{
    const TimelineOptions *o = &c->t->options;
    const bool device = o->step && o->reduce == TIMELINE_REDUCE_DEVICE,
               host = o->step && o->reduce == TIMELINE_REDUCE_HOST;
    int next = o->bucket_count, first = -1;
    for (int k = 0; k < o->bucket_count; k++) {
        TRY(check_once(c, TIMELINE_SUM, k, device || host, "sum of a bucket"));
        TRY(check_once(c, TIMELINE_AWAIT, k, host, "wait for a bucket's sum"));
    }
    TRY(check_once(c, TIMELINE_SUM, next, device && o->statistics, "sum of statistics"));
    TRY(check_once(c, TIMELINE_AWAIT, next, host && o->step != TIMELINE_FIRST_PASS,
                   "wait for statistics and metrics"));
    for (int i = 0; i < graph_node_count(c->g); i++)
        if (graph_rank_sum(graph_node(c->g, i)) != TENSOR_NONE)
            TRY(check_once(c, TIMELINE_SUM, ++next, true, "sums of norms"));
    for (int i = 0; i < c->t->count; i++) {
        if (c->t->items[i].kind != TIMELINE_SUM) continue;
        if (first < 0) first = i;
        if (c->t->items[i].lane == c->t->items[first].lane) continue;
        return fail(ERR_INTERNAL, "timeline: %s is summed on the %s lane and %s on the %s lane",
                    item_name(c, first), timeline_lane_name(c->t->items[first].lane),
                    item_name(c, i), timeline_lane_name(c->t->items[i].lane));
    }
    return check_around_sums(c);
}

/* Whole gradients; a run that updates has an update of their parameters. */
static Status check_bucket(const Check *c, int k)
{
    const Bucket *b = &c->t->options.buckets[k];
    const bool wanted = c->t->options.step != TIMELINE_FIRST_PASS;
    bool updated = false;
    for (TensorId id = 0; id < graph_tensor_count(c->g); id++) {
        const PlanEntry *e = &c->p->entries[id];
        if (e->slab == SLAB_GRAD && e->offset >= b->offset && e->offset < b->offset + b->bytes &&
            e->offset + e->bytes > b->offset + b->bytes)
            return fail(ERR_INTERNAL, "timeline: %s is in two buckets",
                        graph_tensor(c->g, id)->name);
    }
    for (int i = 0; i < c->count; i++) {
        const Access *a = &c->accesses[i];
        const StepOp *op = op_of(c, a->item);
        if (op && op->when == STEP_UPDATE && a->space == SLAB_PARAM && a->write &&
            a->begin <= b->offset && a->end >= b->offset + b->bytes)
            updated = true;
    }
    if (updated == wanted) return OK;
    return fail(ERR_INTERNAL, "timeline: bucket %d is%s updated", k, wanted ? " never" : "");
}

static Status check_step(const Check *c)
{
    const TimelineOptions *o = &c->t->options;
    size_t covered = 0;
    TRY(check_turns(c));
    for (int k = 0; k < o->bucket_count; k++) {
        TRY(check_bucket(c, k));
        if (o->buckets[k].offset != covered)
            return fail(ERR_INTERNAL,
                        "timeline: bucket %d does not start where the previous one ends", k);
        covered += o->buckets[k].bytes;
    }
    if (covered == c->p->slab_bytes[SLAB_GRAD]) return OK;
    return fail(ERR_INTERNAL, "timeline: the buckets cover %zu of %zu bytes of gradients", covered,
                c->p->slab_bytes[SLAB_GRAD]);
}

/* Every node once, and every run ends with what it found out. */
static Status check_complete(const Check *c)
{
    for (int i = 0; i < graph_node_count(c->g); i++)
        TRY(check_once(c, TIMELINE_NODE, i, true, graph_node(c->g, i)->name));
    for (int i = 0; i < c->t->count; i++)
        if (c->t->items[i].kind == TIMELINE_RESULT) return OK;
    return fail(ERR_INTERNAL, "timeline: the result is never copied out");
}

static Status check_all(Check *c)
{
    TRY(walk(c));
    TRY(check_complete(c));
    TRY(check_memory(c));
    TRY(check_sums(c));
    TRY(check_joined(c, c->t->replayable));
    TRY(check_joined(c, c->t->count));
    return c->t->options.step ? check_step(c) : OK;
}

Status timeline_check(const Timeline *t, const Graph *g, const Plan *p)
{
    Check c = { .t = t, .g = g, .p = p };
    c.capacity = t->count * (2 * OP_MAX_INPUTS + OP_MAX_OUTPUTS + 1);
    _Static_assert(STEP_USES_MAX <= OP_MAX_INPUTS + OP_MAX_OUTPUTS, "accesses of an item");
    c.clock = mem_calloc((size_t)t->count + 1, sizeof *c.clock);
    c.event = mem_calloc((size_t)t->event_count + 1, sizeof *c.event);
    c.accesses = mem_calloc((size_t)c.capacity + 1, sizeof *c.accesses);
    Status status = c.clock && c.event && c.accesses ? check_all(&c) : ERR_MEMORY;
    mem_free(c.clock);
    mem_free(c.event);
    mem_free(c.accesses);
    return status;
}
