/* mask.h - which tokens of a sequence a network is to find again, and what it sees in their place,
 * as fairseq's MaskTokensDataset: of n tokens int(rate n + u), u uniform, all different; <s> and
 * </s> are tokens as any. A random word is any but the four special ones.
 *
 * Draws are addressed by (seed, epoch, sample), so how many tokens are masked is known to everybody
 * who knows lengths. */
#ifndef CONVOY_DATA_TOKENS_MASK_H
#define CONVOY_DATA_TOKENS_MASK_H
#include "data/options.h"

typedef struct MaskDraw {
    uint64_t seed;
    bool training; /* evaluation: the same in each epoch */
    uint32_t epoch, sample;
} MaskDraw;

int64_t mask_most(double rate, int64_t tokens); /* the most in a sequence of that length */
int64_t mask_count(double rate, int64_t tokens, const MaskDraw *draw);
/* Changes ids[tokens] to what is seen; labels[tokens]: the word that was there, -1 where nothing is
 * to be found. words, mask_id: the dictionary's. Returns mask_count(). */
int64_t mask_apply(const TokenOptions *o, int words, int mask_id, const MaskDraw *draw,
                   int64_t tokens, int32_t *ids, int32_t *labels);
#endif
