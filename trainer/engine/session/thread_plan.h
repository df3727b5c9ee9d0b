/* thread_plan.h - how many threads a rank computes and decodes with, from the affinity mask and the
 * ranks that share it. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_THREAD_PLAN_H
#define CONVOY_TRAINER_ENGINE_SESSION_THREAD_PLAN_H
#include "trainer/engine/comm/comm.h"
#include "trainer/engine/config/config.h"

typedef struct ThreadPlan {
    int compute; /* the OpenMP team */
    int decode;
    int allowed; /* CPUs that this rank may run on */
    int sharers; /* ranks of this host with the very same CPUs, this one included */
} ThreadPlan;

/* Collective. Auto: compute = allowed / sharers. Decode on the CPU, which computes with all of
 * them, a quarter of that; where a device computes, all but two, for the thread that gives it work
 * and the one that speaks with other ranks. At least 1 each. A cgroup's quota is of all ranks of
 * the host together. Warns on rank 0 where the mask is smaller than what was asked for, or where
 * mpirun has bound ranks so tightly that CPUs stay idle (Open MPI binds one or two ranks to a core
 * each). */
ThreadPlan thread_plan_choose(Comm *comm, const Config *c, bool device);
#endif
