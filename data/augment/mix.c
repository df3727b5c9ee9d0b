/* mix.c - mixup (Zhang et al. 2017) and cutmix (Yun et al. 2019) as torchvision's references draw
 * them. The mixing is the input operation's. */
#include "data/augment/mix.h"
#include "base/rng.h"
#include <math.h>

static int clamp_to(int v, int most)
{
    return v < 0 ? 0 : v > most ? most : v;
}

/* A box of about 1 - lambda of the area, cut off at the border; lambda becomes what is left. */
static void draw_box(MixDraw *m, int width, int height, Rng *rng)
{
    int x = (int)rng_below(rng, (uint64_t)width), y = (int)rng_below(rng, (uint64_t)height);
    double half = 0.5 * sqrt(1.0 - m->lambda);
    int half_width = (int)(half * width), half_height = (int)(half * height);
    m->left = clamp_to(x - half_width, width);
    m->right = clamp_to(x + half_width, width);
    m->top = clamp_to(y - half_height, height);
    m->bottom = clamp_to(y + half_height, height);
    m->box = true;
    m->lambda =
        1.0 - (double)((m->right - m->left) * (m->bottom - m->top)) / ((double)width * height);
}

bool mix_is_over(const MixOptions *o, int64_t epoch)
{
    return o->off_epoch > 0 && epoch >= o->off_epoch;
}

static bool draw_cutmix(const MixOptions *o, Rng *rng)
{
    if (!(o->mixup > 0) || !(o->cutmix > 0)) return o->cutmix > 0;
    if (o->switch_prob == 0 || o->switch_prob == 0.5) return rng_below(rng, 2) == 1;
    return rng_uniform(rng) < o->switch_prob;
}

MixDraw mix_draw(const MixOptions *o, uint64_t seed, int64_t step, int64_t first, int width,
                 int height)
{
    MixDraw m = { .lambda = 1 };
    if (!(o->mixup > 0) && !(o->cutmix > 0)) return m;
    Rng rng = rng_at(seed, RNG_MIX, (uint32_t)step, (uint32_t)first);
    const bool cutmix = draw_cutmix(o, &rng);
    double alpha = cutmix ? o->cutmix : o->mixup;
    m.lambda = rng_beta(&rng, alpha, alpha);
    if (cutmix) draw_box(&m, width, height, &rng);
    if (o->prob > 0 && o->prob < 1 && !(rng_uniform(&rng) < o->prob))
        return (MixDraw){ .lambda = 1 };
    return m;
}
