/* cudnn_tune.h - plans compared and timed on the device. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_CUDNN_TUNE_H
#define CONVOY_KERNELS_CUDA_CUDNN_CUDNN_TUNE_H
#include "kernels/cuda/cudnn/cudnn_plan.h"

/* Times plans of one operation on random data; fastest: index of the one with the least median, of
 * those whose results agree. count: at most CUDA_CONTEST_MOST. Takes as long as contest.h says.
 * ERR_MEMORY if there is no room for the operands, ERR_ENV if none of them runs. */
Status cudnn_tune(CudnnContext *c, const PlanRequest *r, const CudnnPlan *plans, int count,
                  int *fastest, double *ms);
#endif
