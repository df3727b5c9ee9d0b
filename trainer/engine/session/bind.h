/* bind.h - device.bind: puts the ranks of a host onto CPUs near their GPUs. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_BIND_H
#define CONVOY_TRAINER_ENGINE_SESSION_BIND_H
#include "trainer/engine/comm/comm.h"
#include "trainer/engine/config/config.h"

/* Collective and agreed. device: this rank's, among the visible ones; -1: the CPU computes. All
 * threads of the process move, and those that it starts later run where it does. Nothing is bound
 * on a host of one NUMA node, and on one where a launcher has given some rank fewer CPUs than the
 * host gives (its cgroup's). Rank 0 logs what was done on its host; a machine that hwloc cannot
 * read, or that refuses, costs a warning. ERR_ENV where hwloc was told to describe another machine
 * (HWLOC_XMLFILE and the like). */
Status bind_ranks(Comm *comm, const Config *c, int device);
#endif
