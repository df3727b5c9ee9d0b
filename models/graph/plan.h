/* plan.h - memory is a plan: every tensor of a program is (slab, offset), known before anything
 * runs.
 *
 * SLABS. PARAM and GRAD hold parameters and their gradients in the same order, that in which
 * backward completes the gradients, at equal offsets: a gradient bucket is a contiguous range, and
 * parameter, gradient and optimizer state of an element share an index. Frozen parameters lie
 * behind the others, so GRAD may be shorter than PARAM. BUFFER holds the batch-norm running
 * statistics, TEACHER what a teacher has learnt. ACTIVATION holds everything with a lifetime inside
 * a step, placed so that no two live ranges overlap; WORKSPACE is the largest scratch of any node.
 * INPUT and OUTPUT tensors are given addresses by the executor.
 *
 * LANES. A device may run weight gradients beside the rest: then they are nodes of the SIDE lane,
 * with a scratch of their own. Node order stays the order in which work is issued; each side node
 * has a node of the main lane, joined_at, before which the main lane waits for it, and what it
 * reads and makes lives until there.
 *
 * Offsets inside PARAM, GRAD and BUFFER depend only on names, layouts and order, so that several
 * programs share those slabs. */
#ifndef CONVOY_MODELS_GRAPH_PLAN_H
#define CONVOY_MODELS_GRAPH_PLAN_H
#include "models/graph/graph.h"

typedef enum Slab {
    SLAB_EXTERNAL,
    SLAB_PARAM,
    SLAB_GRAD,
    SLAB_BUFFER,
    SLAB_ACTIVATION,
    SLAB_TEACHER,
    SLAB_COUNT
} Slab;

typedef struct PlanEntry {
    Slab slab;
    size_t offset, bytes;
    /* lifetime of activations; -1 where it does not apply. Read on the side lane: until the join,
     * which may be the end of the program (= number of nodes). */
    int first_node, last_node;
    TensorId over; /* lies over this input in place, or TENSOR_NONE */
} PlanEntry;

typedef enum PlanLane { PLAN_MAIN, PLAN_SIDE, PLAN_LANE_COUNT } PlanLane;

typedef struct PlanNode {
    PlanLane lane;
    int joined_at; /* side: the main node that waits for it; number of nodes: the end. main: -1 */
} PlanNode;

typedef struct Plan {
    PlanEntry *entries; /* [graph_tensor_count]; owned by the plan */
    PlanNode *nodes;    /* [graph_node_count]; owned by the plan */
    size_t slab_bytes[SLAB_COUNT];
    size_t workspace_bytes[PLAN_LANE_COUNT];
    size_t naive_activation_bytes; /* what activations would take without sharing */
} Plan;

typedef struct PlanInputs {
    /* [graph_tensor_count] physical sizes from prepare(); 0 for never-materialised tensors */
    const size_t *tensor_bytes;
    const size_t *node_workspace;  /* [graph_node_count] */
    const unsigned *node_no_alias; /* [graph_node_count]: OpInstance.no_alias; NULL: 0 for all */
    size_t alignment;
    /* names in slab order, from the training program; NULL: this graph's own backward order */
    const char *const *param_order;
    int param_count;
    /* most weight gradients that are under way on the side lane; 0: everything is on the main
     * lane */
    int side_depth;
} PlanInputs;

Status plan_create(Plan **out, const Graph *g, const PlanInputs *in);
void plan_destroy(Plan *p);

/* Bucket arithmetic: ranges of the GRAD slab in backward order. Bucket k is complete when node
 * ready_after[k] has run. A bucket is at most cap_bytes (at least one tensor), the first one at
 * most first_cap_bytes. */
typedef struct Bucket {
    size_t offset, bytes;
    int ready_after;
} Bucket;
/* mem_free */
Status plan_buckets(const Plan *p, const Graph *g, size_t cap_bytes, size_t first_cap_bytes,
                    Bucket **out, int *count);
/* Names of the parameters in PARAM slab order. returns to caller (one mem_free). */
Status plan_param_order(const Plan *p, const Graph *g, const char ***names, int *count);
#endif
