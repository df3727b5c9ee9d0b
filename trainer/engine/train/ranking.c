/* ranking.c - see ranking.h. Scores of a few classes at a time are gathered on all ranks, each of
 * which takes every world-th class, over all images. So results do not depend on the number of
 * ranks. */
#include "trainer/engine/train/ranking.h"
#include "base/both.h"
#include "base/mem.h"
#include <math.h>
#include <stdlib.h>

#define GATHERED_MAX ((int64_t)4 << 20) /* scores at a time, but for one class */

static int by_score(const void *pa, const void *pb)
{
    const RankedImage *a = pa, *b = pb;
    return (a->score < b->score) - (a->score > b->score);
}

double ranking_average_precision(RankedImage *images, int64_t count)
{
    int64_t all = 0, found = 0;
    double sum = 0;
    for (int64_t i = 0; i < count; i++) all += images[i].has;
    if (all == 0) return (double)NAN;
    qsort(images, (size_t)count, sizeof *images, by_score);
    for (int64_t i = 0; i < count;) {
        const int64_t before = found, first = i;
        for (; i < count && images[i].score == images[first].score; i++) found += images[i].has;
        sum += (double)(found - before) / (double)all * ((double)found / (double)i);
    }
    return sum;
}

typedef struct Gather {
    Comm *comm;
    const Dataset *d;
    const float *scores;
    int64_t classes, most, width; /* images of the largest share; classes at a time */
    float *blocks;                /* [world][width][most] */
    RankedImage *images;          /* of the set */
} Gather;

static int64_t first_of(const Gather *g, int rank)
{
    return dataset_images(g->d) * rank / g->comm->world;
}

static void fill_block(const Gather *g, int64_t from, int64_t to)
{
    const int rank = g->comm->rank;
    const int64_t share = first_of(g, rank + 1) - first_of(g, rank);
    float *block = g->blocks + rank * g->width * g->most;
    for (int64_t c = from; c < to; c++, block += g->most)
        for (int64_t i = 0; i < share; i++) block[i] = g->scores[i * g->classes + c];
}

static double rank_class(const Gather *g, int64_t column, int64_t c)
{
    const bool known = c < dataset_classes(g->d);
    for (int rank = 0; rank < g->comm->world; rank++) {
        const int64_t first = first_of(g, rank), end = first_of(g, rank + 1);
        const float *block = g->blocks + (rank * g->width + column) * g->most;
        for (int64_t i = first; i < end; i++)
            g->images[i] =
                (RankedImage){ block[i - first], known && both_bit(dataset_labels(g->d, i), c) };
    }
    return ranking_average_precision(g->images, dataset_images(g->d));
}

static void rank_classes(double *ap, const Gather *g)
{
    const int world = g->comm->world;
    for (int64_t from = 0; from < g->classes; from += g->width) {
        const int64_t to = from + g->width < g->classes ? from + g->width : g->classes;
        fill_block(g, from, to);
        comm_allgather(g->comm, g->blocks, (size_t)(g->width * g->most) * sizeof *g->blocks,
                       "evaluated scores");
        for (int64_t c = from; c < to; c++)
            ap[c] = c % world == g->comm->rank ? rank_class(g, c - from, c) : 0;
        comm_beat(g->comm);
    }
    comm_allreduce(g->comm, ap, (size_t)g->classes, COMM_F64, COMM_SUM, "average precisions");
}

Status ranking_of_classes(double *ap, Comm *comm, const Dataset *d, const float *scores,
                          int64_t classes)
{
    const int64_t images = dataset_images(d), world = comm->world;
    Gather g = { .comm = comm,
                 .d = d,
                 .scores = scores,
                 .classes = classes,
                 .most = (images + world - 1) / world };
    const int64_t fit = GATHERED_MAX / (g.most * world);
    g.width = fit < 1 ? 1 : fit < classes ? fit : classes;
    g.blocks = mem_calloc((size_t)(world * g.width * g.most), sizeof *g.blocks);
    g.images = mem_calloc((size_t)images, sizeof *g.images);
    const Status status = comm_agree(comm, g.blocks && g.images ? OK : ERR_MEMORY);
    if (status == OK) rank_classes(ap, &g);
    mem_free(g.blocks);
    mem_free(g.images);
    return status;
}

double ranking_mean(const double *ap, int64_t classes, int64_t *count)
{
    double sum = 0;
    *count = 0;
    for (int64_t c = 0; c < classes; c++) {
        if (isnan(ap[c])) continue;
        sum += ap[c];
        ++*count;
    }
    return *count > 0 ? sum / (double)*count : (double)NAN;
}
