/* philox.h - Philox4x32-10 (Salmon et al., SC 2011) as inline code; host and device compile it
 * alike. */
#ifndef CONVOY_BASE_PHILOX_H
#define CONVOY_BASE_PHILOX_H
#include "base/both.h"
#include <stdint.h>

/* Four random words for a counter; tested against the paper's vectors. */
CUDA_BOTH static inline void philox_4x32(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * x0, p1 = (uint64_t)0xCD9E8D57u * x2;
        x0 = (uint32_t)(p1 >> 32) ^ x1 ^ k0;
        x1 = (uint32_t)p1;
        x2 = (uint32_t)(p0 >> 32) ^ x3 ^ k1;
        x3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}
#endif
