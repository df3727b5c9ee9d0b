/* buckets.c - what others work out from a finished plan: gradient buckets and the order of
 * parameters.
 *
 * BUCKETS tile the GRAD slab in slab order, which is the order in which backward completes
 * gradients: bucket 0 is complete first. A bucket ends before the tensor that would take it over
 * its cap; a tensor larger than the cap is a bucket of its own. The caller decides the caps. */
#include "base/mem.h"
#include "models/graph/plan.h"
#include <stdlib.h>
#include <string.h>

typedef struct SlabItem {
    size_t offset, bytes;
    TensorId id;
} SlabItem;

static int compare_items(const void *a, const void *b)
{
    const SlabItem *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Tensors of one role sorted by offset; returns to caller (mem_free). */
static Status list_slab(const Plan *p, const Graph *g, TensorRole role, SlabItem **out, int *count)
{
    *count = 0;
    *out = mem_calloc((size_t)graph_tensor_count(g), sizeof **out);
    if (!*out) return ERR_MEMORY;
    for (TensorId id = 0; id < graph_tensor_count(g); id++)
        if (graph_tensor(g, id)->role == role)
            (*out)[(*count)++] = (SlabItem){ p->entries[id].offset, p->entries[id].bytes, id };
    qsort(*out, (size_t)*count, sizeof **out, compare_items);
    return OK;
}

Status plan_buckets(const Plan *p, const Graph *g, size_t cap_bytes, size_t first_cap_bytes,
                    Bucket **out, int *count)
{
    *out = NULL;
    *count = 0;
    SlabItem *grads = NULL;
    int grad_count = 0;
    TRY(list_slab(p, g, ROLE_GRAD, &grads, &grad_count));
    Bucket *buckets = mem_calloc((size_t)grad_count, sizeof *buckets);
    if (!buckets) {
        mem_free(grads);
        return ERR_MEMORY;
    }
    int n = 0;
    for (int i = 0; i < grad_count; i++) {
        /* The tensor's range reaches to the next tensor: alignment gaps belong to the bucket before
         * them. */
        const size_t end = i + 1 < grad_count ? grads[i + 1].offset : p->slab_bytes[SLAB_GRAD];
        /* n is that of the next bucket: up to 1 it is bucket 0 that is filled */
        const size_t cap = n <= 1 ? first_cap_bytes : cap_bytes;
        if (n == 0 || end - buckets[n - 1].offset > cap)
            buckets[n++] = (Bucket){ .offset = grads[i].offset };
        Bucket *bucket = &buckets[n - 1];
        const int writer = graph_tensor(g, grads[i].id)->last_writer;
        bucket->bytes = end - bucket->offset;
        if (writer > bucket->ready_after) bucket->ready_after = writer;
    }
    mem_free(grads);
    *out = buckets;
    *count = n;
    return OK;
}

Status plan_param_order(const Plan *p, const Graph *g, const char ***names, int *count)
{
    *names = NULL;
    *count = 0;
    SlabItem *params = NULL;
    int n = 0;
    TRY(list_slab(p, g, ROLE_PARAM, &params, &n));
    size_t bytes = (size_t)n * sizeof **names;
    for (int i = 0; i < n; i++) bytes += strlen(graph_tensor(g, params[i].id)->name) + 1;
    /* One block: the pointers, then the strings, so that the list outlives the graph and is freed
     * at once. */
    const char **list = mem_alloc(bytes);
    Status status = list ? OK : ERR_MEMORY;
    char *text = list ? (char *)(list + n) : NULL;
    for (int i = 0; i < n && list; i++) {
        const char *name = graph_tensor(g, params[i].id)->name;
        const size_t length = strlen(name) + 1;
        memcpy(text, name, length);
        list[i] = text;
        text += length;
    }
    mem_free(params);
    *names = list;
    *count = list ? n : 0;
    return status;
}
