/* mpi_plugin.h - what convoy asks of MPI: a table that a plugin fills, a small shared library.
 *
 * mpi_plugin.c is compiled once for each binary interface of MPI libraries, against that one's
 * mpi.h, and nothing else is: convoy itself names no symbol of MPI. mpi_library.h opens the library
 * and its plugin. Every call comes from one thread, that of comm_mpi.c. */
#ifndef CONVOY_TRAINER_ENGINE_COMM_MPI_PLUGIN_H
#define CONVOY_TRAINER_ENGINE_COMM_MPI_PLUGIN_H
#include "trainer/engine/comm/comm.h"

/* A plugin from another build of convoy is refused: changes with what is below, and with CommType
 * and CommOp. */
enum { MPI_PLUGIN_LAYOUT = 1 };

/* A communicator or a request: a number in MPICH, an address in Open MPI. */
typedef struct MpiHandle {
    uint64_t bits;
} MpiHandle;

typedef struct MpiPlace {
    int rank, world, local_rank, local_world, local_leader; /* as in Comm */
} MpiPlace;

typedef struct MpiTable {
    int layout; /* MPI_PLUGIN_LAYOUT, first in every version */
    /* MPI_Init_thread, a communicator of all ranks, and the place in it. NULL, or what is wrong. */
    const char *(*start)(MpiHandle *all, MpiPlace *place);
    const char *(*version)(void); /* what the library says of itself */
    void (*finalize)(void);
    void (*abort)(int exit_code);
    void (*free)(MpiHandle *comm);
    /* Each gives a request, which test() asks for its end; after it the request is none. split()
     * does not return before. from NULL: in place. */
    void (*split)(MpiHandle comm, int color, int key, MpiHandle *out, MpiHandle *request);
    void (*barrier)(MpiHandle comm, MpiHandle *request);
    void (*allreduce)(MpiHandle comm, const void *from, void *data, int count, CommType type,
                      CommOp op, MpiHandle *request);
    void (*broadcast)(MpiHandle comm, void *data, int count, CommType type, int root,
                      MpiHandle *request);
    void (*allgather)(MpiHandle comm, void *data, int count, CommType type, MpiHandle *request);
    bool (*test)(MpiHandle *request);
} MpiTable;

const MpiTable *mpi_plugin_table(void); /* the plugin's; found by its name */
#endif
