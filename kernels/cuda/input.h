/* input.h - images u8 [pixels][c] -> x [pixels][cp], (v/255 - mean) / std, zero from c on. */
#ifndef CONVOY_KERNELS_CUDA_INPUT_H
#define CONVOY_KERNELS_CUDA_INPUT_H
#include "kernels/cuda/launcher.h"
#include "kernels/op.h"

C_LINKAGE cudaError_t cuda_launch_input(const uint8_t *images, const InputAttr *attr, void *x,
                                        DType dtype, int64_t pixels, int c, int cp, int sm_count,
                                        cudaStream_t stream);

/* The same with images erased, mixed, or followed by their other views. */
typedef struct InputAugment {
    InputAttr attr;
    const uint8_t *images;
    const int32_t *boxes; /* [n][ERASE_COUNT]; NULL: nothing is erased */
    const float *mix;     /* [MIX_COUNT]; NULL: nothing is mixed */
    int64_t n;
    int h, w, views; /* x has views n images */
} InputAugment;
C_LINKAGE cudaError_t cuda_launch_input_augmented(const InputAugment *t, void *x, DType dtype,
                                                  int c, int cp, int sm_count, cudaStream_t stream);
#endif
