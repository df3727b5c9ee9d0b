/* graph_look.h - for tests of what rewrites a graph. */
#ifndef CONVOY_TESTS_TOOLS_GRAPH_LOOK_H
#define CONVOY_TESTS_TOOLS_GRAPH_LOOK_H
#include "models/graph/graph.h"

int graph_count_kind(const Graph *g, OpKind kind); /* nodes of this kind */
/* Checks that every node's inputs come from earlier nodes, or from outside, and that each tensor
 * knows its producer. */
void graph_check_order(const Graph *g);
#endif
