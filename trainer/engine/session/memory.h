/* memory.h - what a run will take per rank, known before anything runs, and the largest batch that
 * fits a device. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_MEMORY_H
#define CONVOY_TRAINER_ENGINE_SESSION_MEMORY_H
#include "trainer/engine/session/session.h"

typedef enum MemoryItem { /* of the device where there is one, but for the last four */
                          MEMORY_PARAMS,
                          MEMORY_TEACHER,
                          MEMORY_COPIES, /* of parameters in the compute type, a teacher's too */
                          MEMORY_GRADS,
                          MEMORY_OPTIMIZER,
                          MEMORY_SHARPNESS, /* running statistics too */
                          MEMORY_AVERAGES,  /* of parameters and running statistics */
                          MEMORY_BUFFERS,
                          MEMORY_ACTIVATIONS,
                          MEMORY_WORKSPACE,
                          MEMORY_SIDE_WORKSPACE, /* of weight gradients on a lane of their own */
                          MEMORY_INPUTS,         /* slots of batches on the device */
                          /* gradients in the type in which they are summed over ranks */
                          MEMORY_ALLREDUCE,
                          /* batch slots of the training and evaluation loaders */
                          MEMORY_SLOTS,
                          /* files that loaders have read and not yet decoded, at most */
                          MEMORY_READ_AHEAD,
                          MEMORY_HOST_REDUCE, /* gradients of a device that the host sums */
                          MEMORY_CHECKPOINT,  /* staging on rank 0 */
                          MEMORY_ITEM_COUNT
} MemoryItem;

typedef struct MemoryReport {
    size_t bytes[MEMORY_ITEM_COUNT];
    size_t total;
    size_t device;            /* of total; 0 where programs compute in host memory */
    size_t activations_naive; /* without sharing */
} MemoryReport;

/* After session_open(); SESSION_EVAL sessions have no gradients, optimizer or staging. */
MemoryReport memory_report(const Session *s);
const char *memory_item_name(MemoryItem item);

/* Device memory that is not this plan's: CUDA's context, kernels and library handles, NCCL's
 * buffers. */
#define MEMORY_RESERVE ((size_t)3 << 29)
/* Bytes that a rank may plan with. Of the device: its share of the memory, or of what other
 * programs leave of it, less the reserve. Where programs compute in host memory: its share of what
 * the host and control groups leave, less a sixteenth. 0 where that is not known. */
size_t memory_budget(const Session *s);
/* The most images of a micro-batch whose plan stays within the bytes, by planning again; 0: not
 * even one. */
Status memory_largest_batch(Session *s, size_t budget, int64_t *out);
/* ERR_MEMORY naming train.batch_per_rank and the largest batch where the plan exceeds the budget.
 * Before slabs are allocated, and not collective. prepared: OK, or ERR_MEMORY where the device was
 * too small to prepare the programs on it. */
Status memory_check(Session *s, Status prepared);
#endif
