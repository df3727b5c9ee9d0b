/* op_input.h - images come in: how those of a batch are erased, mixed and viewed, which the loss is
 * told too (op_loss.h). */
#ifndef CONVOY_KERNELS_OP_INPUT_H
#define CONVOY_KERNELS_OP_INPUT_H
#include "base/both.h"
#include "kernels/tensor.h"

#define OP_MAX_IMAGE_CHANNELS 16

/* An image's box that is erased once normalised; height 0: none. Inside the image. The last two are
 * the key of its noise (erase_noise.h). */
enum {
    ERASE_TOP,
    ERASE_LEFT,
    ERASE_HEIGHT,
    ERASE_WIDTH,
    ERASE_KEY_LOW,
    ERASE_KEY_HIGH,
    ERASE_COUNT
};
/* What it becomes: zero, one normal draw a channel, or one for each value. */
typedef enum EraseMode { ERASE_CONST, ERASE_RAND, ERASE_PIXEL, ERASE_MODE_COUNT } EraseMode;
/* How the images of a batch are mixed, image n with its neighbour op_input_neighbour(n): x =
 * lambda x + rest x', each product rounded to f32 and so their sum (MIX_BOX 0), or x' from top and
 * left up to before bottom and right (MIX_BOX 1). Counts are exact. */
enum {
    MIX_LAMBDA,
    MIX_REST, /* 1 - lambda */
    MIX_BOX,
    MIX_TOP,
    MIX_LEFT,
    MIX_BOTTOM,
    MIX_RIGHT,
    MIX_COUNT
};
CUDA_BOTH static inline int64_t op_input_neighbour(int64_t n, int64_t images)
{
    return n > 0 ? n - 1 : images - 1;
}

/* How many views of an image an evaluation averages: each as it is and mirrored; of VIEWS_SHIFTED
 * also, at half the weight, moved down and to the right by one pixel, and up and to the left, what
 * comes in from outside being reflected. 0 counts as 1. */
enum { VIEWS_ONE = 1, VIEWS_MIRRORED = 2, VIEWS_SHIFTED = 6 };
CUDA_BOTH static inline int op_input_views(int views)
{
    return views > VIEWS_ONE ? views : VIEWS_ONE;
}
/* Odd views are the mirror images of those before them. */
CUDA_BOTH static inline bool op_input_mirrored(int view)
{
    return view % 2 == 1;
}
CUDA_BOTH static inline float op_input_view_weight(int views, int view)
{
    if (views <= VIEWS_ONE) return 1.0F;
    return views == VIEWS_MIRRORED ? 0.5F : view < 2 ? 0.25F : 0.125F;
}
/* Which row, or column, of a side of the image the place at of that view shows. */
CUDA_BOTH static inline int64_t op_input_view_from(int view, int64_t at, int64_t side)
{
    const int64_t from = at + (view < 2 ? 0 : view < 4 ? -1 : 1);
    return from < 0 ? -from : from >= side ? 2 * (side - 1) - from : from;
}

/* OP_INPUT: uint8 N,H,W,C -> f32 N,C,H,W: (v/255 - mean[c]) / std[c], each step in float32 as
 * torchvision does; then erased, then mixed. With several views those of all images follow behind
 * each other, view by view: views N,C,H,W; a mirrored one is moved first. erase i32
 * [N,ERASE_COUNT]: a box of each image. mix f32 [MIX_COUNT]. Neither with several
 * views. */
enum { INPUT_IN_IMAGES, INPUT_IN_ERASE /*optional*/, INPUT_IN_MIX /*optional*/ };
enum { INPUT_OUT_X };
typedef struct InputAttr {
    float mean[OP_MAX_IMAGE_CHANNELS], std[OP_MAX_IMAGE_CHANNELS];
    int views; /* VIEWS_...; images of VIEWS_SHIFTED have at least 2 x 2 pixels */
    EraseMode erase;
} InputAttr;
#endif
