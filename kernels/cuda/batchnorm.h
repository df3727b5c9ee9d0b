/* batchnorm.h - what the batch norm kernels are told: one pass's tensors and how it is cut up.
 *
 * A training batch norm reads x twice: once for its statistics, once to normalise. What the blocks
 * of the first pass found out its last ones add up (ticket.cuh). Backward has the same two passes.
 * The second goes through memory in the opposite direction: what it reads first is what the other
 * read last, and still in the cache.
 *
 * Vectors per channel are f32 of cp, zero from c on. */
#ifndef CONVOY_KERNELS_CUDA_BATCHNORM_H
#define CONVOY_KERNELS_CUDA_BATCHNORM_H
#include "kernels/cuda/launcher.h"
#include "kernels/cuda/pool2d.h"
#include "kernels/cuda/rows.h"
#include "kernels/op.h"

/* First in the state of every implementation, from the moment that there is one: batchnorm.c by our
 * kernels, or batchnorm_cudnn.c; norm_choice.c says which. */
typedef struct BnState {
    const struct OpImpl *by;
} BnState;

/* batchnorm.c: everything that kernels/op.h says. */
extern const struct OpImpl batchnorm_own, batchnorm_own_bwd;
struct OpInstance;
struct CudaView;
struct OpTraffic;
/* What the ops of batchnorm.c and batchnorm_cudnn.c move (traffic.h). A norm graph of cuDNN, which
 * keeps part of x on the chip, is taken to read it once: the least it can. */
void batchnorm_traffic(const struct OpInstance *op, struct OpTraffic *t);
void batchnorm_bwd_traffic(const struct OpInstance *op, struct OpTraffic *t);
/* The grid of a pass over x. ERR_USAGE where it is too large. */
Status batchnorm_make_grid(const struct OpInstance *op, RowGrid *out, const struct CudaView *x,
                           int blocks_per_sm);

/* Blocks per multiprocessor: 64 and 80 registers per thread. */
enum { BN_FORWARD_BLOCKS = 4, BN_BACKWARD_BLOCKS = 3 };

enum { BN_SLICES = 32 };

/* What the blocks of a pass leave for each other. */
typedef struct BnParts {
    float *partials;   /* workspace [partials of the grid][2][cp]: two sums of each block */
    double *slices;    /* workspace [BN_SLICES][2][cp]: of every BN_SLICES-th block */
    unsigned *tickets; /* [tiles of the grid][BN_SLICES + 1]; 0 between runs */
} BnParts;

/* Max pooling of what is normalised, which is not kept. */
typedef struct BnPool {
    Pool2dShape shape;
    FastDiv by_h;
    uint8_t *index; /* NULL: nothing is pooled */
} BnPool;

typedef struct BnForward {
    RowGrid grid;
    DType dtype; /* of x, residual and y */
    int c, cp;
    float eps, momentum;
    ActKind act;              /* with a residual: by sign (ActDef) */
    const void *x, *residual; /* residual: NULL if absent */
    void *y;
    uint8_t *signs; /* of y, a byte a vector of 16-bit numbers; NULL if absent */
    /* with signs: of the residual's norm, which is what is added; NULL if absent */
    const float *residual_gamma, *residual_beta, *residual_statistics;
    const float *gamma, *beta;
    float *running_mean, *running_var;
    /* [2][cp]: mean and 1/sqrt(var + eps): saved, or workspace where nobody wants it */
    float *statistics;
    BnParts parts; /* sums of x - guess and of its square */
    float *guess;  /* workspace [cp] */
    double count;  /* values of a channel: x's, or those behind totals */
    /* over ranks, [2][c]: what statistics come from; NULL where x is all of the batch */
    const double *totals;
    double *sums; /* likewise, of OP_BN_SUMS; else NULL */
} BnForward;
/* One pass over x -> statistics, running statistics; with sums -> sums alone. */
C_LINKAGE cudaError_t cuda_launch_batchnorm_statistics(const BnForward *f, cudaStream_t stream);
/* totals -> statistics, running statistics. */
C_LINKAGE cudaError_t cuda_launch_batchnorm_totals(const BnForward *f, cudaStream_t stream);
/* Running statistics -> statistics. */
C_LINKAGE cudaError_t cuda_launch_batchnorm_constant(const BnForward *f, cudaStream_t stream);
/* y = act(bn(x) + residual) by statistics. */
C_LINKAGE cudaError_t cuda_launch_batchnorm_apply(const BnForward *f, cudaStream_t stream);

/* The same without residual, pooled: y, p->index. */
C_LINKAGE cudaError_t cuda_launch_batchnorm_pool(const BnForward *f, const BnPool *p,
                                                 cudaStream_t stream);

/* Where the slope of the activation comes from: the sign of y, found again from x, or read, or read
 * as a bit, or that of the activation named at bn(x). */
typedef enum BnMask {
    BN_MASK_NONE,
    BN_MASK_FROM_X,
    BN_MASK_FROM_Y,
    BN_MASK_FROM_SIGNS,
    BN_MASK_SILU,
    BN_MASK_RELU6,
    BN_MASK_HARD_SWISH
} BnMask;

typedef struct BnBackward {
    RowGrid grid;
    DType dtype; /* of dy, dy2, x, y, dx and dresidual */
    int c, cp;
    BnMask mask;
    bool accumulate, constant;    /* constant: the statistics were not this batch's */
    const void *dy, *dy2, *x, *y; /* dy2, y: NULL if absent */
    const uint8_t *signs;         /* as in BnForward */
    /* dresidual: NULL if absent; dx may be dy, dresidual may be dy2 */
    void *dx, *dresidual;
    const float *gamma, *beta;
    const float *statistics; /* [2][cp] */
    float *dgamma, *dbeta;
    BnParts parts; /* sums of dz and of dz (x - mean) */
    float *means;  /* workspace [2][cp]: mean dz, and slope (batchnorm_math.h) */
    double count;  /* as in BnForward */
    const double *totals;
    double *sums;
    BnPool pool; /* dy is that of what was pooled; mask is from x then, dy2 absent */
} BnBackward;
/* dz -> dresidual, dgamma, dbeta, and means or sums. */
C_LINKAGE cudaError_t cuda_launch_batchnorm_bwd_sums(const BnBackward *b, cudaStream_t stream);
/* totals -> means. */
C_LINKAGE cudaError_t cuda_launch_batchnorm_bwd_totals(const BnBackward *b, cudaStream_t stream);
/* dx by means, from dresidual where that was written. */
C_LINKAGE cudaError_t cuda_launch_batchnorm_bwd_apply(const BnBackward *b, cudaStream_t stream);
#endif
