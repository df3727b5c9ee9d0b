/* batchnorm.h - what the batch norm kernels are told: one pass's tensors and how it is cut up.
 *
 * A training batch norm reads x twice: once for its statistics, once to normalise. Between the two
 * passes stands a small kernel that adds up what the blocks of the first found out. Backward has
 * the same three steps. The second pass goes through memory in the opposite direction: what it
 * reads first is what the other read last, and still in the cache.
 *
 * Vectors per channel are f32 of cp, zero from c on. */
#ifndef CONVOY_KERNELS_CUDA_BATCHNORM_H
#define CONVOY_KERNELS_CUDA_BATCHNORM_H
#include "kernels/cuda/rows.h"
#include "kernels/op.h"

/* ---- who does it: batchnorm.c by our kernels, batchnorm_cudnn.c; norm_choice.c says which ---- */

/* First in the state of every implementation, from the moment that there is one. */
typedef struct BnState {
    const struct OpImpl *by;
} BnState;

/* ---- kernels ---- */

/* Blocks per multiprocessor: 64 and 80 registers per thread. */
enum { BN_FORWARD_BLOCKS = 4, BN_BACKWARD_BLOCKS = 3 };

typedef struct BnForward {
    RowGrid grid;
    DType dtype; /* of x, residual and y */
    int c, cp;
    float eps, momentum;
    ActKind act;              /* silu: without a residual */
    const void *x, *residual; /* residual: NULL if absent */
    void *y;
    const float *gamma, *beta;
    float *running_mean, *running_var;
    /* [2][cp]: mean and 1/sqrt(var + eps): saved, or workspace where nobody wants it */
    float *statistics;
    float *partials; /* workspace [partials][2][cp]: sums of x - guess and of its square */
    float *guess;    /* workspace [cp] */
} BnForward;

/* Where the slope of the activation comes from: the sign of y, found again from x or read, or
 * silu's at bn(x). */
typedef enum BnMask { BN_MASK_NONE, BN_MASK_FROM_X, BN_MASK_FROM_Y, BN_MASK_SILU } BnMask;

typedef struct BnBackward {
    RowGrid grid;
    DType dtype; /* of dy, dy2, x, y, dx and dresidual */
    int c, cp;
    BnMask mask;
    bool accumulate, constant;    /* constant: the statistics were not this batch's */
    const void *dy, *dy2, *x, *y; /* dy2, y: NULL if absent */
    /* dresidual: NULL if absent; dx may be dy, dresidual may be dy2 */
    void *dx, *dresidual;
    const float *gamma, *beta;
    const float *statistics; /* [2][cp] */
    float *dgamma, *dbeta;
    float *partials; /* workspace [partials][2][cp]: sums of dz and of dz (x - mean) */
    float *means;    /* workspace [2][cp]: mean dz, and slope (batchnorm_math.h) */
} BnBackward;

/* dz = dy [+ dy2], where [y > 0], else 0; dz may be dy or dy2. */
typedef struct BnGradientOfZ {
    DType dtype;
    int64_t vectors;          /* of 16 bytes */
    const void *dy, *dy2, *y; /* dy2, y: NULL if absent */
    void *dz;
} BnGradientOfZ;

/* Running statistics from those of a batch. */
typedef struct BnRunning {
    int c, cp;
    float eps, momentum;
    double count;            /* values of a channel */
    const float *statistics; /* [2][cp]: mean and 1/sqrt(var + eps) */
    float *running_mean, *running_var;
} BnRunning;
#endif
