/* bench.h - the benchmarks behind convoy bench; each prints its own lines on rank 0. */
#ifndef CONVOY_TRAINER_APP_CMD_BENCH_BENCH_H
#define CONVOY_TRAINER_APP_CMD_BENCH_BENCH_H
#include "trainer/app/cmd/command_run.h"

typedef struct BenchOptions {
    int64_t steps, warmup;
    bool nodes;
    const char *layers; /* step with nodes: file for a row of CSV an item; NULL: none */
    bool eval;          /* decode: the view of evaluation; step: inference */
    int64_t images;     /* decode: at most */
    const char *replay; /* decode: file of views to make, and */
    const char *dump;   /* where their pixels go; NULL: none */
    bool one_input;     /* loader: only that of bench_inputs; else the first three */
    int input;
    bool crc;                     /* loader: checksums instead of times */
    int64_t first;                /* loader: global step to start at */
    int64_t min_bytes, max_bytes; /* allreduce; max_bytes 0: comm.bucket_mb */
    int64_t factor, check;        /* allreduce: from size to size; whether sums are checked */
    /* allreduce: GB/s of the largest size, below which the check failed; 0: none */
    double min_busbw;
    /* allreduce: a network whose buckets are summed as in training, NULL: sums by size; samples or
     * tokens a second of one rank that computes alone; fabrics to predict for, NULL: none */
    const char *like, *predict;
    double rate;
} BenchOptions;

extern const char *const bench_inputs[]; /* NULL at the end */
Status bench_decode(Comm *comm, const Config *c, const BenchOptions *o);
Status bench_loader(Comm *comm, const Config *c, const BenchOptions *o);
Status bench_step(Comm *comm, const Config *c, const BenchOptions *o);
Status bench_allreduce(Comm *comm, const Config *c, const BenchOptions *o);
Status bench_like(Comm *comm, const Config *c, const BenchOptions *o);

/* c with synthetic images where data.train is not set; shares c's strings. */
Config bench_config(const Config *c);
#endif
