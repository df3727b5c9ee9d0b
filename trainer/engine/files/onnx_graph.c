/* onnx_graph.c - see onnx_graph.h. Field numbers are those of onnx.proto. */
#include "trainer/engine/files/onnx_graph.h"
#include "base/wire.h"
#include <stdio.h>

enum { GRAPH_NODE = 1, GRAPH_INITIALIZER = 5 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_TYPE = 4, NODE_ATTRIBUTE = 5 };
enum {
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_FLOAT = 2,
    ATTRIBUTE_INT = 3,
    ATTRIBUTE_TEXT = 4,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TYPE = 20
};
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_TEXT = 3, TYPE_INTS = 7 }; /* of an attribute */
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };

void onnx_graph_name_tensor(const OnnxGraph *e, TensorId id, char out[ONNX_GRAPH_NAME_BYTES])
{
    const Graph *g = e->model->graph;
    const GraphTensor *t = graph_tensor(g, id);
    if (t->role == ROLE_PARAM || t->role == ROLE_BUFFER)
        snprintf(out, ONNX_GRAPH_NAME_BYTES, "%s", t->name);
    else if (id == graph_logits(g)) snprintf(out, ONNX_GRAPH_NAME_BYTES, "logits");
    else if (t->producer >= 0 && graph_node(g, t->producer)->kind == OP_INPUT)
        snprintf(out, ONNX_GRAPH_NAME_BYTES, e->pixels ? "normalised" : "images");
    else snprintf(out, ONNX_GRAPH_NAME_BYTES, "t%d", id);
}

void onnx_graph_name_extra(OnnxGraph *e, char out[ONNX_GRAPH_NAME_BYTES])
{
    snprintf(out, ONNX_GRAPH_NAME_BYTES, "extra%d", e->extra++);
}

void onnx_graph_add_tensor(OnnxGraph *e, const char *name, int type, const int64_t *dims, int rank,
                           const void *data, size_t bytes)
{
    StrBuf t = { 0 };
    for (int i = 0; i < rank; i++) wire_put_int(&t, TENSOR_DIMS, dims[i]);
    wire_put_int(&t, TENSOR_TYPE, type);
    wire_put_text(&t, TENSOR_NAME, name);
    wire_put_bytes(&t, TENSOR_RAW, data, bytes);
    wire_give_message(&e->initializers, GRAPH_INITIALIZER, &t);
}

void onnx_graph_add_constant(OnnxGraph *e, const int64_t *values, int count,
                             char out[ONNX_GRAPH_NAME_BYTES])
{
    const int64_t dims[] = { count };
    onnx_graph_name_extra(e, out);
    onnx_graph_add_tensor(e, out, ONNX_GRAPH_I64, dims, 1, values, (size_t)count * sizeof *values);
}

void onnx_graph_add_int(StrBuf *attributes, const char *name, int64_t value)
{
    StrBuf a = { 0 };
    wire_put_text(&a, ATTRIBUTE_NAME, name);
    wire_put_int(&a, ATTRIBUTE_INT, value);
    wire_put_int(&a, ATTRIBUTE_TYPE, TYPE_INT);
    wire_give_message(attributes, NODE_ATTRIBUTE, &a);
}

void onnx_graph_add_text(StrBuf *attributes, const char *name, const char *value)
{
    StrBuf a = { 0 };
    wire_put_text(&a, ATTRIBUTE_NAME, name);
    wire_put_text(&a, ATTRIBUTE_TEXT, value);
    wire_put_int(&a, ATTRIBUTE_TYPE, TYPE_TEXT);
    wire_give_message(attributes, NODE_ATTRIBUTE, &a);
}

void onnx_graph_add_float(StrBuf *attributes, const char *name, float value)
{
    StrBuf a = { 0 };
    wire_put_text(&a, ATTRIBUTE_NAME, name);
    wire_put_float(&a, ATTRIBUTE_FLOAT, value);
    wire_put_int(&a, ATTRIBUTE_TYPE, TYPE_FLOAT);
    wire_give_message(attributes, NODE_ATTRIBUTE, &a);
}

void onnx_graph_add_ints(StrBuf *attributes, const char *name, const int64_t *values, int count)
{
    StrBuf a = { 0 };
    wire_put_text(&a, ATTRIBUTE_NAME, name);
    for (int i = 0; i < count; i++) wire_put_int(&a, ATTRIBUTE_INTS, values[i]);
    wire_put_int(&a, ATTRIBUTE_TYPE, TYPE_INTS);
    wire_give_message(attributes, NODE_ATTRIBUTE, &a);
}

void onnx_graph_add_node(OnnxGraph *e, const char *type,
                         const char *const inputs[ONNX_GRAPH_NODE_INPUTS], const char *output,
                         StrBuf *attributes)
{
    StrBuf n = { 0 };
    for (int i = 0; i < ONNX_GRAPH_NODE_INPUTS && inputs[i]; i++)
        wire_put_text(&n, NODE_INPUT, inputs[i]);
    wire_put_text(&n, NODE_OUTPUT, output);
    wire_put_text(&n, NODE_NAME, output);
    wire_put_text(&n, NODE_TYPE, type);
    if (attributes) {
        if (attributes->failed) n.failed = true;
        if (attributes->length) str_add_n(&n, attributes->text, attributes->length);
        str_free(attributes);
    }
    wire_give_message(&e->nodes, GRAPH_NODE, &n);
}

void onnx_graph_add_pair(OnnxGraph *e, const char *type, const char *a, const char *b,
                         const char *output)
{
    onnx_graph_add_node(e, type, (const char *const[ONNX_GRAPH_NODE_INPUTS]){ a, b }, output, NULL);
}

void onnx_graph_add_with(OnnxGraph *e, const char *type, const char *x, float value,
                         const char *output)
{
    char scalar[ONNX_GRAPH_NAME_BYTES];
    onnx_graph_name_extra(e, scalar);
    onnx_graph_add_tensor(e, scalar, ONNX_GRAPH_F32, NULL, 0, &value, sizeof value);
    onnx_graph_add_pair(e, type, x, scalar, output);
}
