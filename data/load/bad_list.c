/* bad_list.c - a bit per sample behind a mutex; taken only when something is wrong with a
 * sample. */
#include "data/load/bad_list.h"
#include "base/mem.h"
#include <pthread.h>

#define ALWAYS_ALLOWED 10

struct BadList {
    pthread_mutex_t lock;
    uint64_t *seen; /* one bit per sample */
    int64_t images, count, limit;
};

Status bad_list_create(BadList **out, int64_t images, double max_fraction)
{
    *out = NULL;
    BadList *list = mem_calloc(1, sizeof *list);
    if (!list) return ERR_MEMORY;
    list->seen = mem_calloc((size_t)(images / 64 + 1), sizeof *list->seen);
    if (!list->seen) {
        mem_free(list);
        return ERR_MEMORY;
    }
    pthread_mutex_init(&list->lock, NULL);
    int64_t fraction = (int64_t)(max_fraction * (double)images);
    list->images = images;
    list->limit = max_fraction < 0 ? images : fraction > ALWAYS_ALLOWED ? fraction : ALWAYS_ALLOWED;
    *out = list;
    return OK;
}

void bad_list_destroy(BadList *list)
{
    if (!list) return;
    pthread_mutex_destroy(&list->lock);
    mem_free(list->seen);
    mem_free(list);
}

Status bad_list_add(BadList *list, int64_t id, bool *first)
{
    uint64_t bit = (uint64_t)1 << (id % 64);
    pthread_mutex_lock(&list->lock);
    *first = !(list->seen[id / 64] & bit);
    list->seen[id / 64] |= bit;
    list->count += *first;
    int64_t count = list->count;
    pthread_mutex_unlock(&list->lock);
    if (count <= list->limit) return OK;
    return fail(ERR_DATA,
                "%lld of %lld samples are bad, more than the %lld allowed (data.max_bad_fraction)",
                (long long)count, (long long)list->images, (long long)list->limit);
}

int64_t bad_list_count(BadList *list)
{
    pthread_mutex_lock(&list->lock);
    int64_t count = list->count;
    pthread_mutex_unlock(&list->lock);
    return count;
}
