/* timelines.h - the timelines of all networks as text and as checksums: what build/make_timelines
 * prints and tests/golden/timelines.txt holds.
 *
 * They are made of graph and plan alone: every tensor has its plain size and every node the same
 * scratch, so no backend prepares anything and no memory is taken for weights.
 *
 * NAMES. NETWORK[.NORMS].LANES.micro, or NETWORK[.NORMS].LANES.SUMS.RUN, and behind either what is
 * switched on of .norm, .scale and .averages, in this order.
 *   NORMS  batch norms of a few networks: groups, all (over groups of ranks, over all), frozen
 *   LANES  memory (no streams, nothing fused), streams (no side lane, nothing fused), side (with
 *          weight gradients beside the rest, and all fusions that there are)
 *   SUMS   none, host, nccl; host memory is summed by the host
 *   RUN    step; first and second of a step of two passes, where first always has the norm
 *
 * TEXT. First the buckets. Then a line for each thing that is done: its lane and what it is, by the
 * name of the operation. Where several operations in a row serve one end, as the trust ratios
 * before an update do, or what a first pass moves parameters by, they are one line. The text names
 * no member of an enum or a struct: it outlives a change of how timelines are made. */
#ifndef CONVOY_TESTS_TOOLS_TIMELINES_H
#define CONVOY_TESTS_TOOLS_TIMELINES_H
#include "base/str.h"
#include "models/models.h"

enum { TIMELINES_NAME_BYTES = 96 };

/* The rows of one network, of which each is a name and the checksums (CRC-32C) of the texts that
 * have this name and one of the endings of timelines_ending(). */
Status timelines_rows(const ModelDef *def, StrBuf *out);
/* What stands behind a row's name in the name of its column's timeline. */
const char *timelines_ending(const char *row, int column);
/* ERR_USAGE: there is none of this name. */
Status timelines_text(const char *name, StrBuf *out);
#endif
