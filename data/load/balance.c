/* balance.c - see balance.h. */
#include "data/load/balance.h"
#include "base/mem.h"
#include "base/rng.h"

struct Balance {
    int classes;    /* that have samples */
    int64_t *start; /* [classes + 1], in ids */
    int64_t *ids;   /* of all samples, class by class */
};

/* Counting sort of the samples by label. */
static Status sort(Balance *b, const Dataset *d)
{
    int64_t *next = mem_alloc((size_t)dataset_classes(d) * sizeof *next), at = 0;
    if (!next) return ERR_MEMORY;
    for (int label = 0; label < dataset_classes(d); label++) {
        const int64_t images = dataset_class_images(d, label);
        next[label] = at;
        if (images > 0) b->start[b->classes++] = at;
        at += images;
    }
    b->start[b->classes] = at;
    for (int64_t id = 0; id < dataset_images(d); id++) b->ids[next[dataset_label(d, id)]++] = id;
    mem_free(next);
    return OK;
}

Status balance_create(Balance **out, const Dataset *d)
{
    *out = NULL;
    Balance *b = mem_calloc(1, sizeof *b);
    if (!b) return ERR_MEMORY;
    b->start = mem_alloc(((size_t)dataset_classes(d) + 1) * sizeof *b->start);
    b->ids = mem_alloc((size_t)dataset_images(d) * sizeof *b->ids);
    Status status = b->start && b->ids ? sort(b, d) : ERR_MEMORY;
    if (status == OK) *out = b;
    else balance_destroy(b);
    return status;
}

void balance_destroy(Balance *b)
{
    if (!b) return;
    mem_free(b->start);
    mem_free(b->ids);
    mem_free(b);
}

int64_t balance_id(const Balance *b, uint64_t seed, int64_t position)
{
    Rng rng = rng_at(seed, RNG_BALANCE, (uint32_t)((uint64_t)position >> 32), (uint32_t)position);
    const int64_t c = (int64_t)rng_below(&rng, (uint64_t)b->classes), first = b->start[c];
    return b->ids[first + (int64_t)rng_below(&rng, (uint64_t)(b->start[c + 1] - first))];
}
