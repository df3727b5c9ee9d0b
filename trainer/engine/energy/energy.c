/* energy.c - see energy.h. */
#include "trainer/engine/energy/energy.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "trainer/engine/energy/nvml.h"
#include "trainer/engine/energy/powercap.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LOOK_PERIOD_S 1

enum { GPUS_MAX = 64 };

typedef struct Gpu {
    int index; /* of NVML */
    bool counts;
    double last_j;         /* its counter's */
    double last_w, last_s; /* its power's; NaN: not known yet */
} Gpu;

struct Energy {
    double host_watts, begin_s;
    Powercap *powercap; /* NULL: none */
    Nvml *nvml;         /* NULL: no GPU is measured */
    Gpu gpu[GPUS_MAX];
    int gpu_count;
    bool powercap_broken, began_anew; /* said */
    double gpu_j, cpu_j;
    ThreadWatcher watcher; /* whose lock guards all of it once the thread runs */
};

/* ---- looks, under the lock ---- */

static void look_at_counter(Energy *e, Gpu *g)
{
    double now;
    if (!nvml_energy(e->nvml, g->index, &now)) return;
    if (now < g->last_j && !e->began_anew) {
        log_warning_here("the energy counter of GPU %d was reset; the energy used just before that "
                         "is not counted",
                         g->index);
        e->began_anew = true;
    }
    e->gpu_j += now < g->last_j ? now : now - g->last_j;
    g->last_j = now;
}

static void look_at_power(Energy *e, Gpu *g, double now_s)
{
    GpuState state;
    nvml_state(e->nvml, g->index, &state);
    if (isnan(state.power_w)) return;
    if (!isnan(g->last_w)) e->gpu_j += (g->last_w + state.power_w) / 2 * (now_s - g->last_s);
    g->last_w = state.power_w;
    g->last_s = now_s;
}

static void look(Energy *e, double now_s)
{
    for (int i = 0; i < e->gpu_count; i++) {
        if (e->gpu[i].counts) look_at_counter(e, &e->gpu[i]);
        else look_at_power(e, &e->gpu[i], now_s);
    }
    if (!e->powercap || powercap_read(e->powercap, &e->cpu_j) == OK || e->powercap_broken) return;
    log_warning_here("%s: the energy of CPUs is no longer measured", status_message());
    e->powercap_broken = true;
}

static void *watch(void *arg)
{
    Energy *e = arg;
    pthread_mutex_lock(&e->watcher.lock);
    do look(e, clock_s());
    while (thread_watcher_sleep(&e->watcher, LOOK_PERIOD_S));
    pthread_mutex_unlock(&e->watcher.lock);
    return NULL;
}

void energy_read(Energy *e, Spent *out)
{
    *out = (Spent){ 0 };
    if (!e) return;
    pthread_mutex_lock(&e->watcher.lock);
    const double now_s = clock_s();
    look(e, now_s);
    *out = (Spent){ .host_s = now_s - e->begin_s, .gpu_j = e->gpu_j, .cpu_j = e->cpu_j };
    if (!e->powercap) out->assumed_j = e->host_watts * out->host_s;
    pthread_mutex_unlock(&e->watcher.lock);
}

/* ---- life ---- */

static Status start_thread(Energy *e)
{
    return thread_watcher_start(&e->watcher, "energy", watch, e);
}

/* A folder that was named is missed, the kernel's own one is not. */
static Status open_powercap(Energy *e, const char *dir)
{
    if (dir[0] && powercap_open(&e->powercap, dir) != OK)
        log_detail("the energy of CPUs is not measured: %s", status_message());
    else if (dir[0] && !e->powercap && strcmp(dir, POWERCAP_DIR) != 0)
        log_info("the energy of CPUs is not measured: cost.powercap: %s has no energy counters",
                 dir);
    return e->powercap ? start_thread(e) : OK;
}

Status energy_open(Energy **out, const Config *c, const Comm *comm)
{
    *out = NULL;
    if (comm->local_rank != 0) return OK;
    Energy *e = mem_calloc(1, sizeof *e);
    if (!e) return ERR_MEMORY;
    thread_watcher_init(&e->watcher);
    e->host_watts = c->cost.host_watts;
    e->begin_s = clock_s();
    Status status = open_powercap(e, c->cost.powercap);
    if (status != OK) energy_close(e);
    else *out = e;
    return status;
}

void energy_close(Energy *e)
{
    if (!e) return;
    thread_watcher_end(&e->watcher);
    powercap_close(e->powercap);
    nvml_close(e->nvml);
    mem_free(e);
}

/* ---- the GPUs of the ranks ---- */

typedef struct RankGpu { /* as ranks tell each other */
    int32_t leader;      /* first rank of its host */
    char uuid[ENERGY_UUID_BYTES];
} RankGpu;

static bool named_before(const RankGpu *ranks, int rank)
{
    for (int i = 0; i < rank; i++)
        if (ranks[i].leader == ranks[rank].leader && !strcmp(ranks[i].uuid, ranks[rank].uuid))
            return true;
    return false;
}

/* The GPU of that name begins to count; false where it cannot. */
static bool add_gpu(Energy *e, const char *uuid, EnergyCover *cover)
{
    GpuFacts facts;
    Gpu *g = &e->gpu[e->gpu_count];
    for (int i = 0; e->nvml && i < nvml_gpus(e->nvml) && e->gpu_count < GPUS_MAX; i++) {
        nvml_facts(e->nvml, i, &facts);
        if (strcmp(facts.uuid, uuid) != 0) continue;
        *g = (Gpu){ .index = i, .last_w = (double)NAN };
        g->counts = nvml_energy(e->nvml, i, &g->last_j);
        if (!g->counts) look_at_power(e, g, clock_s());
        if (!g->counts && isnan(g->last_w)) return false;
        cover->counting_gpus += g->counts;
        cover->power_gpus += !g->counts;
        e->gpu_count++;
        return true;
    }
    return false;
}

/* Those of this host. */
static Status add_own(Energy *e, const Comm *comm, const RankGpu *ranks, EnergyCover *cover)
{
    Status status = OK;
    cover->hosts = 1;
    cover->cpu_hosts = e->powercap != NULL;
    cover->assumed_hosts = !e->powercap && e->host_watts > 0;
    pthread_mutex_lock(&e->watcher.lock);
    for (int i = 0; i < comm->world; i++) {
        if (ranks[i].leader != comm->rank || !ranks[i].uuid[0] || named_before(ranks, i)) continue;
        if (cover->gpus++ == 0 && nvml_open(&e->nvml, NULL) != OK)
            log_detail("the energy of GPUs is not measured: %s", status_message());
        if (!add_gpu(e, ranks[i].uuid, cover) && e->nvml)
            log_detail("the energy of GPU %s is not measured: NVML does not report it",
                       ranks[i].uuid);
    }
    if (cover->power_gpus > 0) status = start_thread(e);
    pthread_mutex_unlock(&e->watcher.lock);
    return status;
}

Status energy_add_gpus(Energy *e, Comm *comm, const char *uuid, EnergyCover *out)
{
    RankGpu *ranks FREED = mem_calloc((size_t)comm->world, sizeof *ranks);
    *out = (EnergyCover){ 0 };
    TRY(comm_agree(comm, ranks ? OK : ERR_MEMORY));
    ranks[comm->rank].leader = comm->local_leader;
    snprintf(ranks[comm->rank].uuid, sizeof ranks->uuid, "%s", uuid);
    comm_allgather(comm, ranks, sizeof *ranks, "GPUs");
    TRY(comm_agree(comm, e ? add_own(e, comm, ranks, out) : OK));
    comm_allreduce(comm, out, sizeof *out / sizeof out->hosts, COMM_I64, COMM_SUM, "energy");
    return OK;
}

void energy_describe(const EnergyCover *c, char out[ENERGY_TEXT_BYTES])
{
    const struct {
        int64_t count, of;
        const char *first, *what, *how;
    } rows[] = { { c->counting_gpus, c->gpus, "", "GPUs", "NVML's counter" },
                 { c->power_gpus, c->gpus, "", "GPUs", "integrated power" },
                 { c->cpu_hosts, c->hosts, "CPUs of ", "hosts", "RAPL" },
                 { c->assumed_hosts, c->hosts, "", "hosts", "the estimate in cost.host_watts" } };
    int n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].count > 0)
            n += snprintf(out + n, (size_t)(ENERGY_TEXT_BYTES - n), "%s%s%lld of %lld %s by %s",
                          n ? ", " : "", rows[i].first, (long long)rows[i].count,
                          (long long)rows[i].of, rows[i].what, rows[i].how);
    if (n > 0 && c->counting_gpus + c->power_gpus < c->gpus)
        snprintf(out + n, (size_t)(ENERGY_TEXT_BYTES - n), ", %lld GPUs not measured",
                 (long long)(c->gpus - c->counting_gpus - c->power_gpus));
}
