/* canvas.c - see canvas.h. */
#include "trainer/engine/session/canvas.h"
#include "base/mem.h"
#include <stdlib.h>

enum { LOOKED_AT = 1024 /* micro-batches */, STEP = 16 /* places are a multiple of it */ };

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Tokens of the first micro-batches of the shuffled set, sorted. Returns how many; 0 also where
 * there is no memory for them. */
static int look(const Dataset *d, int64_t batch, int64_t tokens[LOOKED_AT])
{
    const int64_t all = dataset_images(d) / batch;
    const int count = (int)(all < LOOKED_AT ? all : LOOKED_AT);
    for (int i = 0; i < count; i++) tokens[i] = sequences_count(d, 0, i * batch, batch).tokens;
    qsort(tokens, (size_t)count, sizeof *tokens, ascending);
    return count;
}

int canvas_choose(const Dataset *d, int64_t batch, int64_t tokens, int64_t places[CANVAS_MAX])
{
    static const double shares[CANVAS_MAX - 1] = { 0.1, 0.28, 0.46, 0.64, 0.8, 0.92, 0.99 };
    const int64_t full = batch * tokens;
    int64_t *sums FREED = mem_alloc(LOOKED_AT * sizeof *sums);
    const int looked = sums ? look(d, batch, sums) : 0;
    int count = 0;
    for (int i = 0; i < CANVAS_MAX - 1 && looked > 0; i++) {
        const int64_t own = sums[(int)(shares[i] * looked)];
        const int64_t rounded = (own + STEP - 1) / STEP * STEP;
        const bool other = count == 0 || rounded > places[count - 1];
        /* a thirtieth is not worth a program */
        if (other && rounded <= full - full / 30) places[count++] = rounded;
    }
    places[count++] = full;
    return count;
}
