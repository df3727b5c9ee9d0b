/* steps.c - see steps.h. */
#include "tests/tools/steps.h"
#include "base/mem.h"

Status steps_run(Executor *x, TimelineRun run, StepWhen when, int bucket)
{
    for (int i = 0; i < executor_step_count(x); i++) {
        const StepOp *op = executor_step(x, i);
        if (op->when == when && op->bucket == bucket && step_in_run(op, run))
            TRY(executor_run_step(x, op, 0, executor_stream(x)));
    }
    return OK;
}

enum { PER_BUCKET = 3, OTHERS = 12 };

typedef struct List {
    StepOp *ops;
    int count;
    const StepsSpec *spec;
    const Plan *plan;
} List;

static StepOp *append(List *l, const char *name, StepWhen when, unsigned runs)
{
    StepOp *op = &l->ops[l->count++];
    *op = (StepOp){ .name = name, .when = when, .runs = runs };
    return op;
}

/* Places of memory that is not there. */
enum { KEPT = 1, SQUARES = 1 << 8, NORM = 1 << 28 };
static const size_t momentum = (size_t)1 << 40;

static void step_use_slab(StepOp *s, StepMode mode, Slab slab, size_t offset, size_t bytes)
{
    if (bytes > 0)
        step_use(s, (StepUse){ .slab = slab, .offset = offset, .bytes = bytes, .mode = mode });
}

static void step_use_memory(StepOp *s, StepMode mode, const char *name, size_t place, size_t bytes)
{
    step_use(s, (StepUse){ .name = name, .offset = place, .bytes = bytes, .mode = mode });
}

static void use_scale(const List *l, StepOp *op, StepMode mode)
{
    if (l->spec->loss_scale)
        step_use_memory(op, mode, "loss_scale", 0, LOSS_SCALE_COUNT * sizeof(float));
}

static void use_all(const List *l, StepOp *op, StepMode mode, Slab slab)
{
    step_use_slab(op, mode, slab, 0, l->plan->slab_bytes[slab]);
}

static void add_bucket(List *l, const Bucket *b, int k)
{
    StepOp *op = append(l, "update", STEP_UPDATE, STEP_IN_LAST);
    op->bucket = k;
    step_use_slab(op, STEP_READS, SLAB_GRAD, b->offset, b->bytes);
    step_use_slab(op, STEP_UPDATES, SLAB_PARAM, b->offset, b->bytes);
    step_use_memory(op, STEP_UPDATES, "momentum", momentum + b->offset, b->bytes);
    use_scale(l, op, STEP_READS);
    if (l->spec->norm) step_use_memory(op, STEP_READS, "norm", NORM, CLIP_COUNT * sizeof(float));
    if (l->spec->loss_scale) {
        op = append(l, "finite check", STEP_MEASURE, STEP_IN_LAST | STEP_IN_FIRST);
        op->bucket = k;
        step_use_slab(op, STEP_READS, SLAB_GRAD, b->offset, b->bytes);
        use_scale(l, op, STEP_UPDATES);
    }
    op = append(l, "squares", STEP_MEASURE,
                STEP_IN_FIRST | (l->spec->norm ? (unsigned)STEP_IN_LAST : 0));
    op->bucket = k;
    step_use_slab(op, STEP_READS, SLAB_GRAD, b->offset, b->bytes);
    step_use_memory(op, STEP_WRITES, "squares", SQUARES + (size_t)k * sizeof(double),
                    sizeof(double));
}

static void add_passes(List *l, size_t squares)
{
    StepOp *op = append(l, "perturb", STEP_MOVE, STEP_IN_FIRST);
    use_all(l, op, STEP_READS, SLAB_PARAM);
    step_use_memory(op, STEP_WRITES, "kept parameters", KEPT, 1);
    op = append(l, "perturb", STEP_MOVE, STEP_IN_FIRST);
    step_use_memory(op, STEP_READS, "squares", SQUARES, squares);
    use_scale(l, op, STEP_READS);
    use_all(l, op, STEP_READS, SLAB_GRAD);
    use_all(l, op, STEP_UPDATES, SLAB_PARAM);
    use_all(l, op, STEP_READS, SLAB_BUFFER);
    op = append(l, "restore parameters", STEP_MOVE, STEP_IN_SECOND);
    use_all(l, op, STEP_WRITES, SLAB_PARAM);
    op = append(l, "restore running statistics", STEP_FORWARD, STEP_IN_SECOND);
    use_all(l, op, STEP_WRITES, SLAB_BUFFER);
}

static void add_averages(List *l)
{
    StepOp *op = append(l, "averages", STEP_AVERAGE, STEP_IN_LAST);
    use_all(l, op, STEP_UPDATES, SLAB_PARAM);
    use_scale(l, op, STEP_READS);
    op = append(l, "averages", STEP_AVERAGE, STEP_IN_LAST);
    use_all(l, op, STEP_READS, SLAB_BUFFER);
}

StepOp *steps_like(const StepsSpec *spec, const Plan *p, const Bucket *buckets, int bucket_count,
                   int *out_count)
{
    List l = { .spec = spec, .plan = p };
    const size_t squares = (size_t)bucket_count * sizeof(double);
    if (!(l.ops = mem_calloc((size_t)(PER_BUCKET * bucket_count + OTHERS), sizeof *l.ops)))
        return NULL;
    for (int k = 0; k < bucket_count; k++) add_bucket(&l, &buckets[k], k);
    if (spec->norm) {
        StepOp *op = append(&l, "norm", STEP_PREPARE, STEP_IN_LAST);
        step_use_memory(op, STEP_READS, "squares", SQUARES, squares);
        use_scale(&l, op, STEP_READS);
        step_use_memory(op, STEP_WRITES, "norm", NORM, CLIP_COUNT * sizeof(float));
    }
    if (spec->loss_scale)
        use_scale(&l, append(&l, "loss scale", STEP_END, STEP_IN_LAST), STEP_UPDATES);
    if (spec->norm)
        step_use_memory(append(&l, "result", STEP_RESULT, STEP_IN_LAST), STEP_READS, "norm", NORM,
                        CLIP_COUNT * sizeof(float));
    if (spec->loss_scale)
        use_scale(&l, append(&l, "result", STEP_RESULT, STEP_IN_LAST), STEP_READS);
    add_passes(&l, squares);
    if (spec->averages) add_averages(&l);
    if (spec->statistics)
        use_all(&l, append(&l, "mean of running statistics", STEP_STATISTICS, STEP_IN_LAST),
                STEP_UPDATES, SLAB_BUFFER);
    *out_count = l.count;
    return l.ops;
}

Timeline *steps_timeline(const Graph *g, const Plan *p, const TimelineOptions *o,
                         const StepsSpec *spec)
{
    TimelineOptions with = *o;
    Timeline *t = NULL;
    StepOp *ops = steps_like(spec, p, o->buckets, o->bucket_count, &with.op_count);
    with.ops = ops;
    ASSERT(ops && timeline_create(&t, g, p, &with) == OK);
    mem_free(ops);
    return t;
}
