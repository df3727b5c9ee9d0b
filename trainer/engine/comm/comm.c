/* comm.c - what does not depend on who carries the messages: the choice of a transport, blocking
 * helpers, agreement.
 *
 * The environment is read here, and only to see whether a launcher (mpirun, srun) started this
 * process, and where it is: that must be known before MPI may be touched, and no command line says
 * it; and what NCCL reads there of the host. */
#include "trainer/engine/comm/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "trainer/engine/comm/launcher.h"

#define LAUNCHER_S 3.0 /* a first and a repeated packet have been lost then */

enum { MESSAGE_BYTES = 1024 }; /* what status.h keeps of a sentence */

/* Variables that a launcher sets in every rank. size: its value is the number of ranks.
 * SLURM_STEP_NUM_TASKS is set by srun only, not in a batch script that starts a plain process. */
typedef struct LaunchVariable {
    const char *name;
    bool size;
} LaunchVariable;

static const LaunchVariable launch_variables[] = {
    { "OMPI_COMM_WORLD_SIZE", true }, { "PMI_SIZE", true },  { "SLURM_STEP_NUM_TASKS", true },
    { "PMIX_RANK", false },           { "PMI_RANK", false }, { "MPI_LOCALRANKID", false },
};
enum { LAUNCH_VARIABLES = sizeof(launch_variables) / sizeof(launch_variables[0]) };

/* Number of ranks that a launcher announced; 1 if it only told that it is one; 0 if there is none.
 * An srun of one task is not a launcher of ranks: interactive shells are started by it. */
static int64_t launched_ranks(void)
{
    int64_t ranks = 0;
    for (int i = 0; i < LAUNCH_VARIABLES; i++) {
        const char *text = getenv(launch_variables[i].name);
        if (!text) continue;
        int64_t value = 1;
        if (launch_variables[i].size && !str_to_i64(text, &value)) value = 1;
        bool is_shell = strncmp(launch_variables[i].name, "SLURM_", 6) == 0 && value <= 1;
        if (!is_shell && value > ranks) ranks = value;
    }
    return ranks;
}

#if !CONVOY_MPI
/* Without MPI comm_mpi.c is not compiled. Its ranks would each train alone and write to one run
 * folder: refuse. */
Status comm_mpi_create(Comm **out, double start_s, bool (*stopped)(void))
{
    (void)start_s, (void)stopped;
    *out = NULL;
    return fail(ERR_ENV,
                "started by an MPI launcher, but convoy was built without MPI (make MPI=1)");
}
#endif

Status comm_create(Comm **out, double start_s, bool (*stopped)(void))
{
    *out = NULL;
    int64_t ranks = launched_ranks();
    if (ranks == 0) return comm_self_create(out);
    TRY(comm_mpi_create(out, start_s, stopped));
    if (ranks > 1 && (*out)->world == 1) {
        comm_destroy(*out);
        *out = NULL;
        return fail(ERR_ENV,
                    "started as one of %lld ranks, but MPI sees only this one; use the mpirun of "
                    "the MPI library that convoy was built with, or srun --mpi=pmix",
                    (long long)ranks);
    }
    return OK;
}

void comm_find_launcher(Comm *c)
{
    const char *address = getenv(LAUNCHER_ADDRESS);
    if (!address && launcher_of_daemon(getppid(), c->launcher_address, sizeof c->launcher_address))
        address = c->launcher_address;
    /* One that never answered (packets filtered between hosts) is no sign of anything later. */
    if (address && launcher_answers(address, LAUNCHER_S)) c->launcher = address;
}

const char *comm_nccl_host(void)
{
    return getenv("NCCL_HOSTID");
}

void comm_set_timeout(Comm *c, double seconds)
{
    c->timeout_s = seconds;
}

void comm_set_progress(Comm *c, int64_t step, const char *phase)
{
    c->step = step;
    c->phase = phase;
    c->beats++;
}

void comm_beat(Comm *c)
{
    c->beats++;
}

void comm_set_last_words(Comm *c, void (*words)(void *cookie, int exit_code, const char *reason),
                         void *cookie)
{
    c->last_words = words;
    c->last_words_cookie = cookie;
}

bool comm_all_equal(Comm *c, int64_t value)
{
    int64_t range[2] = { value, -value };
    comm_allreduce(c, range, 2, COMM_I64, COMM_MAX, "comparison");
    return range[0] == -range[1];
}

void comm_post(Comm *c, CommJob *job)
{
    c->v->post(c, job);
}

void comm_wait(Comm *c, CommJob *job)
{
    c->v->wait(c, job);
}

static void run_job(Comm *c, CommJob *job)
{
    comm_post(c, job);
    comm_wait(c, job);
}

void comm_allreduce(Comm *c, void *data, size_t count, CommType type, CommOp op, const char *name)
{
    CommJob job = {
        .kind = COMM_ALLREDUCE, .type = type, .op = op, .data = data, .count = count, .name = name
    };
    run_job(c, &job);
}

void comm_broadcast(Comm *c, void *data, size_t bytes, int root, const char *name)
{
    CommJob job = { .kind = COMM_BROADCAST,
                    .type = COMM_BYTES,
                    .data = data,
                    .count = bytes,
                    .root = root,
                    .name = name };
    run_job(c, &job);
}

void comm_allgather(Comm *c, void *data, size_t bytes, const char *name)
{
    CommJob job = {
        .kind = COMM_ALLGATHER, .type = COMM_BYTES, .data = data, .count = bytes, .name = name
    };
    run_job(c, &job);
}

void comm_barrier(Comm *c, const char *name)
{
    CommJob job = { .kind = COMM_BARRIER, .name = name };
    run_job(c, &job);
}

/* The barrier first: the watchdog sees who does not come to it, and what follows waits for nobody
 * long. */
void comm_group(Comm *c, int ranks)
{
    CommJob job = { .kind = COMM_GROUP, .count = (size_t)ranks, .name = "groups of ranks" };
    comm_barrier(c, "groups of ranks");
    run_job(c, &job);
}

/* One minimum finds the worst status and, among those who have it, the lowest rank: status * 2^32 +
 * rank orders by both. A second number tells whether every rank failed. Only where there is an
 * error does its sentence travel. */
Status comm_agree(Comm *c, Status mine)
{
    const int64_t scale = (int64_t)1 << 32;
    int64_t least[2] = { (int64_t)mine * scale + c->rank, mine != OK };
    comm_allreduce(c, least, 2, COMM_I64, COMM_MIN, "agree");
    int64_t rank = least[0] & (scale - 1);
    Status worst = (Status)((least[0] - rank) / scale);
    if (worst == OK) return OK;
    bool all_failed = least[1] != 0;

    char message[MESSAGE_BYTES] = { 0 };
    if (c->rank == rank) {
        const char *own = status_message();
        snprintf(message, sizeof(message), "%s", own[0] != '\0' ? own : status_name(worst));
    }
    comm_broadcast(c, message, sizeof(message), (int)rank, "agree: message");
    message[MESSAGE_BYTES - 1] = '\0';
    if (c->world == 1 || all_failed) return fail(worst, "%s", message);
    return fail(worst, "rank %d: %s", (int)rank, message);
}

void comm_abort(Comm *c, int exit_code)
{
    if (c->last_words) c->last_words(c->last_words_cookie, exit_code, status_message());
    fflush(NULL);
    c->v->abort(c, exit_code);
    _exit(exit_code); /* not reached: abort does not return */
}

void comm_destroy(Comm *c)
{
    if (c) c->v->destroy(c);
}
