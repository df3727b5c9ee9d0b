/* conv_plan.h - one convolution pass as cuDNN would run it: shape in, plan out. conv_plan.c builds
 * cuDNN operation graphs (cudnn_use.h); tests/emu has plain loops behind the same functions. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_CONV_PLAN_H
#define CONVOY_KERNELS_CUDA_CUDNN_CONV_PLAN_H
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cudnn/conv_shape.h"

typedef struct ConvPlan ConvPlan;
/* accumulate: the pass adds into its output. ERR_ENV if no engine fits within the workspace limit,
 * with cuDNN's reason. */
Status conv_plan_create(ConvPlan **out, CudaBackend *b, ConvPass pass, const ConvShape *shape,
                        bool accumulate);
void conv_plan_destroy(ConvPlan *p); /* NULL ok */
size_t conv_plan_workspace(const ConvPlan *p);
const char *conv_plan_name(const ConvPlan *p); /* "cudnn engine 62"; lives as long as p */
/* Fixes the addresses that runs use from now on. CONV_FORWARD: (x, w, y). CONV_BWD_DATA: (dy, w,
 * dx). CONV_BWD_WEIGHTS: (x, dy, dw). 16-byte aligned device memory. */
Status conv_plan_bind(ConvPlan *p, const void *a, const void *b, void *out, void *workspace);
Status conv_plan_run(ConvPlan *p, cudaStream_t stream); /* enqueues */
#endif
