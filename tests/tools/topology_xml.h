/* topology_xml.h - a machine with GPUs, as lstopo would write it. Test code. */
#ifndef CONVOY_TESTS_TOOLS_TOPOLOGY_XML_H
#define CONVOY_TESTS_TOOLS_TOPOLOGY_XML_H
#include "base/str.h"

typedef struct MachineShape {
    int packages, nodes; /* NUMA nodes a package */
    int cores;           /* a node, of two threads: those of core c are c and c + all cores */
    /* GPUs a package, the first beside its first node, and so on around; each behind a bridge of
     * its own with an adapter mlx5_N; none on packages from `empty` on, where that is not 0 */
    int gpus, empty;
} MachineShape;

/* GPUs are at 0000:11:00.0, 0000:12:00.0 ... */
void topology_xml(const MachineShape *m, StrBuf *out);
#endif
