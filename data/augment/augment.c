/* augment.c - the geometry of torchvision's transforms, drawn at addresses.
 *
 * Draws, in this order (part of what makes runs repeatable), each at the address of the sample's
 * repeat:
 *   RNG_CROP (epoch, sample)   AUGMENT_IMAGENET: per try, area then log of the ratio; after an
 *                              accepted try, top then left. AUGMENT_CIFAR, AUGMENT_AIRBENCH: top
 *                              then left.
 *   RNG_FLIP (epoch, sample)   one draw, mirrored below one half; another, bicubic below one half,
 *                              for RANDOM. AUGMENT_AIRBENCH: the first always at epoch 0, and from
 *                              one half up in odd epochs.
 * All arithmetic is in double; Python's round() is rint() (half to even), its int() truncates. */
#include "data/augment/augment.h"
#include "base/rng.h"
#include <math.h>

#define CROP_TRIES       10
#define AIRBENCH_PADDING 2
static const double area_low = 0.08, area_high = 1.0, ratio_low = 3.0 / 4.0, ratio_high = 4.0 / 3.0;

/* torchvision Resize(resize): the shorter side becomes resize, the longer keeps the shape, rounded
 * down. */
static void resize_shorter(AugmentPlan *plan, int resize)
{
    int width = plan->box_width, height = plan->box_height;
    if (width <= height) {
        plan->width = resize;
        plan->height = (int)((double)resize * height / width);
    } else {
        plan->height = resize;
        plan->width = (int)((double)resize * width / height);
    }
}

/* CenterCrop along one side: half to even where the crop is smaller, padding rounded down where it
 * is larger. */
static int center_offset(int length, int size)
{
    return length < size ? -((size - length) / 2) : (int)rint((length - size) / 2.0);
}

AugmentPlan augment_center(int width, int height, int resize, int size)
{
    AugmentPlan plan = { .box_width = width, .box_height = height, .size = size };
    resize_shorter(&plan, resize);
    plan.window_x = center_offset(plan.width, size);
    plan.window_y = center_offset(plan.height, size);
    return plan;
}

/* Where no try fits: the whole image, cut to the nearest allowed ratio, centred. */
static void fallback_box(AugmentPlan *plan, int width, int height)
{
    double ratio = (double)width / height;
    plan->box_width = width;
    plan->box_height = height;
    if (ratio < ratio_low) plan->box_height = (int)rint(width / ratio_low);
    if (ratio > ratio_high) plan->box_width = (int)rint(height * ratio_high);
    plan->box_x = (width - plan->box_width) / 2;
    plan->box_y = (height - plan->box_height) / 2;
}

static void draw_box(AugmentPlan *plan, const ViewOptions *o, int width, int height, Rng *rng)
{
    const double low = o->min_crop_area > 0 ? o->min_crop_area : area_low;
    double log_low = log(ratio_low), log_high = log(ratio_high);
    for (int i = 0; i < CROP_TRIES; i++) {
        double area = (double)width * height * (low + (area_high - low) * rng_uniform(rng));
        double ratio = exp(log_low + (log_high - log_low) * rng_uniform(rng));
        double w = rint(sqrt(area * ratio)), h = rint(sqrt(area / ratio));
        if (w < 1 || w > width || h < 1 || h > height) continue;
        plan->box_width = (int)w;
        plan->box_height = (int)h;
        plan->box_y = (int)rng_below(rng, (uint64_t)(height - plan->box_height + 1));
        plan->box_x = (int)rng_below(rng, (uint64_t)(width - plan->box_width + 1));
        return;
    }
    fallback_box(plan, width, height);
}

static AugmentPlan draw_imagenet(const ViewOptions *o, int width, int height, Rng *rng)
{
    AugmentPlan plan = { .width = o->image_size, .height = o->image_size, .size = o->image_size };
    draw_box(&plan, o, width, height, rng);
    return plan;
}

/* Resize(size) where needed, then RandomCrop(size, padding). */
static AugmentPlan draw_padded(int size, int padding, int width, int height, Rng *rng)
{
    AugmentPlan plan = { .box_width = width, .box_height = height, .size = size };
    resize_shorter(&plan, size);
    plan.window_y = (int)rng_below(rng, (uint64_t)(plan.height + 2 * padding - size + 1)) - padding;
    plan.window_x = (int)rng_below(rng, (uint64_t)(plan.width + 2 * padding - size + 1)) - padding;
    return plan;
}

AugmentPlan augment_draw(const ViewOptions *o, int width, int height, int resize,
                         const AugmentDraw *draw)
{
    if (o->augment == AUGMENT_NONE) return augment_center(width, height, resize, o->image_size);
    Rng crop =
        rng_at_repeat(draw->seed, RNG_CROP, draw->repeat, draw->epoch, (uint32_t)draw->sample);
    const bool airbench = o->augment == AUGMENT_AIRBENCH;
    const int size = o->image_size, padding = airbench ? AIRBENCH_PADDING : size / 8;
    Rng flip = rng_at_repeat(draw->seed, RNG_FLIP, draw->repeat, airbench ? 0 : draw->epoch,
                             (uint32_t)draw->sample);
    AugmentPlan plan = o->augment == AUGMENT_IMAGENET
                           ? draw_imagenet(o, width, height, &crop)
                           : draw_padded(size, padding, width, height, &crop);
    plan.flip = rng_uniform(&flip) < 0.5;
    plan.reflect = airbench;
    if (airbench && draw->epoch % 2 == 1) plan.flip = !plan.flip;
    return plan;
}

ResizeFilter augment_filter(Interpolation interpolation, const AugmentDraw *draw)
{
    if (interpolation == INTERPOLATION_BICUBIC) return RESIZE_BICUBIC;
    if (interpolation == INTERPOLATION_BILINEAR) return RESIZE_BILINEAR;
    Rng rng =
        rng_at_repeat(draw->seed, RNG_FLIP, draw->repeat, draw->epoch, (uint32_t)draw->sample);
    (void)rng_uniform(&rng); /* the flip's */
    return rng_uniform(&rng) < 0.5 ? RESIZE_BICUBIC : RESIZE_BILINEAR;
}
