/* positions.c - see positions.h. Each axis is a matrix that makes its new places of the old. */
#include "models/positions.h"
#include "base/mem.h"
#include <math.h>
#include <string.h>

/* Keys 1981; a: the slope at 1. */
static double cubic(double x, double a)
{
    x = fabs(x);
    if (x >= 2) return 0;
    return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : a * (((x - 5) * x + 8) * x - 4);
}

/* Place i of `count`, of `have`: the four around it, of which those outside are the outermost. */
static void fill_between_corners(double *row, int64_t have, int64_t count, int64_t i)
{
    const double at = count > 1 ? (double)(i * (have - 1)) / (double)(count - 1) : 0;
    const int64_t first = (int64_t)at;
    for (int64_t k = first - 1; k <= first + 2; k++)
        row[k < 0 ? 0 : k < have ? k : have - 1] += cubic((double)k - at, -0.75);
}

/* All that it stretches over, of which those outside do not count. */
static void fill_between_edges(double *row, int64_t have, int64_t count, int64_t i)
{
    const double scale = (double)have / (double)count, stretch = scale > 1 ? scale : 1,
                 middle = scale * ((double)i + 0.5);
    double total = 0;
    for (int64_t k = 0; k < have; k++)
        total += row[k] = cubic(((double)k + 0.5 - middle) / stretch, -0.5);
    for (int64_t k = 0; k < have; k++) row[k] /= total;
}

/* [count,have]; NULL without memory. */
static double *axis(int64_t have, int64_t count, bool antialias)
{
    double *rows = mem_calloc((size_t)(have * count), sizeof *rows);
    for (int64_t i = 0; rows && i < count; i++)
        (antialias ? fill_between_edges : fill_between_corners)(rows + i * have, have, count, i);
    return rows;
}

/* to [channels] += factor from */
static void add_row(float *to, const float *from, double factor, int64_t channels)
{
    if (factor == 0) return;
    for (int64_t c = 0; c < channels; c++)
        to[c] = (float)((double)to[c] + factor * (double)from[c]);
}

int64_t positions_side(const PositionGrid *g, int64_t length)
{
    const int64_t patches = length - g->extra,
                  side = patches > 0 ? (int64_t)floor(sqrt((double)patches) + 0.5) : 0;
    return g->height > 0 && side * side == patches ? side : 0;
}

Status positions_resample(const PositionGrid *g, int64_t side, int64_t channels, bool antialias,
                          const float *from, float *to)
{
    const size_t row = (size_t)channels * sizeof *to;
    double *down = axis(side, g->height, antialias), *across = axis(side, g->width, antialias);
    float *wide = mem_calloc((size_t)(side * g->width), row); /* [side,width,channels] */
    const bool complete = down && across && wide;
    memcpy(to, from, (size_t)g->extra * row);
    from += g->extra * channels;
    to += g->extra * channels;
    memset(to, 0, (size_t)(g->height * g->width) * row);
    for (int64_t i = 0; complete && i < side * g->width * side; i++) {
        const int64_t y = i / side / g->width, x = i / side % g->width, k = i % side;
        add_row(wide + (y * g->width + x) * channels, from + (y * side + k) * channels,
                across[x * side + k], channels);
    }
    for (int64_t i = 0; complete && i < g->height * g->width * side; i++) {
        const int64_t y = i / side / g->width, x = i / side % g->width, k = i % side;
        add_row(to + (y * g->width + x) * channels, wide + (k * g->width + x) * channels,
                down[y * side + k], channels);
    }
    mem_free(down);
    mem_free(across);
    mem_free(wide);
    return complete ? OK : ERR_MEMORY;
}
