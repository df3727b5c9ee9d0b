/* fill.c - input values. Every value is a float (or an integer of the slot's type), so that all
 * backends start from the same numbers. */
#include "tests/ops/check.h"

#include <math.h>

double fill_float(double v)
{
    float f = (float)v;
    return (double)f;
}

Status host_make(Arena *arena, Host *out, const TensorDesc *desc)
{
    *out = (Host){ *desc, NULL };
    if (desc->rank == 0) return OK;
    out->v = arena_alloc(arena, (size_t)tensor_elements(desc) * sizeof(double));
    return out->v ? OK : ERR_MEMORY;
}

void fill_integers(Host *t, Rng *rng, int64_t limit)
{
    for (int64_t i = 0, n = tensor_elements(&t->desc); i < n; i++) {
        int64_t v = 1 + (int64_t)rng_below(rng, (uint64_t)limit);
        t->v[i] = (double)(rng_below(rng, 2) ? v : -v);
    }
}

void fill_normal(Host *t, Rng *rng, double mean, double deviation)
{
    for (int64_t i = 0, n = tensor_elements(&t->desc); i < n; i++)
        t->v[i] = fill_float(mean + deviation * rng_normal(rng));
}

/* Each plane is a shuffled ladder, so no window holds two equal values, and neighbours differ by at
 * least 1/64. */
void fill_distinct(Host *t, Rng *rng)
{
    int64_t plane = t->desc.dims[2] * t->desc.dims[3], planes = t->desc.dims[0] * t->desc.dims[1];
    for (int64_t k = 0; k < planes; k++) {
        double *v = t->v + k * plane;
        for (int64_t i = 0; i < plane; i++) v[i] = (double)(2 * i - plane) / 64 - 1.0 / 128;
        for (int64_t i = plane - 1; i > 0; i--) {
            int64_t j = (int64_t)rng_below(rng, (uint64_t)i + 1);
            double swap = v[i];
            v[i] = v[j];
            v[j] = swap;
        }
    }
}

/* Channel c: m + s*u with u in +-[0.8, 1.2], signs alternating from element to element. The mean
 * lies between the clusters however few the elements are (from two on), so the normalised values
 * stay away from 0. */
void fill_clusters(Host *t, Rng *rng, double offset)
{
    const TensorDesc *d = &t->desc;
    int64_t hw = d->rank == 4 ? d->dims[2] * d->dims[3] : 1;
    for (int64_t c = 0; c < d->dims[1]; c++) {
        double middle = offset + 0.5 * rng_normal(rng), scale = 0.5 + rng_uniform(rng);
        int64_t first = (int64_t)rng_below(rng, 2);
        for (int64_t i = 0; i < d->dims[0] * hw; i++) {
            double u = 0.8 + 0.4 * rng_uniform(rng);
            t->v[(i / hw * d->dims[1] + c) * hw + i % hw] =
                fill_float(middle + scale * ((i + first) % 2 ? u : -u));
        }
    }
}

static void fill_bytes(Host *t, Rng *rng)
{
    for (int64_t i = 0, n = tensor_elements(&t->desc); i < n; i++)
        t->v[i] = (double)rng_below(rng, 256);
}

void fill_default(const Problem *p, Mode mode, Rng *rng, Host *in)
{
    (void)p;
    for (int i = 0; i < OP_MAX_INPUTS; i++) {
        if (in[i].desc.rank == 0) continue;
        if (in[i].desc.dtype == DTYPE_U8) fill_bytes(&in[i], rng);
        else if (mode == MODE_EXACT) fill_integers(&in[i], rng, 4);
        else fill_normal(&in[i], rng, 0.1, 1);
    }
}
