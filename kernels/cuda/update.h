/* update.h - what the optimizer kernel is told: the flat tensors, the rule, and which elements it
 * is for.
 *
 * Segments are cut into CHUNKS of up to UPDATE_CHUNK elements, one per block, whose table lies in
 * device memory: so one launch serves all segments, however many and however long they are. */
#ifndef CONVOY_KERNELS_CUDA_UPDATE_H
#define CONVOY_KERNELS_CUDA_UPDATE_H
#include "kernels/backend.h"
#include "kernels/cuda/launcher.h"

enum {
    UPDATE_THREADS = 256,
    UPDATE_VECTORS = 2,
    UPDATE_CHUNK = UPDATE_THREADS * UPDATE_VECTORS * 4
};

/* first / UPDATE_CHUNK is the same for all elements of a chunk. */
typedef struct UpdateChunk {
    int64_t first;
    int32_t count, segment;
    float weight_decay, lr; /* lr: factor of the learning rate */
    bool adapts;            /* of the segment */
} UpdateChunk;

typedef struct UpdatePass {
    UpdateKind kind;
    bool counts_updates; /* UpdateTraits */
    bool by_gradient;    /* trust ratios are held against the gradient */
    float momentum, eps;
    double beta1, beta2;
    bool nesterov;
    DType copy_type;
    float *param, *state0, *state1;                           /* states: NULL if absent */
    const float *grad, *scalars, *loss_scale, *clip, *ratios; /* the last three: NULL if absent */
    /* of the parameters in copy_type; NULL if there are none */
    void *copies;
    const UpdateChunk *chunks;
    int64_t chunk_count;
} UpdatePass;
C_LINKAGE cudaError_t cuda_launch_update(const UpdatePass *p, cudaStream_t stream);

/* Cuts segments into chunks. Returns their number; chunks NULL: counts only. */
typedef int64_t UpdateCut(const UpdateAttr *attr, UpdateChunk *chunks);
UpdateCut update_chunks_make;

/* The state of ops with such a table, and what prepare(), bind() and release() do about it. */
typedef struct UpdateTable {
    UpdateChunk *host; /* owned, freed once it is on the device */
    void *chunks;      /* on the device; owned */
    int64_t chunk_count;
} UpdateTable;
Status update_table_make(OpInstance *op, UpdateCut *cut);
Status update_table_bind(OpInstance *op);
void update_table_release(OpInstance *op);
/* What an op with the slots of OP_UPDATE tells its kernel, and prepare() decides of these slots. */
UpdatePass update_pass(const OpInstance *op);
Status update_pass_decide(OpInstance *op);
#endif
