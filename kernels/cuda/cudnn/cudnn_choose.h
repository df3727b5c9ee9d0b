/* cudnn_choose.h - which engine runs an operation graph.
 *
 * cuDNN's heuristics name engine configurations, best first (mode A; then, where these are too few,
 * the fallback list). Left out are those whose numerical notes the request avoids and those that
 * need more workspace than it allows. Engines with the notes that it prefers come before the
 * others; engines that are compiled when a plan is made (half a second to five) are a last resort.
 * The first that cuDNN finalises is taken; or, where there is a device and a cache to keep the
 * result, the first few are timed and the fastest is taken. Without a cache the choice is left to
 * the heuristics, because a run that is resumed must find the engines that it began with. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_CUDNN_CHOOSE_H
#define CONVOY_KERNELS_CUDA_CUDNN_CUDNN_CHOOSE_H
#include "kernels/cuda/cudnn/cudnn_plan.h"

/* Chooses for a new plan and fills all but key and next. */
Status cudnn_choose(CudnnContext *c, const PlanRequest *r, CudnnPlan *plan);
#endif
