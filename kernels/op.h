/* op.h - the operations Convoy knows: their names, slots, attributes and shapes. Host-only; no
 * backend is named here.
 *
 * The set is small because each op is a unit of memory traffic. A forward op and its gradients are
 * separate kinds, so a training step is one list of nodes and a backend is one table of functions.
 * The headers below have a paragraph for each op: what it computes, its slots (which input is
 * which: numbers are fixed, an absent optional slot is TENSOR_NONE in a graph and data == NULL in
 * an OpInstance) and its attributes, one named struct a family, which forward and backward share.
 *
 * To add an op: a line in op_list.h, a paragraph in one of these headers, a row in ops/x.c,
 * cpu/x.c, ref/x.c (cuda/x.c), a gradient rule in models/graph/grad.c, a family of cases in
 * tests/ops. What is forgotten does not link, or tests/unit/kernels/test_op_tables.c names it. */
#ifndef CONVOY_KERNELS_OP_H
#define CONVOY_KERNELS_OP_H
#include "base/status.h"
#include "kernels/op_act.h"
#include "kernels/op_attention.h"
#include "kernels/op_conv.h"
#include "kernels/op_embed.h"
#include "kernels/op_input.h"
#include "kernels/op_layer.h"
#include "kernels/op_list.h"
#include "kernels/op_loss.h"
#include "kernels/op_norm.h"
#include "kernels/op_scalars.h"
#include "kernels/op_update.h"

#define OP_MAX_INPUTS  11
#define OP_MAX_OUTPUTS 7

/* An op by what is in its slots. */
typedef struct OpSlots {
    OpKind kind;
    const void *attr;
    const TensorDesc *const *in; /* NULL: absent */
    const bool *wanted;          /* outputs that the graph asks for */
    TensorDesc *out;
} OpSlots;

#define OP_OVER(input) ((input) + 1)
/* Slots under one number: outputs come behind inputs. */
#define OP_OUTPUT(output) (OP_MAX_INPUTS + (output))

/* One row per op. in_names/out_names end the row's documentation: "?" at the end marks an optional
 * slot. */
typedef struct OpDef {
    size_t attr_bytes;                                               /* 0: no attribute struct */
    const char *in_names[OP_MAX_INPUTS], *out_names[OP_MAX_OUTPUTS]; /* NULL behind the last */
    /* For each output OP_OVER(the input over which it may lie if that input dies here); 0: none. */
    int in_place_of[OP_MAX_OUTPUTS];
    /* Checks inputs (dtype, rank, dims) and fills out[i] for every output whose rank is 0; where
     * the caller preset out[i] (gradients know their shape from the forward tensor) it is checked
     * instead; out[i].rank == 0 stays 0 for outputs that the graph did not ask for. Errors:
     * ERR_INTERNAL naming op and dims. */
    Status (*infer)(const OpSlots *s);
    struct { /* for each element of a slot; multiply and add count 2 */
        double flops;
        int slot;
        int weights; /* not 0: for each weight of a filter, too, of those in this slot */
    } work;
    /* where that does not say it; else NULL */
    double (*flops)(const void *attr, const TensorDesc *const *in, const TensorDesc *out);
    /* "3x3/2 pad 1"; NULL = nothing to say */
    void (*print)(const void *attr, char *out, size_t bytes);
} OpDef;

const OpDef *op_def(OpKind kind);
const char *op_name(OpKind kind);
int op_inputs(const OpDef *def);
int op_outputs(const OpDef *def);
FusedFor op_fused(OpKind kind);
int op_in_place_of(OpKind kind, int output); /* OpDef.in_place_of: an input, or -1 */
Status op_infer(OpKind kind, const void *attr, const TensorDesc *const *in, const bool *wanted,
                TensorDesc *out); /* OpDef.infer */
/* 0 where an op counts none */
double op_flops(OpKind kind, const void *attr, const TensorDesc *const *in, const TensorDesc *out);

/* ---- fusions: ops that a backend may run in place of others ---- */

/* One op by its attributes and shapes alone. rank 0: absent. */
typedef struct OpShape {
    OpKind kind;
    const void *attr;
    TensorDesc in[OP_MAX_INPUTS], out[OP_MAX_OUTPUTS];
} OpShape;

#define FUSION_MAX_OPS 3
typedef struct Fusion {
    const char *name; /* "statistics" */
    int before_count, after_count;
    OpShape before[FUSION_MAX_OPS], after[FUSION_MAX_OPS];
} Fusion;
#endif
