/* policy_timm.h - timm's RandAugment of increasing severity, "rand-m9-mstd0.5-inc1" (rand_augment_
 * transform): of 15 ops as many as asked for, each applied with probability 0.5 and with a
 * magnitude of its own, normal about the one asked for and cut to 0..10. */
#ifndef CONVOY_DATA_AUGMENT_POLICY_TIMM_H
#define CONVOY_DATA_AUGMENT_POLICY_TIMM_H
#include "base/rng.h"
#include "data/augment/policy.h"

#define POLICY_TIMM_MAGNITUDES 10
#define POLICY_TIMM_OPS        15

/* Appends to out->ops. */
void policy_timm_draw(const PolicyOptions *o, int width, int height, Rng *rng, PolicyPlan *out);
/* Op number index with what timm gives it for a magnitude, whose sign is turned round by negative
 * where there is one; 0 where it takes nothing. Exposed for tests. */
ImageOp policy_timm_op(int index, double magnitude, bool negative, int width, int height);
#endif
