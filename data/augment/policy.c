/* policy.c - draws plans and applies them.
 *
 * Draws, in this order (part of what makes runs repeatable); all at address (epoch, sample) of the
 * repeat:
 *   RNG_JITTER   the order of the four ops (below 4, 3, 2 of those left), then factors of
 *                brightness, contrast, saturation, hue; only of those that are on.
 *   RNG_POLICY   RandAugment: per op its index, then the sign where it has one.
 *                TrivialAugment: index, bin and sign, the last two where it has them.
 *                AutoAugment: sub-policy, two uniforms against its probabilities, two signs.
 *                AugMix: weights of picture and mixture, weights of the chains, then per chain its
 *                depth, and per op index, bin and sign, the last two where it has them.
 *                RandAugment of timm: policy_timm.c. Behind all of that, where sampling is random,
 *                below 2 for each op: 1 is bicubic.
 *   RNG_ERASE    uniform against the probability; per try area, then log of the ratio; after an
 *                accepted try top, left, and two words that are the key of the box's noise.
 * A sign is a draw below 2: 1 turns the magnitude round (AutoAugment: 0, as torchvision has it).
 *
 * Magnitudes are made in float32 as torch.linspace makes them, because they reach pixels. */
#include "data/augment/policy.h"
#include "base/rng.h"
#include "data/augment/policy_timm.h"
#include <math.h>
#include <string.h>

enum {
    AUTOAUGMENT_BINS = 10,
    AUGMIX_BINS = 10,
    AUGMIX_WIDTH = 3,
    AUGMIX_DEPTHS = 3,
    ERASE_TRIES = 10
};

/* ---- tables ---- */

/* Ops in the order in which torchvision numbers them. */
static const ImageOpKind rand_ops[] = {
    IMAGE_IDENTITY,  IMAGE_SHEAR_X,    IMAGE_SHEAR_Y,      IMAGE_TRANSLATE_X, IMAGE_TRANSLATE_Y,
    IMAGE_ROTATE,    IMAGE_BRIGHTNESS, IMAGE_COLOR,        IMAGE_CONTRAST,    IMAGE_SHARPNESS,
    IMAGE_POSTERIZE, IMAGE_SOLARIZE,   IMAGE_AUTOCONTRAST, IMAGE_EQUALIZE,
};
static const ImageOpKind augmix_ops[] = {
    IMAGE_SHEAR_X,   IMAGE_SHEAR_Y,  IMAGE_TRANSLATE_X,  IMAGE_TRANSLATE_Y, IMAGE_ROTATE,
    IMAGE_POSTERIZE, IMAGE_SOLARIZE, IMAGE_AUTOCONTRAST, IMAGE_EQUALIZE,    IMAGE_BRIGHTNESS,
    IMAGE_COLOR,     IMAGE_CONTRAST, IMAGE_SHARPNESS,
};
enum {
    RAND_OPS = sizeof rand_ops / sizeof rand_ops[0],
    AUGMIX_OPS = sizeof augmix_ops / sizeof augmix_ops[0]
};

/* Op, probability, bin. Cubuk et al., AutoAugment (2019), as torchvision lists them. */
static const SubPolicyStep sub_policies[AUTOAUGMENT_TABLE_COUNT][AUTOAUGMENT_SUB_POLICIES][2] = {
    [AUTOAUGMENT_IMAGENET] = {
        { { IMAGE_POSTERIZE, 0.4f, 8 }, { IMAGE_ROTATE, 0.6f, 9 } },
        { { IMAGE_SOLARIZE, 0.6f, 5 }, { IMAGE_AUTOCONTRAST, 0.6f, -1 } },
        { { IMAGE_EQUALIZE, 0.8f, -1 }, { IMAGE_EQUALIZE, 0.6f, -1 } },
        { { IMAGE_POSTERIZE, 0.6f, 7 }, { IMAGE_POSTERIZE, 0.6f, 6 } },
        { { IMAGE_EQUALIZE, 0.4f, -1 }, { IMAGE_SOLARIZE, 0.2f, 4 } },
        { { IMAGE_EQUALIZE, 0.4f, -1 }, { IMAGE_ROTATE, 0.8f, 8 } },
        { { IMAGE_SOLARIZE, 0.6f, 3 }, { IMAGE_EQUALIZE, 0.6f, -1 } },
        { { IMAGE_POSTERIZE, 0.8f, 5 }, { IMAGE_EQUALIZE, 1.0f, -1 } },
        { { IMAGE_ROTATE, 0.2f, 3 }, { IMAGE_SOLARIZE, 0.6f, 8 } },
        { { IMAGE_EQUALIZE, 0.6f, -1 }, { IMAGE_POSTERIZE, 0.4f, 6 } },
        { { IMAGE_ROTATE, 0.8f, 8 }, { IMAGE_COLOR, 0.4f, 0 } },
        { { IMAGE_ROTATE, 0.4f, 9 }, { IMAGE_EQUALIZE, 0.6f, -1 } },
        { { IMAGE_EQUALIZE, 0.0f, -1 }, { IMAGE_EQUALIZE, 0.8f, -1 } },
        { { IMAGE_INVERT, 0.6f, -1 }, { IMAGE_EQUALIZE, 1.0f, -1 } },
        { { IMAGE_COLOR, 0.6f, 4 }, { IMAGE_CONTRAST, 1.0f, 8 } },
        { { IMAGE_ROTATE, 0.8f, 8 }, { IMAGE_COLOR, 1.0f, 2 } },
        { { IMAGE_COLOR, 0.8f, 8 }, { IMAGE_SOLARIZE, 0.8f, 7 } },
        { { IMAGE_SHARPNESS, 0.4f, 7 }, { IMAGE_INVERT, 0.6f, -1 } },
        { { IMAGE_SHEAR_X, 0.6f, 5 }, { IMAGE_EQUALIZE, 1.0f, -1 } },
        { { IMAGE_COLOR, 0.4f, 0 }, { IMAGE_EQUALIZE, 0.6f, -1 } },
        { { IMAGE_EQUALIZE, 0.4f, -1 }, { IMAGE_SOLARIZE, 0.2f, 4 } },
        { { IMAGE_SOLARIZE, 0.6f, 5 }, { IMAGE_AUTOCONTRAST, 0.6f, -1 } },
        { { IMAGE_INVERT, 0.6f, -1 }, { IMAGE_EQUALIZE, 1.0f, -1 } },
        { { IMAGE_COLOR, 0.6f, 4 }, { IMAGE_CONTRAST, 1.0f, 8 } },
        { { IMAGE_EQUALIZE, 0.8f, -1 }, { IMAGE_EQUALIZE, 0.6f, -1 } },
    },
    [AUTOAUGMENT_CIFAR10] = {
        { { IMAGE_INVERT, 0.1f, -1 }, { IMAGE_CONTRAST, 0.2f, 6 } },
        { { IMAGE_ROTATE, 0.7f, 2 }, { IMAGE_TRANSLATE_X, 0.3f, 9 } },
        { { IMAGE_SHARPNESS, 0.8f, 1 }, { IMAGE_SHARPNESS, 0.9f, 3 } },
        { { IMAGE_SHEAR_Y, 0.5f, 8 }, { IMAGE_TRANSLATE_Y, 0.7f, 9 } },
        { { IMAGE_AUTOCONTRAST, 0.5f, -1 }, { IMAGE_EQUALIZE, 0.9f, -1 } },
        { { IMAGE_SHEAR_Y, 0.2f, 7 }, { IMAGE_POSTERIZE, 0.3f, 7 } },
        { { IMAGE_COLOR, 0.4f, 3 }, { IMAGE_BRIGHTNESS, 0.6f, 7 } },
        { { IMAGE_SHARPNESS, 0.3f, 9 }, { IMAGE_BRIGHTNESS, 0.7f, 9 } },
        { { IMAGE_EQUALIZE, 0.6f, -1 }, { IMAGE_EQUALIZE, 0.5f, -1 } },
        { { IMAGE_CONTRAST, 0.6f, 7 }, { IMAGE_SHARPNESS, 0.6f, 5 } },
        { { IMAGE_COLOR, 0.7f, 7 }, { IMAGE_TRANSLATE_X, 0.5f, 8 } },
        { { IMAGE_EQUALIZE, 0.3f, -1 }, { IMAGE_AUTOCONTRAST, 0.4f, -1 } },
        { { IMAGE_TRANSLATE_Y, 0.4f, 3 }, { IMAGE_SHARPNESS, 0.2f, 6 } },
        { { IMAGE_BRIGHTNESS, 0.9f, 6 }, { IMAGE_COLOR, 0.2f, 8 } },
        { { IMAGE_SOLARIZE, 0.5f, 2 }, { IMAGE_INVERT, 0.0f, -1 } },
        { { IMAGE_EQUALIZE, 0.2f, -1 }, { IMAGE_AUTOCONTRAST, 0.6f, -1 } },
        { { IMAGE_EQUALIZE, 0.2f, -1 }, { IMAGE_EQUALIZE, 0.6f, -1 } },
        { { IMAGE_COLOR, 0.9f, 9 }, { IMAGE_EQUALIZE, 0.6f, -1 } },
        { { IMAGE_AUTOCONTRAST, 0.8f, -1 }, { IMAGE_SOLARIZE, 0.2f, 8 } },
        { { IMAGE_BRIGHTNESS, 0.1f, 3 }, { IMAGE_COLOR, 0.7f, 0 } },
        { { IMAGE_SOLARIZE, 0.4f, 5 }, { IMAGE_AUTOCONTRAST, 0.9f, -1 } },
        { { IMAGE_TRANSLATE_Y, 0.9f, 9 }, { IMAGE_TRANSLATE_Y, 0.7f, 9 } },
        { { IMAGE_AUTOCONTRAST, 0.9f, -1 }, { IMAGE_SOLARIZE, 0.8f, 3 } },
        { { IMAGE_EQUALIZE, 0.8f, -1 }, { IMAGE_INVERT, 0.1f, -1 } },
        { { IMAGE_TRANSLATE_Y, 0.7f, 9 }, { IMAGE_AUTOCONTRAST, 0.9f, -1 } },
    },
    [AUTOAUGMENT_SVHN] = {
        { { IMAGE_SHEAR_X, 0.9f, 4 }, { IMAGE_INVERT, 0.2f, -1 } },
        { { IMAGE_SHEAR_Y, 0.9f, 8 }, { IMAGE_INVERT, 0.7f, -1 } },
        { { IMAGE_EQUALIZE, 0.6f, -1 }, { IMAGE_SOLARIZE, 0.6f, 6 } },
        { { IMAGE_INVERT, 0.9f, -1 }, { IMAGE_EQUALIZE, 0.6f, -1 } },
        { { IMAGE_EQUALIZE, 0.6f, -1 }, { IMAGE_ROTATE, 0.9f, 3 } },
        { { IMAGE_SHEAR_X, 0.9f, 4 }, { IMAGE_AUTOCONTRAST, 0.8f, -1 } },
        { { IMAGE_SHEAR_Y, 0.9f, 8 }, { IMAGE_INVERT, 0.4f, -1 } },
        { { IMAGE_SHEAR_Y, 0.9f, 5 }, { IMAGE_SOLARIZE, 0.2f, 6 } },
        { { IMAGE_INVERT, 0.9f, -1 }, { IMAGE_AUTOCONTRAST, 0.8f, -1 } },
        { { IMAGE_EQUALIZE, 0.6f, -1 }, { IMAGE_ROTATE, 0.9f, 3 } },
        { { IMAGE_SHEAR_X, 0.9f, 4 }, { IMAGE_SOLARIZE, 0.3f, 3 } },
        { { IMAGE_SHEAR_Y, 0.8f, 8 }, { IMAGE_INVERT, 0.7f, -1 } },
        { { IMAGE_EQUALIZE, 0.9f, -1 }, { IMAGE_TRANSLATE_Y, 0.6f, 6 } },
        { { IMAGE_INVERT, 0.9f, -1 }, { IMAGE_EQUALIZE, 0.6f, -1 } },
        { { IMAGE_CONTRAST, 0.3f, 3 }, { IMAGE_ROTATE, 0.8f, 4 } },
        { { IMAGE_INVERT, 0.8f, -1 }, { IMAGE_TRANSLATE_Y, 0.0f, 2 } },
        { { IMAGE_SHEAR_Y, 0.7f, 6 }, { IMAGE_SOLARIZE, 0.4f, 8 } },
        { { IMAGE_INVERT, 0.6f, -1 }, { IMAGE_ROTATE, 0.8f, 4 } },
        { { IMAGE_SHEAR_Y, 0.3f, 7 }, { IMAGE_TRANSLATE_X, 0.9f, 3 } },
        { { IMAGE_SHEAR_X, 0.1f, 6 }, { IMAGE_INVERT, 0.6f, -1 } },
        { { IMAGE_SOLARIZE, 0.7f, 2 }, { IMAGE_TRANSLATE_Y, 0.6f, 7 } },
        { { IMAGE_SHEAR_Y, 0.8f, 4 }, { IMAGE_INVERT, 0.8f, -1 } },
        { { IMAGE_SHEAR_X, 0.7f, 9 }, { IMAGE_TRANSLATE_Y, 0.8f, 3 } },
        { { IMAGE_SHEAR_Y, 0.8f, 5 }, { IMAGE_AUTOCONTRAST, 0.7f, -1 } },
        { { IMAGE_SHEAR_X, 0.7f, 2 }, { IMAGE_INVERT, 0.1f, -1 } },
    },
};

const SubPolicyStep *policy_sub_policy(AutoAugmentTable table, int index, int step)
{
    return &sub_policies[table][index][step];
}

/* torch.linspace(first, last, count)[i] in float32: from whichever end is nearer, rounded once
 * (torch's kernel has fused multiply-add). */
static double linspace(double first, double last, int count, int i)
{
    float from = (float)first, to = (float)last, step = (to - from) / (float)(count - 1);
    return (double)(i < count / 2 ? fmaf(step, (float)i, from)
                                  : fmaf(-step, (float)(count - 1 - i), to));
}

/* Bits taken away, up to most at the last bin. */
static double posterize_bits(double kept, double most, int bins, int bin)
{
    return kept - (double)rintf((float)bin / (float)((bins - 1) / most));
}

static double move_limit(AutoPolicy policy, int side)
{
    if (policy == POLICY_TRIVIALAUGMENT) return 32.0;
    return policy == POLICY_AUGMIX ? side / 3.0 : 150.0 / 331.0 * side;
}

/* Magnitudes at the last bin, and those of TrivialAugment; 0: the op has none. */
static const double limits[IMAGE_OP_COUNT][2] = {
    [IMAGE_SHEAR_X] = { 0.3, 0.99 },   [IMAGE_SHEAR_Y] = { 0.3, 0.99 },
    [IMAGE_ROTATE] = { 30, 135 },      [IMAGE_BRIGHTNESS] = { 0.9, 0.99 },
    [IMAGE_COLOR] = { 0.9, 0.99 },     [IMAGE_CONTRAST] = { 0.9, 0.99 },
    [IMAGE_SHARPNESS] = { 0.9, 0.99 }, [IMAGE_POSTERIZE] = { 4, 6 }, /* bits taken away */
    [IMAGE_SOLARIZE] = { 255, 255 },                                 /* at the first bin */
};

bool policy_magnitude(AutoPolicy policy, ImageOpKind kind, int bin, int bins, int width, int height,
                      double *out)
{
    double last = limits[kind][policy == POLICY_TRIVIALAUGMENT];
    *out = 0;
    if (kind == IMAGE_TRANSLATE_X) last = move_limit(policy, width);
    if (kind == IMAGE_TRANSLATE_Y) last = move_limit(policy, height);
    if (last == 0) return false;
    if (kind == IMAGE_SOLARIZE) *out = linspace(last, 0.0, bins, bin);
    else if (kind == IMAGE_POSTERIZE)
        *out = posterize_bits(policy == POLICY_AUGMIX ? 4 : 8, last, bins, bin);
    else *out = linspace(0.0, last, bins, bin);
    return true;
}

/* ---- drawing ---- */

/* What the op is given for a magnitude with its sign. */
static ImageOp op_with(ImageOpKind kind, double magnitude)
{
    bool factor = kind == IMAGE_BRIGHTNESS || kind == IMAGE_COLOR || kind == IMAGE_CONTRAST ||
                  kind == IMAGE_SHARPNESS;
    return (ImageOp){ kind, factor ? 1.0 + magnitude : magnitude };
}

static double drawn_sign(ImageOpKind kind, Rng *rng)
{
    return image_op_mirrors(kind) && rng_below(rng, 2) == 1 ? -1.0 : 1.0;
}

static ImageOp draw_randaugment(const PolicyOptions *o, int width, int height, Rng *rng)
{
    double magnitude = 0;
    ImageOpKind kind = rand_ops[rng_below(rng, RAND_OPS)];
    policy_magnitude(POLICY_RANDAUGMENT, kind, o->magnitude, o->bins, width, height, &magnitude);
    return op_with(kind, drawn_sign(kind, rng) * magnitude);
}

/* Index, bin and sign, as TrivialAugment and the ops of AugMix are drawn. */
static ImageOp draw_any(AutoPolicy policy, const ImageOpKind *ops, uint64_t count, int bins,
                        uint64_t drawn_bins, int width, int height, Rng *rng)
{
    double magnitude = 0;
    ImageOpKind kind = ops[rng_below(rng, count)];
    if (policy_magnitude(policy, kind, 0, bins, width, height, &magnitude)) {
        int bin = (int)rng_below(rng, drawn_bins);
        policy_magnitude(policy, kind, bin, bins, width, height, &magnitude);
    }
    return op_with(kind, drawn_sign(kind, rng) * magnitude);
}

static void draw_autoaugment(AutoAugmentTable table, int width, int height, Rng *rng, PolicyPlan *r)
{
    int index = (int)rng_below(rng, AUTOAUGMENT_SUB_POLICIES);
    double chance[2], sign[2];
    for (int i = 0; i < 2; i++) chance[i] = rng_uniform(rng);
    for (int i = 0; i < 2; i++) sign[i] = rng_below(rng, 2) == 0 ? -1.0 : 1.0;
    for (int i = 0; i < 2; i++) {
        const SubPolicyStep *s = &sub_policies[table][index][i];
        double magnitude = 0;
        if (!(chance[i] < (double)s->probability)) continue;
        policy_magnitude(POLICY_AUTOAUGMENT, s->kind, s->bin, AUTOAUGMENT_BINS, width, height,
                         &magnitude);
        if (image_op_mirrors(s->kind)) magnitude *= sign[i];
        r->ops[r->op_count++] = op_with(s->kind, magnitude);
    }
}

static void draw_augmix(const PolicyOptions *o, int width, int height, Rng *rng, PolicyPlan *r)
{
    double parts[2], weights[AUGMIX_WIDTH];
    int next = r->op_count;
    rng_dirichlet(rng, 1.0, 2, parts);
    rng_dirichlet(rng, 1.0, AUGMIX_WIDTH, weights);
    r->own_weight = (float)parts[0];
    r->chain_count = AUGMIX_WIDTH;
    for (int i = 0; i < AUGMIX_WIDTH; i++) {
        int depth = 1 + (int)rng_below(rng, AUGMIX_DEPTHS);
        r->chains[i] = (PolicyChain){ next, depth, (float)weights[i] * (float)parts[1] };
        for (int k = 0; k < depth; k++)
            r->ops[next++] = draw_any(POLICY_AUGMIX, augmix_ops, AUGMIX_OPS, AUGMIX_BINS,
                                      (uint64_t)o->severity, width, height, rng);
    }
}

static void draw_jitter(const double *strength, Rng *rng, PolicyPlan *r)
{
    static const ImageOpKind kinds[4] = { IMAGE_BRIGHTNESS, IMAGE_CONTRAST, IMAGE_COLOR,
                                          IMAGE_HUE };
    int order[4] = { 0, 1, 2, 3 };
    double value[4];
    for (int i = 0; i < 3; i++) {
        int k = i + (int)rng_below(rng, (uint64_t)(4 - i)), kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
    for (int i = 0; i < 4; i++) {
        bool hue = kinds[i] == IMAGE_HUE;
        double low = hue               ? -strength[i]
                     : strength[i] < 1 ? 1 - strength[i]
                                       : 0,
               high = strength[i] + !hue;
        if (strength[i] > 0) value[i] = low + (high - low) * rng_uniform(rng);
    }
    for (int i = 0; i < 4; i++) {
        int k = order[i];
        if (strength[k] > 0) r->ops[r->op_count++] = (ImageOp){ kinds[k], value[k] };
    }
}

static Rng rng_of(const AugmentDraw *draw, RngPurpose purpose)
{
    return rng_at_repeat(draw->seed, purpose, draw->repeat, draw->epoch, (uint32_t)draw->sample);
}

void policy_draw(const PolicyOptions *o, int width, int height, const AugmentDraw *draw,
                 PolicyPlan *out)
{
    Rng jitter = rng_of(draw, RNG_JITTER), rng = rng_of(draw, RNG_POLICY);
    out->op_count = out->chain_count = 0;
    out->cubic = 0;
    draw_jitter(o->jitter, &jitter, out);
    switch (o->policy) {
    case POLICY_RANDAUGMENT:
        ASSERT(o->ops <= POLICY_MAX_OPS && o->magnitude < o->bins);
        for (int i = 0; i < o->ops; i++)
            out->ops[out->op_count++] = draw_randaugment(o, width, height, &rng);
        break;
    case POLICY_AUTOAUGMENT:
        draw_autoaugment(o->table, width, height, &rng, out);
        break;
    case POLICY_TRIVIALAUGMENT:
        out->ops[out->op_count++] = draw_any(o->policy, rand_ops, RAND_OPS, o->bins,
                                             (uint64_t)o->bins, width, height, &rng);
        break;
    case POLICY_AUGMIX:
        draw_augmix(o, width, height, &rng, out);
        break;
    case POLICY_RANDAUGMENT_TIMM:
        policy_timm_draw(o, width, height, &rng, out);
        break;
    case POLICY_NONE:
    case POLICY_COUNT:
        break;
    }
    for (int i = 0; o->sampling == SAMPLING_RANDOM && i < POLICY_PLAN_MAX_OPS; i++)
        out->cubic |= (uint32_t)rng_below(&rng, 2) << i;
}

EraseBox policy_draw_erase(double probability, int width, int height, const AugmentDraw *draw)
{
    const double area_low = 0.02, area_high = 0.33, log_low = log(0.3), log_high = log(3.3);
    Rng rng = rng_of(draw, RNG_ERASE);
    if (!(rng_uniform(&rng) < probability)) return (EraseBox){ 0 };
    for (int i = 0; i < ERASE_TRIES; i++) {
        double area =
            (double)width * height * (area_low + (area_high - area_low) * rng_uniform(&rng));
        double ratio = exp(log_low + (log_high - log_low) * rng_uniform(&rng));
        double h = rint(sqrt(area * ratio)), w = rint(sqrt(area / ratio));
        if (!(h < height && w < width)) continue;
        EraseBox box = { .height = (int32_t)h, .width = (int32_t)w };
        box.top = (int32_t)rng_below(&rng, (uint64_t)(height - box.height + 1));
        box.left = (int32_t)rng_below(&rng, (uint64_t)(width - box.width + 1));
        for (int k = 0; k < 2; k++) box.key[k] = rng_u32(&rng);
        return box;
    }
    return (EraseBox){ 0 };
}

/* ---- applying ---- */

IMAGE_OP_CLONES static void add_weighted(float *restrict sum, const uint8_t *restrict v,
                                         size_t bytes, float weight, bool first)
{
    if (first)
        for (size_t i = 0; i < bytes; i++) sum[i] = weight * (float)v[i];
    else
        for (size_t i = 0; i < bytes; i++) sum[i] += weight * (float)v[i];
}

IMAGE_OP_CLONES static void truncate_to_bytes(const float *restrict sum, size_t bytes,
                                              uint8_t *restrict out)
{
    for (size_t i = 0; i < bytes; i++) {
        float v = sum[i] > 255.0f ? 255.0f : sum[i];
        out[i] = (uint8_t)(int32_t)v;
    }
}

static Status apply_op(const PolicyPlan *r, int op, const ImageOpStyle *style, const Picture *p,
                       PolicyScratch *scratch)
{
    ImageOpStyle own = *style;
    own.cubic |= (r->cubic >> op & 1) != 0;
    return image_op_apply(&r->ops[op], &own, p, &scratch->op);
}

static Status mix_chains(const PolicyPlan *r, const ImageOpStyle *style, const Picture *p,
                         PolicyScratch *scratch)
{
    size_t bytes = picture_bytes(p);
    TRY(byte_buf_reserve(&scratch->chain, bytes));
    TRY(byte_buf_reserve(&scratch->sum, bytes * sizeof(float)));
    float *sum = (float *)(void *)scratch->sum.data;
    Picture chain = *p;
    chain.pixels = scratch->chain.data;
    add_weighted(sum, p->pixels, bytes, r->own_weight, true);
    for (int i = 0; i < r->chain_count; i++) {
        const PolicyChain *c = &r->chains[i];
        memcpy(chain.pixels, p->pixels, bytes);
        for (int k = 0; k < c->count; k++) TRY(apply_op(r, c->first + k, style, &chain, scratch));
        add_weighted(sum, chain.pixels, bytes, c->weight, false);
    }
    truncate_to_bytes(sum, bytes, p->pixels);
    return OK;
}

Status policy_apply(const PolicyPlan *r, const ImageOpStyle *style, const Picture *p,
                    PolicyScratch *scratch)
{
    for (int i = 0; i < r->op_count; i++) TRY(apply_op(r, i, style, p, scratch));
    return r->chain_count > 0 ? mix_chains(r, style, p, scratch) : OK;
}

ImageOpStyle policy_style(const PolicyOptions *o)
{
    return (ImageOpStyle){ .nearest = o->sampling == SAMPLING_NEAREST,
                           .cubic = o->sampling == SAMPLING_BICUBIC,
                           .fill = { o->fill[0], o->fill[1], o->fill[2] } };
}

Status policy_augment(const PolicyOptions *o, const AugmentDraw *draw, const Picture *p,
                      PolicyScratch *scratch)
{
    PolicyPlan policy_plan;
    const ImageOpStyle style = policy_style(o);
    policy_draw(o, p->width, p->height, draw, &policy_plan);
    return policy_apply(&policy_plan, &style, p, scratch);
}

void policy_scratch_free(PolicyScratch *scratch)
{
    image_op_scratch_free(&scratch->op);
    byte_buf_free(&scratch->chain);
    byte_buf_free(&scratch->sum);
}
