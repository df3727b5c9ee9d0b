/* resize.h - Pillow's bilinear and bicubic resize with antialiasing, bit for bit, of any part of
 * the output. */
#ifndef CONVOY_DATA_AUGMENT_RESIZE_H
#define CONVOY_DATA_AUGMENT_RESIZE_H
#include "base/byte_buf.h"
#include <stdbool.h>

typedef enum ResizeFilter { RESIZE_BILINEAR, RESIZE_BICUBIC, RESIZE_FILTER_COUNT } ResizeFilter;

/* in pixels become out; of these only first .. first + count are made */
typedef struct ResizeAxis {
    int in, out;
    int first, count;
} ResizeAxis;

/* The input pixels low .. high - 1 are those that the wanted outputs depend on; count >= 1. */
void resize_needs(const ResizeAxis *axis, ResizeFilter filter, int *low, int *high);

typedef struct ResizeJob {
    /* pixel (source_x, source_y) of the input; at least what resize_needs says must follow */
    const uint8_t *source;
    size_t source_stride; /* bytes from row to row */
    int source_x, source_y;
    /* of the source: channels, or 4 for three channels and a byte that is not looked at */
    int pixel_bytes;
    uint8_t *target; /* top left of the x.count by y.count pixels to write, channels bytes each */
    size_t target_stride;
    int channels; /* 1 or 3 */
    bool flip;    /* mirror the columns that are written */
    ResizeFilter filter;
    ResizeAxis x, y;
} ResizeJob;

typedef struct ResizeScratch { /* zero-initialise; one per thread */
    ByteBuf weights, rows;
} ResizeScratch;
/* ERR_MEMORY only. The fastest kernels that this processor has; all give the same bytes. */
Status resize_image(const ResizeJob *job, ResizeScratch *scratch);
/* by these kernels; for tests */
struct ResizeKernels;
Status resize_image_with(const struct ResizeKernels *kernels, const ResizeJob *job,
                         ResizeScratch *scratch);
void resize_scratch_free(ResizeScratch *scratch);
#endif
