/* resize_avx2.c - the resize in AVX2, the same bytes as the portable kernels.
 *
 * A weight has 23 bits and the instruction that multiplies and adds pairs (vpmaddwd) takes 16, so a
 * weight is cut into high * 2048 + low: two sums in int32, put together at the end, are the exact
 * sum (modulo 2^32 on the way, in range at the end). Packed table of an output: start, then for
 * each pair of taps the two high halves and the two low halves. */
#include "data/augment/resize_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX2     __attribute__((target("avx2")))
#define LOW_BITS 11

static int pad_across(int longest)
{
    return longest <= 2 ? 2 : (longest + 3) / 4 * 4;
}

static int pad_down(int longest)
{
    return (longest + 1) / 2 * 2;
}

static int words(int padded)
{
    return 1 + padded;
}

static int32_t pair(int32_t first, int32_t second)
{
    return (int32_t)(((uint32_t)first & 0xffff) | (uint32_t)second << 16);
}

static void pack(ResizeTaps *t, bool movable)
{
    for (int k = 0; k < t->count; k++) {
        int32_t *out = t->packed + (size_t)k * (size_t)t->words;
        int moved = resize_moved(t, k, movable);
        *out++ = t->start[k] - moved;
        for (int i = -moved; i < t->padded - moved; i += 2, out += 2) {
            int32_t a = resize_tap(t, k, i), b = resize_tap(t, k, i + 1);
            out[0] = pair(a >> LOW_BITS, b >> LOW_BITS);
            out[1] = pair(a & ((1 << LOW_BITS) - 1), b & ((1 << LOW_BITS) - 1));
        }
    }
}

/* ---- horizontal: four rows at a time, two in a register, a pixel's channels side by side ---- */

typedef struct Sums { /* of two rows: lanes r g b x */
    __m256i high, low;
} Sums;

AVX2 static inline __m256i two_rows(const uint8_t *first, const uint8_t *second)
{
    __m128i a = _mm_loadu_si128((const __m128i *)(const void *)first);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(a),
                                   _mm_loadu_si128((const __m128i *)(const void *)second), 1);
}

AVX2 static inline __m256i two_short_rows(const uint8_t *first, const uint8_t *second)
{
    __m128i a = _mm_loadl_epi64((const __m128i *)(const void *)first);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(a),
                                   _mm_loadl_epi64((const __m128i *)(const void *)second), 1);
}

AVX2 static inline void add_pair(Sums *s, __m256i pixels, __m256i order, const int32_t *w)
{
    __m256i values = _mm256_shuffle_epi8(pixels, order);
    s->high = _mm256_add_epi32(s->high, _mm256_madd_epi16(values, _mm256_set1_epi32(w[0])));
    s->low = _mm256_add_epi32(s->low, _mm256_madd_epi16(values, _mm256_set1_epi32(w[1])));
}

AVX2 static inline __m256i rounded(Sums s)
{
    return _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(s.high, LOW_BITS), s.low),
                             RESIZE_BITS);
}

AVX2 static inline void store_pixels(Sums ab, Sums cd, uint8_t *out, size_t stride)
{
    __m256i packed = _mm256_packs_epi32(rounded(ab), rounded(cd));
    packed = _mm256_packus_epi16(packed, packed);
    __m128i ac = _mm256_castsi256_si128(packed), bd = _mm256_extracti128_si256(packed, 1);
    resize_store_pixel(out, _mm_cvtsi128_si32(ac));
    resize_store_pixel(out + stride, _mm_cvtsi128_si32(bd));
    resize_store_pixel(out + 2 * stride, _mm_extract_epi32(ac, 1));
    resize_store_pixel(out + 3 * stride, _mm_extract_epi32(bd, 1));
}

/* The order of bytes that makes pairs of words of pixels 2 * which and 2 * which + 1. */
AVX2 static inline __m256i pair_order(int which)
{
    const char z = -128;
    __m256i first = _mm256_setr_epi8(0, z, 4, z, 1, z, 5, z, 2, z, 6, z, z, z, z, z, 0, z, 4, z, 1,
                                     z, 5, z, 2, z, 6, z, z, z, z, z);
    return _mm256_add_epi8(first, _mm256_set1_epi8((char)(8 * which)));
}

AVX2 static void across_two_taps(const ResizeTaps *t, const uint8_t *const *in, uint8_t *out,
                                 size_t stride)
{
    const __m256i order = pair_order(0), half = _mm256_set1_epi32(RESIZE_HALF);
    const int32_t *w = t->packed;
    for (int k = 0; k < t->count; k++, w += t->words, out += 3) {
        size_t at = (size_t)w[0] * 4;
        Sums ab = { _mm256_setzero_si256(), half }, cd = ab;
        add_pair(&ab, two_short_rows(in[0] + at, in[1] + at), order, w + 1);
        add_pair(&cd, two_short_rows(in[2] + at, in[3] + at), order, w + 1);
        store_pixels(ab, cd, out, stride);
    }
}

AVX2 static inline void across_fours(const ResizeTaps *t, int fours, const uint8_t *const *in,
                                     uint8_t *out, size_t stride)
{
    const __m256i first = pair_order(0), second = pair_order(1),
                  half = _mm256_set1_epi32(RESIZE_HALF);
    const int32_t *next = t->packed;
    for (int k = 0; k < t->count; k++, next += t->words, out += 3) {
        const int32_t *w = next + 1;
        size_t at = (size_t)next[0] * 4;
        Sums ab = { _mm256_setzero_si256(), half }, cd = ab;
        for (int i = 0; i < fours; i++, w += 4, at += 16) {
            __m256i pixels = two_rows(in[0] + at, in[1] + at);
            add_pair(&ab, pixels, first, w);
            add_pair(&ab, pixels, second, w + 2);
            pixels = two_rows(in[2] + at, in[3] + at);
            add_pair(&cd, pixels, first, w);
            add_pair(&cd, pixels, second, w + 2);
        }
        store_pixels(ab, cd, out, stride);
    }
}

/* Fewer than four rows: the last is made again, into the same place. */
AVX2 static void across(const ResizeTaps *t, const uint8_t *in, size_t in_stride, int rows,
                        uint8_t *out, size_t out_stride)
{
    const uint8_t *row[RESIZE_ROWS];
    if (rows < RESIZE_ROWS) {
        for (int i = 0; i < rows; i++) {
            for (int j = 0; j < RESIZE_ROWS; j++) row[j] = in + (size_t)i * in_stride;
            if (t->padded == 2) across_two_taps(t, row, out + (size_t)i * out_stride, 0);
            else across_fours(t, t->padded / 4, row, out + (size_t)i * out_stride, 0);
        }
        return;
    }
    for (int i = 0; i < RESIZE_ROWS; i++) row[i] = in + (size_t)i * in_stride;
    if (t->padded == 2) across_two_taps(t, row, out, out_stride);
    else if (t->padded == 4) across_fours(t, 1, row, out, out_stride);
    else across_fours(t, t->padded / 4, row, out, out_stride);
}

/* ---- vertical: 32 bytes at a time, pairs of rows interleaved ---- */

AVX2 static inline __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

AVX2 static inline __m256i add_products(__m256i sum, __m256i values, __m256i weights)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(values, weights));
}

AVX2 static inline void down_piece(const uint8_t *const *rows, int pairs, const int32_t *w,
                                   size_t at, uint8_t *out)
{
    const __m256i zero = _mm256_setzero_si256(), half = _mm256_set1_epi32(RESIZE_HALF);
    Sums s0 = { zero, half }, s1 = s0, s2 = s0, s3 = s0;
    for (int i = 0; i < pairs; i++) {
        __m256i a = load(rows[2 * i] + at), b = load(rows[2 * i + 1] + at);
        __m256i high = _mm256_set1_epi32(w[2 * i]), low = _mm256_set1_epi32(w[2 * i + 1]);
        __m256i left = _mm256_unpacklo_epi8(a, b), right = _mm256_unpackhi_epi8(a, b);
        __m256i v0 = _mm256_unpacklo_epi8(left, zero), v1 = _mm256_unpackhi_epi8(left, zero);
        __m256i v2 = _mm256_unpacklo_epi8(right, zero), v3 = _mm256_unpackhi_epi8(right, zero);
        s0.high = add_products(s0.high, v0, high);
        s1.high = add_products(s1.high, v1, high);
        s2.high = add_products(s2.high, v2, high);
        s3.high = add_products(s3.high, v3, high);
        s0.low = add_products(s0.low, v0, low);
        s1.low = add_products(s1.low, v1, low);
        s2.low = add_products(s2.low, v2, low);
        s3.low = add_products(s3.low, v3, low);
    }
    __m256i left = _mm256_packs_epi32(rounded(s0), rounded(s1)),
            right = _mm256_packs_epi32(rounded(s2), rounded(s3));
    _mm256_storeu_si256((__m256i *)(void *)(out + at), _mm256_packus_epi16(left, right));
}

AVX2 static inline void down_pairs(const uint8_t *const *rows, int pairs, const int32_t *w,
                                   size_t bytes, uint8_t *out)
{
    size_t at = 0;
    for (; at + 32 <= bytes; at += 32) down_piece(rows, pairs, w, at, out);
    if (at < bytes) down_piece(rows, pairs, w, bytes - 32, out);
}

AVX2 static void down(const ResizeTaps *t, int k, const uint8_t *const *rows, size_t bytes,
                      uint8_t *out)
{
    const int32_t *w = t->packed + (size_t)k * (size_t)t->words + 1;
    int pairs = (t->length[k] + 1) / 2;
    if (bytes < 32) resize_kernels_portable.down(t, k, rows, bytes, out);
    else if (pairs == 1) down_pairs(rows, 1, w, bytes, out);
    else if (pairs == 2) down_pairs(rows, 2, w, bytes, out);
    else down_pairs(rows, pairs, w, bytes, out);
}

static const ResizeKernels kernels = {
    .name = "avx2",
    .pad_across = pad_across,
    .pad_down = pad_down,
    .words = words,
    .pack = pack,
    .across = across,
    .down = down,
};

const ResizeKernels *resize_kernels_avx2(void)
{
    return __builtin_cpu_supports("avx2") ? &kernels : 0;
}
#else
const ResizeKernels *resize_kernels_avx2(void)
{
    return 0;
}
#endif
