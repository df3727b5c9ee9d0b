/* picture.h - a picture that ops change, and what all files of ops need to do so. */
#ifndef CONVOY_DATA_AUGMENT_PICTURE_H
#define CONVOY_DATA_AUGMENT_PICTURE_H
#include "base/byte_buf.h"
#include <stdbool.h>

typedef struct Picture { /* rows packed, [height, width, channels]; changed in place */
    uint8_t *pixels;
    int width, height, channels; /* channels 1 or 3; sides up to 8192 */
} Picture;

/* Scratch: a copy of the picture, and coordinates of a row. One per thread; zero-initialise. */
typedef struct ImageOpScratch {
    ByteBuf copy, row;
    bool plain; /* without the processor's vectors: the same bytes, for tests */
} ImageOpScratch;

/* Loops for the compiler's vectoriser, compiled twice and chosen at load time. No fused
 * multiply-add in either (the room is compiled without contraction), so both give the same
 * bytes. */
#if defined(__x86_64__) && defined(__GNUC__) && defined(__GLIBC__) && !defined(__clang__) &&       \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define IMAGE_OP_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define IMAGE_OP_CLONES
#endif

static inline size_t picture_bytes(const Picture *p)
{
    return (size_t)p->width * (size_t)p->height * (size_t)p->channels;
}

bool picture_is_wide(const ImageOpScratch *scratch); /* AVX2 is there and may be used */

/* After a copy this many bytes may be read. */
#define PICTURE_COPY_PADDING 32
/* A copy of p, borrowed until the next one, for ops that read what they overwrite. */
Status picture_copy(const Picture *p, ImageOpScratch *scratch, const uint8_t **copy);
#endif
