/* mpi_library.h - which libraries of MPI convoy can use here, and opening one of them.
 *
 * Two binary interfaces are known: Open MPI's, and that of MPICH, Intel MPI and Cray's MPICH. Each
 * has a plugin (mpi_plugin.h), which lies beside the program, in ../lib/convoy as seen from there,
 * or where the dynamic loader looks. The library is the one beside the launcher that started this
 * process, else what the loader finds, else one in ../lib beside the program. */
#ifndef CONVOY_TRAINER_ENGINE_COMM_MPI_LIBRARY_H
#define CONVOY_TRAINER_ENGINE_COMM_MPI_LIBRARY_H
#include "base/str.h"
#include "trainer/engine/comm/mpi_plugin.h"

typedef enum MpiKind { MPI_KIND_OPENMPI, MPI_KIND_MPICH, MPI_KINDS } MpiKind;

typedef struct MpiLibrary {
    const MpiTable *table;
    char path[512]; /* of the library */
} MpiLibrary;

const char *mpi_library_launcher(MpiKind kind); /* "Open MPI's mpirun" */
/* Opens the library, for good: its symbols are there for all that is opened later. ERR_ENV; where
 * out->path is not "", the library was opened and no other may be. */
Status mpi_library_open(MpiLibrary *out, MpiKind kind);
/* "Open MPI (libmpi.so.40), MPICH (not built in)": every kind, and why one cannot be used. */
void mpi_library_describe(StrBuf *out);
/* ERR_ENV: the sentence for a process that launcher has started and that needs this kind, which
 * cannot be opened. */
Status mpi_library_missing(MpiKind kind, const char *launcher);
#endif
