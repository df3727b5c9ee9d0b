/* mix.h - which neighbours are mixed, and how; the mixing is the input operation's. */
#ifndef CONVOY_DATA_AUGMENT_MIX_H
#define CONVOY_DATA_AUGMENT_MIX_H
#include <stdbool.h>
#include <stdint.h>

/* Mixup and cutmix of a micro-batch, drawn once for all of it: image n is mixed with its neighbour
 * n - 1 (0 with the last). x = lambda x + (1 - lambda) x' everywhere (mixup), or x' inside the box
 * (cutmix); the target is lambda of one's own and 1 - lambda of the neighbour's. lambda 1: nothing
 * is mixed. */
typedef struct MixDraw {
    double lambda;
    bool box; /* cutmix */
    int top, left, bottom, right;
} MixDraw;
/* alphas of the Beta distributions; 0: off. With both on, one is chosen each time. The rest is
 * timm's: a share of the micro-batches is mixed, and none from an epoch on. */
typedef struct MixOptions {
    double mixup, cutmix;
    double prob;        /* that a micro-batch is mixed; 0: 1 */
    double switch_prob; /* of cutmix where both are on; 0: 0.5 */
    int64_t off_epoch;  /* 0: none */
} MixOptions;
/* The batches of a step whose first image is one of this epoch are beyond off_epoch. */
bool mix_is_over(const MixOptions *o, int64_t epoch);
/* Draws at address RNG_MIX (step, first): the kind where both are on (below 2: 1 is cutmix; with
 * another share than half: a uniform below it is), lambda, for cutmix the middle's column and row,
 * and with prob below 1 a uniform, which is below it where anything is mixed. first: index of the
 * micro-batch's first image in its global batch. Exposed for tests. */
MixDraw mix_draw(const MixOptions *o, uint64_t seed, int64_t step, int64_t first, int width,
                 int height);
#endif
