/* trust.h - the launcher of trust ratios: a chunk of the pass's table has up to TRUST_CHUNK
 * elements, those of a segment stand one after the other. */
#ifndef CONVOY_KERNELS_CUDA_TRUST_H
#define CONVOY_KERNELS_CUDA_TRUST_H
#include "kernels/cuda/update.h"

/* sums f64 [chunk_count][TRUST_SUM_COUNT], ratios f32 [attr->segment_count]; two launches */
C_LINKAGE cudaError_t cuda_launch_trust(const UpdatePass *p, const UpdateAttr *attr, double *sums,
                                        float *ratios, cudaStream_t stream);
#endif
