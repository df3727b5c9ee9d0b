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
#include "trainer/engine/comm/comm_mpi.h"
#include "trainer/engine/comm/launcher.h"

#define LAUNCHER_S 3.0 /* a first and a repeated packet have been lost then */

enum { MESSAGE_BYTES = 1024 }; /* what status.h keeps of a sentence */

/* Variables that a launcher sets in every rank; the first that is set says who it was, and which
 * MPI can talk to it. SLURM_STEP_NUM_TASKS is set by srun only, not in a batch script that starts a
 * plain process. */
typedef struct LaunchVariable {
    const char *name;
    bool size; /* its value is the number of ranks */
    const char *launcher;
    MpiKind kinds[2]; /* the likelier one first; twice the same: that one alone */
} LaunchVariable;

#define ANY_PMI  "a launcher that speaks PMI (srun --mpi=pmi2 or the like)"
#define ANY_PMIX "a launcher that speaks PMIx (srun --mpi=pmix or the like)"

static const LaunchVariable launch_variables[] = {
    { "OMPI_COMM_WORLD_SIZE", true, NULL, { MPI_KIND_OPENMPI, MPI_KIND_OPENMPI } },
    { "MPI_LOCALRANKID", false, NULL, { MPI_KIND_MPICH, MPI_KIND_MPICH } },
    { "PALS_RANKID", false, "Cray's launcher", { MPI_KIND_MPICH, MPI_KIND_MPICH } },
    { "PMI_SIZE", true, ANY_PMI, { MPI_KIND_MPICH, MPI_KIND_OPENMPI } },
    { "PMI_RANK", false, ANY_PMI, { MPI_KIND_MPICH, MPI_KIND_OPENMPI } },
    { "PMIX_RANK", false, ANY_PMIX, { MPI_KIND_OPENMPI, MPI_KIND_MPICH } },
    { "SLURM_STEP_NUM_TASKS", true, "srun", { MPI_KIND_OPENMPI, MPI_KIND_MPICH } },
};
enum { LAUNCH_VARIABLES = sizeof(launch_variables) / sizeof(launch_variables[0]) };

typedef struct Launch {
    const LaunchVariable *by; /* NULL: no launcher */
    const char *launcher;     /* its name */
    int64_t ranks;            /* as announced; 0: it did not say */
} Launch;

/* An srun of one task is not a launcher of ranks: interactive shells are started by it. */
static Launch find_launch(void)
{
    Launch found = { NULL, NULL, 0 };
    for (int i = 0; i < LAUNCH_VARIABLES; i++) {
        const LaunchVariable *v = &launch_variables[i];
        const char *text = getenv(v->name);
        int64_t ranks = 0;
        if (!text) continue;
        if (v->size && !str_to_i64(text, &ranks)) ranks = 0;
        if (strncmp(v->name, "SLURM_", 6) == 0 && ranks <= 1) continue;
        if (!found.by) found.by = v;
        if (ranks > found.ranks) found.ranks = ranks;
    }
    if (found.by)
        found.launcher =
            found.by->launcher ? found.by->launcher : mpi_library_launcher(found.by->kinds[0]);
    return found;
}

/* Where no library can be opened each rank would train alone, and write to one run folder:
 * refuse. */
static Status open_library(MpiLibrary *out, MpiKind *kind, const Launch *launch)
{
    const MpiKind *kinds = launch->by->kinds;
    for (int i = 0; i < 2; i++) {
        *kind = kinds[i];
        Status status = mpi_library_open(out, *kind);
        if (status == OK || out->path[0]) return status;
    }
    return mpi_library_missing(kinds[0], launch->launcher);
}

Status comm_create(Comm **out, double start_s, bool (*stopped)(void))
{
    const Launch launch = find_launch();
    MpiLibrary library;
    MpiKind kind;
    *out = NULL;
    if (!launch.by) return comm_self_create(out);
    TRY(open_library(&library, &kind, &launch));
    TRY(comm_mpi_create(out, &library, start_s, stopped));
    const bool unsure = launch.ranks == 0 && kind != launch.by->kinds[0];
    if ((*out)->world > 1 || (launch.ranks <= 1 && !unsure)) return OK;
    comm_destroy(*out);
    *out = NULL;
    char ranks[32] = "several";
    if (!unsure) snprintf(ranks, sizeof ranks, "%lld", (long long)launch.ranks);
    return fail(ERR_ENV,
                "started by %s as one of %s ranks, but %s sees only this one; use the mpirun or "
                "mpiexec of that library, or srun --mpi=pmix",
                launch.launcher, ranks, library.path);
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
