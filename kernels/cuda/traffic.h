/* traffic.h - how many bytes the kernels of an op read and write: one function for each op that
 * does not move every tensor exactly once. Where an op runs several kernels, its function is next
 * to the code that launches them, and changes with it;
 * tests/unit/kernels/cuda/test_cuda_traffic.c compares them with what kernels touch. */
#ifndef CONVOY_KERNELS_CUDA_TRAFFIC_H
#define CONVOY_KERNELS_CUDA_TRAFFIC_H
#include "kernels/backend.h"

/* BackendVTable.traffic. Of a convolution whose weights have a compute copy it says what is read of
 * that; before it is bound all of them are taken to have one. */
void cuda_traffic_of_op(const OpInstance *op, OpTraffic *t);
#endif
