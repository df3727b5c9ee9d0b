/* drop.h - which elements OP_DROP drops, the same on every backend: a draw is a function of seed,
 * layer, step, the image's place in the global batch and the element, so neither ranks nor threads,
 * micro-batches or a resumed run change it.
 *
 *   counter = (step, place, RNG_DROP | layer << 8, element / 4)
 *   draw    = word element % 4 of the block
 *   dropped where draw < rate 2^32
 *
 * Channel c of position p (row by row) of an image of C channels is element p C + c, whatever the
 * layout; it is 0 where the whole image shares one. Where an image holds several sequences, place
 * and p are those of the sequence and in it, so that it does not matter either which others lie
 * beside it. */
#ifndef CONVOY_KERNELS_DROP_H
#define CONVOY_KERNELS_DROP_H
#include "base/rng.h"
#include "kernels/op.h"

typedef struct DropAddress { /* of a run: what is the same for all of its elements */
    uint64_t seed;
    uint32_t step, first_place, purpose, threshold;
    float factor; /* of what is kept */
} DropAddress;

/* From two scalars that hold halves of 16 bits. */
CUDA_BOTH static inline uint32_t drop_word(double low, double high)
{
    return (uint32_t)low | (uint32_t)high << 16;
}

static inline DropAddress drop_address(const DropAttr *a, uint32_t step, uint32_t first_place)
{
    DropAddress d;
    d.seed = a->seed;
    d.step = step;
    d.first_place = first_place;
    d.purpose = (uint32_t)RNG_DROP | a->layer << 8;
    d.threshold = (uint32_t)((double)a->rate * 0x1p32);
    d.factor = 1.0f / (1.0f - a->rate);
    return d;
}

/* The factors of elements 4 * block .. 4 * block + 3 of an image: 0, or what makes up for those
 * dropped. */
CUDA_BOTH static inline void drop_factors(const DropAddress *d, int64_t image, uint32_t block,
                                          float out[4])
{
    const uint32_t counter[4] = { d->step, d->first_place + (uint32_t)image, d->purpose, block };
    uint32_t words[4];
    philox_4x32(d->seed, counter, words);
    for (int i = 0; i < 4; i++) out[i] = words[i] < d->threshold ? 0.0f : d->factor;
}
#endif
