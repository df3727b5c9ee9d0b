/* bench.c - how fast one case runs: best time of many, physical bytes read and written, arithmetic
 * by the op's own count. */
#include "tests/ops/rig.h"

#include "base/clock.h"

#include <stdio.h>

#define WARM_RUNS   2
#define MIN_RUNS    5
#define MIN_SECONDS 0.3

typedef struct Bench {
    Rig rig;
    Problem problem;
    Arena *arena;
    Guarded in[OP_MAX_INPUTS], out[OP_MAX_OUTPUTS], workspace;
    double bytes;
} Bench;

static Status place(Bench *b, const Case *c, uint64_t seed)
{
    OpInstance *op = &b->rig.op;
    Backend *backend = b->rig.backend;
    Host in[OP_MAX_INPUTS];
    Rng rng = case_rng(c, seed);
    for (int i = 0; i < OP_MAX_INPUTS; i++) TRY(host_make(b->arena, &in[i], &b->problem.in[i]));
    if (c->family->fill) c->family->fill(c->p, &b->problem, MODE_FLOAT, &rng, in);
    else fill_default(&b->problem, MODE_FLOAT, &rng, in);
    for (int i = 0; i < OP_MAX_INPUTS; i++) {
        if (op->in[i].desc.rank == 0) continue;
        TRY(guarded_alloc(backend, b->arena, op->in[i].bytes, &b->in[i]));
        op->in[i].data = b->in[i].data;
        TRY(rig_import(backend, b->arena, &op->in[i], &in[i]));
        b->bytes += (double)op->in[i].bytes;
    }
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) {
        if (op->out[i].desc.rank == 0) continue;
        TRY(guarded_alloc(backend, b->arena, op->out[i].bytes, &b->out[i]));
        op->out[i].data = b->out[i].data;
        b->bytes += (double)op->out[i].bytes;
    }
    TRY(guarded_alloc(backend, b->arena, op->workspace_bytes, &b->workspace));
    op->workspace = op->workspace_bytes ? b->workspace.data : NULL;
    return backend->v->ops[op->kind]->bind(op);
}

static Status time_runs(Bench *b, double *best)
{
    Backend *backend = b->rig.backend;
    const OpImpl *impl = backend->v->ops[b->rig.op.kind];
    double end = clock_s() + MIN_SECONDS;
    *best = 1e30;
    for (int i = 0; i < WARM_RUNS + MIN_RUNS || clock_s() < end; i++) {
        double start = clock_s();
        TRY(impl->run(&b->rig.op, b->rig.stream));
        TRY(backend->v->stream_wait(backend, b->rig.stream));
        double seconds = clock_s() - start;
        if (i >= WARM_RUNS && seconds < *best) *best = seconds;
    }
    return OK;
}

static void print_line(const Bench *b, const Case *c, double seconds)
{
    const TensorDesc *in[OP_MAX_INPUTS];
    StrBuf text = { 0 };
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        in[i] = b->problem.in[i].rank ? &b->problem.in[i] : NULL;
    double flops = op_flops(b->problem.kind, &b->problem.attr, in, b->problem.out);
    case_format(c, &text);
    report("%9.3f ms %8.2f GB/s %8.2f GFLOP/s  %-20s %s", seconds * 1e3, b->bytes / seconds / 1e9,
           flops / seconds / 1e9, b->rig.op.implementation ? b->rig.op.implementation : "-",
           text.text ? text.text : "");
    str_free(&text);
}

static Status run(Bench *b, const Case *c, Backend *backend, uint64_t seed)
{
    double best;
    TRY(arena_create(&b->arena, (size_t)1 << 20));
    TRY(problem_make(c, &b->problem));
    TRY(rig_create(&b->rig, backend, &b->problem, &c->variant));
    TRY(place(b, c, seed));
    TRY(time_runs(b, &best));
    print_line(b, c, best);
    return OK;
}

Status bench_case(const Case *c, Backend *backend, uint64_t seed)
{
    Bench *b = mem_calloc(1, sizeof *b);
    if (!b) return ERR_MEMORY;
    Status st = run(b, c, backend, seed);
    for (int i = 0; i < OP_MAX_INPUTS; i++) guarded_free(backend, &b->in[i]);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) guarded_free(backend, &b->out[i]);
    guarded_free(backend, &b->workspace);
    rig_destroy(&b->rig);
    arena_destroy(b->arena);
    mem_free(b);
    return st;
}
