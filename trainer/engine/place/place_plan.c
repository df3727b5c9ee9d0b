/* place_plan.c - see place_plan.h. First the domain of each rank: the CPUs out of which its own may
 * come. Domains end up equal or apart; each is then dealt out core by core. */
#include "trainer/engine/place/place_plan.h"
#include "base/mem.h"
#include <stdbool.h>

typedef struct Deal {
    hwloc_topology_t t;
    hwloc_const_cpuset_t allowed;
    const hwloc_const_cpuset_t *near;
    int ranks, cores;
    hwloc_obj_type_t type; /* of what is dealt: cores, or threads where a machine tells of none */
    hwloc_bitmap_t *domain, *out, rest;
    int *owner; /* [cores]: rank, -1: none */
} Deal;

/* ---- domains ---- */

static void widen(hwloc_topology_t t, hwloc_obj_type_t type, hwloc_const_cpuset_t near,
                  hwloc_bitmap_t domain)
{
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(t, type, o));)
        if (hwloc_bitmap_intersects(o->cpuset, near)) hwloc_bitmap_or(domain, domain, o->cpuset);
}

static void find_domain(Deal *d, int rank)
{
    hwloc_bitmap_t domain = d->domain[rank];
    hwloc_const_cpuset_t near = d->near[rank];
    if (near) {
        hwloc_bitmap_copy(domain, near);
        widen(d->t, HWLOC_OBJ_PACKAGE, near, domain);
        widen(d->t, HWLOC_OBJ_NUMANODE, near, domain);
        hwloc_bitmap_and(domain, domain, d->allowed);
    }
    if (!near || hwloc_bitmap_iszero(domain)) hwloc_bitmap_copy(domain, d->allowed);
}

/* Until those that have a CPU in common are the same. */
static void merge_domains(Deal *d)
{
    bool changed = true;
    while (changed) {
        changed = false;
        for (int i = 0; i < d->ranks; i++) {
            for (int j = 0; j < d->ranks; j++) {
                if (!hwloc_bitmap_intersects(d->domain[i], d->domain[j]) ||
                    hwloc_bitmap_isequal(d->domain[i], d->domain[j]))
                    continue;
                hwloc_bitmap_or(d->domain[i], d->domain[i], d->domain[j]);
                hwloc_bitmap_copy(d->domain[j], d->domain[i]);
                changed = true;
            }
        }
    }
}

static bool has_core(const Deal *d, int core, hwloc_const_cpuset_t set)
{
    hwloc_obj_t o = hwloc_get_obj_by_type(d->t, d->type, (unsigned)core);
    return hwloc_bitmap_intersects(o->cpuset, set) &&
           hwloc_bitmap_intersects(o->cpuset, d->allowed);
}

static int count_cores(const Deal *d, hwloc_const_cpuset_t set)
{
    int count = 0;
    for (int i = 0; i < d->cores; i++) count += has_core(d, i, set);
    return count;
}

/* Ranks with a GPU beside the same CPUs as this one's. */
static int near_ranks(const Deal *d, int rank)
{
    int count = 0;
    for (int i = 0; i < d->ranks; i++)
        count += d->near[i] && hwloc_bitmap_isequal(d->near[i], d->near[rank]);
    return count;
}

static int domain_ranks(const Deal *d, int rank)
{
    int count = 0;
    for (int i = 0; i < d->ranks; i++) count += hwloc_bitmap_isequal(d->domain[i], d->domain[rank]);
    return count;
}

static void find_domains(Deal *d)
{
    for (int i = 0; i < d->ranks; i++) find_domain(d, i);
    merge_domains(d);
    hwloc_bitmap_copy(d->rest, d->allowed);
    for (int i = 0; i < d->ranks; i++) hwloc_bitmap_andnot(d->rest, d->rest, d->domain[i]);
    /* the answer for one rank must not depend on what another was given before */
    for (int i = 0; i < d->ranks; i++) hwloc_bitmap_copy(d->out[i], d->domain[i]);
    for (int i = 0; i < d->ranks; i++)
        if (count_cores(d, d->domain[i]) < PLACE_PLAN_PLENTY * domain_ranks(d, i))
            hwloc_bitmap_or(d->out[i], d->out[i], d->rest);
    for (int i = 0; i < d->ranks; i++) hwloc_bitmap_copy(d->domain[i], d->out[i]);
    merge_domains(d);
}

/* ---- dealing ---- */

/* Gives rank free cores of set until it has `most`. Returns how many it has. */
static int take(Deal *d, int rank, hwloc_const_cpuset_t set, int has, int most)
{
    for (int i = 0; i < d->cores && has < most; i++) {
        if (d->owner[i] >= 0 || !has_core(d, i, set)) continue;
        d->owner[i] = rank;
        has++;
    }
    return has;
}

/* What rank gets of its domain: an equal part, and of what is left over one each for the first. */
static int share_of(const Deal *d, int rank)
{
    int cores = count_cores(d, d->domain[rank]), ranks = domain_ranks(d, rank), before = 0;
    for (int i = 0; i < rank; i++) before += hwloc_bitmap_isequal(d->domain[i], d->domain[rank]);
    return cores / ranks + (before < cores % ranks);
}

static void deal_cores(Deal *d)
{
    for (int i = 0; i < d->cores; i++) d->owner[i] = -1;
    for (int i = 0; i < d->ranks; i++) {
        int most = share_of(d, i), fair = 0;
        if (d->near[i]) fair = count_cores(d, d->near[i]) / near_ranks(d, i);
        if (d->near[i]) take(d, i, d->near[i], 0, fair < most ? fair : most);
    }
    for (int i = 0; i < d->ranks; i++) {
        int has = 0;
        for (int k = 0; k < d->cores; k++) has += d->owner[k] == i;
        take(d, i, d->domain[i], has, share_of(d, i));
    }
}

static void collect(Deal *d)
{
    for (int i = 0; i < d->ranks; i++) hwloc_bitmap_zero(d->out[i]);
    for (int i = 0; i < d->cores; i++) {
        hwloc_obj_t o = hwloc_get_obj_by_type(d->t, d->type, (unsigned)i);
        if (d->owner[i] >= 0) hwloc_bitmap_or(d->out[d->owner[i]], d->out[d->owner[i]], o->cpuset);
    }
    for (int i = 0; i < d->ranks; i++) hwloc_bitmap_and(d->out[i], d->out[i], d->allowed);
    /* too few cores for all: nobody has one to himself */
    for (int i = 0; i < d->ranks; i++)
        if (count_cores(d, d->domain[i]) < domain_ranks(d, i))
            hwloc_bitmap_copy(d->out[i], d->domain[i]);
}

static bool allocate(Deal *d)
{
    bool whole = true;
    d->domain = mem_calloc((size_t)d->ranks, sizeof *d->domain);
    d->owner = mem_calloc((size_t)d->cores, sizeof *d->owner);
    d->rest = hwloc_bitmap_alloc();
    if (!d->domain || !d->owner || !d->rest) return false;
    for (int i = 0; i < d->ranks; i++) whole &= (d->domain[i] = hwloc_bitmap_alloc()) != NULL;
    return whole;
}

Status place_plan(hwloc_topology_t t, hwloc_const_cpuset_t allowed,
                  const hwloc_const_cpuset_t *near, int ranks, hwloc_cpuset_t *out)
{
    Deal d = { .t = t, .allowed = allowed, .near = near, .ranks = ranks, .out = out };
    d.type = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    d.cores = hwloc_get_nbobjs_by_type(t, d.type);
    Status status = allocate(&d) ? OK : ERR_MEMORY;
    if (status == OK) {
        find_domains(&d);
        deal_cores(&d);
        collect(&d);
    }
    for (int i = 0; d.domain && i < ranks; i++) hwloc_bitmap_free(d.domain[i]);
    hwloc_bitmap_free(d.rest);
    mem_free(d.domain);
    mem_free(d.owner);
    return status;
}
