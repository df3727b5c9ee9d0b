/* comm.h - what the ranks of a run say to each other. One interface; one process alone is an
 * ordinary case of it (comm_self.c).
 *
 * JOBS. Every operation is a CommJob that is posted and later waited for. With MPI one
 * communication thread makes every MPI call: it starts the jobs in the order in which they were
 * posted - which must be the same on all ranks -, polls them and sleeps between polls, so that it
 * steals no compute core. comm_self finishes jobs at once. The blocking helpers post and wait.
 *
 * FAILURE. A job that is not done after the timeout means a lost or hung peer: the communication
 * thread logs rank, step, phase and operation (comm_set_progress) and ends the process with code 76
 * by _exit, never through MPI_Finalize. Therefore jobs themselves cannot fail; only set-up can.
 * comm_agree() is how a local error becomes everybody's at a known point. */
#ifndef CONVOY_TRAINER_ENGINE_COMM_COMM_H
#define CONVOY_TRAINER_ENGINE_COMM_COMM_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum CommType { COMM_F32, COMM_F64, COMM_I64, COMM_BYTES } CommType;
typedef enum CommOp { COMM_SUM, COMM_MAX, COMM_MIN } CommOp;
typedef enum CommKind {
    COMM_ALLREDUCE,
    COMM_BROADCAST,
    COMM_BARRIER,
    COMM_ALLGATHER,
    COMM_GROUP /* makes groups of `count` ranks: comm_group() */
} CommKind;

/* zero-initialise or fill; must stay alive and in place until waited for */
typedef struct CommJob {
    CommKind kind;
    CommType type;
    CommOp op;
    void *data; /* in place; allgather: world * count elements, own part already in place */
    /* allreduce of several ranks: what is summed into data, which it is apart from; NULL: data */
    const void *from;
    size_t count; /* elements (allgather: per rank) */
    int root;
    bool group; /* allreduce: over this rank's group alone */
    /* "bucket 3", for the watchdog; static or outlives the job */
    const char *name;
    double posted_s, started_s, finished_s; /* clock_s(), filled in; for traces */
    _Atomic int done;                       /* internal */
} CommJob;

typedef struct Comm Comm;
typedef struct CommVTable {
    void (*post)(Comm *c, CommJob *job);
    void (*wait)(Comm *c, CommJob *job);
    void (*abort)(Comm *c, int exit_code); /* ends the whole job now; does not return */
    void (*destroy)(Comm *c);              /* finalises; collective */
} CommVTable;
struct Comm {
    const CommVTable *v;
    int rank, world, local_rank, local_world; /* local: ranks of this host (MPI_COMM_TYPE_SHARED) */
    int local_leader;                         /* rank whose local_rank is 0 on this host */
    const char *name;                         /* "self", "mpi" */
    char library[720];                        /* of MPI, with version and path; "" for self */
    /* what comm_set_timeout and comm_set_progress were told: read by the watchdog */
    _Atomic double timeout_s;
    _Atomic int64_t step;
    _Atomic(const char *) phase; /* NULL = start */
    /* signs of life of the main thread */
    _Atomic int64_t beats;
    void (*last_words)(void *cookie, int exit_code, const char *reason); /* NULL: none */
    void *last_words_cookie;
    /* where mpirun listens, if it has answered there (launcher.h); NULL: unknown */
    _Atomic(const char *) launcher;
    char launcher_address[512];
};

/* Says what the process dies of where it ends without returning (watchdog, comm_abort); may run on
 * any thread. NULL words: none. */
void comm_set_last_words(Comm *c, void (*words)(void *cookie, int exit_code, const char *reason),
                         void *cookie);
/* Finds out where mpirun listens, as it told this process, and whether it answers; up to 3 s. From
 * then on a rank that ends because of a lost peer looks whether its host was cut off: then it ends
 * mpirun's daemon on it too. */
void comm_find_launcher(Comm *c);
/* What NCCL takes for the name of this host, where the environment sets one (NCCL_HOSTID); NULL. */
const char *comm_nccl_host(void);
/* True on every rank if value is the same on all of them. */
bool comm_all_equal(Comm *c, int64_t value);

Status comm_self_create(Comm **out);
/* What to use: MPI when this process was started by mpirun, srun (PMIx) or the like, else self. The
 * launcher decides which library of MPI is opened (mpi_library.h); ERR_ENV if that cannot be. While
 * it waits for the other ranks, a request to stop (stopped, NULL ok) ends the process with 75, and
 * more than start_s seconds (0: no limit) with 76: a line says so. */
Status comm_create(Comm **out, double start_s, bool (*stopped)(void));
/* 0 = none; may be changed at any time */
void comm_set_timeout(Comm *c, double seconds);
/* what the watchdog would name; phase static */
void comm_set_progress(Comm *c, int64_t step, const char *phase);
/* a sign of life within a phase, for guard/rank_watchdog.h; comm_set_progress is one too */
void comm_beat(Comm *c);
void comm_post(Comm *c, CommJob *job);
void comm_wait(Comm *c, CommJob *job);
void comm_allreduce(Comm *c, void *data, size_t count, CommType type, CommOp op, const char *name);
void comm_broadcast(Comm *c, void *data, size_t bytes, int root, const char *name);
/* Collective. data: [world] blocks, bytes each; on entry each rank has filled in its own block, on
 * return all blocks are filled in on every rank. */
void comm_allgather(Comm *c, void *data, size_t bytes, const char *name);
void comm_barrier(Comm *c, const char *name);
/* Collective, once: from here on jobs may go over a group, this many ranks in a row. ranks divides
 * the world. Jobs of a group are posted in the order of all others. */
void comm_group(Comm *c, int ranks);
/* All ranks call with their own status; all get the worst (most negative) one. Where it is an
 * error, status_message() on every rank is that of the lowest rank that has it, prefixed "rank N: "
 * when world > 1 and not every rank failed. OK if all are OK. */
Status comm_agree(Comm *c, Status mine);
_Noreturn void comm_abort(Comm *c, int exit_code);
void comm_destroy(Comm *c);
#endif
