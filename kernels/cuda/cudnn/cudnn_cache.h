/* cudnn_cache.h - plans in a file.
 *
 * One file for each cuDNN version, compute capability, number of SMs and way of choosing, in the
 * folder that the backend's options name; read when the context is created, written when plans were
 * added. Processes share it: who writes keeps what others have written since, and takes their timed
 * plans for its own, so that all of them run what the file says and resume with it. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_CUDNN_CACHE_H
#define CONVOY_KERNELS_CUDA_CUDNN_CUDNN_CACHE_H
#include "kernels/cuda/cudnn/cudnn_context_internal.h"

/* Adds the plans of the file to the context, unloaded. A damaged file costs a warning and is left
 * out of account. */
void cudnn_cache_read(CudnnContext *c);
/* The same without a word, for later: what others have added since. False if the file is
 * damaged. */
bool cudnn_cache_join(CudnnContext *c);
/* Writes the file if plans were added since, under a lock where the file system has locks, beside
 * those that others have added; theirs replace ours that are not held. A file that cannot be
 * written costs a warning and the cache. */
void cudnn_cache_save(CudnnContext *c);
#endif
