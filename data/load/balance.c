/* balance.c - see balance.h. */
#include "data/load/balance.h"
#include "base/both.h"
#include "base/mem.h"
#include "base/rng.h"

struct Balance {
    int classes;    /* that have samples */
    int64_t *start; /* [classes + 1], in ids */
    int64_t *ids;   /* of all samples, class by class */
};

/* Under each of its labels. */
static void add_labels(const Dataset *d, int64_t id, int64_t *ids, int64_t *next)
{
    const uint8_t *row = dataset_labels(d, id);
    const int classes = dataset_classes(d);
    bool any = false;
    for (int c = 0; row && c < classes; c++)
        if (both_bit(row, c)) {
            ids[next[c]++] = id;
            any = true;
        }
    if (!any) ids[next[row ? classes : dataset_label(d, id)]++] = id;
}

static int64_t count_unlabelled(const Dataset *d)
{
    int64_t count = 0;
    for (int64_t id = 0; dataset_labels(d, 0) && id < dataset_images(d); id++) {
        const uint8_t *row = dataset_labels(d, id);
        int c = 0;
        while (c < dataset_classes(d) && !both_bit(row, c)) c++;
        count += c == dataset_classes(d);
    }
    return count;
}

/* Counting sort of the samples by label, those without one behind the others. */
static Status sort(Balance *b, const Dataset *d)
{
    const int classes = dataset_classes(d);
    int64_t *next FREED = mem_alloc(((size_t)classes + 1) * sizeof *next), at = 0;
    if (!next) return ERR_MEMORY;
    for (int label = 0; label <= classes; label++) {
        const int64_t images =
            label < classes ? dataset_class_images(d, label) : count_unlabelled(d);
        next[label] = at;
        if (images > 0) b->start[b->classes++] = at;
        at += images;
    }
    b->start[b->classes] = at;
    if (!(b->ids = mem_alloc((size_t)at * sizeof *b->ids))) return ERR_MEMORY;
    for (int64_t id = 0; id < dataset_images(d); id++) add_labels(d, id, b->ids, next);
    return OK;
}

Status balance_create(Balance **out, const Dataset *d)
{
    *out = NULL;
    Balance *b = mem_calloc(1, sizeof *b);
    if (!b) return ERR_MEMORY;
    b->start = mem_alloc(((size_t)dataset_classes(d) + 2) * sizeof *b->start);
    Status status = b->start ? sort(b, d) : ERR_MEMORY;
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
