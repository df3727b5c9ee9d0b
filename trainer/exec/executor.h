/* executor.h - graphs made runnable: prepared on a backend, planned into slabs, bound, run node by node.
 *
 * An Executor owns the slabs that all its programs share: parameters, gradients, batch-norm statistics, one activation
 * slab and one workspace as large as the hungriest program needs. Programs (training, accumulating training,
 * evaluation) are added first, then executor_commit() allocates and binds; after that executor_run() only runs. The
 * first program decides how parameters lie in memory; later ones take that as given. No program runs while another
 * does. */
#ifndef CONVOY_TRAINER_EXEC_EXECUTOR_H
#define CONVOY_TRAINER_EXEC_EXECUTOR_H
#include "kernels/backend.h"
#include "models/graph/plan.h"

typedef struct Executor Executor;
typedef struct Program Program;

typedef struct ExecutorMemory { /* bytes */
    size_t params, grads, buffers, activations, workspace, activations_naive;
} ExecutorMemory;

/* Borrows backend until destroyed. */
Status executor_create(Executor **out, Backend *backend);
void executor_destroy(Executor *x); /* NULL ok; destroys its programs */

/* Prepares and plans g (owned by the executor from here on, also on error). accumulate: parameter gradients are added
 * to. */
Status executor_add(Executor *x, Graph *g, bool accumulate, Program **out);
/* Bytes that commit will allocate; valid once all programs are added. */
void executor_memory(const Executor *x, ExecutorMemory *out);
/* Allocates the slabs and binds all programs. Stats of every program lie in host memory. */
Status executor_commit(Executor *x);

const Graph *program_graph(const Program *p);
const Plan *program_plan(const Program *p);
const char *program_implementation(const Program *p, int node); /* what runs this node: "jit:avx2" */
/* Where a tensor of a program lives; after commit. */
const OpTensor *program_tensor(const Program *p, TensorId id);
/* Points an input ("images", "labels") at other memory that the backend can read, until the next call. */
Status program_set_input(Program *p, const char *name, const void *data);
/* The step scalars, read by every program and by the optimizer's updates. */
Status executor_set_scalars(Executor *x, const float values[SCALAR_COUNT]);
const OpTensor *executor_scalars(const Executor *x);
const double *program_stats(const Program *p); /* [STATS_COUNT] of the last run */

typedef struct RunHooks {  /* zero-initialise what is not needed */
    const Bucket *buckets; /* bucket k is announced when its last node has run */
    int bucket_count;
    void (*bucket_ready)(void *cookie, int bucket);
    void *cookie;
    double *node_seconds; /* [nodes]: time of each node is added (bench); waits for the stream after each */
} RunHooks;
Status executor_run(Executor *x, Program *p, const RunHooks *hooks);

/* Parameters and buffers, by the names and order of the first program (PARAM slab order, then buffers). */
int executor_state_count(const Executor *x);
const char *executor_state_name(const Executor *x, int index);
const OpTensor *executor_state(const Executor *x, int index); /* data valid after commit */
bool executor_state_is_param(const Executor *x, int index);
bool executor_state_decays(const Executor *x, int index); /* GraphTensor.decay */
/* Fills every parameter and buffer by its init rule (models.h). */
Status executor_init_states(Executor *x, uint64_t seed);
/* Copies a state to and from plain row-major host memory. */
Status executor_export_state(const Executor *x, int index, void *host);
Status executor_import_state(Executor *x, int index, const void *host);
Stream *executor_stream(const Executor *x);
size_t executor_state_offset(const Executor *x, int index); /* in its slab */
void *executor_slab(const Executor *x, Slab slab);
size_t executor_slab_bytes(const Executor *x, Slab slab);
#endif
