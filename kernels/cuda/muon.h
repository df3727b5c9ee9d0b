/* muon.h - the parts of Muon's direction that are not matrix products: momentum, norm and
 * polynomials. All matrices are f32 without gaps, aligned to 16 bytes. */
#ifndef CONVOY_KERNELS_CUDA_MUON_H
#define CONVOY_KERNELS_CUDA_MUON_H
#include "kernels/cuda/launcher.h"
#include "kernels/op.h"

/* Elements whose squares one block adds up. */
enum { MUON_CHUNK = 8192 };

typedef struct MuonPass {
    float *grad, *momentum;
    const float *loss_scale, *clip; /* NULL if absent */
    double *sums;                   /* of squares, [count / MUON_CHUNK, rounded up] */
    int64_t count;
    float gain, eps; /* gain: 1 - momentum */
    bool nesterov;
} MuonPass;

/* grad becomes what the iteration is for, the momentum and sums follow; then x = grad / its norm,
 * or zeros where the step is skipped. */
C_LINKAGE cudaError_t cuda_launch_muon_momentum(const MuonPass *p, cudaStream_t stream);
C_LINKAGE cudaError_t cuda_launch_muon_divide(const MuonPass *p, float *x, cudaStream_t stream);
/* Of squares of side: inner = c gram + b I, outer = a I. */
C_LINKAGE cudaError_t cuda_launch_muon_factors(const float *gram, int64_t side, float a, float b,
                                               float c, float *inner, float *outer,
                                               cudaStream_t stream);
#endif
