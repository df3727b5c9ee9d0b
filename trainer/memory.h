/* memory.h - what a run will take per rank, known before anything runs. */
#ifndef CONVOY_TRAINER_MEMORY_H
#define CONVOY_TRAINER_MEMORY_H
#include "trainer/session.h"

typedef enum MemoryItem {
    MEMORY_PARAMS,
    MEMORY_GRADS,
    MEMORY_OPTIMIZER,
    MEMORY_BUFFERS,
    MEMORY_ACTIVATIONS,
    MEMORY_WORKSPACE,
    MEMORY_SLOTS,      /* batch slots of the training and evaluation loaders */
    MEMORY_CHECKPOINT, /* staging on rank 0 */
    MEMORY_ITEM_COUNT
} MemoryItem;

typedef struct MemoryReport {
    size_t bytes[MEMORY_ITEM_COUNT];
    size_t total;
    size_t activations_naive; /* without sharing */
} MemoryReport;

/* After session_open(); SESSION_EVAL sessions have no gradients, optimizer or staging. */
MemoryReport memory_report(const Session *s);
const char *memory_item_name(MemoryItem item);
#endif
