/* reducer.c - one communication job per bucket, one for the running statistics, one for the
 * metrics; posted again in every step.
 *
 * THREADS. All functions run on the issuing thread. The communication thread touches data and job
 * between comm_post and comm_wait only.
 * ORDER. Ranks must post in the same order: buckets ascending (asserted), then buffers, then
 * metrics. A bucket without bytes and absent buffers are posted like the others, as empty jobs.
 * TRACES. Two sets of jobs are used in turn, so that the times of the last finished step stay
 * readable while the next one runs. */
#include "trainer/engine/train/reducer.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"

enum { NAME_BYTES = 24, SETS = 2 };
#define MEBIBYTE 1048576.0
/* a cap below this costs more in messages than it brings in overlap */
#define CAP_FLOOR_MB 8.0
/* of all gradients: the last piece then delays the step by little */
#define CAP_SHARE (1.0 / 6.0)

typedef struct ReducerSet {
    CommJob *jobs; /* buckets, then buffers, then metrics */
    double backward_end_s;
} ReducerSet;

struct Reducer {
    Comm *comm;
    int bucket_count;
    char (*names)[NAME_BYTES];
    ReducerSet sets[SETS];
    int current, finished; /* sets; finished -1 before the first step has ended */
    int posted, waited;    /* jobs of this step */
    bool backward_done;
};

static CommJob sum_of(CommType type, void *data, size_t count, const char *name)
{
    return (CommJob){ .kind = COMM_ALLREDUCE,
                      .op = COMM_SUM,
                      .type = type,
                      .data = data,
                      .count = count,
                      .name = name };
}

static CommJob sum_of_floats(void *data, size_t bytes, const char *name)
{
    ASSERT(bytes % sizeof(float) == 0 && (uintptr_t)data % sizeof(float) == 0);
    return sum_of(COMM_F32, data, bytes / sizeof(float), name);
}

/* Addresses never change, so jobs are written once and only posted in a step. */
static void fill_set(const Reducer *r, CommJob *jobs, const ReducerOptions *o)
{
    for (int i = 0; i < o->bucket_count; i++) {
        snprintf(r->names[i], NAME_BYTES, "bucket %d", i);
        *jobs++ = sum_of_floats((char *)o->grads + o->buckets[i].offset, o->buckets[i].bytes,
                                r->names[i]);
    }
    *jobs++ = sum_of_floats(o->buffers, o->buffer_bytes, "running statistics");
    *jobs = sum_of(COMM_F64, o->metrics, o->metric_count, "metrics");
}

Status reducer_create(Reducer **out, Comm *comm, const ReducerOptions *o)
{
    *out = NULL;
    Reducer *r = mem_calloc(1, sizeof *r);
    if (!r) return ERR_MEMORY;
    size_t count = (size_t)o->bucket_count;
    r->comm = comm;
    r->bucket_count = o->bucket_count;
    r->finished = -1;
    r->names = mem_calloc(count, NAME_BYTES);
    bool complete = r->names != NULL;
    for (int i = 0; i < SETS && complete; i++) {
        r->sets[i].jobs = mem_calloc(count + 2, sizeof *r->sets[i].jobs);
        complete = r->sets[i].jobs != NULL;
        if (complete) fill_set(r, r->sets[i].jobs, o);
    }
    if (!complete) {
        reducer_destroy(r);
        return ERR_MEMORY;
    }
    reducer_begin(r);
    *out = r;
    return OK;
}

void reducer_destroy(Reducer *r)
{
    if (!r) return;
    for (int i = 0; i < SETS; i++) mem_free(r->sets[i].jobs);
    mem_free(r->names);
    mem_free(r);
}

void reducer_begin(Reducer *r)
{
    ASSERT(r->waited == r->posted);        /* nothing of the step before may still be under way */
    r->current = r->finished == 0 ? 1 : 0; /* the other set is read by reducer_trace() */
    r->posted = r->waited = 0;
    r->backward_done = false;
}

void reducer_ready(Reducer *r, int bucket)
{
    ASSERT(bucket == r->posted && bucket < r->bucket_count);
    r->posted++;
    comm_post(r->comm, &r->sets[r->current].jobs[bucket]);
}

void reducer_backward_done(Reducer *r)
{
    ASSERT(!r->backward_done);
    /* of a rank whose backward failed: the others wait for its share of every bucket */
    while (r->posted < r->bucket_count) reducer_ready(r, r->posted);
    r->sets[r->current].backward_end_s = clock_s();
    r->backward_done = true;
    while (r->posted < reducer_jobs(r)) comm_post(r->comm, &r->sets[r->current].jobs[r->posted++]);
}

static void wait_for(Reducer *r, int job, double *wait_s)
{
    double begin_s = clock_s();
    comm_wait(r->comm, &r->sets[r->current].jobs[job]);
    *wait_s += clock_s() - begin_s;
    r->waited++;
    if (r->waited == reducer_jobs(r)) r->finished = r->current;
}

void reducer_wait_bucket(Reducer *r, int bucket, double *wait_s)
{
    ASSERT(bucket >= 0 && bucket < r->posted && bucket < r->bucket_count);
    wait_for(r, bucket, wait_s);
}

void reducer_wait_rest(Reducer *r, double *wait_s)
{
    ASSERT(r->backward_done);
    wait_for(r, r->bucket_count, wait_s);
    wait_for(r, r->bucket_count + 1, wait_s);
}

void reducer_trace(const Reducer *r, ReducerTrace *out)
{
    *out = (ReducerTrace){ 0 };
    if (r->finished < 0) return;
    const ReducerSet *set = &r->sets[r->finished];
    double all = 0, early = 0;
    for (int i = 0; i < r->bucket_count; i++) {
        all += (double)set->jobs[i].count;
        if (set->jobs[i].started_s <= set->backward_end_s) early += (double)set->jobs[i].count;
    }
    out->overlap = all > 0 ? early / all : 0;
    out->backward_end_s = set->backward_end_s;
}

int reducer_jobs(const Reducer *r)
{
    return r->bucket_count + 2;
}

const CommJob *reducer_job(const Reducer *r, int index)
{
    ASSERT(index >= 0 && index < reducer_jobs(r) && r->finished >= 0);
    return &r->sets[r->finished].jobs[index];
}

void reducer_caps(size_t gradient_bytes, double bucket_mb, double first_bucket_mb, size_t *cap,
                  size_t *first)
{
    double most = (double)gradient_bytes * CAP_SHARE;
    if (most < CAP_FLOOR_MB * MEBIBYTE) most = CAP_FLOOR_MB * MEBIBYTE;
    if (bucket_mb * MEBIBYTE < most) most = bucket_mb * MEBIBYTE;
    double head = first_bucket_mb > 0 ? first_bucket_mb * MEBIBYTE : most;
    *cap = (size_t)most;
    *first = (size_t)(head < most ? head : most);
}
