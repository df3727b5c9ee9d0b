/* onnx.c - see onnx.h: the file around the graph.
 *
 * It is one protobuf message. Its wire format is small enough to be written here: a field is its
 * number and wire type, then a varint, four bytes, or a length and so many bytes; messages inside
 * messages are built first. Field numbers are those of onnx.proto (IR version 8, operator set
 * 17). */
#include "trainer/engine/files/onnx.h"
#include "base/fs.h"
#include "base/version.h"
#include "base/wire.h"
#include "trainer/engine/files/onnx_model.h"
#include "trainer/engine/files/onnx_ops.h"
#include <string.h>

enum { IR_VERSION = 8, OPERATOR_SET = 17 };

/* Field numbers of onnx.proto, by message. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPERATOR_SET = 8,
    OPERATOR_SET_VERSION = 2
};
enum { GRAPH_NAME = 2, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };

/* Linear weights are of rank 2 there, also those of 1x1 convolutions of one pixel; those of
 * convolutions of rank 4. */
static int rank_of(const Graph *g, TensorId id)
{
    _Static_assert((int)LINEAR_IN_W == (int)CONV_IN_W, "w");
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        if (n->kind == OP_LINEAR && n->in[LINEAR_IN_W] == id) return 2;
        if (n->kind == OP_CONV2D && n->in[CONV_IN_W] == id) return 4;
    }
    return graph_tensor(g, id)->desc.rank;
}

static void export_weights(OnnxGraph *e)
{
    const Graph *g = e->model->graph;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        const GraphTensor *t = graph_tensor(g, id);
        if (t->role != ROLE_PARAM && t->role != ROLE_BUFFER) continue;
        onnx_graph_add_tensor(e, t->name, ONNX_GRAPH_F32, t->desc.dims, rank_of(g, id),
                              safetensors_find(e->model->file, t->name)->data,
                              tensor_plain_bytes(&t->desc));
    }
}

/* The fields of the graph in order; empties e. */
static void assemble(OnnxGraph *e, bool free_size, StrBuf *out)
{
    const Graph *g = e->model->graph;
    StrBuf graph = e->nodes, operators = { 0 };
    e->nodes = (StrBuf){ 0 };
    wire_put_text(&graph, GRAPH_NAME, e->model->def->name);
    if (e->initializers.failed) graph.failed = true;
    else str_add_n(&graph, e->initializers.text, e->initializers.length);
    str_free(&e->initializers);
    onnx_model_put_images(&graph, GRAPH_INPUT, graph_options(g), e->pixels, free_size);
    onnx_model_put_logits(&graph, GRAPH_OUTPUT, graph_options(g));
    wire_put_int(out, MODEL_IR_VERSION, IR_VERSION);
    wire_put_text(out, MODEL_PRODUCER, "convoy");
    wire_put_text(out, MODEL_PRODUCER_VERSION, version_text());
    wire_put_int(&operators, OPERATOR_SET_VERSION, OPERATOR_SET);
    wire_give_message(out, MODEL_OPERATOR_SET, &operators);
    wire_give_message(out, MODEL_GRAPH, &graph);
    onnx_model_put_metadata(out, e->model);
}

static bool same_text(const StrBuf *a, const StrBuf *b)
{
    return !a->failed && !b->failed && a->length == b->length &&
           memcmp(a->text, b->text, a->length) == 0;
}

static bool same_weights(const Graph *a, const Graph *b)
{
    bool same = graph_tensor_count(a) == graph_tensor_count(b);
    for (TensorId id = 0; same && id < graph_tensor_count(a); id++) {
        const GraphTensor *t = graph_tensor(a, id);
        if (t->role == ROLE_PARAM || t->role == ROLE_BUFFER)
            same = tensor_same_shape(&t->desc, &graph_tensor(b, id)->desc);
    }
    return same;
}

/* Whether nodes and weights are the same for images of other sizes, odd and even: then any will
 * do. */
static bool takes_any_size(const OnnxGraph *e)
{
    static const int more[] = { 1, 14, 32 };
    bool same = true;
    for (size_t i = 0; same && i < sizeof more / sizeof *more; i++) {
        CheckpointModel larger = *e->model;
        OnnxGraph other = { .model = &larger, .pixels = e->pixels };
        const int64_t size = graph_options(e->model->graph)->height + more[i];
        larger.graph = NULL;
        same = checkpoint_model_graph(&larger.graph, e->model, e->model->classes, 1, size) == OK &&
               same_weights(e->model->graph, larger.graph) && onnx_ops_export(&other) == OK &&
               same_text(&e->nodes, &other.nodes) &&
               same_text(&e->initializers, &other.initializers);
        str_free(&other.nodes);
        str_free(&other.initializers);
        graph_destroy(larger.graph);
    }
    return same;
}

Status onnx_export(const CheckpointModel *m, const char *path, bool pixels)
{
    OnnxGraph e = { .model = m, .pixels = pixels };
    StrBuf file = { 0 };
    Status status = onnx_ops_export(&e);
    const bool free_size = status == OK && takes_any_size(&e);
    if (status == OK) export_weights(&e);
    if (status == OK) assemble(&e, free_size, &file);
    status = fs_write_text(status, path, &file);
    str_free(&e.nodes);
    str_free(&e.initializers);
    return status;
}
