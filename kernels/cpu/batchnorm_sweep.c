/* batchnorm_sweep.c - two passes over channel blocks, shared out over the team; see batchnorm.h for
 * what it promises.
 *
 * Every thread gets the same number of whole blocks, and goes through them in groups: blocks of one
 * image are neighbours in memory, so small planes are taken several at a time, which gives the
 * prefetcher runs worth following. The blocks that are left over when the number of threads does
 * not divide theirs (all of them, where channels are few) are split by image instead. */
#include "kernels/cpu/batchnorm.h"
#include <omp.h>
#include <string.h>

/* of one tensor; two or three of them fit in a second-level cache */
enum { MAX_GROUP = 16, GROUP_BYTES = 128 * 1024 };

/* The remainder of dealing blocks out: below the size of the team, also of a smaller one. */
static int64_t most_shared_blocks(const CpuView *v, int threads)
{
    int64_t most = threads - 1;
    return most < v->cb ? most : v->cb;
}

size_t batchnorm_sweep_workspace(const CpuView *v, int threads)
{
    return (size_t)most_shared_blocks(v, threads) *
           (sizeof(BnLanes) + (size_t)v->n * sizeof(BnSums));
}

static void add_partial(BnSums *total, const BnSums *partial)
{
    for (int l = 0; l < CPU_LANES; l++) {
        total->first[l] += partial->first[l];
        total->second[l] += partial->second[l];
    }
}

/* Blocks [first, first + count) by one thread. */
static void sweep_group(const BnSweep *s, int64_t first, int64_t count)
{
    BnLanes lanes[MAX_GROUP];
    BnSums totals[MAX_GROUP], partial;
    memset(totals, 0, sizeof totals);
    for (int64_t j = 0; j < count; j++) s->begin(s->ctx, first + j, &lanes[j]);
    for (int64_t n = 0; n < s->view.n; n++)
        for (int64_t j = 0; j < count; j++) {
            s->sum(s->ctx, n * s->view.cb + first + j, &lanes[j], &partial);
            add_partial(&totals[j], &partial);
        }
    for (int64_t j = 0; j < count; j++) s->finish(s->ctx, first + j, &totals[j], &lanes[j]);
    for (int64_t n = s->view.n - 1; n >= 0; n--)
        for (int64_t j = 0; j < count; j++) s->apply(s->ctx, n * s->view.cb + first + j, &lanes[j]);
}

static int64_t group_blocks(const CpuView *v)
{
    int64_t block_bytes = v->n * v->hw * v->b * (int64_t)sizeof(float),
            count = GROUP_BYTES / block_bytes;
    return count < 1 ? 1 : count > MAX_GROUP ? MAX_GROUP : count;
}

/* Called by the whole team: the last `count` blocks, image by image. */
static void sweep_shared(const BnSweep *s, int64_t count, void *workspace)
{
    BnLanes *lanes = workspace;                           /* [count], then the partials */
    BnSums *partials = (BnSums *)(void *)(lanes + count); /* [count][n] */
    int64_t first = s->view.cb - count, images = s->view.n;
#pragma omp for schedule(static)
    for (int64_t j = 0; j < count; j++) s->begin(s->ctx, first + j, &lanes[j]);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < count * images; i++) {
        int64_t j = i / images, n = i % images;
        s->sum(s->ctx, n * s->view.cb + first + j, &lanes[j], &partials[i]);
    }
#pragma omp for schedule(static)
    for (int64_t j = 0; j < count; j++) {
        BnSums total = { { 0 }, { 0 } };
        for (int64_t n = 0; n < images; n++) add_partial(&total, &partials[j * images + n]);
        s->finish(s->ctx, first + j, &total, &lanes[j]);
    }
#pragma omp for schedule(static)
    for (int64_t i = count * images - 1; i >= 0; i--) {
        int64_t j = i / images, n = i % images;
        s->apply(s->ctx, n * s->view.cb + first + j, &lanes[j]);
    }
}

void batchnorm_sweep(const BnSweep *s, void *workspace)
{
    int64_t group = group_blocks(&s->view);
#pragma omp parallel num_threads(s->threads)
    {
        int64_t team = omp_get_num_threads(), each = s->view.cb / team, shared = s->view.cb % team;
        int64_t first = each * omp_get_thread_num(), last = first + each;
        for (int64_t block = first; block < last; block += group)
            sweep_group(s, block, last - block < group ? last - block : group);
        if (shared > 0) sweep_shared(s, shared, workspace);
    }
}
