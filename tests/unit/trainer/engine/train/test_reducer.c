/* The reducer over a transport that finishes nothing by itself: what is posted, in which order, and
 * what the trace tells. */
#include "base/clock.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/engine/train/reducer.h"
#include <string.h>

enum { BUCKETS = 3, POSTED_MAX = 16, FLOATS = 10 };

typedef struct SlowComm {
    Comm base;
    CommJob *posted[POSTED_MAX];
    int count;
    /* jobs from this one on start when they are waited for, not when they are posted */
    int late_from;
} SlowComm;

static void slow_post(Comm *c, CommJob *job)
{
    SlowComm *s = (SlowComm *)c;
    job->done = 0;
    job->posted_s = clock_s();
    if (s->count < s->late_from) job->started_s = job->posted_s;
    s->posted[s->count++] = job;
}

/* Sums as if a second rank held the same values. */
static void slow_wait(Comm *c, CommJob *job)
{
    SlowComm *s = (SlowComm *)c;
    if (job->started_s < job->posted_s) job->started_s = clock_s();
    for (size_t i = 0; i < job->count; i++) {
        if (job->type == COMM_F32) ((float *)job->data)[i] *= 2;
        else ((double *)job->data)[i] *= 2;
    }
    job->finished_s = clock_s();
    job->done = 1;
    (void)s;
}

static const CommVTable slow_vtable = { .post = slow_post, .wait = slow_wait };

typedef struct Fixture {
    SlowComm comm;
    float grads[FLOATS], buffers[2];
    double metrics[2];
    Reducer *reducer;
} Fixture;

/* Buckets of 4, 0 and 6 floats. */
static void set_up(Fixture *f, int late_from, size_t buffer_bytes)
{
    const Bucket buckets[BUCKETS] = { { .offset = 0, .bytes = 16 },
                                      { .offset = 16, .bytes = 0 },
                                      { .offset = 16, .bytes = 24 } };
    memset(f, 0, sizeof *f);
    f->comm.base.v = &slow_vtable;
    f->comm.base.world = 2;
    f->comm.late_from = late_from;
    for (int i = 0; i < FLOATS; i++) f->grads[i] = (float)(i + 1);
    f->buffers[0] = f->buffers[1] = 5;
    f->metrics[0] = 1;
    f->metrics[1] = 0.5;
    ReducerOptions o = { .grads = f->grads,
                         .buckets = buckets,
                         .bucket_count = BUCKETS,
                         .buffers = f->buffers,
                         .buffer_bytes = buffer_bytes,
                         .metrics = f->metrics,
                         .metric_count = 2 };
    CHECK_OK(reducer_create(&f->reducer, &f->comm.base, &o));
}

static void backward(Fixture *f)
{
    f->comm.count = 0;
    reducer_begin(f->reducer);
    for (int b = 0; b < BUCKETS; b++) reducer_ready(f->reducer, b);
    clock_sleep_s(0.001);
    reducer_backward_done(f->reducer);
    clock_sleep_s(0.001);
}

static double wait_all(Fixture *f)
{
    double wait_s = 0;
    for (int b = 0; b < BUCKETS; b++) reducer_wait_bucket(f->reducer, b, &wait_s);
    reducer_wait_rest(f->reducer, &wait_s);
    return wait_s;
}

TEST(posts_buckets_then_buffers_then_metrics)
{
    Fixture f;
    set_up(&f, POSTED_MAX, sizeof f.buffers);
    REQUIRE(f.reducer != NULL);
    backward(&f);
    REQUIRE(f.comm.count == BUCKETS + 2);
    CHECK(f.comm.posted[0]->data == f.grads && f.comm.posted[0]->count == 4);
    CHECK(f.comm.posted[1]->count == 0);
    CHECK(f.comm.posted[2]->data == f.grads + 4 && f.comm.posted[2]->count == 6);
    CHECK(f.comm.posted[3]->data == f.buffers && f.comm.posted[3]->count == 2 &&
          f.comm.posted[3]->type == COMM_F32);
    CHECK(f.comm.posted[4]->data == f.metrics && f.comm.posted[4]->count == 2 &&
          f.comm.posted[4]->type == COMM_F64);
    CHECK_STR(f.comm.posted[2]->name, "bucket 2");
    for (int i = 0; i < f.comm.count; i++)
        CHECK(f.comm.posted[i]->kind == COMM_ALLREDUCE && f.comm.posted[i]->op == COMM_SUM);
    CHECK(wait_all(&f) >= 0);
    reducer_destroy(f.reducer);
}

TEST(sums_in_place)
{
    Fixture f;
    set_up(&f, POSTED_MAX, sizeof f.buffers);
    REQUIRE(f.reducer != NULL);
    backward(&f);
    wait_all(&f);
    for (int i = 0; i < FLOATS; i++) CHECK_NEAR(f.grads[i], 2 * (i + 1), 0);
    CHECK_NEAR(f.buffers[1], 10, 0);
    CHECK_NEAR(f.metrics[1], 1, 0);
    reducer_destroy(f.reducer);
}

TEST(frozen_buffers_are_left_alone)
{
    Fixture f;
    set_up(&f, POSTED_MAX, 0);
    REQUIRE(f.reducer != NULL);
    backward(&f);
    CHECK_INT(f.comm.posted[3]->count, 0);
    wait_all(&f);
    CHECK_NEAR(f.buffers[0], 5, 0);
    reducer_destroy(f.reducer);
}

TEST(overlap_counts_bytes_that_started_in_time)
{
    Fixture f;
    ReducerTrace trace;
    set_up(&f, 2, sizeof f.buffers); /* the last bucket, 24 of 40 bytes, starts after backward */
    REQUIRE(f.reducer != NULL);
    reducer_trace(f.reducer, &trace);
    CHECK_NEAR(trace.overlap, 0, 0);
    backward(&f);
    wait_all(&f);
    reducer_trace(f.reducer, &trace);
    CHECK_NEAR(trace.overlap, 0.4, 1e-12);
    CHECK(trace.backward_end_s > 0);
    f.comm.late_from = POSTED_MAX;
    backward(&f);
    reducer_trace(f.reducer, &trace); /* of the last finished step, while the next one runs */
    CHECK_NEAR(trace.overlap, 0.4, 1e-12);
    const CommJob *before = reducer_job(f.reducer, 2);
    CHECK(before->done && before->started_s > trace.backward_end_s);
    wait_all(&f);
    reducer_trace(f.reducer, &trace);
    CHECK_NEAR(trace.overlap, 1, 0);
    reducer_destroy(f.reducer);
}

TEST(steps_allocate_nothing)
{
    Fixture f;
    set_up(&f, POSTED_MAX, sizeof f.buffers);
    REQUIRE(f.reducer != NULL);
    int64_t before = mem_allocation_count();
    for (int step = 0; step < 5; step++) {
        backward(&f);
        wait_all(&f);
    }
    CHECK_INT(mem_allocation_count(), before);
    reducer_destroy(f.reducer);
}

TEST(failing_allocations_leave_nothing)
{
    SlowComm comm = { .base = { .v = &slow_vtable, .world = 1 } };
    const Bucket bucket = { .bytes = 4 };
    ReducerOptions o = { .buckets = &bucket, .bucket_count = 1 };
    Reducer *r = NULL;
    Status status = ERR_MEMORY;
    int n = 0;
    while (status == ERR_MEMORY && n < 20) {
        mem_fail_at(++n);
        status = reducer_create(&r, &comm.base, &o);
        CHECK((status == OK) == (r != NULL));
    }
    mem_fail_at(0);
    CHECK_STATUS(status, OK);
    CHECK(n > 3);
    reducer_destroy(r);
}

TEST(caps_follow_the_model)
{
    const size_t mb = 1048576;
    size_t cap = 0, first = 0;
    reducer_caps(100 * mb, 200, 0, &cap, &first); /* a sixth of all gradients */
    CHECK_INT(cap, 100 * mb / 6);
    CHECK_INT(first, cap);
    reducer_caps(6 * mb, 200, 1, &cap, &first); /* the floor */
    CHECK_INT(cap, 8 * mb);
    CHECK_INT(first, mb);
    reducer_caps(6000 * mb, 200, 0, &cap, &first); /* bucket_mb is the limit */
    CHECK_INT(cap, 200 * mb);
    reducer_caps(100 * mb, 0.5, 4, &cap, &first); /* the first is never larger than the others */
    CHECK_INT(cap, mb / 2);
    CHECK_INT(first, mb / 2);
}
