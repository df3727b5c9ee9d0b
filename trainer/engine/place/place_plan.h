/* place_plan.h - which CPUs each rank of a host runs on, so that its threads, and with them the
 * memory that they write first, lie near its GPU. */
#ifndef CONVOY_TRAINER_ENGINE_PLACE_PLACE_PLAN_H
#define CONVOY_TRAINER_ENGINE_PLACE_PLACE_PLAN_H
#include "base/status.h"
#include <hwloc.h>

/* Divides the CPUs in allowed among the ranks: out[i] is filled, near[i] are the CPUs next to rank
 * i's GPU, NULL where it has none. A function of its arguments alone: every rank of a host finds
 * the same table.
 *
 * Ranks whose GPUs hang on the same package (where NUMA nodes are larger, on the same node) share
 * it in equal parts of whole cores, each beginning with its fair part of the cores next to its GPU.
 * A package without GPUs stays empty if the others have PLACE_PLAN_PLENTY cores for each rank; else
 * it helps them. Ranks without a GPU take an equal run of cores, in the order of sockets and nodes.
 * Where there are fewer cores than ranks, they share them all. out[i] is never empty if allowed is
 * not. ERR_MEMORY. */
enum { PLACE_PLAN_PLENTY = 16 }; /* what decodes ImageNet's JPEG files for a fast GPU */
Status place_plan(hwloc_topology_t t, hwloc_const_cpuset_t allowed,
                  const hwloc_const_cpuset_t *near, int ranks, hwloc_cpuset_t *out);
#endif
