/* gate.h - y = x sigmoid(g), or x hard_sigmoid(g); g and dg are rows of cp channels, f32 or of
 * dtype. */
#ifndef CONVOY_KERNELS_CUDA_GATE_H
#define CONVOY_KERNELS_CUDA_GATE_H
#include "kernels/cuda/launcher.h"
#include "kernels/dtype.h"

typedef struct GateShape {
    DType dtype, g_type; /* of x, y, dx, dy; of g and dg */
    int n, rows, vectors, cp;
    bool hard;
    int lanes_log2, tiles, splits; /* blocks: tiles cover a row, splits share an image's rows */
} GateShape;
C_LINKAGE cudaError_t cuda_launch_gate(const GateShape *k, const void *x, const void *g, void *y,
                                       cudaStream_t stream);
/* dx may be dy. partials: workspace f32 [n][splits][cp]. */
C_LINKAGE cudaError_t cuda_launch_gate_bwd(const GateShape *k, const void *dy, const void *x,
                                           const void *g, void *dx, void *dg, float *partials,
                                           cudaStream_t stream);
#endif
