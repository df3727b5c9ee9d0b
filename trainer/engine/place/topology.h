/* topology.h - what hwloc knows of a machine: CPUs, NUMA nodes, where GPUs and network adapters
 * hang. */
#ifndef CONVOY_TRAINER_ENGINE_PLACE_TOPOLOGY_H
#define CONVOY_TRAINER_ENGINE_PLACE_TOPOLOGY_H
#include "base/status.h"
#ifndef CONVOY_NO_HWLOC
#include <hwloc.h>
#else
typedef struct hwloc_topology *hwloc_topology_t;
#endif

const char *topology_library(void); /* "hwloc 2.9.0", or that there is none and what follows */
/* Of this machine, or of one that lstopo has written to a file. What cgroups keep from this process
 * is not in it. ERR_ENV naming what cannot be read; with xml ERR_DATA or ERR_IO naming the file.
 * Without hwloc *out is NULL, and ERR_ENV with xml. */
Status topology_open(hwloc_topology_t *out, const char *xml);
void topology_close(hwloc_topology_t t); /* NULL ok */
#ifndef CONVOY_NO_HWLOC
/* The NVIDIA GPU at "0000:3B:00.0", NULL where there is none. */
hwloc_obj_t topology_gpu(hwloc_topology_t t, const char *bus_id);
/* All of them in the order of their places, at most `most`. Returns how many. */
int topology_gpus(hwloc_topology_t t, hwloc_obj_t *out, int most);
/* The CPUs next to a device; t owns it. */
hwloc_const_cpuset_t topology_near(hwloc_topology_t t, hwloc_obj_t device);
/* The network adapters that share the most of a device's way to the CPUs, those of fast fabrics
 * before others: names between commas, "" for none. */
void topology_adapters(hwloc_topology_t t, hwloc_obj_t device, char *out, size_t bytes);
/* NUMA nodes that have some of these CPUs, as a list such as "0-1" (NULL ok). Returns how many. */
int topology_nodes(hwloc_topology_t t, hwloc_const_cpuset_t cpus, char *out, size_t bytes);
#endif
#endif
