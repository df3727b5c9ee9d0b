/* cudnn_plan.h - plans, of which a context has one for each key as long as it lives, and what runs
 * them. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_CUDNN_PLAN_H
#define CONVOY_KERNELS_CUDA_CUDNN_CUDNN_PLAN_H
#include "kernels/cuda/cudnn/cudnn_context_internal.h"

#define CUDNN_MAX_OPERANDS 24 /* tensors of an operation graph; their unique ids are 1, 2, ... */

/* Engines that are compiled when the plan is made: where there is no other, never, or one of them
 * among the timed. */
typedef enum PlanCompiled { COMPILED_LAST, COMPILED_NEVER, COMPILED_TOO } PlanCompiled;

typedef struct PlanRequest {
    const char *key;
    /* Makes the operation graph; called only if the plan is not known yet. */
    Status (*make_graph)(const CudnnContext *c, const void *operation,
                         cudnnBackendDescriptor_t *graph);
    const void *operation;
    unsigned avoid, prefer; /* numerical notes, bit 1 << CUDNN_NUMERICAL_NOTE_... */
    PlanCompiled compiled;
    size_t workspace_limit;
    int operands;
    size_t operand_bytes[CUDNN_MAX_OPERANDS]; /* by unique id - 1; for timing */
    DType operand_types[CUDNN_MAX_OPERANDS];  /* likewise, */
    uint64_t written;                         /* and which of them: bit 1 << (id - 1) */
    /* Likewise: the number of an operand that is given by value, in the host's memory; NULL for all
     * others. */
    const void *by_value[CUDNN_MAX_OPERANDS];
    /* Likewise: what an operand holds while plans are timed; NULL: random numbers. */
    const void *example[CUDNN_MAX_OPERANDS];
} PlanRequest;

CudnnPlan *cudnn_plan_find(const CudnnContext *c, const char *key); /* NULL: not known */
void cudnn_plan_destroy(const CudnnContext *c, CudnnPlan *p);
Status cudnn_plan_load(const CudnnContext *c, CudnnPlan *p); /* p->plan from p->json */

/* The operands and workspace of one use of a plan. Of operands by value data has the host's
 * addresses, whose numbers are read at every execution. cudnn_api_free. */
Status cudnn_plan_make_pack(const CudnnContext *c, cudnnBackendDescriptor_t *out, int operands,
                            void *const *data, void *workspace);
/* Enqueues; allocates nothing of ours. */
Status cudnn_plan_execute(CudnnContext *c, cudnnBackendDescriptor_t plan,
                          cudnnBackendDescriptor_t pack, cudaStream_t stream);
#endif
