/* rows.h - how reductions over rows are spread over a device: host side of rows.cuh.
 *
 * A tensor is rows x vectors of 16 bytes. A block of ROWS_THREADS threads stands on `lanes`
 * neighbouring vectors (a power of two up to a warp) and ROWS_THREADS / lanes neighbouring rows.
 * `tiles` blocks side by side cover a row; `splits` blocks share the rows, each taking every
 * splits-th chunk, so that all of them move through memory as one front. Where a thread would get
 * more than ROWS_PER_THREAD rows, which is as many as are added up in f32, rows are cut into
 * `regions`, each with blocks of its own.
 *
 * The shape decides the order of sums: results are the same bits wherever sm_count is the same. */
#ifndef CONVOY_KERNELS_CUDA_ROWS_H
#define CONVOY_KERNELS_CUDA_ROWS_H
#include <stdbool.h>
#include <stdint.h>

enum { ROWS_THREADS = 256, ROWS_MAX_LANES = 32, ROWS_PER_THREAD = 256, ROWS_MIN_PER_THREAD = 4 };

typedef struct RowGrid {
    int rows, vectors;
    int lanes_log2, tiles, splits, regions;
    int region_rows; /* of every region but the last, which may have fewer */
} RowGrid;

/* blocks_per_sm: how many blocks of the kernel a multiprocessor holds. False if the tensor has more
 * vectors than 31 bits can number (16 GiB). */
bool row_grid_make(RowGrid *out, int64_t rows, int64_t vectors, int sm_count, int blocks_per_sm);

static inline int row_grid_partials(const RowGrid *g)
{
    return g->splits * g->regions;
}
#endif
