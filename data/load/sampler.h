/* sampler.h - the order of the training stream. */
#ifndef CONVOY_DATA_LOAD_SAMPLER_H
#define CONVOY_DATA_LOAD_SAMPLER_H
#include <stdint.h>

/* The permutation of an epoch: sample id at a position of the stream. Exposed for tests and for
 * inspect. */
int64_t sampler_id(uint64_t seed, int64_t images, int64_t position);
#endif
