/* make_topology.c - make_topology PACKAGES NODES CORES GPUS EMPTY: writes a described machine
 * (topology_xml.h) to stdout, for whole runs. */
#include "tests/tools/topology_xml.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int64_t v[5] = { 0 };
    StrBuf text = { 0 };
    for (int i = 0; i < 5; i++) {
        if (i + 1 < argc && str_to_i64(argv[i + 1], &v[i])) continue;
        fprintf(stderr, "usage: make_topology PACKAGES NODES CORES GPUS EMPTY\n");
        return EXIT_FAILURE;
    }
    topology_xml(&(MachineShape){ (int)v[0], (int)v[1], (int)v[2], (int)v[3], (int)v[4] }, &text);
    fputs(text.failed ? "" : text.text, stdout);
    str_free(&text);
    return EXIT_SUCCESS;
}
