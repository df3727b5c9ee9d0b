/* embed.h - words to a canvas, and the gradients of the tables. Tables are CUDA_MATRIX, f32. */
#ifndef CONVOY_KERNELS_CUDA_EMBED_H
#define CONVOY_KERNELS_CUDA_EMBED_H
#include "kernels/cuda/launcher.h"
#include "kernels/dtype.h"

/* Places of a block of the gradient of segments. */
enum { EMBED_PART_PLACES = 64 };

typedef struct EmbedPass {
    DType dtype;         /* of the canvas */
    int64_t places;      /* T */
    int64_t cp, vectors; /* of a row */
    int offset;
    bool adds; /* backward: to what dpositions and dsegments hold */
    const int32_t *ids, *where, *order, *starts, *segment_ids;
    int64_t sequences;
    int64_t position_rows, segment_rows; /* padded, as they lie */
} EmbedPass;
/* segments: NULL where there are none */
C_LINKAGE cudaError_t cuda_launch_embed(const EmbedPass *p, const float *words,
                                        const float *positions, const float *segments, void *y,
                                        cudaStream_t stream);
/* What backward writes; NULL: not asked for. */
typedef struct EmbedSums {
    float *words; /* rows that a place has, alone */
    bool adds_words;
    float *positions;
    float *segments; /* [parts][segment_rows][cp], a part for each EMBED_PART_PLACES */
} EmbedSums;
C_LINKAGE cudaError_t cuda_launch_embed_bwd(const EmbedPass *p, const void *dy, const EmbedSums *to,
                                            cudaStream_t stream);
#endif
