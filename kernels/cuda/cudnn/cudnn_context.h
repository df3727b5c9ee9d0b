/* cudnn_context.h - a device as cuDNN sees it, with the plans and choices made for it. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_CUDNN_CONTEXT_H
#define CONVOY_KERNELS_CUDA_CUDNN_CUDNN_CONTEXT_H
#include "kernels/cuda/cuda.h"

/* handle (absent where deviceless), device properties, cache */
typedef struct CudnnContext CudnnContext;

/* properties: JSON text, or NULL to describe the device itself. ERR_ENV naming what is missing. */
Status cudnn_context_create(CudnnContext **out, CudaBackend *b, const char *properties,
                            const char *plan_cache);
void cudnn_context_destroy(CudnnContext *c); /* NULL ok; writes the cache if it changed */
/* Whether choices are measured and the results kept: there is a device, and a cache. */
bool cudnn_context_times(const CudnnContext *c);
/* Whether engines that are compiled when a plan is made can be had at all: the driver's library is
 * there. */
bool cudnn_context_compiles(const CudnnContext *c);
/* The stream that was last executed on is about to go. */
void cudnn_context_leave_stream(CudnnContext *c);
/* Answers that were measured, kept in the cache with the plans: whether what key describes is to be
 * done. */
bool cudnn_context_find_choice(const CudnnContext *c, const char *key, bool *taken);
Status cudnn_context_add_choice(CudnnContext *c, const char *key, bool taken, double ms);
/* The library found at run time: "cuDNN 9.19.0 for CUDA 13" and true, or why it cannot be opened
 * and false. */
bool cudnn_context_version(char *out, size_t bytes);
uint64_t cudnn_context_library(void); /* the same as a number, 0 if it cannot be opened */
const char *cudnn_context_compiled_version(void); /* of the header: "9.19.0"; static */
#endif
