/* staging.h - weight gradients that are made in the compute type and kept in f32: each is converted
 * where it was made, or several together, by the last of a row (DeviceVTable.stage). */
#ifndef CONVOY_KERNELS_CUDA_STAGING_H
#define CONVOY_KERNELS_CUDA_STAGING_H
#include "kernels/cuda/cast.h"
#include "kernels/cuda/cuda.h"

/* First in the state of ops that make weight gradients (staging.c knows which). */
typedef struct Staged {
    int64_t count; /* elements; 0: the op writes f32 itself */
    size_t bytes;  /* in the compute type, rounded up to the alignment of a workspace */
    bool in_row;
    void *at;       /* in_row: where the op leaves them; else at the workspace's start */
    CastList *list; /* of a row's last op: what it converts; owned */
} Staged;

/* DeviceVTable.staging_bytes and stage. */
size_t staging_bytes(const OpInstance *op);
Status staging_stage(OpInstance *const *ops, int count, void *memory);

/* Where the gradient is to be left: dw itself where nothing is converted. Once bound. */
void *staging_address(const OpInstance *op, const Staged *s);
/* Behind what makes the gradient: converts it, or what lies staged up to it, or leaves it there. */
Status staging_run(const OpInstance *op, const Staged *s, cudaStream_t stream);
void staging_release(Staged *s);
#endif
