/* view.h - from decoded pixels to the square that the network sees, as a plan (augment.h) says, in
 * one pass. */
#ifndef CONVOY_DATA_AUGMENT_VIEW_H
#define CONVOY_DATA_AUGMENT_VIEW_H
#include "data/augment/augment.h"

typedef struct ViewScratch { /* zero-initialise; one per thread */
    ResizeScratch resize;
    ByteBuf luma, grey;
} ViewScratch;
void view_scratch_trim(ViewScratch *scratch, size_t limit_bytes);
void view_scratch_free(ViewScratch *scratch);

/* The part of the image that the plan's view depends on: what a decoder has to make. No width where
 * the window shows nothing of the image. */
ImageBox view_needs(const AugmentPlan *plan, ResizeFilter filter);

/* Makes the view: out is [plan->size, plan->size, channels]. Of the image, pixels holds at least
 * view_needs. A colour image becomes grey before it is resized, as Pillow's convert("L") does.
 * ERR_MEMORY only. */
Status view_make(const AugmentPlan *plan, ResizeFilter filter, const Image *pixels, int channels,
                 ViewScratch *scratch, uint8_t *out);
#endif
