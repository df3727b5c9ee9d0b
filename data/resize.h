/* resize.h - Pillow's bilinear resize with antialiasing, bit for bit, of any part of the output. */
#ifndef CONVOY_DATA_RESIZE_H
#define CONVOY_DATA_RESIZE_H
#include "data/image.h"
#include <stdbool.h>

typedef struct ResizeAxis { /* in pixels become out; of these only first .. first + count are made */
    int in, out;
    int first, count;
} ResizeAxis;

typedef struct ResizeJob {
    const uint8_t *source; /* top left of the source box; x.in by y.in pixels */
    size_t source_stride;  /* bytes from row to row */
    uint8_t *target;       /* top left of the x.count by y.count pixels to write */
    size_t target_stride;
    int channels; /* 1 or 3 */
    bool flip;    /* mirror the columns that are written */
    ResizeAxis x, y;
} ResizeJob;

typedef struct ResizeScratch { /* zero-initialise; one per thread */
    ByteBuf weights, rows;
} ResizeScratch;
Status resize_bilinear(const ResizeJob *job, ResizeScratch *scratch);
void resize_scratch_free(ResizeScratch *scratch);
#endif
