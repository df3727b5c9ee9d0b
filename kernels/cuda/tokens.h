/* tokens.h - images to sequences and back; the gradients of positions on the way. */
#ifndef CONVOY_KERNELS_CUDA_TOKENS_H
#define CONVOY_KERNELS_CUDA_TOKENS_H
#include "kernels/cuda/launcher.h"
#include "kernels/op.h"

typedef struct TokensPass {
    DType dtype;                          /* of images and sequences */
    int64_t n, length, pixels;            /* positions of a sequence, pixels of an image */
    int c, vectors;                       /* channels; vectors of 16 bytes in a row */
    bool accumulate;                      /* backward */
    const float *positions, *class_token; /* [L,C]; NULL where there is none */
    float *dpositions, *dclass;
} TokensPass;
C_LINKAGE cudaError_t cuda_launch_tokens(const TokensPass *p, const void *x, void *y,
                                         cudaStream_t stream);
C_LINKAGE cudaError_t cuda_launch_tokens_bwd(const TokensPass *p, const void *dy, void *dx,
                                             cudaStream_t stream);
#endif
