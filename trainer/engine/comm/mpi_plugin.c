/* mpi_plugin.c - see mpi_plugin.h. The only file that includes mpi.h, and no part of convoy: the
 * Makefile builds a shared library of it for each MPI whose compiler it finds. It is linked with no
 * library of MPI, as these bear several names; the one that is opened before gives the symbols. */
#include "trainer/engine/comm/mpi_plugin.h"

#include <mpi.h>
#include <string.h>

_Static_assert(sizeof(MPI_Comm) <= sizeof(MpiHandle) && sizeof(MPI_Request) <= sizeof(MpiHandle),
               "MpiHandle holds every handle");

#define KEEP(out, handle)                                                                          \
    (*(out) = (MpiHandle){ 0 }, (void)memcpy((out), &(handle), sizeof(handle)))

/* MPI's handles are addresses, not constants, in Open MPI: hence functions and no tables. */
static MPI_Datatype type_of(CommType type)
{
    const MPI_Datatype types[] = { [COMM_F32] = MPI_FLOAT,
                                   [COMM_F64] = MPI_DOUBLE,
                                   [COMM_I64] = MPI_INT64_T,
                                   [COMM_BYTES] = MPI_BYTE };
    return types[type];
}

static MPI_Op op_of(CommOp op)
{
    const MPI_Op ops[] = { [COMM_SUM] = MPI_SUM, [COMM_MAX] = MPI_MAX, [COMM_MIN] = MPI_MIN };
    return ops[op];
}

static MPI_Comm comm_of(MpiHandle handle)
{
    MPI_Comm comm;
    memcpy(&comm, &handle, sizeof comm);
    return comm;
}

static const char *start(MpiHandle *all, MpiPlace *place)
{
    int provided = 0;
    MPI_Comm comm, local;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return "MPI cannot start";
    if (provided < MPI_THREAD_FUNNELED)
        return "this MPI library offers no thread support (MPI_THREAD_FUNNELED)";
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_rank(comm, &place->rank);
    MPI_Comm_size(comm, &place->world);
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, place->rank, MPI_INFO_NULL, &local);
    MPI_Comm_rank(local, &place->local_rank);
    MPI_Comm_size(local, &place->local_world);
    place->local_leader = place->rank;
    MPI_Bcast(&place->local_leader, 1, MPI_INT, 0, local);
    MPI_Comm_free(&local);
    KEEP(all, comm);
    return NULL;
}

static const char *version(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING + 1];
    int length = 0;
    MPI_Get_library_version(text, &length);
    return text;
}

static void finalize(void)
{
    MPI_Finalize();
}

static void abort_all(int exit_code)
{
    MPI_Abort(MPI_COMM_WORLD, exit_code);
}

static void split(MpiHandle comm, int color, int key, MpiHandle *out, MpiHandle *request)
{
    MPI_Comm part;
    const MPI_Request none = MPI_REQUEST_NULL;
    MPI_Comm_split(comm_of(comm), color, key, &part);
    KEEP(out, part);
    KEEP(request, none);
}

static void free_comm(MpiHandle *handle)
{
    MPI_Comm comm = comm_of(*handle);
    MPI_Comm_free(&comm);
    KEEP(handle, comm);
}

static void barrier(MpiHandle comm, MpiHandle *request)
{
    MPI_Request r;
    MPI_Ibarrier(comm_of(comm), &r);
    KEEP(request, r);
}

static void allreduce(MpiHandle comm, const void *from, void *data, int count, CommType type,
                      CommOp op, MpiHandle *request)
{
    MPI_Request r;
    MPI_Iallreduce(from ? from : MPI_IN_PLACE, data, count, type_of(type), op_of(op), comm_of(comm),
                   &r);
    KEEP(request, r);
}

static void broadcast(MpiHandle comm, void *data, int count, CommType type, int root,
                      MpiHandle *request)
{
    MPI_Request r;
    MPI_Ibcast(data, count, type_of(type), root, comm_of(comm), &r);
    KEEP(request, r);
}

static void allgather(MpiHandle comm, void *data, int count, CommType type, MpiHandle *request)
{
    MPI_Request r;
    MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, count, type_of(type), comm_of(comm),
                   &r);
    KEEP(request, r);
}

static bool test(MpiHandle *request)
{
    MPI_Request r;
    int done = 0;
    memcpy(&r, request, sizeof r);
    MPI_Test(&r, &done, MPI_STATUS_IGNORE);
    KEEP(request, r);
    return done;
}

const MpiTable *mpi_plugin_table(void)
{
    static const MpiTable table = { .layout = MPI_PLUGIN_LAYOUT,
                                    .start = start,
                                    .version = version,
                                    .finalize = finalize,
                                    .abort = abort_all,
                                    .split = split,
                                    .free = free_comm,
                                    .barrier = barrier,
                                    .allreduce = allreduce,
                                    .broadcast = broadcast,
                                    .allgather = allgather,
                                    .test = test };
    return &table;
}
