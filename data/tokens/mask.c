/* mask.c - see mask.h. The order of draws at an address is part of what makes runs repeatable: the
 * count, the places (Floyd's way to draw a set: place j of the last `count`, or one drawn before it
 * that is still free), then for each place in increasing order what is seen there. */
#include "data/tokens/mask.h"
#include "base/rng.h"
#include "base/status.h"
#include "data/tokens/dictionary.h"

int64_t mask_most(double rate, int64_t tokens)
{
    const int64_t most = (int64_t)(rate * (double)tokens) + 1;
    return most < tokens ? most : tokens;
}

static Rng begin(const MaskDraw *d)
{
    return rng_at(d->seed, d->training ? RNG_MASK : RNG_MASK_EVAL, d->training ? d->epoch : 0,
                  d->sample);
}

static int64_t draw_count(double rate, int64_t tokens, Rng *rng)
{
    const int64_t count = (int64_t)(rate * (double)tokens + rng_uniform(rng));
    return count < tokens ? count : tokens;
}

int64_t mask_count(double rate, int64_t tokens, const MaskDraw *draw)
{
    Rng rng = begin(draw);
    return draw_count(rate, tokens, &rng);
}

/* What is seen in the place of a word. */
static int32_t draw_seen(const TokenOptions *o, int words, int mask_id, int32_t word, Rng *rng)
{
    const double u = rng_uniform(rng);
    if (u < o->mask_keep) return word;
    if (u >= o->mask_keep + o->mask_random) return mask_id;
    return (int32_t)(TOKEN_WORDS + rng_below(rng, (uint64_t)(words - TOKEN_WORDS)));
}

int64_t mask_apply(const TokenOptions *o, int words, int mask_id, const MaskDraw *draw,
                   int64_t tokens, int32_t *ids, int32_t *labels)
{
    Rng rng = begin(draw);
    const int64_t count = draw_count(o->mask, tokens, &rng);
    for (int64_t i = 0; i < tokens; i++) labels[i] = -1;
    for (int64_t j = tokens - count; j < tokens; j++) {
        int64_t at = (int64_t)rng_below(&rng, (uint64_t)j + 1);
        if (labels[at] >= 0) at = j;
        labels[at] = ids[at];
    }
    for (int64_t i = 0; i < tokens; i++)
        if (labels[i] >= 0) ids[i] = draw_seen(o, words, mask_id, ids[i], &rng);
    return count;
}
