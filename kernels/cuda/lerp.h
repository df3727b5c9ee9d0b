/* lerp.h - averaged copies of weights, flat: one launch, which reads on the device whether there is
 * anything to do. */
#ifndef CONVOY_KERNELS_CUDA_LERP_H
#define CONVOY_KERNELS_CUDA_LERP_H
#include "kernels/cuda/launcher.h"
#include "kernels/op.h"

typedef struct LerpPass {
    LerpAttr attr;
    float *average, *x;
    const float *scalars, *loss_scale; /* loss_scale: NULL if absent */
    void *copies;                      /* of x in copy_type; NULL if there are none */
    DType copy_type;
    int64_t count;
} LerpPass;
C_LINKAGE cudaError_t cuda_launch_lerp(const LerpPass *p, cudaStream_t stream);
#endif
