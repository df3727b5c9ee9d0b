/* policy_timm.c - see policy_timm.h. Draws of an op, in this order: its index, a uniform below the
 * probability where it is applied, with a deviation a normal, and where its magnitude has a sign
 * one below 2: 1 is negative. All of them are drawn, applied or not. */
#include "data/augment/policy_timm.h"
#include <math.h>

typedef enum Form { NONE, SIGNED, OF_WIDTH, OF_HEIGHT, FACTOR, RISING, FALLING } Form;

/* In timm's order; most: at the largest magnitude. */
static const struct {
    ImageOpKind kind;
    Form form;
    double most;
} rows[] = {
    { IMAGE_AUTOCONTRAST, NONE, 0 },     { IMAGE_EQUALIZE, NONE, 0 },
    { IMAGE_INVERT, NONE, 0 },           { IMAGE_ROTATE, SIGNED, 30 },
    { IMAGE_POSTERIZE, FALLING, 4 },     { IMAGE_SOLARIZE, FALLING, 256 },
    { IMAGE_SOLARIZE_ADD, RISING, 110 }, { IMAGE_COLOR, FACTOR, 0.9 },
    { IMAGE_CONTRAST, FACTOR, 0.9 },     { IMAGE_BRIGHTNESS, FACTOR, 0.9 },
    { IMAGE_SHARPNESS, FACTOR, 0.9 },    { IMAGE_SKEW_X, SIGNED, 0.3 },
    { IMAGE_SKEW_Y, SIGNED, 0.3 },       { IMAGE_SLIDE_X, OF_WIDTH, 0.45 },
    { IMAGE_SLIDE_Y, OF_HEIGHT, 0.45 },
};

ImageOp policy_timm_op(int index, double magnitude, bool negative, int width, int height)
{
    const double v = magnitude / POLICY_TIMM_MAGNITUDES * rows[index].most;
    const double sign = negative ? -1.0 : 1.0;
    const double values[] = { [NONE] = 0,
                              [SIGNED] = sign * v,
                              [OF_WIDTH] = sign * v * width,
                              [OF_HEIGHT] = sign * v * height,
                              [FACTOR] = fmax(0.1, 1.0 + sign * v),
                              [RISING] = trunc(v),
                              [FALLING] = rows[index].most - trunc(v) };
    return (ImageOp){ rows[index].kind, values[rows[index].form] };
}

void policy_timm_draw(const PolicyOptions *o, int width, int height, Rng *rng, PolicyPlan *out)
{
    _Static_assert(sizeof rows / sizeof rows[0] == POLICY_TIMM_OPS, "a row for each");
    for (int i = 0; i < o->ops; i++) {
        const int index = (int)rng_below(rng, POLICY_TIMM_OPS);
        const bool applied = rng_uniform(rng) < 0.5;
        double magnitude = o->magnitude;
        if (o->deviation > 0) magnitude += o->deviation * rng_normal(rng);
        magnitude = fmin(fmax(magnitude, 0), POLICY_TIMM_MAGNITUDES);
        const bool negative = image_op_mirrors(rows[index].kind) && rng_below(rng, 2) == 1;
        if (applied)
            out->ops[out->op_count++] = policy_timm_op(index, magnitude, negative, width, height);
    }
}
