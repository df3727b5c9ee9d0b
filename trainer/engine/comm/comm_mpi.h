/* comm_mpi.h - a Comm over an MPI library that has been opened. */
#ifndef CONVOY_TRAINER_ENGINE_COMM_COMM_MPI_H
#define CONVOY_TRAINER_ENGINE_COMM_COMM_MPI_H
#include "trainer/engine/comm/mpi_library.h"

/* MPI_Init_thread on the communication thread. ERR_ENV if MPI cannot start. Without a launcher MPI
 * gives a world of one. start_s, stopped: as for comm_create(). */
Status comm_mpi_create(Comm **out, const MpiLibrary *library, double start_s,
                       bool (*stopped)(void));
#endif
