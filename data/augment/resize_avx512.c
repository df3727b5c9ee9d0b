/* resize_avx512.c - the resize with AVX-512's byte products (VNNI), the same bytes as the portable
 * kernels.
 *
 * One instruction (vpdpbusd) multiplies four unsigned pixels with four signed bytes and adds them
 * to an int32. A weight has 23 bits, so it is written with three signed digits, digit0 + 256 *
 * digit1 + 65536 * digit2: three sums, put together at the end, are the exact sum. Packed table of
 * an output: start, then for each four taps three words of four digits. */
#include "data/augment/resize_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <string.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

static int pad(int longest)
{
    return (longest + 3) / 4 * 4;
}

static int words(int padded)
{
    return 1 + padded / 4 * 3;
}

static void split(int32_t weight, int8_t digit[3])
{
    for (int i = 0; i < 3; i++) {
        digit[i] = (int8_t)(uint8_t)((uint32_t)weight & 255);
        weight = (weight - digit[i]) / 256;
    }
}

static void pack(ResizeTaps *t, bool movable)
{
    for (int k = 0; k < t->count; k++) {
        int32_t *out = t->packed + (size_t)k * (size_t)t->words;
        int moved = resize_moved(t, k, movable);
        *out++ = t->start[k] - moved;
        for (int i = -moved; i < t->padded - moved; i += 4, out += 3) {
            int8_t digits[3][4], digit[3];
            for (int j = 0; j < 4; j++) {
                split(resize_tap(t, k, i + j), digit);
                for (int d = 0; d < 3; d++) digits[d][j] = digit[d];
            }
            memcpy(out, digits, sizeof digits);
        }
    }
}

typedef struct Sums { /* by digit */
    __m512i digit[3];
} Sums;

AVX512 static inline Sums no_sums(void)
{
    const __m512i zero = _mm512_setzero_si512();
    return (Sums){ { _mm512_set1_epi32(RESIZE_HALF), zero, zero } };
}

AVX512 static inline void add_four(Sums *s, __m512i values, const int32_t *w)
{
    for (int d = 0; d < 3; d++)
        s->digit[d] = _mm512_dpbusd_epi32(s->digit[d], values, _mm512_set1_epi32(w[d]));
}

AVX512 static inline __m512i rounded(Sums s)
{
    __m512i sum = _mm512_add_epi32(s.digit[0], _mm512_slli_epi32(s.digit[1], 8));
    return _mm512_srai_epi32(_mm512_add_epi32(sum, _mm512_slli_epi32(s.digit[2], 16)), RESIZE_BITS);
}

/* ---- horizontal: four rows in a register, a pixel's channels side by side ---- */

AVX512 static inline __m128i four_pixels(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

AVX512 static inline __m512i four_rows(const uint8_t *const *rows, size_t at)
{
    __m512i v = _mm512_castsi128_si512(four_pixels(rows[0] + at));
    v = _mm512_mask_broadcast_i32x4(v, 0x00f0, four_pixels(rows[1] + at));
    v = _mm512_mask_broadcast_i32x4(v, 0x0f00, four_pixels(rows[2] + at));
    return _mm512_mask_broadcast_i32x4(v, 0xf000, four_pixels(rows[3] + at));
}

AVX512 static inline void across_fours(const ResizeTaps *t, int fours, const uint8_t *const *rows,
                                       uint8_t *out, size_t stride)
{
    const __m512i by_channel =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const int32_t *next = t->packed;
    for (int k = 0; k < t->count; k++, next += t->words, out += 3) {
        const int32_t *w = next + 1;
        size_t at = (size_t)next[0] * 4;
        Sums sums = no_sums();
        for (int i = 0; i < fours; i++, w += 3, at += 16)
            add_four(&sums, _mm512_shuffle_epi8(four_rows(rows, at), by_channel), w);
        __m512i values = _mm512_max_epi32(rounded(sums), _mm512_setzero_si512());
        __m128i pixels = _mm512_cvtusepi32_epi8(values);
        resize_store_pixel(out, _mm_cvtsi128_si32(pixels));
        resize_store_pixel(out + stride, _mm_extract_epi32(pixels, 1));
        resize_store_pixel(out + 2 * stride, _mm_extract_epi32(pixels, 2));
        resize_store_pixel(out + 3 * stride, _mm_extract_epi32(pixels, 3));
    }
}

/* Fewer than four rows: the last is made again, into the same place. */
AVX512 static void across(const ResizeTaps *t, const uint8_t *in, size_t in_stride, int rows,
                          uint8_t *out, size_t out_stride)
{
    const uint8_t *row[RESIZE_ROWS];
    int together = rows == RESIZE_ROWS ? 1 : rows;
    size_t stride = together == 1 && rows > 1 ? out_stride : 0;
    for (int i = 0; i < together; i++) {
        for (int j = 0; j < RESIZE_ROWS; j++) row[j] = in + (size_t)(stride ? j : i) * in_stride;
        if (t->padded == 4) across_fours(t, 1, row, out + (size_t)i * out_stride, stride);
        else across_fours(t, t->padded / 4, row, out + (size_t)i * out_stride, stride);
    }
}

/* ---- vertical: 64 bytes at a time, four rows interleaved ---- */

AVX512 static inline __m512i load(const uint8_t *p)
{
    return _mm512_loadu_si512((const void *)p);
}

AVX512 static inline void down_piece(const uint8_t *const *rows, int fours, const int32_t *w,
                                     size_t at, uint8_t *out)
{
    Sums s0 = no_sums(), s1 = s0, s2 = s0, s3 = s0;
    for (int i = 0; i < fours; i++, rows += 4, w += 3) {
        __m512i a = load(rows[0] + at), b = load(rows[1] + at), c = load(rows[2] + at),
                d = load(rows[3] + at);
        __m512i ab = _mm512_unpacklo_epi8(a, b), cd = _mm512_unpacklo_epi8(c, d);
        add_four(&s0, _mm512_unpacklo_epi16(ab, cd), w);
        add_four(&s1, _mm512_unpackhi_epi16(ab, cd), w);
        ab = _mm512_unpackhi_epi8(a, b);
        cd = _mm512_unpackhi_epi8(c, d);
        add_four(&s2, _mm512_unpacklo_epi16(ab, cd), w);
        add_four(&s3, _mm512_unpackhi_epi16(ab, cd), w);
    }
    __m512i left = _mm512_packs_epi32(rounded(s0), rounded(s1)),
            right = _mm512_packs_epi32(rounded(s2), rounded(s3));
    _mm512_storeu_si512((void *)(out + at), _mm512_packus_epi16(left, right));
}

AVX512 static inline void down_fours(const uint8_t *const *rows, int fours, const int32_t *w,
                                     size_t bytes, uint8_t *out)
{
    size_t at = 0;
    for (; at + 64 <= bytes; at += 64) down_piece(rows, fours, w, at, out);
    if (at < bytes) down_piece(rows, fours, w, bytes - 64, out);
}

AVX512 static void down(const ResizeTaps *t, int k, const uint8_t *const *rows, size_t bytes,
                        uint8_t *out)
{
    const int32_t *w = t->packed + (size_t)k * (size_t)t->words + 1;
    int fours = (t->length[k] + 3) / 4;
    if (bytes < 64) resize_kernels_portable.down(t, k, rows, bytes, out);
    else if (fours == 1) down_fours(rows, 1, w, bytes, out);
    else down_fours(rows, fours, w, bytes, out);
}

static const ResizeKernels kernels = {
    .name = "avx512",
    .pad_across = pad,
    .pad_down = pad,
    .words = words,
    .pack = pack,
    .across = across,
    .down = down,
};

const ResizeKernels *resize_kernels_avx512(void)
{
    bool there = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
    return there ? &kernels : 0;
}
#else
const ResizeKernels *resize_kernels_avx512(void)
{
    return 0;
}
#endif
