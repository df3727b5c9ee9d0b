/* draws.c - see draws.h. On processors with AVX2 Philox runs in vectors of four counters, each of
 * whose words has 64 bits: its product fits, and what is left above the low half of a word never
 * counts. gcc makes shifts and sums of such a loop, so these are intrinsics. Both forms give the
 * same bits, which tests compare. */
#include "kernels/cpu/draws.h"
#include <string.h>

enum { GROUP = 32 }; /* elements at a time */

typedef void DrawGroup(const DropAddress *d, int64_t n, uint32_t block, float *out);

static void draw_group_plain(const DropAddress *d, int64_t n, uint32_t block, float *out)
{
    for (uint32_t i = 0; i < GROUP / 4; i++) drop_factors(d, n, block + i, out + 4 * i);
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX2        __attribute__((target("avx2")))
#define INLINE_AVX2 __attribute__((target("avx2"), always_inline)) static inline

/* 8 factors of words of 32 bits */
INLINE_AVX2 void keep8(__m256i words, __m256i threshold, __m256 factor, float *out)
{
    const __m256i kept = _mm256_cmpeq_epi32(_mm256_max_epu32(words, threshold), words);
    _mm256_storeu_ps(out, _mm256_and_ps(_mm256_castsi256_ps(kept), factor));
}

AVX2 static void draw_group_avx2(const DropAddress *d, int64_t n, uint32_t block, float *out)
{
    enum { VECTORS = GROUP / 16 };
    const __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57),
                  step0 = _mm256_set1_epi32((int)0x9E3779B9u),
                  step1 = _mm256_set1_epi32((int)0xBB67AE85u),
                  threshold = _mm256_set1_epi32((int)d->threshold);
    const __m256 factor = _mm256_set1_ps(d->factor);
    __m256i x[VECTORS][4], k0 = _mm256_set1_epi32((int)d->seed),
                           k1 = _mm256_set1_epi32((int)(d->seed >> 32));
    for (int i = 0; i < VECTORS; i++) {
        x[i][0] = _mm256_set1_epi64x(d->step);
        x[i][1] = _mm256_set1_epi64x((uint32_t)(d->first_place + n));
        x[i][2] = _mm256_set1_epi64x(d->purpose);
        x[i][3] = _mm256_add_epi32(_mm256_set1_epi64x(block), _mm256_setr_epi64x(0, 1, 2, 3));
        block += 4;
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < VECTORS; i++) {
            const __m256i p0 = _mm256_mul_epu32(x[i][0], m0), p1 = _mm256_mul_epu32(x[i][2], m1);
            x[i][0] = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), _mm256_xor_si256(x[i][1], k0));
            x[i][1] = p1;
            x[i][2] = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(x[i][3], k1));
            x[i][3] = p0;
        }
        k0 = _mm256_add_epi32(k0, step0);
        k1 = _mm256_add_epi32(k1, step1);
    }
    for (int i = 0; i < VECTORS; i++) {
        /* words 0 and 1 of each counter side by side, then 2 and 3; then all four */
        const __m256i low = _mm256_blend_epi32(x[i][0], _mm256_slli_epi64(x[i][1], 32), 0xaa),
                      high = _mm256_blend_epi32(x[i][2], _mm256_slli_epi64(x[i][3], 32), 0xaa),
                      even = _mm256_unpacklo_epi64(low, high),
                      odd = _mm256_unpackhi_epi64(low, high);
        keep8(_mm256_permute2x128_si256(even, odd, 0x20), threshold, factor, out + 16 * i);
        keep8(_mm256_permute2x128_si256(even, odd, 0x31), threshold, factor, out + 16 * i + 8);
    }
}

static DrawGroup *pick(void)
{
    return __builtin_cpu_supports("avx2") ? draw_group_avx2 : draw_group_plain;
}
#else
static DrawGroup *pick(void)
{
    return draw_group_plain;
}
#endif

void cpu_draws_factors(const DropAddress *d, int64_t n, int64_t first, int64_t count, float *out)
{
    DrawGroup *const draw = pick();
    const int64_t last = first + count;
    for (int64_t at = first / 4 * 4; at < last; at += GROUP) {
        const int64_t from = at < first ? first : at, to = at + GROUP < last ? at + GROUP : last;
        float some[GROUP];
        if (to - from == GROUP) {
            draw(d, n, (uint32_t)(at / 4), out + (at - first));
            continue;
        }
        draw(d, n, (uint32_t)(at / 4), some);
        memcpy(out + (from - first), some + (from - at), (size_t)(to - from) * sizeof *out);
    }
}
