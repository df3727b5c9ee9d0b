/* ticket.cuh - blocks of one kernel that meet without waiting: whoever comes last goes on with what
 * the others left in memory.
 *
 * A ticket is an unsigned in device memory that is 0 before the kernel, and so again behind it: the
 * last block winds it back. Replayed work therefore finds it as the first run did. One kernel at a
 * time may use it. */
#ifndef CONVOY_KERNELS_CUDA_TICKET_CUH
#define CONVOY_KERNELS_CUDA_TICKET_CUH
#include "kernels/cuda/launch.cuh"

/* For all threads of a block: true in the last of `blocks` blocks that ask with this ticket. What
 * they wrote before they asked can then be read, past the first-level cache (__ldcg). One fence
 * stands for the whole block, as in the grid barrier of cooperative groups: the barriers around it
 * carry to and from its other threads. */
static __device__ __forceinline__ bool ticket_is_last(unsigned *ticket, int blocks)
{
    bool last = false;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicInc(ticket, (unsigned)blocks - 1) == (unsigned)blocks - 1;
        __threadfence();
    }
    return __syncthreads_or(last) != 0;
}
#endif
