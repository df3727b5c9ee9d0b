/* thread_plan.c - see thread_plan.h. Ranks compare their masks, not environment variables of
 * launchers: those lie often enough.
 */
#include "trainer/engine/session/thread_plan.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "base/thread.h"
#include <sched.h>
#include <string.h>
#include <unistd.h>

#define DEVICE_THREADS 2 /* of a rank whose device computes: one issues, one communicates */

/* Host and mask in one number, so that ranks can be compared by an allgather. */
static int64_t placement_key(void)
{
    cpu_set_t mask;
    CPU_ZERO(&mask);
    if (sched_getaffinity(0, sizeof mask, &mask) != 0) memset(&mask, 0xff, sizeof mask);
    const char *host = process_host();
    uint32_t low = crc32c_update(0, &mask, sizeof mask);
    return (int64_t)(((uint64_t)crc32c_update(1, host, strlen(host)) << 32) | low);
}

static int count_sharers(Comm *comm)
{
    int64_t *keys = mem_calloc((size_t)comm->world, sizeof *keys);
    /* all of them or none take part in what follows */
    if (comm_agree(comm, keys ? OK : ERR_MEMORY) != OK) {
        mem_free(keys);
        return comm->local_world;
    }
    keys[comm->rank] = placement_key();
    comm_allgather(comm, keys, sizeof *keys, "thread placement");
    int sharers = 0;
    for (int i = 0; i < comm->world; i++) sharers += keys[i] == keys[comm->rank];
    mem_free(keys);
    return sharers;
}

static int at_least_one(int n)
{
    return n > 0 ? n : 1;
}

/* The key that asks for more threads than there are CPUs while the machine has more; NULL if none
 * does. */
static const char *bound_too_tightly(const Config *c, const ThreadPlan *p, long online)
{
    if (c->device.threads > p->allowed) return "device.threads";
    return c->data.threads > p->allowed && p->allowed < online ? "data.threads" : NULL;
}

/* A quota is of all ranks of the host, whichever CPUs each of them has. */
static int within_quota(const Comm *comm, int allowed, int sharers)
{
    int quota = thread_quota_cpus(), part = quota * sharers / comm->local_world;
    return quota > 0 && part < allowed ? at_least_one(part) : allowed;
}

ThreadPlan thread_plan_choose(Comm *comm, const Config *c, bool device)
{
    ThreadPlan p = { .allowed = thread_allowed_cpus(), .sharers = count_sharers(comm) };
    p.allowed = within_quota(comm, p.allowed, p.sharers);
    p.compute =
        c->device.threads > 0 ? (int)c->device.threads : at_least_one(p.allowed / p.sharers);
    int share = p.allowed / p.sharers, left = device ? share - DEVICE_THREADS : share / 4;
    p.decode = c->data.threads > 0 ? (int)c->data.threads : at_least_one(left);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (comm->rank != 0) return p;
    const char *key = bound_too_tightly(c, &p, online);
    if (key) {
        int most = p.compute > p.decode ? p.compute : p.decode;
        log_warning("%s: %d threads on %d allowed CPUs; with mpirun use --bind-to none or --map-by "
                    "slot:PE=%d, or device.bind=none if convoy did the binding",
                    key, most, p.allowed, most);
    } else if (c->device.threads == 0 && thread_allowed_cpus() == 1 &&
               online >= 2L * comm->local_world) {
        log_warning("each rank is bound to 1 of %ld CPUs; with mpirun use --bind-to none or "
                    "--map-by slot:PE=%ld to "
                    "use them all",
                    online, online / comm->local_world);
    }
    return p;
}
