/* reducer.h - gradient averaging: buckets of the gradient slab are summed over ranks while backward
 * goes on.
 *
 * Bucket boundaries are fixed at plan time (models/graph/plan.h). The issuing thread calls
 * reducer_ready(k) when the last gradient of bucket k is complete; the communication thread sums it
 * in place. Gradients carry the factor 1/global batch already, so the sum is the mean. After
 * backward the batch-norm running statistics (summed; the caller scales by 1/world) and the step's
 * metrics (exact sums in double, with the stop flag among them) follow. Nothing is copied and
 * nothing allocated per step. */
#ifndef CONVOY_TRAINER_ENGINE_TRAIN_REDUCER_H
#define CONVOY_TRAINER_ENGINE_TRAIN_REDUCER_H
#include "models/graph/plan.h"
#include "trainer/engine/comm/comm.h"

typedef struct ReducerOptions {
    void *grads;           /* base of the GRAD slab in host memory */
    const Bucket *buckets; /* read by reducer_create() alone */
    int bucket_count;
    void *buffers; /* base of the BUFFER slab; bytes 0: frozen batch norm, nothing to average */
    size_t buffer_bytes;
    double *metrics; /* summed every step */
    size_t metric_count;
} ReducerOptions;

typedef struct Reducer Reducer;
Status reducer_create(Reducer **out, Comm *comm, const ReducerOptions *o);
void reducer_destroy(Reducer *r);
void reducer_begin(Reducer *r);             /* a new step: no bucket is posted */
void reducer_ready(Reducer *r, int bucket); /* in ascending order */
/* posts buffers and metrics; first the buckets of a rank that failed and could not announce them */
void reducer_backward_done(Reducer *r);
void reducer_wait_bucket(Reducer *r, int bucket, double *wait_s);
void reducer_wait_rest(Reducer *r, double *wait_s); /* buffers and metrics */

typedef struct ReducerTrace {
    double overlap; /* share of gradient bytes whose reduction had started before backward ended */
    double backward_end_s;
} ReducerTrace;
void reducer_trace(const Reducer *r, ReducerTrace *out); /* of the last finished step */
/* Times of bucket k in the last finished step; behind the buckets come running statistics and
 * metrics. */
const CommJob *reducer_job(const Reducer *r, int index);
int reducer_jobs(const Reducer *r);
/* Most bytes of a bucket and of the first one: cap = min(bucket_mb, max(8 MB, a sixth of all
 * gradients)); first = min(first_bucket_mb, cap), or cap if that is 0. MB = 2^20. */
void reducer_caps(size_t gradient_bytes, double bucket_mb, double first_bucket_mb, size_t *cap,
                  size_t *first);
#endif
