/* rows.c - the shape of a pass over rows: enough blocks to fill the device, not more than the rows
 * can feed. */
#include "kernels/cuda/rows.h"

enum { MAX_GRID_Y = 65535 }; /* and z */

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t between(int64_t low, int64_t v, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

bool row_grid_make(RowGrid *out, int64_t rows, int64_t vectors, int sm_count, int blocks_per_sm)
{
    if (vectors > INT32_MAX / ROWS_THREADS || rows > INT32_MAX / (2 * vectors)) return false;
    *out = (RowGrid){ .rows = (int)rows, .vectors = (int)vectors };
    while (1 << out->lanes_log2 < vectors && 1 << out->lanes_log2 < ROWS_MAX_LANES)
        out->lanes_log2++;
    int64_t depth = ROWS_THREADS >> out->lanes_log2; /* rows that a block stands on */
    out->tiles = (int)divide_up(vectors, 1 << out->lanes_log2);
    int64_t resident = (int64_t)sm_count * blocks_per_sm / out->tiles,
            feedable = divide_up(rows, depth * ROWS_MIN_PER_THREAD);
    out->splits = (int)between(1, resident < feedable ? resident : feedable, MAX_GRID_Y);
    out->regions =
        (int)between(1, divide_up(rows, out->splits * depth * ROWS_PER_THREAD), MAX_GRID_Y);
    out->region_rows = (int)divide_up(rows, out->regions);
    return true;
}
