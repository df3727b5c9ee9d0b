/* cudnn_context_internal.h - what a context holds: the library, the device, the plans. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_CUDNN_CONTEXT_INTERNAL_H
#define CONVOY_KERNELS_CUDA_CUDNN_CUDNN_CONTEXT_INTERNAL_H
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cudnn/cudnn_api.h"

typedef struct CudnnPlan {
    struct CudnnPlan *next;
    char *key;                     /* the operation in words; what the cache knows the plan by */
    cudnnBackendDescriptor_t plan; /* NULL: read from the cache file and not asked for yet */
    size_t workspace;              /* bytes */
    int engine;
    double ms; /* measured; 0: chosen by the heuristics */
    /* for the cache file; NULL without one. Empty: no plan but a choice, engine says 1 taken, 0
     * not */
    char *json;
    bool held; /* given out, or the file's is of no use here: the file's does not replace it */
    char name[32];
} CudnnPlan;

typedef struct CudnnContext {
    CudnnApi api;
    cudnnHandle_t handle; /* NULL: deviceless */
    cudaStream_t stream;  /* that the handle is set to */
    bool stream_set;
    cudnnBackendDescriptor_t device; /* its properties */
    char *properties;                /* the same as JSON */
    int64_t device_version, sm_count;
    CudnnPlan *plans;
    char *cache_path; /* NULL: no cache file */
    bool timed;       /* candidates are timed */
    double busy_s;    /* clock_s() when the device was last timed (contest.h) */
    bool unsaved;     /* plans were added since the file was read or written */
    /* for the plan sweep: all candidates are made, saved and loaded, compiled ones too */
    bool exhaustive;
    /* for the plan sweep: of engines that would be compiled, that they are offered is enough */
    bool uncompiled;
    int finalised, refused; /* by it */
} CudnnContext;
#endif
