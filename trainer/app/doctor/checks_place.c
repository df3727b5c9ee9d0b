/* checks_place.c - which CPUs and network adapters are near which GPU, and which CPUs each rank of
 * this host would get. */
#include "base/mem.h"
#include "trainer/app/doctor/doctor.h"

#ifdef CONVOY_NO_HWLOC
void doctor_check_placement(const DoctorOptions *o, DoctorReport *r)
{
    (void)o;
    doctor_find(r, VERDICT_WARN, "build convoy with it", "%s", topology_library());
}
#else
#include "trainer/engine/place/place_plan.h"

enum { GPUS_MAX = 64, LIST_BYTES = 128 };

typedef struct Map {
    hwloc_topology_t t;
    hwloc_obj_t gpu[GPUS_MAX];
    hwloc_const_cpuset_t near[DOCTOR_RANKS_MAX];
    hwloc_cpuset_t gets[DOCTOR_RANKS_MAX];
    int gpus, ranks;
} Map;

static void say_gpu(const Map *m, DoctorReport *r, int gpu)
{
    char nodes[LIST_BYTES], adapters[LIST_BYTES];
    const struct hwloc_pcidev_attr_s *at = &m->gpu[gpu]->attr->pcidev;
    topology_nodes(m->t, topology_near(m->t, m->gpu[gpu]), nodes, sizeof nodes);
    topology_adapters(m->t, m->gpu[gpu], adapters, sizeof adapters);
    doctor_find(r, VERDICT_OK, "", "GPU %d, %04x:%02x:%02x.%x: NUMA node %s%s%s", gpu, at->domain,
                at->bus, at->dev, at->func, nodes, adapters[0] ? ", nearest adapter " : "",
                adapters);
}

static void say_ranks(const Map *m, DoctorReport *r)
{
    char cpus[LIST_BYTES], nodes[LIST_BYTES];
    for (int i = 0; i < m->ranks; i++) {
        hwloc_bitmap_list_snprintf(cpus, sizeof cpus, m->gets[i]);
        topology_nodes(m->t, m->gets[i], nodes, sizeof nodes);
        doctor_find(r, VERDICT_OK, "", "rank %d of %d: CPUs %s, NUMA node %s", i, m->ranks, cpus,
                    nodes);
    }
}

/* A rank a GPU, unless --ranks says how many; rank i has GPU i, in turn. */
static void plan(Map *m, DoctorReport *r)
{
    for (int i = 0; i < m->ranks; i++) {
        m->gets[i] = hwloc_bitmap_alloc();
        if (m->gpus > 0) m->near[i] = topology_near(m->t, m->gpu[i % m->gpus]);
    }
    if (place_plan(m->t, hwloc_topology_get_allowed_cpuset(m->t), m->near, m->ranks, m->gets) == OK)
        say_ranks(m, r);
    for (int i = 0; i < m->ranks; i++) hwloc_bitmap_free(m->gets[i]);
}

static void look(Map *m, DoctorReport *r, int64_t ranks)
{
    char cpus[LIST_BYTES], nodes[LIST_BYTES];
    hwloc_const_cpuset_t given = hwloc_topology_get_allowed_cpuset(m->t);
    int count = topology_nodes(m->t, given, nodes, sizeof nodes);
    hwloc_bitmap_list_snprintf(cpus, sizeof cpus, given);
    m->gpus = topology_gpus(m->t, m->gpu, GPUS_MAX);
    m->ranks = (int)(ranks > 0 ? ranks : m->gpus);
    doctor_find(r, VERDICT_OK, "", "CPUs %s, NUMA node %s%s", cpus, nodes,
                count < 2 ? ": ranks are not bound, as all CPUs are equally near" : "");
    for (int i = 0; i < m->gpus; i++) say_gpu(m, r, i);
    if (count > 1 && m->ranks > 0) plan(m, r);
    else if (count > 1)
        doctor_find(r, VERDICT_OK, "", "no GPU: ranks get equal parts (--ranks N shows which)");
}

void doctor_check_placement(const DoctorOptions *o, DoctorReport *r)
{
    if (!o->topology) return;
    if (!o->described && !hwloc_topology_is_thissystem(o->topology)) {
        doctor_find(r, VERDICT_FAIL, "unset it, or set device.bind to none",
                    "HWLOC_XMLFILE, HWLOC_SYNTHETIC or HWLOC_FSROOT describes another machine");
        return;
    }
    Map *m FREED = mem_calloc(1, sizeof *m);
    if (!m) return;
    m->t = o->topology;
    look(m, r, o->ranks);
}
#endif
