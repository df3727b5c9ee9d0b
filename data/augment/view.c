/* view.c - a plan's box and window as a resize of what was decoded. */
#include "data/augment/view.h"
#include <string.h>

void view_scratch_trim(ViewScratch *scratch, size_t limit_bytes)
{
    byte_buf_trim(&scratch->resize.weights, limit_bytes);
    byte_buf_trim(&scratch->resize.rows, limit_bytes);
    byte_buf_trim(&scratch->luma, limit_bytes);
    byte_buf_trim(&scratch->grey, limit_bytes);
}

void view_scratch_free(ViewScratch *scratch)
{
    resize_scratch_free(&scratch->resize);
    byte_buf_free(&scratch->luma);
    byte_buf_free(&scratch->grey);
}

/* The part of one axis that the window shows: which outputs, and where in the window they go. */
static ResizeAxis visible(int in, int out, int window, int size, int *at)
{
    int first = window > 0 ? window : 0, end = window + size < out ? window + size : out;
    *at = first - window;
    return (
        ResizeAxis){ .in = in, .out = out, .first = first, .count = end > first ? end - first : 0 };
}

ImageBox view_needs(const AugmentPlan *plan, ResizeFilter filter)
{
    int unused, left, right, top, bottom;
    ResizeAxis x = visible(plan->box_width, plan->width, plan->window_x, plan->size, &unused);
    ResizeAxis y = visible(plan->box_height, plan->height, plan->window_y, plan->size, &unused);
    if (x.count == 0 || y.count == 0) return (ImageBox){ 0 };
    resize_needs(&x, filter, &left, &right);
    resize_needs(&y, filter, &top, &bottom);
    return (ImageBox){ .x = plan->box_x + left,
                       .y = plan->box_y + top,
                       .width = right - left,
                       .height = bottom - top };
}

/* Which of the places first .. first + count of one axis is what lies at i, outside of them, as if
 * the picture went on in reverse beyond its edges. */
static int reflected(int i, int first, int count)
{
    return i < first ? 2 * first - i : 2 * (first + count - 1) - i;
}

/* Fills what the window shows from outside: columns, then whole rows. */
static void reflect(uint8_t *out, int size, int channels, int at_x, int count_x, int at_y,
                    int count_y)
{
    const size_t pixel = (size_t)channels, stride = (size_t)size * pixel;
    for (int y = at_y; y < at_y + count_y; y++) {
        uint8_t *row = out + (size_t)y * stride;
        for (int x = 0; x < size; x++)
            if (x < at_x || x >= at_x + count_x)
                memcpy(row + (size_t)x * pixel, row + (size_t)reflected(x, at_x, count_x) * pixel,
                       pixel);
    }
    for (int y = 0; y < size; y++)
        if (y < at_y || y >= at_y + count_y)
            memcpy(out + (size_t)y * stride, out + (size_t)reflected(y, at_y, count_y) * stride,
                   stride);
}

/* Resizes pixels, whose channels are those wanted. */
static Status make(const AugmentPlan *plan, ResizeFilter filter, const Image *pixels,
                   ResizeScratch *scratch, uint8_t *out)
{
    size_t channels = (size_t)pixels->channels, stride = (size_t)plan->size * channels;
    int at_x = 0, at_y = 0;
    ResizeJob job = {
        .source = pixels->pixels,
        .source_stride = pixels->stride,
        .source_x = pixels->box.x - plan->box_x,
        .source_y = pixels->box.y - plan->box_y,
        .pixel_bytes = pixels->pixel_bytes,
        .target_stride = stride,
        .channels = pixels->channels,
        .flip = plan->flip,
        .filter = filter,
    };
    job.x = visible(plan->box_width, plan->width, plan->window_x, plan->size, &at_x);
    job.y = visible(plan->box_height, plan->height, plan->window_y, plan->size, &at_y);
    if (job.x.count < plan->size || job.y.count < plan->size)
        memset(out, 0, stride * (size_t)plan->size);
    if (plan->flip) at_x = plan->size - at_x - job.x.count;
    job.target = out + (size_t)at_y * stride + (size_t)at_x * channels;
    TRY(resize_image(&job, scratch));
    if (plan->reflect)
        reflect(out, plan->size, (int)channels, at_x, job.x.count, at_y, job.y.count);
    return OK;
}

Status view_make(const AugmentPlan *plan, ResizeFilter filter, const Image *pixels, int channels,
                 ViewScratch *scratch, uint8_t *out)
{
    size_t count = (size_t)plan->size * (size_t)plan->size;
    Image image = *pixels;
    if (channels == 1) TRY(image_convert(&image, 1, &scratch->luma));
    if (channels == image.channels) return make(plan, filter, &image, &scratch->resize, out);
    /* Three equal channels: one is enough to resize. */
    TRY(byte_buf_reserve(&scratch->grey, count));
    TRY(make(plan, filter, &image, &scratch->resize, scratch->grey.data));
    for (size_t i = 0; i < count; i++)
        out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = scratch->grey.data[i];
    return OK;
}
