/* fabric.h - what connects ranks, as far as a ring all-reduce feels it: latency and bandwidth
 * inside a node and between nodes. From files like those in configs/fabrics/, which name the source
 * of every value. */
#ifndef CONVOY_TRAINER_APP_SCALE_FABRIC_H
#define CONVOY_TRAINER_APP_SCALE_FABRIC_H
#include "base/status.h"
#include <stdint.h>

typedef struct FabricLink {
    double latency_s;   /* of one hop of the ring */
    double bytes_per_s; /* bus bandwidth, as nccl-tests defines it: of all rings together */
    double tree_s;      /* of a level of a tree, inside a node of all its ranks; 0: no trees */
} FabricLink;

typedef struct Fabric {
    char name[64];
    int64_t ranks_per_node;
    FabricLink intra, inter;
} Fabric;

/* ERR_DATA naming the file and what is missing or out of range; every value must have its source in
 * the file. */
Status fabric_read(Fabric *out, const char *path);
/* Reads the files of a comma-separated list, one after the other, for use. ERR_USAGE naming option
 * where it is no list. */
Status fabric_read_each(const char *files, const char *option,
                        void (*use)(void *cookie, const Fabric *f), void *cookie);
/* Seconds of an all-reduce of bytes bytes: 2 (n-1)/n of them at the bandwidth of the slowest
 * link, and 2 (n-1) hops of a ring, of which 2 (nodes-1) are between nodes. Where the fabric has
 * trees, once up and down one of them, with log2(nodes) levels between nodes, if that is less: so
 * NCCL's own model counts NVLSTree, and chooses. 0 for one rank. */
double fabric_allreduce_s(const Fabric *f, double bytes, int64_t ranks);
#endif
