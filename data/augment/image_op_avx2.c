/* image_op_avx2.c - inner loops of color_op.c and affine_op.c for processors with AVX2; they give
 * the bytes of the plain ones there, which tests compare.
 *
 * Blends are the same float32 operations, eight at a time. Bilinear samples are not: Pillow's are
 * double, truncated. Here they are float32, whose error stays below SAMPLE_DOUBT / 2, and a pixel
 * with a result closer than SAMPLE_DOUBT to a whole number is named for the plain form to do again,
 * unless its neighbours are equal, where both are exact. Shares that are simple fractions make that
 * some pixels in a hundred, others one in a thousand. */
#include "data/augment/image_op_avx2.h"
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX2         __attribute__((target("avx2")))
#define INLINE_AVX2  __attribute__((target("avx2"), always_inline)) static inline
#define SAMPLE_DOUBT 0x1p-12f

bool image_op_avx2_is_available(void)
{
    return __builtin_cpu_supports("avx2");
}

/* ---- blends ---- */

/* a + factor (v - a), rounded towards zero, not yet clipped. */
INLINE_AVX2 __m256i blend8(__m256i a, __m256i v, __m256 factor)
{
    __m256 by = _mm256_mul_ps(factor, _mm256_cvtepi32_ps(_mm256_sub_epi32(v, a)));
    return _mm256_cvttps_epi32(_mm256_add_ps(_mm256_cvtepi32_ps(a), by));
}

INLINE_AVX2 __m256i load8(const uint8_t *v)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)v));
}

/* Four times eight numbers, clipped to bytes. */
INLINE_AVX2 void store32(uint8_t *out, __m256i a, __m256i b, __m256i c, __m256i d)
{
    __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)(void *)out, bytes);
}

AVX2 size_t image_op_avx2_blend_constant(uint8_t *v, size_t bytes, int constant, float strength)
{
    const __m256i a = _mm256_set1_epi32(constant);
    const __m256 f = _mm256_set1_ps(strength);
    size_t i = 0;
    for (; i + 32 <= bytes; i += 32)
        store32(v + i, blend8(a, load8(v + i), f), blend8(a, load8(v + i + 8), f),
                blend8(a, load8(v + i + 16), f), blend8(a, load8(v + i + 24), f));
    return i;
}

/* Eight pixels of three bytes; four bytes behind them are read too. */
INLINE_AVX2 __m256i load_pixels(const uint8_t *v)
{
    const __m256i spread = _mm256_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, 0,
                                            1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)v);
    __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(v + 12));
    return _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1),
                               spread);
}

/* The inverse; writes 24 bytes. */
INLINE_AVX2 void store_pixels(uint8_t *out, __m256i pixels)
{
    const __m256i gather = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1,
                                            0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    __m256i bytes = _mm256_shuffle_epi8(pixels, gather);
    __m128i high = _mm256_extracti128_si256(bytes, 1);
    int32_t last = _mm_extract_epi32(high, 2);
    /* four too many, written again below */
    _mm_storeu_si128((__m128i *)(void *)out, _mm256_castsi256_si128(bytes));
    _mm_storel_epi64((__m128i *)(void *)(out + 12), high);
    memcpy(out + 20, &last, sizeof last);
}

INLINE_AVX2 __m256i channel(__m256i pixels, int c)
{
    return _mm256_and_si256(_mm256_srli_epi32(pixels, 8 * c), _mm256_set1_epi32(255));
}

INLINE_AVX2 __m256i luma8(__m256i r, __m256i g, __m256i b)
{
    __m256i sum = _mm256_add_epi32(_mm256_mullo_epi32(r, _mm256_set1_epi32(19595)),
                                   _mm256_set1_epi32(0x8000));
    sum = _mm256_add_epi32(sum, _mm256_mullo_epi32(g, _mm256_set1_epi32(38470)));
    return _mm256_srli_epi32(_mm256_add_epi32(sum, _mm256_mullo_epi32(b, _mm256_set1_epi32(7471))),
                             16);
}

INLINE_AVX2 __m256i clip8(__m256i v)
{
    return _mm256_min_epi32(_mm256_max_epi32(v, _mm256_setzero_si256()), _mm256_set1_epi32(255));
}

AVX2 size_t image_op_avx2_blend_luma(uint8_t *v, size_t pixels, float strength)
{
    const __m256 f = _mm256_set1_ps(strength);
    size_t i = 0;
    for (; i + 10 <= pixels; i += 8) {
        __m256i all = load_pixels(v + 3 * i), r = channel(all, 0), g = channel(all, 1),
                b = channel(all, 2);
        __m256i luma = luma8(r, g, b);
        r = clip8(blend8(luma, r, f));
        g = _mm256_slli_epi32(clip8(blend8(luma, g, f)), 8);
        b = _mm256_slli_epi32(clip8(blend8(luma, b, f)), 16);
        store_pixels(v + 3 * i, _mm256_or_si256(r, _mm256_or_si256(g, b)));
    }
    return i;
}

AVX2 size_t image_op_avx2_sum_luma(const uint8_t *v, size_t pixels, uint64_t *sum)
{
    __m256i total = _mm256_setzero_si256();
    uint32_t lanes[8];
    size_t i = 0;
    if (pixels > (size_t)1 << 26) return 0; /* a lane's sum would not fit */
    for (; i + 10 <= pixels; i += 8) {
        __m256i all = load_pixels(v + 3 * i);
        total = _mm256_add_epi32(total, luma8(channel(all, 0), channel(all, 1), channel(all, 2)));
    }
    _mm256_storeu_si256((__m256i *)(void *)lanes, total);
    for (int k = 0; k < 8; k++) *sum += lanes[k];
    return i;
}

INLINE_AVX2 __m256i load16(const uint8_t *v)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)v));
}

INLINE_AVX2 __m256i sum_of_three(const uint8_t *v, size_t step)
{
    return _mm256_add_epi16(load16(v), _mm256_add_epi16(load16(v - step), load16(v + step)));
}

/* Eight numbers from 0 to 13 * 255: (2 sum + 13) / 26, rounded down. */
INLINE_AVX2 __m256i smooth8(__m256i sum)
{
    __m256i twice = _mm256_add_epi32(_mm256_add_epi32(sum, sum), _mm256_set1_epi32(13));
    return _mm256_srli_epi32(_mm256_mullo_epi32(twice, _mm256_set1_epi32(40330)), 20);
}

AVX2 size_t image_op_avx2_sharpen_row(const uint8_t *above, const uint8_t *row,
                                      const uint8_t *below, size_t step, size_t bytes,
                                      float strength, uint8_t *out)
{
    const __m256 f = _mm256_set1_ps(strength);
    size_t i = step;
    for (; i + step + 16 <= bytes; i += 16) {
        __m256i middle = load16(row + i);
        __m256i sum =
            _mm256_add_epi16(sum_of_three(above + i, step), sum_of_three(below + i, step));
        sum = _mm256_add_epi16(sum, sum_of_three(row + i, step));
        sum = _mm256_add_epi16(sum, _mm256_slli_epi16(middle, 2));
        __m256i low = smooth8(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(sum)));
        __m256i high = smooth8(_mm256_cvtepu16_epi32(_mm256_extracti128_si256(sum, 1)));
        low = blend8(low, _mm256_cvtepu16_epi32(_mm256_castsi256_si128(middle)), f);
        high = blend8(high, _mm256_cvtepu16_epi32(_mm256_extracti128_si256(middle, 1)), f);
        __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xD8);
        __m128i packed =
            _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm_storeu_si128((__m128i *)(void *)(out + i), packed);
    }
    return i;
}

/* ---- bilinear samples ---- */

typedef struct Pairs { /* eight pixels, and those to their right, a byte a channel in each lane */
    __m256i left, right;
} Pairs;

INLINE_AVX2 __m128i two_words(const uint8_t *base, const int32_t *at)
{
    int64_t a, b;
    memcpy(&a, base + at[0], sizeof a);
    memcpy(&b, base + at[1], sizeof b);
    return _mm_set_epi64x(b, a);
}

INLINE_AVX2 Pairs load_pairs(const uint8_t *base, const int32_t at[8])
{
    const __m256i spread = _mm256_setr_epi8(0, 1, 2, -1, 8, 9, 10, -1, 3, 4, 5, -1, 11, 12, 13, -1,
                                            0, 1, 2, -1, 8, 9, 10, -1, 3, 4, 5, -1, 11, 12, 13, -1);
    __m256i even = _mm256_inserti128_si256(_mm256_castsi128_si256(two_words(base, at)),
                                           two_words(base, at + 4), 1);
    __m256i odd = _mm256_inserti128_si256(_mm256_castsi128_si256(two_words(base, at + 2)),
                                          two_words(base, at + 6), 1);
    even = _mm256_shuffle_epi8(even, spread);
    odd = _mm256_shuffle_epi8(odd, spread);
    return (Pairs){ _mm256_unpacklo_epi64(even, odd), _mm256_unpackhi_epi64(even, odd) };
}

/* Whole parts of eight places that are not below 1/2, less that; *share: what is left. */
INLINE_AVX2 __m256i split8(const double *places, __m256 *share)
{
    const __m256d half = _mm256_set1_pd(0.5);
    __m256d a = _mm256_sub_pd(_mm256_loadu_pd(places), half),
            b = _mm256_sub_pd(_mm256_loadu_pd(places + 4), half);
    __m128i whole_a = _mm256_cvttpd_epi32(a), whole_b = _mm256_cvttpd_epi32(b);
    __m128 share_a = _mm256_cvtpd_ps(_mm256_sub_pd(a, _mm256_cvtepi32_pd(whole_a)));
    __m128 share_b = _mm256_cvtpd_ps(_mm256_sub_pd(b, _mm256_cvtepi32_pd(whole_b)));
    *share = _mm256_insertf128_ps(_mm256_castps128_ps256(share_a), share_b, 1);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(whole_a), whole_b, 1);
}

/* Offsets and shares of all samples first: the loads that wait for them then find them ready. */
AVX2 static void find_taps(const double *xs, const double *ys, size_t count, size_t stride,
                           SampleTaps *taps)
{
    for (size_t i = 0; i < count; i += 8) {
        __m256 dx, dy;
        __m256i x = split8(xs + i, &dx), y = split8(ys + i, &dy);
        __m256i at = _mm256_mullo_epi32(y, _mm256_set1_epi32((int32_t)stride));
        at = _mm256_add_epi32(at, _mm256_add_epi32(x, _mm256_slli_epi32(x, 1)));
        _mm256_storeu_si256((__m256i *)(void *)(taps->at + i), at);
        _mm256_storeu_ps(taps->dx + i, dx);
        _mm256_storeu_ps(taps->dy + i, dy);
    }
}

INLINE_AVX2 __m256 channel_float(__m256i pixels, int c)
{
    return _mm256_cvtepi32_ps(channel(pixels, c));
}

/* v + (w - v) share; *apart gets every bit of the difference. */
INLINE_AVX2 __m256 between8(__m256 v, __m256 w, __m256 share, __m256 *apart)
{
    __m256 difference = _mm256_sub_ps(w, v);
    *apart = _mm256_or_ps(*apart, difference);
    return _mm256_add_ps(v, _mm256_mul_ps(difference, share));
}

/* The byte below v; *doubt is set where float32 may have crossed a whole number. */
INLINE_AVX2 __m256i truncate8(__m256 v, __m256 apart, __m256 *doubt)
{
    const __m256 sign = _mm256_set1_ps(-0.0f), half = _mm256_set1_ps(0.5f);
    __m256i whole = _mm256_cvttps_epi32(v);
    __m256 off = _mm256_sub_ps(_mm256_sub_ps(v, _mm256_cvtepi32_ps(whole)), half);
    __m256 near =
        _mm256_cmp_ps(_mm256_andnot_ps(sign, off), _mm256_set1_ps(0.5f - SAMPLE_DOUBT), _CMP_GT_OQ);
    __m256 equal = _mm256_cmp_ps(_mm256_andnot_ps(sign, apart), _mm256_setzero_ps(), _CMP_EQ_OQ);
    *doubt = _mm256_or_ps(*doubt, _mm256_andnot_ps(equal, near));
    return whole;
}

INLINE_AVX2 uint8_t sample_eight(const uint8_t *copy, size_t stride, const SampleTaps *taps,
                                 size_t i, SampleAxes axes, uint8_t *out)
{
    const __m256 dx = _mm256_loadu_ps(taps->dx + i), dy = _mm256_loadu_ps(taps->dy + i);
    const Pairs above = load_pairs(copy, taps->at + i);
    __m256i pixels = _mm256_setzero_si256();
    __m256 doubt = _mm256_setzero_ps();
    Pairs below = above;
    if (axes != SAMPLE_ACROSS) below = load_pairs(copy + stride, taps->at + i);
    for (int c = 0; c < 3; c++) {
        __m256 apart = _mm256_setzero_ps(), v = channel_float(above.left, c);
        if (axes != SAMPLE_DOWN) v = between8(v, channel_float(above.right, c), dx, &apart);
        if (axes != SAMPLE_ACROSS) {
            __m256 w = channel_float(below.left, c);
            if (axes == SAMPLE_BOTH) w = between8(w, channel_float(below.right, c), dx, &apart);
            v = between8(v, w, dy, &apart);
        }
        pixels = _mm256_or_si256(pixels, _mm256_slli_epi32(truncate8(v, apart, &doubt), 8 * c));
    }
    store_pixels(out, pixels);
    return (uint8_t)_mm256_movemask_ps(doubt);
}

AVX2 size_t image_op_avx2_sample_row(const uint8_t *copy, size_t stride, const double *xs,
                                     const double *ys, size_t count, SampleAxes axes,
                                     SampleTaps *taps, uint8_t *out)
{
    const size_t groups = count / 8;
    find_taps(xs, ys, groups * 8, stride, taps);
    if (axes == SAMPLE_ACROSS)
        for (size_t g = 0; g < groups; g++)
            taps->again[g] = sample_eight(copy, stride, taps, 8 * g, SAMPLE_ACROSS, out + 24 * g);
    else if (axes == SAMPLE_DOWN)
        for (size_t g = 0; g < groups; g++)
            taps->again[g] = sample_eight(copy, stride, taps, 8 * g, SAMPLE_DOWN, out + 24 * g);
    else
        for (size_t g = 0; g < groups; g++)
            taps->again[g] = sample_eight(copy, stride, taps, 8 * g, SAMPLE_BOTH, out + 24 * g);
    return groups * 8;
}

#else

bool image_op_avx2_is_available(void)
{
    return false;
}

size_t image_op_avx2_blend_constant(uint8_t *v, size_t bytes, int constant, float strength)
{
    (void)v, (void)bytes, (void)constant, (void)strength;
    return 0;
}

size_t image_op_avx2_blend_luma(uint8_t *v, size_t pixels, float strength)
{
    (void)v, (void)pixels, (void)strength;
    return 0;
}

size_t image_op_avx2_sum_luma(const uint8_t *v, size_t pixels, uint64_t *sum)
{
    (void)v, (void)pixels, (void)sum;
    return 0;
}

size_t image_op_avx2_sharpen_row(const uint8_t *above, const uint8_t *row, const uint8_t *below,
                                 size_t step, size_t bytes, float strength, uint8_t *out)
{
    (void)above, (void)row, (void)below, (void)bytes, (void)strength, (void)out;
    return step;
}

size_t image_op_avx2_sample_row(const uint8_t *copy, size_t stride, const double *xs,
                                const double *ys, size_t count, SampleAxes axes, SampleTaps *taps,
                                uint8_t *out)
{
    (void)copy, (void)stride, (void)xs, (void)ys, (void)count, (void)axes, (void)taps, (void)out;
    return 0;
}

#endif
