/* run_case.c - one case from its parameters to its verdict: inputs, the reference, the backend
 * twice, comparison. */
#include "tests/ops/check.h"

#include <math.h>
#include <string.h>

typedef struct Work {
    Arena *arena;
    Problem problem;
    Host in[OP_MAX_INPUTS], start[OP_MAX_OUTPUTS];
    Result ref, absolute, first, second;
    DType out_type[OP_MAX_OUTPUTS];
} Work;

static Status make_inputs(const Case *c, uint64_t seed, Work *w)
{
    Rng rng = case_rng(c, seed);
    const Mode mode = c->variant.mode;
    for (int i = 0; i < OP_MAX_INPUTS; i++) TRY(host_make(w->arena, &w->in[i], &w->problem.in[i]));
    if (c->family->fill) c->family->fill(c->p, &w->problem, mode, &rng, w->in);
    else fill_default(&w->problem, mode, &rng, w->in);
    /* The first element of the first input reaches every op's result; the other need not come first
     * in a window. */
    if (mode == MODE_NAN) w->in[0].v[0] = w->in[0].v[tensor_elements(&w->in[0].desc) / 2] = NAN;
    for (int i = 0; c->variant.accumulate && i < OP_MAX_OUTPUTS; i++) {
        if (!op_out_is_gradient(w->problem.kind, i)) continue;
        TRY(host_make(w->arena, &w->start[i], &w->problem.out[i]));
        if (w->start[i].v && mode == MODE_EXACT) fill_integers(&w->start[i], &rng, 9);
        if (w->start[i].v && mode != MODE_EXACT) fill_normal(&w->start[i], &rng, 0, 2);
    }
    return OK;
}

static Status run_reference(Work *w, const Case *c, Backend *ref, const Host *in, const Host *start,
                            Result *out)
{
    Rig rig;
    Variant v = { .mode = c->variant.mode,
                  .accumulate = c->variant.accumulate,
                  .weights = WEIGHTS_FREE,
                  .plain = true };
    Status st = rig_create(&rig, ref, &w->problem, &v);
    if (st == OK) st = rig_run(&rig, w->arena, in, start, out);
    rig_destroy(&rig);
    return st == OK ? OK : fail_note(st, "reference");
}

/* What is subtracted adds to the sizes of the terms as its opposite. */
static void negate(Host *t)
{
    for (int64_t k = 0, n = tensor_elements(&t->desc); k < n; k++) t->v[k] = -t->v[k];
}

static Status copy_absolute(Arena *arena, const Host *from, int count, Host *to)
{
    for (int i = 0; i < count; i++) {
        to[i] = from[i];
        if (!from[i].v || from[i].desc.dtype != DTYPE_F32) continue;
        TRY(host_make(arena, &to[i], &from[i].desc));
        for (int64_t k = 0, n = tensor_elements(&from[i].desc); k < n; k++)
            to[i].v[k] = fabs(from[i].v[k]);
    }
    return OK;
}

static bool needs_absolute(const Case *c)
{
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) {
        const ToleranceRow *row = tolerance_row(c->family->kind, false, i);
        if (row && (row->bound == BOUND_SUM || row->bound == BOUND_TYPE) &&
            c->variant.mode != MODE_EXACT)
            return true;
    }
    return false;
}

static Status run_absolute(Work *w, const Case *c, Backend *ref)
{
    Host in[OP_MAX_INPUTS] = { { { 0 }, NULL } }, start[OP_MAX_OUTPUTS] = { { { 0 }, NULL } };
    TRY(copy_absolute(w->arena, w->in, OP_MAX_INPUTS, in));
    TRY(copy_absolute(w->arena, w->start, OP_MAX_OUTPUTS, start));
    if (c->family->kind == OP_CONV2D_BN) negate(&in[CONV_BN_IN_RUNNING_MEAN]);
    return run_reference(w, c, ref, in, start, &w->absolute);
}

static Status compare_runs(const Rig *rig, const Result *a, const Result *b)
{
    const OpDef *def = op_def(rig->op.kind);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++)
        if (a->raw_out[i] && memcmp(a->raw_out[i], b->raw_out[i], rig->op.out[i].bytes) != 0)
            return fail(ERR_HEALTH, "a second run gives other bytes in %s", def->out_names[i]);
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        if (a->raw_in[i] && memcmp(a->raw_in[i], b->raw_in[i], rig->op.in[i].bytes) != 0)
            return fail(ERR_HEALTH, "a second run gives other bytes in %s", def->in_names[i]);
    return OK;
}

static Status run_backend(Work *w, Rig *rig)
{
    TRY(rig_run(rig, w->arena, w->in, w->start, &w->first));
    TRY(rig_run(rig, w->arena, w->in, w->start, &w->second));
    return compare_runs(rig, &w->first, &w->second);
}

static Status compare_with_reference(Work *w, const Case *c, const Subject *subject, Backend *ref,
                                     Rig *rig, Verdict *verdict)
{
    if (!rig->op.implementation) return fail(ERR_HEALTH, "what computes it has no name");
    if (subject->winograd && !strstr(rig->op.implementation, "winograd"))
        return fail(ERR_HEALTH, "%s computes it", rig->op.implementation);
    TRY(subject_round_inputs(subject, w->arena, &rig->op, w->in));
    for (int i = 0; i < OP_MAX_OUTPUTS; i++)
        if (rig->op.out[i].desc.rank)
            TRY(subject_type_of(subject, w->arena, &rig->op.out[i], &w->out_type[i]));
    TRY(run_reference(w, c, ref, w->in, w->start, &w->ref));
    if (needs_absolute(c)) TRY(run_absolute(w, c, ref));
    TRY(run_backend(w, rig));
    Comparison comparison = { .subject = subject,
                              .problem = &w->problem,
                              .family = c->family,
                              .variant = c->variant,
                              .in = w->in,
                              .start = w->start,
                              .product_type = subject_product_type(subject, &rig->op),
                              .ref = &w->ref,
                              .absolute = &w->absolute,
                              .got = &w->first };
    memcpy(comparison.out_type, w->out_type, sizeof w->out_type);
    return compare_results(w->arena, &comparison, verdict);
}

static Status expect_refusal(Status st)
{
    if (st == ERR_USAGE) return OK;
    return st == OK ? fail(ERR_HEALTH, "prepare takes a problem that it should refuse") : st;
}

static Status run_work(Work *w, const Case *c, const Subject *subject, Backend *ref, uint64_t seed,
                       Verdict *verdict)
{
    TRY(problem_make(c, &w->problem));
    TRY(make_inputs(c, seed, w));
    Rig rig;
    Status st = rig_create(&rig, subject->backend, &w->problem, &c->variant);
    if (subject_refuses(subject, &w->problem)) st = expect_refusal(st);
    else if (st == OK) st = compare_with_reference(w, c, subject, ref, &rig, verdict);
    rig_destroy(&rig);
    return st;
}

Status run_case(const Case *c, const Subject *subject, Backend *ref, uint64_t seed,
                Verdict *verdict)
{
    Work *w = mem_calloc(1, sizeof *w);
    if (!w) return ERR_MEMORY;
    Status st = arena_create(&w->arena, (size_t)1 << 20);
    if (st == OK) st = run_work(w, c, subject, ref, seed, verdict);
    arena_destroy(w->arena);
    mem_free(w);
    return st;
}
