/* bind.c - see bind.h. Every rank shows the others of its host its CPUs and its GPU; from these
 * each finds the same table (trainer/engine/place). */
#include "trainer/engine/session/bind.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/engine/comm/device_comm.h"
#include "trainer/engine/place/topology.h"

#ifdef CONVOY_NO_HWLOC
Status bind_ranks(Comm *comm, const Config *c, int device)
{
    (void)device;
    if (c->device.bind != BIND_NONE && comm->rank == 0)
        log_detail("device.bind: %s", topology_library());
    return OK;
}
#else
#include "trainer/engine/place/place_plan.h"

enum { MASK_WORDS = 64, LIST_BYTES = 256 }; /* 4096 CPUs */

typedef enum Outcome { ONE_NODE, KEPT, BOUND, OUTCOMES } Outcome;

/* What a rank shows the others. */
typedef struct Card {
    int64_t host; /* its lowest rank */
    uint64_t mask[MASK_WORDS];
    char bus_id[32]; /* "": no GPU, or one that tells no place */
} Card;

typedef struct Binding {
    Comm *comm;
    hwloc_topology_t t;
    Card *cards; /* [world]; those of this host, by rank, are [ranks] in ranks: */
    int *rank, ranks, me;
    hwloc_const_cpuset_t *near; /* [ranks] */
    hwloc_cpuset_t *has, *gets; /* [ranks]: started with; planned */
    Outcome outcome;
} Binding;

/* ---- what there is ---- */

/* hwloc's own variables may name another machine. */
static Status check_this_machine(hwloc_topology_t t)
{
    const char *host = hwloc_obj_get_info_by_name(hwloc_get_root_obj(t), "HostName");
    if (hwloc_topology_is_thissystem(t)) return OK;
    return fail(ERR_ENV,
                "device.bind: HWLOC_XMLFILE, HWLOC_SYNTHETIC or HWLOC_FSROOT describes another "
                "machine%s%s; unset it, or set device.bind to none",
                host ? ", " : "", host ? host : "");
}

static Status fill_card(Binding *b, int device, Card *card)
{
    hwloc_bitmap_t mask = hwloc_bitmap_alloc();
    if (!mask) return ERR_MEMORY;
    Status status = check_this_machine(b->t);
    if (hwloc_get_cpubind(b->t, mask, HWLOC_CPUBIND_THREAD) != 0)
        hwloc_bitmap_copy(mask, hwloc_topology_get_allowed_cpuset(b->t));
    for (unsigned i = 0; i < MASK_WORDS; i++) card->mask[i] = hwloc_bitmap_to_ith_ulong(mask, i);
    card->host = b->comm->local_leader;
    if (device >= 0) device_comm_bus_id(device, card->bus_id, sizeof card->bus_id);
    hwloc_bitmap_free(mask);
    return status;
}

static bool allocate(Binding *b)
{
    const size_t world = (size_t)b->comm->world;
    b->cards = mem_calloc(world, sizeof *b->cards);
    b->rank = mem_calloc(world, sizeof *b->rank);
    b->near = mem_calloc(world, sizeof *b->near);
    b->has = mem_calloc(world, sizeof *b->has);
    b->gets = mem_calloc(world, sizeof *b->gets);
    return b->cards && b->rank && b->near && b->has && b->gets;
}

static Status look(Binding *b, int device)
{
    if (!allocate(b)) return ERR_MEMORY;
    return fill_card(b, device, &b->cards[b->comm->rank]);
}

static Status meet(Binding *b)
{
    comm_allgather(b->comm, b->cards, sizeof *b->cards, "placement");
    for (int i = 0; i < b->comm->world; i++) {
        const Card *card = &b->cards[i];
        const int k = b->ranks;
        if (card->host != b->cards[b->comm->rank].host) continue;
        if (i == b->comm->rank) b->me = k;
        b->has[k] = hwloc_bitmap_alloc();
        b->gets[k] = hwloc_bitmap_alloc();
        b->rank[b->ranks++] = i;
        if (!b->has[k] || !b->gets[k]) return ERR_MEMORY;
        for (unsigned w = 0; w < MASK_WORDS; w++)
            hwloc_bitmap_set_ith_ulong(b->has[k], w, card->mask[w]);
        hwloc_obj_t gpu = card->bus_id[0] ? topology_gpu(b->t, card->bus_id) : NULL;
        if (gpu) b->near[k] = topology_near(b->t, gpu);
    }
    return OK;
}

/* ---- what is done ---- */

static Status bind_local(Binding *b)
{
    hwloc_const_cpuset_t given = hwloc_topology_get_allowed_cpuset(b->t);
    bool narrow = false; /* a launcher has bound some rank of this host */
    TRY(meet(b));
    for (int i = 0; i < b->ranks; i++) narrow |= !hwloc_bitmap_isincluded(given, b->has[i]);
    if (narrow) b->outcome = KEPT;
    else b->outcome = topology_nodes(b->t, given, NULL, 0) > 1 ? BOUND : ONE_NODE;
    if (b->outcome != BOUND) return OK;
    TRY(place_plan(b->t, given, b->near, b->ranks, b->gets));
    if (hwloc_set_cpubind(b->t, b->gets[b->me], HWLOC_CPUBIND_PROCESS) == 0) return OK;
    log_warning_here("device.bind: this host does not allow a process to set its CPUs");
    b->outcome = KEPT;
    return OK;
}

/* ---- what is said ---- */

static void add_rank(const Binding *b, int i, StrBuf *text)
{
    char cpus[LIST_BYTES], nodes[LIST_BYTES];
    hwloc_const_cpuset_t set = b->outcome == BOUND ? b->gets[i] : b->has[i];
    const Card *card = &b->cards[b->rank[i]];
    hwloc_bitmap_list_snprintf(cpus, sizeof cpus, set);
    topology_nodes(b->t, set, nodes, sizeof nodes);
    str_printf(text, "rank %d: CPUs %s, NUMA node %s", b->rank[i], cpus, nodes);
    if (!card->bus_id[0]) return;
    str_printf(text, ", GPU %s", card->bus_id);
    if (!b->near[i]) str_add(text, " (location unknown)");
    else if (!hwloc_bitmap_intersects(set, b->near[i])) str_add(text, " (on another node)");
}

static void say_host(const Binding *b)
{
    log_detail(
        b->outcome == KEPT
            ? "device.bind: ranks keep the CPUs that mpirun, srun or another launcher "
              "assigned (mpirun --bind-to none or srun --cpu-bind=none lets convoy bind them):"
            : "device.bind: ranks are bound near their GPUs, or to separate CPUs:");
    for (int i = 0; i < b->ranks; i++) {
        StrBuf text = { 0 };
        add_rank(b, i, &text);
        if (!text.failed) log_detail("  %s", text.text);
        str_free(&text);
    }
}

/* Of rank 0's host each rank; of the others only where they differ from it. */
static void say(Binding *b)
{
    int64_t ranks[OUTCOMES] = { 0 };
    ranks[b->outcome] = 1;
    comm_allreduce(b->comm, ranks, OUTCOMES, COMM_I64, COMM_SUM, "placement");
    if (b->comm->rank != 0) return;
    if (b->outcome != ONE_NODE) say_host(b);
    if (ranks[b->outcome] < b->comm->world)
        log_detail("device.bind: of %d ranks on all hosts, %lld are bound, %lld keep the CPUs that "
                   "they were given, %lld are on hosts with one NUMA node",
                   b->comm->world, (long long)ranks[BOUND], (long long)ranks[KEPT],
                   (long long)ranks[ONE_NODE]);
}

static void close_binding(Binding *b)
{
    for (int i = 0; i < b->ranks; i++) {
        hwloc_bitmap_free(b->has[i]);
        hwloc_bitmap_free(b->gets[i]);
    }
    mem_free(b->cards);
    mem_free(b->rank);
    mem_free(b->near);
    mem_free(b->has);
    mem_free(b->gets);
    topology_close(b->t);
}

/* A machine that hwloc cannot read is no reason not to train on it. */
static bool open_topologies(Binding *b)
{
    int64_t all = topology_open(&b->t, NULL) == OK;
    if (!all) log_warning_here("device.bind: %s: ranks are not bound", status_message());
    comm_allreduce(b->comm, &all, 1, COMM_I64, COMM_MIN, "placement");
    return all != 0;
}

Status bind_ranks(Comm *comm, const Config *c, int device)
{
    Binding b = { .comm = comm };
    if (c->device.bind == BIND_NONE) return OK;
    bool readable = open_topologies(&b);
    Status status = readable ? comm_agree(comm, look(&b, device)) : OK;
    if (status == OK && readable) status = comm_agree(comm, bind_local(&b));
    if (status == OK && readable) say(&b);
    close_binding(&b);
    return status;
}
#endif
