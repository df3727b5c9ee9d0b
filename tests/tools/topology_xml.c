/* topology_xml.c - see topology_xml.h. */
#include "tests/tools/topology_xml.h"
#include <hwloc.h>

enum { TEXT_BYTES = 4096, BUS_FIRST = 0x11 };

/* The CPUs of cores [first, first + count) and the nodes that hold them, as attributes. */
static void add_sets(StrBuf *out, const MachineShape *m, int first, int count, int node, int nodes)
{
    const int all = m->packages * m->nodes * m->cores;
    char cpus[TEXT_BYTES], places[TEXT_BYTES];
    hwloc_bitmap_t c = hwloc_bitmap_alloc(), n = hwloc_bitmap_alloc();
    hwloc_bitmap_set_range(c, (unsigned)first, first + count - 1);
    hwloc_bitmap_set_range(c, (unsigned)(all + first), all + first + count - 1);
    hwloc_bitmap_set_range(n, (unsigned)node, node + nodes - 1);
    hwloc_bitmap_snprintf(cpus, sizeof cpus, c);
    hwloc_bitmap_snprintf(places, sizeof places, n);
    str_printf(out,
               " cpuset=\"%s\" complete_cpuset=\"%s\" allowed_cpuset=\"%s\" nodeset=\"%s\""
               " complete_nodeset=\"%s\" allowed_nodeset=\"%s\"",
               cpus, cpus, cpus, places, places, places);
    hwloc_bitmap_free(c);
    hwloc_bitmap_free(n);
}

static void add_cores(StrBuf *out, const MachineShape *m, int node)
{
    const int all = m->packages * m->nodes * m->cores;
    char one[TEXT_BYTES];
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    for (int i = node * m->cores; i < (node + 1) * m->cores; i++) {
        str_printf(out, "<object type=\"Core\" os_index=\"%d\"", i);
        add_sets(out, m, i, 1, node, 1);
        str_add(out, ">");
        for (int thread = 0; thread < 2; thread++) {
            hwloc_bitmap_only(set, (unsigned)(i + thread * all));
            hwloc_bitmap_snprintf(one, sizeof one, set);
            str_printf(out,
                       "<object type=\"PU\" os_index=\"%d\" cpuset=\"%s\" complete_cpuset=\"%s\""
                       " nodeset=\"0x%x\" complete_nodeset=\"0x%x\"/>\n",
                       i + thread * all, one, one, 1 << node, 1 << node);
        }
        str_add(out, "</object>\n");
    }
    hwloc_bitmap_free(set);
}

static void add_gpus(StrBuf *out, const MachineShape *m, int package, int place)
{
    for (int i = place; i < m->gpus && !(m->empty && package >= m->empty); i += m->nodes) {
        const int number = package * m->gpus + i, bus = BUS_FIRST + number;
        str_printf(out,
                   "<object type=\"Bridge\" bridge_type=\"0-1\" depth=\"0\" "
                   "bridge_pci=\"0000:[%02x-%02x]\">\n"
                   "<object type=\"PCIDev\" pci_busid=\"0000:%02x:00.0\" pci_type=\"0302 "
                   "[10de:20b0] [10de:1450] a1\" pci_link_speed=\"31.5\"/>\n"
                   "<object type=\"PCIDev\" pci_busid=\"0000:%02x:01.0\" pci_type=\"0207 "
                   "[15b3:101b] [15b3:0007] 00\" pci_link_speed=\"31.5\">\n"
                   "<object type=\"OSDev\" name=\"mlx5_%d\" osdev_type=\"3\"/>\n"
                   "</object>\n</object>\n",
                   bus, bus, bus, bus, number);
    }
}

static void add_node(StrBuf *out, const MachineShape *m, int node)
{
    str_printf(out, "<object type=\"NUMANode\" os_index=\"%d\"", node);
    add_sets(out, m, node * m->cores, m->cores, node, 1);
    str_add(out, " local_memory=\"1073741824\"/>\n");
}

static void add_package(StrBuf *out, const MachineShape *m, int package)
{
    const int first = package * m->nodes, cores = m->nodes * m->cores;
    str_printf(out, "<object type=\"Package\" os_index=\"%d\"", package);
    add_sets(out, m, package * cores, cores, first, m->nodes);
    str_add(out, ">\n");
    for (int i = 0; i < m->nodes; i++) {
        if (m->nodes > 1) {
            str_add(out, "<object type=\"Group\" kind=\"1001\" subkind=\"0\"");
            add_sets(out, m, (first + i) * m->cores, m->cores, first + i, 1);
            str_add(out, ">\n");
        }
        add_node(out, m, first + i);
        add_cores(out, m, first + i);
        add_gpus(out, m, package, i);
        if (m->nodes > 1) str_add(out, "</object>\n");
    }
    str_add(out, "</object>\n");
}

void topology_xml(const MachineShape *m, StrBuf *out)
{
    const int nodes = m->packages * m->nodes;
    str_add(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                 "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n"
                 "<object type=\"Machine\" os_index=\"0\"");
    add_sets(out, m, 0, nodes * m->cores, 0, nodes);
    str_add(out, ">\n<info name=\"HostName\" value=\"described\"/>\n");
    for (int i = 0; i < m->packages; i++) add_package(out, m, i);
    str_add(out, "</object>\n</topology>\n");
}
