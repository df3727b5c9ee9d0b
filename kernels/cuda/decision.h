/* decision.h - what the CUDA backend decided by shape, where cuDNN offers another way than the
 * usual one. Each is kept under a key, and made once. */
#ifndef CONVOY_KERNELS_CUDA_DECISION_H
#define CONVOY_KERNELS_CUDA_DECISION_H
#include "kernels/cuda/cuda.h"

typedef enum Outcome {
    OUTCOME_TAKEN,
    OUTCOME_NO_ENGINE,
    OUTCOME_SLOWER,
    OUTCOME_UNTIMED,
    OUTCOME_NO_DRIVER,
    OUTCOME_COUNT
} Outcome;

typedef struct CudaDecision CudaDecision; /* a list; NULL: empty */

typedef struct DecisionQuestion {
    const char *name; /* under which it is counted; lives as long as the list */
    const char *by;   /* cuDNN's way, behind the name in warnings */
    /* What it is about: kinds, attributes and shapes, by which the answer is known. */
    const OpShape *ops;
    int op_count;
    /* The time in ms of the usual way and of cuDNN's, as cuda_time_ops() measures; what: for
     * warnings. */
    Status (*time)(CudaBackend *b, const void *cookie, const char *what, double ms[2]);
    /* OK if cuDNN's way can be prepared. */
    Status (*attempt)(CudaBackend *b, const void *cookie);
    const void *cookie;
    bool compiled; /* cuDNN's way is compiled when it is prepared */
    /* cuDNN's way is taken only where it was measured to be faster; the answer is kept in the plan
     * cache, and nothing is taken where nothing can be measured and kept: a run that is resumed
     * must find what it began with */
    bool timed;
} DecisionQuestion;

/* Whether cuDNN's way is taken. False where memory ran out. */
bool cuda_decision_make(CudaBackend *b, CudaDecision **list, const DecisionQuestion *q);
/* The same for one op that our kernels and cuDNN can both run; its prepare() takes the way that
 * CudaBackend.on_trial says. attr: the op's, without what makes no difference here. name: of the
 * question; compiled likewise. mode is not KERNELS_OWN. */
bool cuda_decision_of_op(const OpInstance *op, const void *attr, const char *name, KernelMode mode,
                         bool compiled);
/* "statistics 23 of 24 shapes, 1 without an engine; ..."; "" for an empty list. */
void cuda_decision_describe(const CudaDecision *list, char *out, size_t bytes);
void cuda_decision_free(CudaDecision *list);
#endif
