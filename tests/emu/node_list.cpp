// node_list.cpp - what a captured graph consists of, for tests that count: each capture that ends
// well adds to the file that CONVOY_EMU_NODES names a line "graph N", N its nodes, and for each
// kernel, copy or library call, by name in alphabetical order, a line "COUNT NAME".
#include "runtime.hpp"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace emu {

void list_nodes(const std::vector<Node> &nodes)
{
    const char *path = getenv("CONVOY_EMU_NODES");
    if (!path) return;
    std::map<std::string, int> counts;
    for (const Node &node : nodes) counts[node.name]++;
    FILE *f = fopen(path, "a");
    if (!f) die("CONVOY_EMU_NODES: %s cannot be written", path);
    fprintf(f, "graph %zu\n", nodes.size());
    for (const auto &kind : counts) fprintf(f, "%d %s\n", kind.second, kind.first.c_str());
    if (fclose(f) != 0) die("CONVOY_EMU_NODES: %s cannot be written", path);
}

} // namespace emu
