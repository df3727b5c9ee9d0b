/* cudnn_plan.h - from an operation graph to a plan that runs it: the context's own parts, choice,
 * timing, cache.
 *
 * CHOICE. cuDNN's heuristics name engine configurations, best first (mode A; then, where these are
 * too few, the fallback list). Left out are those whose numerical notes the request avoids and
 * those that need more workspace than it allows. Engines with the notes that it prefers come before
 * the others; engines that are compiled when a plan is made (half a second to five) are a last
 * resort. The first that cuDNN finalises is taken; or, where there is a device and a cache to keep
 * the result, the first few are timed and the fastest is taken. Without a cache the choice is left
 * to the heuristics, because a run that is resumed must find the engines that it began with.
 *
 * PLANS belong to the context, one for each key, and live as long as it does.
 *
 * CACHE. One file for each cuDNN version, compute capability, number of SMs and way of choosing, in
 * the folder that the backend's options name; read when the context is created, written when plans
 * were added (cudnn_plan_save). Processes share it: who writes keeps what others have written
 * since, and takes their timed plans for its own, so that all of them run what the file says and
 * resume with it. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_CUDNN_PLAN_H
#define CONVOY_KERNELS_CUDA_CUDNN_CUDNN_PLAN_H
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cudnn/cudnn_api.h"
#include "kernels/cuda/cudnn/cudnn_context.h"

#define CUDNN_MAX_OPERANDS 16 /* tensors of an operation graph; their unique ids are 1, 2, ... */

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

struct CudnnContext {
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
    bool unsaved;     /* plans were added since the file was read or written */
    /* for the plan sweep: all candidates are made, saved and loaded, compiled ones too */
    bool exhaustive;
    /* for the plan sweep: of engines that would be compiled, that they are offered is enough */
    bool uncompiled;
    int finalised, refused; /* by it */
};

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
    /* Likewise: the number of an operand that is given by value, in the host's memory; NULL for all
     * others. */
    const void *by_value[CUDNN_MAX_OPERANDS];
} PlanRequest;

/* The plan of the request's key, from the context, the cache file or the heuristics. ERR_ENV if no
 * engine fits, with what was offered and cuDNN's reason. */
Status cudnn_plan_get(CudnnContext *c, const PlanRequest *r, const CudnnPlan **out);
Status cudnn_plan_load(const CudnnContext *c, CudnnPlan *p); /* p->plan from p->json */
/* Writes the cache file if plans were added since, beside those that others have added; theirs
 * replace ours that are not held. A file that cannot be written costs a warning and the cache. */
void cudnn_plan_save(CudnnContext *c);

/* The operands and workspace of one use of a plan. Of operands by value data has the host's
 * addresses, whose numbers are read at every execution. cudnn_api_free. */
Status cudnn_plan_make_pack(const CudnnContext *c, cudnnBackendDescriptor_t *out, int operands,
                            void *const *data, void *workspace);
/* Enqueues; allocates nothing of ours. */
Status cudnn_plan_execute(CudnnContext *c, cudnnBackendDescriptor_t plan,
                          cudnnBackendDescriptor_t pack, cudaStream_t stream);

/* A plan with the addresses that its runs use. */
typedef struct CudnnUse {
    CudnnContext *context;         /* borrowed */
    const CudnnPlan *plan;         /* the context's */
    cudnnBackendDescriptor_t pack; /* NULL until bound */
    void *data[CUDNN_MAX_OPERANDS], *workspace;
} CudnnUse;

/* data: by unique id - 1. Saves the plans that were added since: by now all have been asked for. */
Status cudnn_plan_use_bind(CudnnUse *u, int operands, void *const *data, void *workspace);
Status cudnn_plan_use_run(const CudnnUse *u, cudaStream_t stream); /* enqueues */
void cudnn_plan_use_release(CudnnUse *u);

/* ---- cudnn_choose.c ---- */
/* Chooses for a new plan and fills all but key and next. */
Status cudnn_choose(CudnnContext *c, const PlanRequest *r, CudnnPlan *plan);

/* ---- cudnn_tune.c ---- */
/* Times plans of one operation on random data; fastest: index of the one with the least median.
 * ERR_MEMORY if there is no room for the operands, ERR_ENV if none of them runs. */
Status cudnn_tune(CudnnContext *c, const PlanRequest *r, const CudnnPlan *plans, int count,
                  int *fastest, double *ms);

/* ---- cudnn_cache.c ---- */
/* Adds the plans of the file to the context, unloaded. A damaged file costs a warning and is left
 * out of account. */
void cudnn_cache_read(CudnnContext *c);
/* The same without a word, for later: what others have added since. False if the file is
 * damaged. */
bool cudnn_cache_join(CudnnContext *c);
/* Joins and writes, under a lock where the file system has locks. */
Status cudnn_cache_write(CudnnContext *c);
CudnnPlan *cudnn_plan_find(const CudnnContext *c, const char *key); /* NULL: not known */
void cudnn_plan_destroy(const CudnnContext *c, CudnnPlan *p);
#endif
