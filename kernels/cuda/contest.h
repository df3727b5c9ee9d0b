/* contest.h - ways to compute the same thing, compared and then timed against each other on the
 * device: engines of cuDNN, or one row of ops and another.
 *
 * COMPARED. What each leaves in the outputs must be what most of them leave there, to rounding.
 * Where no majority agrees, the first is believed: the heuristics would have taken it.
 *
 * TIMED. An idle GPU is slow at first, and a launch from the host takes as long as a small kernel:
 * the device is kept busy for 200 ms, if it was not just now; then each runs several times between
 * two events, in turns, forth and back (A B B A), so that a clock that drifts favours none; of its
 * six times the median counts. Who needs twice as long as the fastest in a first sample is not
 * timed further.
 *
 * HOW LONG. Samples take 5 ms, or two runs of the contestant where that is more: 8 contestants that
 * take less than 2.5 ms each need at most 0.2 + 0.3 s, what runs slower in proportion. */
#ifndef CONVOY_KERNELS_CUDA_CONTEST_H
#define CONVOY_KERNELS_CUDA_CONTEST_H
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launcher.h"

enum { CUDA_CONTEST_MOST = 8, CUDA_CONTEST_OUTPUTS = 32 };

typedef struct CudaContestOutput {
    void *data;
    size_t bytes;
    DType type; /* f32, bf16 or f16 */
} CudaContestOutput;

typedef struct CudaContest {
    const char *what; /* for warnings: the operation */
    int count;        /* contestants, at most CUDA_CONTEST_MOST */
    const char *names[CUDA_CONTEST_MOST];
    /* Enqueues one run; all of them write the same outputs. */
    Status (*run)(void *cookie, int which, cudaStream_t stream);
    void *cookie;
    cudaStream_t stream;
    /* clock_s() when the device last worked in a contest, which writes it; 0 at first */
    double *busy_s;
    int output_count; /* 0: nothing is compared */
    CudaContestOutput outputs[CUDA_CONTEST_OUTPUTS];
} CudaContest;

/* ms: [count] the median time of one run; negative for those that are left out, each after a
 * warning: they do not run, or compute something else. ERR_MEMORY if there is no room for a copy of
 * the outputs. Waits; allocates only meanwhile. */
Status cuda_contest_hold(const CudaContest *c, double *ms);

/* Pairs of sums, each over a share of the elements: squares of a, and of a - b; infinite where one
 * alone of two is no finite number. sums: zeros, for CONTEST_DIFFERENCE_BLOCKS pairs. */
enum { CONTEST_DIFFERENCE_BLOCKS = 256 };
C_LINKAGE cudaError_t cuda_launch_contest_difference(const void *a, const void *b, DType type,
                                                     int64_t count, double *sums,
                                                     cudaStream_t stream);
#endif
