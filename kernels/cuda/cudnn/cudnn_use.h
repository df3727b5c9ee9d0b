/* cudnn_use.h - a plan as an operation has it: known, loaded from the cache or chosen; bound to
 * addresses; run. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_CUDNN_USE_H
#define CONVOY_KERNELS_CUDA_CUDNN_CUDNN_USE_H
#include "kernels/cuda/cudnn/cudnn_plan.h"

/* The plan of the request's key, from the context, the cache file or the heuristics. ERR_ENV if no
 * engine fits, with what was offered and cuDNN's reason. */
Status cudnn_use_get(CudnnContext *c, const PlanRequest *r, const CudnnPlan **out);

/* ERR_ENV where cuDNN is older than what needs it: "%s needs cuDNN 9.14 or newer", for 91400. */
Status cudnn_use_require(const CudnnContext *c, size_t oldest, const char *what);

/* A plan with the addresses that its runs use. */
typedef struct CudnnUse {
    CudnnContext *context;         /* borrowed */
    const CudnnPlan *plan;         /* the context's */
    cudnnBackendDescriptor_t pack; /* NULL until bound */
    void *data[CUDNN_MAX_OPERANDS], *workspace;
} CudnnUse;

/* data: by unique id - 1. Saves the plans that were added since: by now all have been asked for. */
Status cudnn_use_bind(CudnnUse *u, int operands, void *const *data, void *workspace);
Status cudnn_use_run(const CudnnUse *u, cudaStream_t stream); /* enqueues */
void cudnn_use_release(CudnnUse *u);

/* The functions that plans of one use have alike, in a struct Plan with a member `use`. */
#define CUDNN_USE_PLAN(Plan, prefix)                                                               \
    void prefix##_destroy(Plan *p)                                                                 \
    {                                                                                              \
        if (!p) return;                                                                            \
        cudnn_use_release(&p->use);                                                                \
        mem_free(p);                                                                               \
    }                                                                                              \
    size_t prefix##_workspace(const Plan *p)                                                       \
    {                                                                                              \
        return p->use.plan->workspace;                                                             \
    }                                                                                              \
    const char *prefix##_name(const Plan *p)                                                       \
    {                                                                                              \
        return p->use.plan->name;                                                                  \
    }                                                                                              \
    Status prefix##_run(Plan *p, cudaStream_t stream)                                              \
    {                                                                                              \
        return cudnn_use_run(&p->use, stream);                                                     \
    }
#endif
