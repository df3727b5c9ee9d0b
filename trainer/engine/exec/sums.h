/* sums.h - sums over ranks, as a run starts and awaits them. Who does them, NCCL or the host, is
 * the business of whoever runs the steps. One rank alone on a device has none; on host memory it
 * sums with itself, by the same code as many. */
#ifndef CONVOY_TRAINER_ENGINE_EXEC_SUMS_H
#define CONVOY_TRAINER_ENGINE_EXEC_SUMS_H
#include "kernels/backend.h"
#include "models/graph/plan.h"

typedef enum SumOf {
    SUM_GRADS,      /* index: bucket */
    SUM_STATISTICS, /* running ones; no bytes: what the host awaits is the step's metrics alone */
    SUM_BATCHNORMS, /* index: node; its graph_rank_sum(), over a group of ranks */
    SUM_OF_COUNT
} SumOf;

typedef struct SumRange {
    SumOf of;
    int index;
    Slab slab;
    size_t offset, bytes;
    TensorId tensor; /* SUM_BATCHNORMS; else TENSOR_NONE */
    char name[24];   /* for the watchdog */
} SumRange;

typedef struct Sums { /* all enqueue, or do it */
    /* What is summed is complete. On a device with NCCL the stream then has the sum. */
    Status (*start)(void *cookie, const SumRange *r, const OpTensor *tensor, Stream *stream);
    Status (*await)(void *cookie, const SumRange *r, Stream *stream); /* of the host: it is back */
    /* Whether all ranks could record a run with sums in it: own, or what the first that could not
     * says. NULL: each for itself. */
    Status (*agree)(void *cookie, Status own);
    void *cookie;
} Sums;
#endif
