/* canvas.c - see canvas.h. */
#include "trainer/engine/session/canvas.h"
#include <math.h>

#define LOOKED_AT 100000 /* sequences, spread evenly */
#define STEP      16     /* places are a multiple of it */

/* Mean and variance of the sequences' tokens. */
static void measure(const Dataset *d, double *mean, double *variance)
{
    const int64_t all = dataset_images(d), count = all < LOOKED_AT ? all : LOOKED_AT;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        const double tokens = (double)sequences_tokens(d, i * all / count, NULL);
        sum += tokens;
        squares += tokens * tokens;
    }
    *mean = sum / (double)count;
    *variance = fmax(0, squares / (double)count - *mean * *mean);
}

int canvas_choose(const Dataset *d, int64_t batch, int64_t tokens, int64_t places[CANVAS_MAX])
{
    /* in standard deviations from the mean of a micro-batch's tokens */
    static const double steps[CANVAS_MAX - 1] = { -1.2, -0.6, -0.2, 0.2, 0.6, 1.1, 1.8 };
    const int64_t full = batch * tokens;
    double mean, variance;
    int count = 0;
    measure(d, &mean, &variance);
    for (int i = 0; i < CANVAS_MAX - 1; i++) {
        const double wanted = (double)batch * mean + steps[i] * sqrt((double)batch * variance);
        const int64_t rounded = (int64_t)ceil(fmax(wanted, 1) / STEP) * STEP;
        const bool other = count == 0 || rounded > places[count - 1];
        /* a thirtieth is not worth a program */
        if (other && rounded <= full - full / 30) places[count++] = rounded;
    }
    places[count++] = full;
    return count;
}
