/* resize_kernels.h - what resize.c computes with: one table of functions per instruction set, all
 * giving the same bytes. */
#ifndef CONVOY_DATA_AUGMENT_RESIZE_KERNELS_H
#define CONVOY_DATA_AUGMENT_RESIZE_KERNELS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RESIZE_BITS (32 - 8 - 2) /* of a weight after the point */
#define RESIZE_HALF (1 << (RESIZE_BITS - 1))
#define RESIZE_ROWS 4 /* rows that a horizontal kernel makes at a time, at most */

/* of the wanted outputs of one axis, in the order in which they are written */
typedef struct ResizeTaps {
    int count;
    int *start;      /* [count] first input pixel, counted from the source's first */
    int *length;     /* [count] how many, >= 1 */
    int32_t *weight; /* [count][width] fixed point */
    int width;       /* >= every length */
    int longest;     /* of the lengths */
    int extent;      /* source pixels 0 .. extent - 1 may be read */
    /* The same as a kernel wants it, made by its pack; unused by the portable kernels. */
    int32_t *packed; /* [count][words] */
    int words;
    int padded; /* taps of each output, those beyond its length with weight 0 */
} ResizeTaps;

typedef struct ResizeKernels {
    const char *name;
    /* Taps of an output of the horizontal and the vertical pass after padding; NULL: no packed
     * tables. */
    int (*pad_across)(int longest);
    int (*pad_down)(int longest);
    int (*words)(int padded); /* int32 words of an output in the packed table */
    /* Writes t->packed; movable: an output may start earlier, so that its padded taps are in the
     * extent. */
    void (*pack)(ResizeTaps *t, bool movable);
    /* rows (1 .. RESIZE_ROWS) of RGBX become rows of t->count packed RGB pixels; out rows have 4
     * bytes of slack. */
    void (*across)(const ResizeTaps *t, const uint8_t *in, size_t in_stride, int rows, uint8_t *out,
                   size_t out_stride);
    /* Output k of the vertical pass: bytes wide, from rows[0 .. padded), the last ones repeated
     * beyond the length. */
    void (*down)(const ResizeTaps *t, int k, const uint8_t *const *rows, size_t bytes,
                 uint8_t *out);
} ResizeKernels;

extern const ResizeKernels resize_kernels_portable;
/* resize_avx2.c, resize_avx512.c; NULL where compiler or processor lack such instructions. */
const ResizeKernels *resize_kernels_avx2(void);
const ResizeKernels *resize_kernels_avx512(void);

/* For pack: how much earlier output k starts, so that its padded taps are in the extent; and its
 * tap i, 0 if there is none. */
static inline int resize_moved(const ResizeTaps *t, int k, bool movable)
{
    int last = t->extent - t->padded;
    return movable && t->start[k] > last ? t->start[k] - last : 0;
}

static inline int32_t resize_tap(const ResizeTaps *t, int k, int i)
{
    return i >= 0 && i < t->length[k] ? t->weight[(size_t)k * (size_t)t->width + (size_t)i] : 0;
}

/* Four bytes, the last of them slack. */
static inline void resize_store_pixel(uint8_t *out, int value)
{
    memcpy(out, &value, 4);
}

static inline uint8_t resize_clip(int32_t sum)
{
    int32_t v = sum >> RESIZE_BITS;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}
#endif
