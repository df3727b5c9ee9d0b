/* topology.c - see topology.h. hwloc is linked as oneDNN is, not opened when it is wanted: Open MPI
 * brings it to every machine that has mpirun. Of its own plugins those that would wake GPUs stay
 * out; PCI devices come from sysfs. */
#include "trainer/engine/place/topology.h"
#include "base/fs.h"
#include <stdio.h>

#ifdef CONVOY_NO_HWLOC
const char *topology_library(void)
{
    return "no hwloc: ranks are not bound to CPUs";
}

Status topology_open(hwloc_topology_t *out, const char *xml)
{
    *out = NULL;
    return xml ? fail(ERR_ENV, "%s: this convoy was built without hwloc", xml) : OK;
}

void topology_close(hwloc_topology_t t)
{
    (void)t;
}
#else
#define NVIDIA        0x10de
#define CLASS_DISPLAY 0x03 /* the first byte of PCI's class */

static Status configure(hwloc_topology_t t, const char *xml)
{
    static const char *const asleep[] = { "cuda", "nvml", "opencl", "gl", "rsmi", "levelzero" };
    for (size_t i = 0; i < sizeof asleep / sizeof *asleep; i++)
        hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, asleep[i]);
    hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (!xml) return OK;
    if (!fs_exists(xml)) return fail(ERR_IO, "%s: no such file", xml);
    if (hwloc_topology_set_xml(t, xml) == 0) return OK;
    return fail(ERR_DATA, "%s: not a topology file (create one with lstopo %s)", xml, "FILE.xml");
}

const char *topology_library(void)
{
    static char text[32];
    const unsigned v = hwloc_get_api_version();
    snprintf(text, sizeof text, "hwloc %u.%u", v >> 16, v >> 8 & 255);
    return text;
}

Status topology_open(hwloc_topology_t *out, const char *xml)
{
    *out = NULL;
    if (hwloc_topology_init(out) != 0) return fail(ERR_ENV, "hwloc cannot start");
    Status status = configure(*out, xml);
    if (status == OK && hwloc_topology_load(*out) != 0)
        status = xml ? fail(ERR_DATA, "%s: hwloc cannot read this topology", xml)
                     : fail(ERR_ENV, "hwloc cannot read this machine's topology");
    if (status == OK) return OK;
    topology_close(*out);
    *out = NULL;
    return status;
}

void topology_close(hwloc_topology_t t)
{
    if (t) hwloc_topology_destroy(t);
}

static bool is_gpu(hwloc_obj_t device)
{
    const struct hwloc_pcidev_attr_s *pci = &device->attr->pcidev;
    return pci->vendor_id == NVIDIA && pci->class_id >> 8 == CLASS_DISPLAY;
}

hwloc_obj_t topology_gpu(hwloc_topology_t t, const char *bus_id)
{
    unsigned domain, bus, slot, function;
    if (sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) return NULL;
    return hwloc_get_pcidev_by_busid(t, domain, bus, slot, function);
}

static unsigned long place_of(hwloc_obj_t device)
{
    const struct hwloc_pcidev_attr_s *pci = &device->attr->pcidev;
    return ((unsigned long)pci->domain << 16) + ((unsigned long)pci->bus << 8) + pci->dev;
}

int topology_gpus(hwloc_topology_t t, hwloc_obj_t *out, int most)
{
    int count = 0;
    for (hwloc_obj_t o = NULL; count < most && (o = hwloc_get_next_pcidev(t, o));) {
        int at = count;
        if (!is_gpu(o)) continue;
        for (; at > 0 && place_of(out[at - 1]) > place_of(o); at--) out[at] = out[at - 1];
        out[at] = o;
        count++;
    }
    return count;
}

hwloc_const_cpuset_t topology_near(hwloc_topology_t t, hwloc_obj_t device)
{
    return hwloc_get_non_io_ancestor_obj(t, device)->cpuset;
}

/* How many steps from the machine down to where the ways of two devices part; a fast fabric is
 * worth more than any. */
static int nearness(hwloc_obj_t adapter, hwloc_obj_t device)
{
    enum { FABRIC = 1000 };
    int steps = adapter->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS ? FABRIC : 0;
    for (hwloc_obj_t a = device->parent; a; a = a->parent) {
        hwloc_obj_t b = adapter;
        while (b && b != a) b = b->parent;
        steps += b != NULL;
    }
    return steps;
}

static bool is_adapter(hwloc_obj_t o)
{
    return o->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS ||
           o->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK;
}

void topology_adapters(hwloc_topology_t t, hwloc_obj_t device, char *out, size_t bytes)
{
    int best = 0;
    size_t used = 0;
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_osdev(t, o));)
        if (is_adapter(o) && nearness(o, device) > best) best = nearness(o, device);
    out[0] = '\0';
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_osdev(t, o));) {
        if (!is_adapter(o) || nearness(o, device) < best || used + 1 >= bytes) continue;
        int n = snprintf(out + used, bytes - used, "%s%s", used ? ", " : "", o->name);
        used += n > 0 ? (size_t)n : 0;
    }
}

int topology_nodes(hwloc_topology_t t, hwloc_const_cpuset_t cpus, char *out, size_t bytes)
{
    int count = 0;
    hwloc_bitmap_t nodes = hwloc_bitmap_alloc();
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, o));) {
        if (!hwloc_bitmap_intersects(o->cpuset, cpus)) continue;
        if (nodes) hwloc_bitmap_set(nodes, o->os_index);
        count++;
    }
    if (out) out[0] = '\0';
    if (out && nodes) hwloc_bitmap_list_snprintf(out, bytes, nodes);
    hwloc_bitmap_free(nodes);
    return count;
}
#endif
