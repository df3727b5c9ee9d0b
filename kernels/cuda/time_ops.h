/* time_ops.h - rows of ops prepared, or timed, as a network would run them. */
#ifndef CONVOY_KERNELS_CUDA_TIME_OPS_H
#define CONVOY_KERNELS_CUDA_TIME_OPS_H
#include "kernels/cuda/cuda.h"

typedef struct CudaTimedRow {
    const char *name; /* for warnings */
    const OpShape *ops;
    int count;
    KernelTrial trial; /* CudaBackend.on_trial while they are prepared */
} CudaTimedRow;

/* The time in ms of one pass through each of two rows, timed against each other as contest.h says,
 * with random numbers in all tensors that no op of the row writes. what: the question, for
 * warnings. ERR_MEMORY if there is no room for the tensors of both, ERR_ENV if one cannot be
 * prepared or does not run. */
Status cuda_time_ops(CudaBackend *b, const char *what, const CudaTimedRow rows[2], double ms[2]);
/* OK if every op of the row can be prepared; else as prepare says, ERR_ENV where cuDNN has no
 * engine. */
Status cuda_time_ops_try(CudaBackend *b, const CudaTimedRow *row);
#endif
