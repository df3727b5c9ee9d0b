/* rng.h - addressed randomness: a draw is a function of where it is used, never of what was drawn
 * before.
 *
 * Philox4x32-10 (Salmon et al., SC 2011): key = 64-bit seed, counter = four 32-bit words that we
 * call an address. The same address gives the same four words on every machine, thread and rank;
 * nothing is consumed, so resume needs no generator state. */
#ifndef CONVOY_BASE_RNG_H
#define CONVOY_BASE_RNG_H
#include "base/philox.h"
#include <stdint.h>

/* What a draw is for: the low byte of the third counter word. Append only: numbers are part of what
 * makes runs repeatable. */
typedef enum RngPurpose {
    RNG_INIT = 1,    /* parameter init: a = parameter index */
    RNG_SHUFFLE = 2, /* epoch permutation: a = epoch */
    RNG_CROP = 3,    /* random crop geometry: a = epoch, b = sample id */
    RNG_FLIP = 4,    /* horizontal flip: a = epoch, b = sample id */
    RNG_REPLACE = 5, /* replacement of a bad sample: a = attempt, b = sample id */
    RNG_SYNTHETIC = 6,
    RNG_TEST = 7,
    RNG_JITTER = 8, /* colour jitter: a = epoch, b = sample id */
    RNG_POLICY = 9, /* automatic augmentation: a = epoch, b = sample id */
    RNG_ERASE = 10, /* random erasing: a = epoch, b = sample id */
    /* mixup and cutmix: a = global step, b = index of the micro-batch's first image in its step */
    RNG_MIX = 11,
    RNG_DROP = 12,    /* dropout, stochastic depth: see kernels/drop.h */
    RNG_BALANCE = 13, /* balanced samples: a, b = high and low half of the position */
    /* masked tokens (data/tokens/mask.h): a = epoch, b = sample id; of evaluation, where a = 0 */
    RNG_MASK = 14,
    RNG_MASK_EVAL = 15
} RngPurpose;

typedef struct Rng {
    uint64_t seed;
    uint32_t a, b; /* address words; see RngPurpose */
    uint32_t purpose;
    uint32_t index; /* next block of four words at this address */
    uint32_t words[4];
    int used; /* words of the current block already handed out */
} Rng;

/* a stream of draws at one address, by value */
Rng rng_at(uint64_t seed, RngPurpose purpose, uint32_t a, uint32_t b);
/* the same of the repeat-th time that a sample is seen in an epoch, below 2^24; rng_at is that of
 * repeat 0 */
Rng rng_at_repeat(uint64_t seed, RngPurpose purpose, uint32_t repeat, uint32_t a, uint32_t b);
uint32_t rng_u32(Rng *rng);
double rng_uniform(Rng *rng);                  /* [0,1), 53 bits */
uint64_t rng_below(Rng *rng, uint64_t n);      /* [0,n), unbiased (rejection), n >= 1 */
double rng_normal(Rng *rng);                   /* mean 0, variance 1 (Box-Muller) */
double rng_beta(Rng *rng, double a, double b); /* [0,1]; a, b > 0 */
void rng_dirichlet(Rng *rng, double alpha, int count, double *out); /* symmetric; sums to 1 */
#endif
