/* picture.c - the copy of a picture, and whether vectors may be used. */
#include "data/augment/picture.h"
#include "data/augment/image_op_avx2.h"
#include <string.h>

bool picture_is_wide(const ImageOpScratch *scratch)
{
    return !scratch->plain && image_op_avx2_is_available();
}

Status picture_copy(const Picture *p, ImageOpScratch *scratch, const uint8_t **copy)
{
    size_t bytes = picture_bytes(p);
    TRY(byte_buf_reserve(&scratch->copy, bytes + PICTURE_COPY_PADDING));
    memcpy(scratch->copy.data, p->pixels, bytes);
    memset(scratch->copy.data + bytes, 0, PICTURE_COPY_PADDING);
    *copy = scratch->copy.data;
    return OK;
}
