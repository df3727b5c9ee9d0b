/* index_split.c - see index_split.h. */
#include "data/index/index_split.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/philox.h"
#include "data/index/index_select.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Drawn { /* a sample of a class, and where the hash puts it */
    uint64_t hash;
    int64_t id;
} Drawn;

static int by_hash(const void *pa, const void *pb)
{
    const Drawn *a = pa, *b = pb;
    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static uint64_t hash_of(const char *path, uint64_t seed)
{
    const size_t bytes = strlen(path);
    uint32_t counter[4] = { crc32c_update(0, path, bytes), (uint32_t)bytes, 0, 0 }, words[4];
    philox_4x32(seed, counter, words);
    return (uint64_t)words[1] << 32 | words[0];
}

static int64_t count_of(int64_t images, double share)
{
    const int64_t n = llround((double)images * share);
    if (images < 2) return 0;
    return n < 1 ? 1 : n > images - 1 ? images - 1 : n;
}

/* The place nearest to cut where the path changes, as seen by the hash: a list may have an image
 * more than once, which must not stand on both sides. */
static int64_t between(const Drawn *drawn, int64_t n, int64_t cut)
{
    int64_t up = cut, down = cut;
    while (up > 0 && up < n && drawn[up].hash == drawn[up - 1].hash) up++;
    while (down > 0 && down < n && drawn[down].hash == drawn[down - 1].hash) down--;
    return up < n ? up : down;
}

/* Bytes of the folder in which all samples lie. */
static size_t shared_folder(const Index *x)
{
    const char *first = index_path(x, 0), *slash = strrchr(first, '/');
    size_t n = slash ? (size_t)(slash - first) + 1 : 0;
    for (int64_t i = 1; n > 0 && i < x->images; i++)
        while (n > 0 && strncmp(index_path(x, i), first, n) != 0)
            for (n--; n > 0 && first[n - 1] != '/';) n--;
    return n;
}

/* taken[i]: whether sample i is held out. */
static Status draw(bool *taken, const Index *x, double share, uint64_t seed)
{
    const size_t shared = shared_folder(x);
    int64_t largest = 0;
    for (int c = 0; c < x->classes; c++)
        if (index_class_images(x, c) > largest) largest = index_class_images(x, c);
    Drawn *drawn FREED = mem_alloc((size_t)largest * sizeof *drawn);
    if (!drawn) return ERR_MEMORY;
    for (int c = 0; c < x->classes; c++) {
        const int64_t first = (int64_t)x->class_start[c], n = index_class_images(x, c);
        for (int64_t i = 0; i < n; i++)
            drawn[i] = (Drawn){ hash_of(index_path(x, first + i) + shared, seed), first + i };
        qsort(drawn, (size_t)n, sizeof *drawn, by_hash);
        const int64_t cut = between(drawn, n, count_of(n, share));
        for (int64_t i = 0; i < cut; i++) taken[drawn[i].id] = true;
    }
    return OK;
}

static Status take_side(Index **out, const Index *x, const bool *taken, bool held_out)
{
    const size_t starts = (size_t)x->classes + 1;
    int64_t *ids FREED = mem_alloc((size_t)x->images * sizeof *ids + starts * sizeof(uint64_t));
    if (!ids) return ERR_MEMORY;
    uint64_t *start = (uint64_t *)(void *)(ids + x->images), n = 0;
    int64_t i = 0;
    for (int c = 0; c <= x->classes; c++) {
        for (; i < (int64_t)x->class_start[c]; i++)
            if (taken[i] == held_out) ids[n++] = i;
        start[c] = n;
    }
    const IndexChoice choice = { .ids = ids, .class_start = start, .classes = x->classes };
    return n ? index_select(out, x, &choice)
             : fail(ERR_DATA, "%s: no class has two images, so none can be held out",
                    index_root(x));
}

Status index_split(Index **out, const Index *whole, double share, uint64_t seed, bool held_out)
{
    *out = NULL;
    ASSERT(share > 0 && share < 1);
    bool *taken FREED = mem_calloc((size_t)whole->images, sizeof *taken);
    if (!taken) return ERR_MEMORY;
    TRY(draw(taken, whole, share, seed));
    return take_side(out, whole, taken, held_out);
}
