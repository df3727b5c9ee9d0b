/* augment.h - from a decoded image to the square that the network sees: parameters drawn first,
 * pixels second.
 *
 * Every kind of training and evaluation view is one shape of plan: cut a box from the image, resize
 * it, look at it through a square window (zero, or the picture reflected, where the window leaves
 * it), perhaps mirrored. So drawing is pure arithmetic that tests can check, and pixels are made in
 * one pass (view.h). */
#ifndef CONVOY_DATA_AUGMENT_AUGMENT_H
#define CONVOY_DATA_AUGMENT_AUGMENT_H
#include "data/augment/resize.h"
#include "data/decode/image.h"
#include "data/options.h"

typedef struct AugmentPlan {
    int box_x, box_y, box_width, box_height; /* cut from the image */
    int width, height;                       /* the box is resized to this */
    int window_x, window_y;                  /* top left of the window in it; may be negative */
    int size;                                /* side of the window */
    bool flip;
    /* What lies outside the picture is reflected about its edges, not zero: the window leaves it by
     * less than what it shows of it. */
    bool reflect;
} AugmentPlan;

typedef struct AugmentDraw { /* where the draws come from */
    uint64_t seed;
    uint32_t epoch;
    int64_t sample;
    uint32_t repeat; /* the how many-th time in this epoch, from 0 */
} AugmentDraw;

/* Evaluation: shorter side to resize (torchvision Resize), then the centre (CenterCrop, zero-padded
 * where smaller). */
AugmentPlan augment_center(int width, int height, int resize, int size);
/* Training. AUGMENT_NONE is augment_center with the same resize. */
AugmentPlan augment_draw(const ViewOptions *o, int width, int height, int resize,
                         const AugmentDraw *draw);
/* How a view is resized; RANDOM is drawn. */
ResizeFilter augment_filter(Interpolation interpolation, const AugmentDraw *draw);
#endif
