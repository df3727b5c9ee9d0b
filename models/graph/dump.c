/* dump.c - a network for human eyes: a table of its layers with totals, and a Graphviz drawing.
 *
 * The table shows forward nodes; backward only in the totals, since it mirrors them. Columns are as
 * wide as their widest cell, found in a first pass over the same cells that the second pass prints.
 * Totals are one "word number" a line in plain digits, for scripts. */
#include "base/str.h"
#include "models/graph/graph.h"
#include <stdio.h>
#include <string.h>

enum {
    COLUMN_LAYER,
    COLUMN_OP,
    COLUMN_DETAIL,
    COLUMN_OUTPUT,
    COLUMN_PARAMETERS,
    COLUMN_MFLOPS,
    COLUMN_BYTES,
    COLUMN_COUNT
};
typedef struct Row {
    char cell[COLUMN_COUNT][96];
} Row;

static const struct {
    const char *title;
    bool right; /* numbers are right-aligned */
} columns[COLUMN_COUNT] = {
    [COLUMN_LAYER] = { "layer", false },      [COLUMN_OP] = { "op", false },
    [COLUMN_DETAIL] = { "detail", false },    [COLUMN_OUTPUT] = { "output", false },
    [COLUMN_PARAMETERS] = { "params", true }, [COLUMN_MFLOPS] = { "MFLOPs", true },
    [COLUMN_BYTES] = { "bytes", true },
};

/* As if its kind were this one, whose slots are the first of its own. */
static double node_flops_as(const Graph *g, const GraphNode *n, OpKind kind)
{
    const OpDef *def = op_def(n->kind);
    const TensorDesc *in[OP_MAX_INPUTS] = { NULL };
    TensorDesc out[OP_MAX_OUTPUTS] = { { .rank = 0 } };
    for (int k = 0; k < op_inputs(def); k++)
        if (n->in[k] != TENSOR_NONE) in[k] = &graph_tensor(g, n->in[k])->desc;
    for (int k = 0; k < op_outputs(def); k++)
        if (n->out[k] != TENSOR_NONE) out[k] = graph_tensor(g, n->out[k])->desc;
    return op_flops(kind, n->attr, in, out);
}

static double node_flops(const Graph *g, const GraphNode *n)
{
    return node_flops_as(g, n, n->kind);
}

double graph_node_flops(const Graph *g, int index)
{
    return node_flops(g, graph_node(g, index));
}

double graph_flops(const Graph *g, Phase phase)
{
    double total = 0;
    for (int i = 0; i < graph_node_count(g); i++)
        if (graph_node(g, i)->phase == phase) total += node_flops(g, graph_node(g, i));
    return total;
}

static int64_t node_parameters(const Graph *g, const GraphNode *n)
{
    int64_t total = 0;
    for (int k = 0; k < OP_MAX_INPUTS; k++) {
        if (n->in[k] == TENSOR_NONE || graph_tensor(g, n->in[k])->role != ROLE_PARAM) continue;
        total += tensor_elements(&graph_tensor(g, n->in[k])->desc);
    }
    return total;
}

/* Of what the node leaves behind, as plain f32. */
static int64_t node_bytes(const Graph *g, const GraphNode *n)
{
    int64_t total = 0;
    for (int k = 0; k < OP_MAX_OUTPUTS; k++)
        if (n->out[k] != TENSOR_NONE)
            total += (int64_t)tensor_plain_bytes(&graph_tensor(g, n->out[k])->desc);
    return total;
}

int64_t graph_multiply_adds(const Graph *g)
{
    double total = 0;
    for (int i = 0; i < graph_node_count(g); i++) {
        const OpKind kind = graph_node(g, i)->kind;
        if (kind == OP_CONV2D || kind == OP_LINEAR || kind == OP_ATTENTION)
            total += node_flops(g, graph_node(g, i)) / 2;
    }
    return (int64_t)total;
}

double graph_product_flops(const Graph *g)
{
    /* which convolution a fused one is; of an attention's backward, the scores that it computes
     * again do not count */
    static const struct {
        OpKind product;
        double share;
    } kinds[OP_COUNT] = {
        [OP_CONV2D] = { OP_CONV2D, 1 },
        [OP_CONV2D_STATS] = { OP_CONV2D, 1 },
        [OP_CONV2D_BWD_DATA] = { OP_CONV2D_BWD_DATA, 1 },
        [OP_CONV2D_BWD_DATA_NORM] = { OP_CONV2D_BWD_DATA, 1 },
        [OP_CONV2D_BWD_WEIGHTS] = { OP_CONV2D_BWD_WEIGHTS, 1 },
        [OP_CONV2D_BWD_WEIGHTS_NORM] = { OP_CONV2D_BWD_WEIGHTS, 1 },
        [OP_LINEAR] = { OP_LINEAR, 1 },
        [OP_LINEAR_BWD_DATA] = { OP_LINEAR_BWD_DATA, 1 },
        [OP_LINEAR_BWD_WEIGHTS] = { OP_LINEAR_BWD_WEIGHTS, 1 },
        [OP_ATTENTION] = { OP_ATTENTION, 1 },
        [OP_ATTENTION_BWD] = { OP_ATTENTION_BWD, 0.8 },
    };
    double total = 0;
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        if (kinds[n->kind].share > 0 && !n->again)
            total += kinds[n->kind].share * node_flops_as(g, n, kinds[n->kind].product);
    }
    return total;
}

/* "3x3/2 pad 1": the window is a property of the weights, the rest of the attributes. */
static void print_detail(const Graph *g, const GraphNode *n, char *out, size_t bytes)
{
    const OpDef *def = op_def(n->kind);
    size_t used = 0;
    if (n->kind == OP_CONV2D || n->kind == OP_CONV2D_STATS || n->kind == OP_CONV2D_BN) {
        const TensorDesc *w = &graph_tensor(g, n->in[CONV_IN_W])->desc;
        used =
            (size_t)snprintf(out, bytes, "%lldx%lld", (long long)w->dims[2], (long long)w->dims[3]);
    }
    if (def->print && used < bytes) def->print(n->attr, out + used, bytes - used);
}

static void fill_row(const Graph *g, const GraphNode *n, Row *row)
{
    memset(row, 0, sizeof *row);
    snprintf(row->cell[COLUMN_LAYER], sizeof row->cell[0], "%s", n->name);
    snprintf(row->cell[COLUMN_OP], sizeof row->cell[0], "%s", op_name(n->kind));
    print_detail(g, n, row->cell[COLUMN_DETAIL], sizeof row->cell[0]);
    if (n->out[0] != TENSOR_NONE)
        tensor_format(&graph_tensor(g, n->out[0])->desc, row->cell[COLUMN_OUTPUT],
                      sizeof row->cell[0]);
    const int64_t parameters = node_parameters(g, n);
    if (parameters)
        snprintf(row->cell[COLUMN_PARAMETERS], sizeof row->cell[0], "%lld", (long long)parameters);
    const double flops = node_flops(g, n);
    if (flops > 0) snprintf(row->cell[COLUMN_MFLOPS], sizeof row->cell[0], "%.2f", flops / 1e6);
    snprintf(row->cell[COLUMN_BYTES], sizeof row->cell[0], "%lld", (long long)node_bytes(g, n));
}

static void print_row(const Row *row, const int *width, StrBuf *out)
{
    for (int c = 0; c < COLUMN_COUNT; c++) {
        const char *gap = c ? "  " : "";
        if (columns[c].right) str_printf(out, "%s%*s", gap, width[c], row->cell[c]);
        else str_printf(out, "%s%-*s", gap, width[c], row->cell[c]);
    }
    while (out->length && out->text[out->length - 1] == ' ') out->text[--out->length] = '\0';
    str_add(out, "\n");
}

static void widen(const Row *row, int *width)
{
    for (int c = 0; c < COLUMN_COUNT; c++) {
        const int length = (int)strlen(row->cell[c]);
        if (length > width[c]) width[c] = length;
    }
}

static void print_totals(const Graph *g, StrBuf *out)
{
    int64_t buffers = 0, activations = 0;
    for (int i = 0; i < graph_node_count(g); i++)
        if (graph_node(g, i)->phase == PHASE_FORWARD)
            activations += node_bytes(g, graph_node(g, i));
    for (TensorId id = 0; id < graph_tensor_count(g); id++)
        if (graph_tensor(g, id)->role == ROLE_BUFFER)
            buffers += tensor_elements(&graph_tensor(g, id)->desc);
    str_printf(out, "parameters %lld\n", (long long)graph_parameter_elements(g));
    str_printf(out, "buffers %lld\n", (long long)buffers);
    str_printf(out, "activation_bytes %lld\n", (long long)activations);
    str_printf(out, "multiply_adds %lld\n", (long long)graph_multiply_adds(g));
    str_printf(out, "forward_gflops %.3f\n", graph_flops(g, PHASE_FORWARD) / 1e9);
    const double backward = graph_flops(g, PHASE_BACKWARD);
    if (backward > 0) str_printf(out, "backward_gflops %.3f\n", backward / 1e9);
}

Status graph_dump_table(const Graph *g, StrBuf *out)
{
    TRY(graph_status(g));
    Row row;
    int width[COLUMN_COUNT] = { 0 };
    memset(&row, 0, sizeof row);
    for (int c = 0; c < COLUMN_COUNT; c++)
        snprintf(row.cell[c], sizeof row.cell[c], "%s", columns[c].title);
    const Row title = row;
    widen(&title, width);
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) print_row(&title, width, out);
        for (int i = 0; i < graph_node_count(g); i++) {
            if (graph_node(g, i)->phase != PHASE_FORWARD) continue;
            fill_row(g, graph_node(g, i), &row);
            if (pass == 0) widen(&row, width);
            else print_row(&row, width, out);
        }
    }
    print_totals(g, out);
    return out->failed ? fail(ERR_MEMORY, "out of memory while printing a network") : OK;
}

/* Strings in DOT are quoted; names come from our own tables but a quote or backslash must not break
 * the file. */
static void add_quoted(StrBuf *out, const char *s)
{
    str_add(out, "\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') str_add(out, "\\");
        str_add_n(out, s, 1);
    }
    str_add(out, "\"");
}

static void print_dot_node(const Graph *g, int index, StrBuf *out)
{
    Row row;
    const GraphNode *n = graph_node(g, index);
    fill_row(g, n, &row);
    char label[sizeof row.cell[0] * 4 + 16];
    snprintf(label, sizeof label, "%s | %s %s | %s", row.cell[COLUMN_LAYER], row.cell[COLUMN_OP],
             row.cell[COLUMN_DETAIL], row.cell[COLUMN_OUTPUT]);
    str_printf(out, "  n%d [label=", index);
    add_quoted(out, label);
    str_add(out, n->phase == PHASE_BACKWARD ? ", style=dashed];\n" : "];\n");
    for (int k = 0; k < OP_MAX_INPUTS; k++) {
        const int producer = n->in[k] == TENSOR_NONE ? -1 : graph_tensor(g, n->in[k])->producer;
        if (producer >= 0) str_printf(out, "  n%d -> n%d;\n", producer, index);
    }
}

Status graph_dump_dot(const Graph *g, StrBuf *out)
{
    TRY(graph_status(g));
    str_add(out, "digraph network {\n  node [shape=box, fontname=monospace];\n");
    for (int i = 0; i < graph_node_count(g); i++) print_dot_node(g, i, out);
    str_add(out, "}\n");
    return out->failed ? fail(ERR_MEMORY, "out of memory while printing a network") : OK;
}
