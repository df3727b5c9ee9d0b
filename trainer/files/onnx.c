/* onnx.c - see onnx.h: each node of an evaluation graph becomes one to three ONNX nodes, by a table
 * of functions.
 *
 * The file is one protobuf message. Its wire format is small enough to be written here: a field is
 * its number and wire type, then a varint, four bytes, or a length and so many bytes; messages
 * inside messages are built first. Field numbers are those of onnx.proto (IR version 8, operator
 * set 17), named below. Tensors are called t and their number in the graph, weights by their own
 * name. */
#include "trainer/files/onnx.h"
#include "base/fs.h"
#include "base/version.h"
#include "base/wire.h"
#include "kernels/blur.h"
#include "kernels/ops/attention.h"
#include "trainer/files/onnx_model.h"
#include <stdio.h>
#include <string.h>

enum { IR_VERSION = 8, OPERATOR_SET = 17, NAME_BYTES = 160, NODE_INPUTS = 5 };

/* Field numbers of onnx.proto, by message. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPERATOR_SET = 8,
    OPERATOR_SET_VERSION = 2
};
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
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
enum { ELEMENT_F32 = 1, ELEMENT_I64 = 7 };

/* Adds a finished message and frees it. */
static void put_message(StrBuf *out, int field, StrBuf *message)
{
    wire_put_message(out, field, message);
    str_free(message);
}

/* ---- pieces of a graph ---- */

typedef struct Exporter {
    const CheckpointModel *model;
    StrBuf nodes, initializers; /* fields of the graph */
    int extra;                  /* values between the nodes of one op so far */
} Exporter;

static void name_tensor(const Exporter *e, TensorId id, char out[NAME_BYTES])
{
    const Graph *g = e->model->graph;
    const GraphTensor *t = graph_tensor(g, id);
    if (t->role == ROLE_PARAM || t->role == ROLE_BUFFER) snprintf(out, NAME_BYTES, "%s", t->name);
    else if (id == graph_logits(g)) snprintf(out, NAME_BYTES, "logits");
    else if (t->producer >= 0 && graph_node(g, t->producer)->kind == OP_INPUT)
        snprintf(out, NAME_BYTES, "images");
    else snprintf(out, NAME_BYTES, "t%d", id);
}

static void name_extra(Exporter *e, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "extra%d", e->extra++);
}

static void add_tensor(Exporter *e, const char *name, int type, const int64_t *dims, int rank,
                       const void *data, size_t bytes)
{
    StrBuf t = { 0 };
    for (int i = 0; i < rank; i++) wire_put_int(&t, TENSOR_DIMS, dims[i]);
    wire_put_int(&t, TENSOR_TYPE, type);
    wire_put_text(&t, TENSOR_NAME, name);
    wire_put_bytes(&t, TENSOR_RAW, data, bytes);
    put_message(&e->initializers, GRAPH_INITIALIZER, &t);
}

/* A constant of whole numbers; its name goes to out. */
static void add_constant(Exporter *e, const int64_t *values, int count, char out[NAME_BYTES])
{
    const int64_t dims[] = { count };
    name_extra(e, out);
    add_tensor(e, out, ELEMENT_I64, dims, 1, values, (size_t)count * sizeof *values);
}

static void add_int(StrBuf *attributes, const char *name, int64_t value)
{
    StrBuf a = { 0 };
    wire_put_text(&a, ATTRIBUTE_NAME, name);
    wire_put_int(&a, ATTRIBUTE_INT, value);
    wire_put_int(&a, ATTRIBUTE_TYPE, TYPE_INT);
    put_message(attributes, NODE_ATTRIBUTE, &a);
}

static void add_float(StrBuf *attributes, const char *name, float value)
{
    StrBuf a = { 0 };
    wire_put_text(&a, ATTRIBUTE_NAME, name);
    wire_put_float(&a, ATTRIBUTE_FLOAT, value);
    wire_put_int(&a, ATTRIBUTE_TYPE, TYPE_FLOAT);
    put_message(attributes, NODE_ATTRIBUTE, &a);
}

static void add_ints(StrBuf *attributes, const char *name, const int64_t *values, int count)
{
    StrBuf a = { 0 };
    wire_put_text(&a, ATTRIBUTE_NAME, name);
    for (int i = 0; i < count; i++) wire_put_int(&a, ATTRIBUTE_INTS, values[i]);
    wire_put_int(&a, ATTRIBUTE_TYPE, TYPE_INTS);
    put_message(attributes, NODE_ATTRIBUTE, &a);
}

/* One node; inputs end with NULL. attributes: finished fields, freed; may be NULL. */
static void add_node(Exporter *e, const char *type, const char *const inputs[NODE_INPUTS],
                     const char *output, StrBuf *attributes)
{
    StrBuf n = { 0 };
    for (int i = 0; i < NODE_INPUTS && inputs[i]; i++) wire_put_text(&n, NODE_INPUT, inputs[i]);
    wire_put_text(&n, NODE_OUTPUT, output);
    wire_put_text(&n, NODE_NAME, output);
    wire_put_text(&n, NODE_TYPE, type);
    if (attributes) {
        if (attributes->failed) n.failed = true;
        if (attributes->length) str_add_n(&n, attributes->text, attributes->length);
        str_free(attributes);
    }
    put_message(&e->nodes, GRAPH_NODE, &n);
}

static void add_pair(Exporter *e, const char *type, const char *a, const char *b,
                     const char *output)
{
    add_node(e, type, (const char *const[NODE_INPUTS]){ a, b }, output, NULL);
}

/* output = type(x, value) */
static void add_with(Exporter *e, const char *type, const char *x, float value, const char *output)
{
    char scalar[NAME_BYTES];
    name_extra(e, scalar);
    add_tensor(e, scalar, ELEMENT_F32, NULL, 0, &value, sizeof value);
    add_pair(e, type, x, scalar, output);
}

/* x (1 + erf(x / sqrt(2))) / 2: a node for all of it comes with operator set 20. */
static void add_gelu(Exporter *e, const char *x, const char *output)
{
    char part[4][NAME_BYTES];
    for (int i = 0; i < 4; i++) name_extra(e, part[i]);
    add_with(e, "Mul", x, 0.70710678F, part[0]);
    add_pair(e, "Erf", part[0], NULL, part[1]);
    add_with(e, "Add", part[1], 1, part[2]);
    add_with(e, "Mul", part[2], 0.5F, part[3]);
    add_pair(e, "Mul", x, part[3], output);
}

/* x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3): (1 + tanh u) / 2 = sigmoid(2 u). */
static void add_gelu_tanh(Exporter *e, const char *x, const char *output)
{
    char part[5][NAME_BYTES];
    for (int i = 0; i < 5; i++) name_extra(e, part[i]);
    add_pair(e, "Mul", x, x, part[0]);
    add_with(e, "Mul", part[0], 0.0713548163F, part[1]);
    add_with(e, "Add", part[1], 1.59576912F, part[2]);
    add_pair(e, "Mul", x, part[2], part[3]);
    add_pair(e, "Sigmoid", part[3], NULL, part[4]);
    add_pair(e, "Mul", x, part[4], output);
}

/* As a node of its own hard swish comes with operator set 14. */
static void add_hard_sigmoid(Exporter *e, const char *x, const char *output)
{
    StrBuf attributes = { 0 };
    add_float(&attributes, "alpha", 1.0F / 6);
    add_float(&attributes, "beta", 0.5F);
    add_node(e, "HardSigmoid", (const char *const[NODE_INPUTS]){ x }, output, &attributes);
}

static void add_activation(Exporter *e, ActKind act, const char *x, const char *output)
{
    char gate[NAME_BYTES];
    switch (act) {
    case ACT_NONE:
        add_pair(e, "Identity", x, NULL, output);
        break;
    case ACT_RELU:
        add_pair(e, "Relu", x, NULL, output);
        break;
    case ACT_SILU:
        name_extra(e, gate);
        add_pair(e, "Sigmoid", x, NULL, gate);
        add_pair(e, "Mul", x, gate, output);
        break;
    case ACT_GELU:
        add_gelu(e, x, output);
        break;
    case ACT_GELU_TANH:
        add_gelu_tanh(e, x, output);
        break;
    case ACT_RELU6:
        name_extra(e, gate);
        add_pair(e, "Relu", x, NULL, gate);
        add_with(e, "Min", gate, 6, output);
        break;
    case ACT_HARD_SWISH:
        name_extra(e, gate);
        add_hard_sigmoid(e, x, gate);
        add_pair(e, "Mul", x, gate, output);
        break;
    case ACT_COUNT:
        ASSERT(!"an activation");
    }
}

/* ---- one function for each op ---- */

typedef struct Names { /* of a node's tensors; "" where absent */
    char in[OP_MAX_INPUTS][NAME_BYTES], out[NAME_BYTES];
} Names;
typedef void (*ExportOp)(Exporter *e, const GraphNode *n, const Names *names);

static const TensorDesc *desc_of(const Exporter *e, TensorId id)
{
    return &graph_tensor(e->model->graph, id)->desc;
}

static void export_conv2d(Exporter *e, const GraphNode *n, const Names *names)
{
    const Conv2dAttr *a = n->attr;
    const char *bias = names->in[CONV_IN_B];
    const int64_t strides[] = { a->stride_h, a->stride_w },
                  pads[] = { a->pad_top, a->pad_left, a->pad_bottom, a->pad_right };
    StrBuf attributes = { 0 };
    add_ints(&attributes, "strides", strides, 2);
    add_ints(&attributes, "pads", pads, 4);
    add_ints(&attributes, "kernel_shape", &desc_of(e, n->in[CONV_IN_W])->dims[2], 2);
    add_int(&attributes, "group", a->groups);
    add_node(e, "Conv",
             (const char *const[NODE_INPUTS]){ names->in[CONV_IN_X], names->in[CONV_IN_W],
                                               bias[0] ? bias : NULL },
             names->out, &attributes);
}

static void export_batchnorm(Exporter *e, const GraphNode *n, const Names *names)
{
    const BatchNormAttr *a = n->attr;
    const bool residual = n->in[BN_IN_RESIDUAL] != TENSOR_NONE;
    char norm[NAME_BYTES], sum[NAME_BYTES];
    StrBuf attributes = { 0 };
    add_float(&attributes, "epsilon", a->eps);
    const char *const inputs[NODE_INPUTS] = { names->in[BN_IN_X], names->in[BN_IN_GAMMA],
                                              names->in[BN_IN_BETA], names->in[BN_IN_RUNNING_MEAN],
                                              names->in[BN_IN_RUNNING_VAR] };
    name_extra(e, norm);
    name_extra(e, sum);
    const char *last = !residual && a->act == ACT_NONE ? names->out : norm;
    add_node(e, "BatchNormalization", inputs, last, &attributes);
    if (residual) {
        last = a->act == ACT_NONE ? names->out : sum;
        add_pair(e, "Add", norm, names->in[BN_IN_RESIDUAL], last);
    }
    if (a->act != ACT_NONE) add_activation(e, a->act, last, names->out);
}

static void export_activation(Exporter *e, const GraphNode *n, const Names *names)
{
    const ActivationAttr *a = n->attr;
    add_activation(e, a->act, names->in[ACTIVATION_IN_X], names->out);
}

static void export_add(Exporter *e, const GraphNode *n, const Names *names)
{
    (void)n;
    add_pair(e, "Add", names->in[ADD_IN_A], names->in[ADD_IN_B], names->out);
}

/* The image with one mirrored pixel on each side; its name goes to out. */
static void add_mirror(Exporter *e, const char *x, char out[NAME_BYTES])
{
    static const int64_t pads[] = { 0, 0, 1, 1, 0, 0, 1, 1 };
    char pad[NAME_BYTES];
    StrBuf mode = { 0 }, attributes = { 0 };
    wire_put_text(&mode, ATTRIBUTE_NAME, "mode");
    wire_put_text(&mode, ATTRIBUTE_TEXT, "reflect");
    wire_put_int(&mode, ATTRIBUTE_TYPE, TYPE_TEXT);
    put_message(&attributes, NODE_ATTRIBUTE, &mode);
    add_constant(e, pads, 8, pad);
    name_extra(e, out);
    add_node(e, "Pad", (const char *const[NODE_INPUTS]){ x, pad }, out, &attributes);
}

/* A convolution of each channel by itself with constant weights. */
static void export_blur(Exporter *e, const GraphNode *n, const Names *names)
{
    static const float weights[] = { 1 / 16.0F, 2 / 16.0F, 1 / 16.0F, 2 / 16.0F, 4 / 16.0F,
                                     2 / 16.0F, 1 / 16.0F, 2 / 16.0F, 1 / 16.0F };
    const Pool2dAttr *a = n->attr;
    const bool mirrors = a->kind == POOL_BLUR_REFLECT;
    const int64_t channels = desc_of(e, n->in[POOL_IN_X])->dims[1], pad = mirrors ? 0 : 1;
    const int64_t dims[] = { channels, 1, 3, 3 }, strides[] = { a->stride_h, a->stride_w },
                  pads[] = { pad, pad, pad, pad };
    char filters[NAME_BYTES], mirror[NAME_BYTES];
    StrBuf all = { 0 }, attributes = { 0 };
    for (int64_t c = 0; c < channels; c++) str_add_n(&all, (const char *)weights, sizeof weights);
    if (all.failed) e->initializers.failed = true;
    name_extra(e, filters);
    if (!all.failed) add_tensor(e, filters, ELEMENT_F32, dims, 4, all.text, all.length);
    str_free(&all);
    if (mirrors) add_mirror(e, names->in[POOL_IN_X], mirror);
    add_ints(&attributes, "strides", strides, 2);
    add_ints(&attributes, "pads", pads, 4);
    add_ints(&attributes, "kernel_shape", &dims[2], 2);
    add_int(&attributes, "group", channels);
    add_node(e, "Conv",
             (const char *const[NODE_INPUTS]){ mirrors ? mirror : names->in[POOL_IN_X], filters },
             names->out, &attributes);
}

static void export_pool2d(Exporter *e, const GraphNode *n, const Names *names)
{
    static const char *const types[POOL_KIND_COUNT] = {
        [POOL_MAX] = "MaxPool",
        [POOL_AVG] = "AveragePool",
        [POOL_AVG_TILES] = "AveragePool",
    };
    const Pool2dAttr *a = n->attr;
    if (blur_is(a->kind)) {
        export_blur(e, n, names);
        return;
    }
    const int64_t kernel_size[] = { a->kernel_h, a->kernel_w },
                  strides[] = { a->stride_h, a->stride_w },
                  pads[] = { a->pad_h, a->pad_w, a->pad_h, a->pad_w };
    StrBuf attributes = { 0 };
    add_ints(&attributes, "kernel_shape", kernel_size, 2);
    add_ints(&attributes, "strides", strides, 2);
    add_ints(&attributes, "pads", pads, 4);
    if (a->kind == POOL_AVG) add_int(&attributes, "count_include_pad", 1);
    if (a->kind == POOL_AVG_TILES) add_int(&attributes, "ceil_mode", 1);
    ASSERT(types[a->kind]);
    add_node(e, types[a->kind], (const char *const[NODE_INPUTS]){ names->in[POOL_IN_X] },
             names->out, &attributes);
}

static void export_global_avgpool(Exporter *e, const GraphNode *n, const Names *names)
{
    char mean[NAME_BYTES];
    (void)n;
    name_extra(e, mean);
    add_pair(e, "GlobalAveragePool", names->in[GLOBAL_AVGPOOL_IN_X], NULL, mean);
    add_pair(e, "Flatten", mean, NULL, names->out);
}

static void export_subsample(Exporter *e, const GraphNode *n, const Names *names)
{
    const SubsampleAttr *a = n->attr;
    const int64_t added = a->out_channels - desc_of(e, n->in[SUBSAMPLE_IN_X])->dims[1];
    const int64_t starts[] = { 0, 0 }, ends[] = { INT32_MAX, INT32_MAX }, axes[] = { 2, 3 },
                  steps[] = { a->stride, a->stride }, pads[] = { 0, 0, 0, 0, 0, added, 0, 0 };
    char start[NAME_BYTES], end[NAME_BYTES], axis[NAME_BYTES], step[NAME_BYTES], pad[NAME_BYTES],
        part[NAME_BYTES];
    add_constant(e, starts, 2, start);
    add_constant(e, ends, 2, end);
    add_constant(e, axes, 2, axis);
    add_constant(e, steps, 2, step);
    add_constant(e, pads, 8, pad);
    name_extra(e, part);
    add_node(e, "Slice",
             (const char *const[NODE_INPUTS]){ names->in[SUBSAMPLE_IN_X], start, end, axis, step },
             part, NULL);
    add_pair(e, "Pad", part, pad, names->out);
}

static void export_linear(Exporter *e, const GraphNode *n, const Names *names)
{
    const char *x = names->in[LINEAR_IN_X], *bias = names->in[LINEAR_IN_B];
    char flat[NAME_BYTES];
    StrBuf attributes = { 0 };
    if (desc_of(e, n->in[LINEAR_IN_X])->rank == 4) {
        name_extra(e, flat);
        add_pair(e, "Flatten", x, NULL, flat);
        x = flat;
    }
    add_int(&attributes, "transB", 1);
    add_node(e, "Gemm",
             (const char *const[NODE_INPUTS]){ x, names->in[LINEAR_IN_W], bias[0] ? bias : NULL },
             names->out, &attributes);
}

static void export_gate(Exporter *e, const GraphNode *n, const Names *names)
{
    static const int64_t axes[] = { 2, 3 };
    const GateAttr *a = n->attr;
    char gate[NAME_BYTES], axis[NAME_BYTES], pixel[NAME_BYTES];
    name_extra(e, gate);
    if (a->hard) add_hard_sigmoid(e, names->in[GATE_IN_G], gate);
    else add_pair(e, "Sigmoid", names->in[GATE_IN_G], NULL, gate);
    add_constant(e, axes, 2, axis);
    name_extra(e, pixel);
    add_pair(e, "Unsqueeze", gate, axis, pixel);
    add_pair(e, "Mul", names->in[GATE_IN_X], pixel, names->out);
}

static void add_transpose(Exporter *e, const char *x, const int64_t order[4], const char *output)
{
    StrBuf attributes = { 0 };
    add_ints(&attributes, "perm", order, 4);
    add_node(e, "Transpose", (const char *const[NODE_INPUTS]){ x }, output, &attributes);
}

/* Over the last axis: of images, whose channels are the second, behind a transpose. */
static void export_layernorm(Exporter *e, const GraphNode *n, const Names *names)
{
    static const int64_t last[] = { 0, 2, 3, 1 }, second[] = { 0, 3, 1, 2 };
    const bool images = desc_of(e, n->in[LAYERNORM_IN_X])->rank == 4;
    const char *x = names->in[LAYERNORM_IN_X], *y = names->out;
    char rows[NAME_BYTES], norm[NAME_BYTES];
    StrBuf attributes = { 0 };
    if (images) {
        name_extra(e, rows);
        name_extra(e, norm);
        add_transpose(e, x, last, rows);
        x = rows;
        y = norm;
    }
    add_float(&attributes, "epsilon", ((const LayerNormAttr *)n->attr)->eps);
    add_node(e, "LayerNormalization",
             (const char *const[NODE_INPUTS]){ x, names->in[LAYERNORM_IN_GAMMA],
                                               names->in[LAYERNORM_IN_BETA] },
             y, &attributes);
    if (images) add_transpose(e, norm, second, names->out);
}

static void add_swap(Exporter *e, const char *x, const char *output)
{
    static const int64_t order[] = { 0, 1, 2, 4, 3 };
    StrBuf attributes = { 0 };
    add_ints(&attributes, "perm", order, 5);
    add_node(e, "Transpose", (const char *const[NODE_INPUTS]){ x }, output, &attributes);
}

/* Of [N,3,heads,d,L], each part [N,1,heads,d,L]: scores are q^T k, y is v softmax(scores)^T. */
static void export_attention(Exporter *e, const GraphNode *n, const Names *names)
{
    const int64_t *qkv = desc_of(e, n->in[ATTENTION_IN_QKV])->dims;
    const AttentionSizes z = attention_sizes(n->attr, desc_of(e, n->in[ATTENTION_IN_QKV]));
    const int64_t split[] = { 0, 3, z.heads, z.width, z.length },
                  join[] = { 0, z.heads * z.width, qkv[2], qkv[3] };
    enum { HEADS, Q, K, V, Q_ROWS, PRODUCT, SCORES, P, P_COLUMNS, Y, EXTRAS };
    char shape[2][NAME_BYTES], x[EXTRAS][NAME_BYTES];
    StrBuf axis = { 0 };
    add_constant(e, split, 5, shape[0]);
    add_constant(e, join, 4, shape[1]);
    for (int i = 0; i < EXTRAS; i++) name_extra(e, x[i]);
    add_pair(e, "Reshape", names->in[ATTENTION_IN_QKV], shape[0], x[HEADS]);
    for (int64_t part = 0; part < 3; part++) {
        char index[NAME_BYTES];
        StrBuf second = { 0 };
        add_constant(e, &part, 1, index);
        add_int(&second, "axis", 1);
        add_node(e, "Gather", (const char *const[NODE_INPUTS]){ x[HEADS], index }, x[Q + part],
                 &second);
    }
    add_swap(e, x[Q], x[Q_ROWS]);
    add_pair(e, "MatMul", x[Q_ROWS], x[K], x[PRODUCT]);
    add_with(e, "Mul", x[PRODUCT], z.scale, x[SCORES]);
    add_int(&axis, "axis", -1);
    add_node(e, "Softmax", (const char *const[NODE_INPUTS]){ x[SCORES] }, x[P], &axis);
    add_swap(e, x[P], x[P_COLUMNS]);
    add_pair(e, "MatMul", x[V], x[P_COLUMNS], x[Y]);
    add_pair(e, "Reshape", x[Y], shape[1], names->out);
}

/* Room in front of the pixels of each image and behind the class token, and one sum: no image of
 * the batch, whose size is free, needs a copy of the token. */
static void export_tokens(Exporter *e, const GraphNode *n, const Names *names)
{
    const int64_t *d = desc_of(e, n->out[TOKENS_OUT_Y])->dims;
    const bool classed = n->in[TOKENS_IN_CLASS] != TENSOR_NONE;
    const int64_t columns[] = { 0, d[1], -1, 1 }, order[] = { 0, 2, 1 },
                  front[] = { 0, 0, classed, 0, 0, 0, 0, 0 },
                  behind[] = { 0, 0, 0, 0, d[2] - 1, 0 };
    enum { SHAPE, FRONT, BEHIND, PIXELS, SEQUENCE, FIRST, ROWS, SWAPPED, ADDED, EXTRAS };
    const char *positions = names->in[TOKENS_IN_POSITIONS];
    char x[EXTRAS][NAME_BYTES];
    StrBuf swap = { 0 };
    for (int i = PIXELS; i < EXTRAS; i++) name_extra(e, x[i]);
    add_constant(e, columns, 4, x[SHAPE]);
    add_constant(e, front, 8, x[FRONT]);
    add_pair(e, "Reshape", names->in[TOKENS_IN_X], x[SHAPE], x[PIXELS]);
    add_pair(e, "Pad", x[PIXELS], x[FRONT], x[SEQUENCE]);
    if (classed) {
        add_constant(e, behind, 6, x[BEHIND]);
        add_pair(e, "Pad", names->in[TOKENS_IN_CLASS], x[BEHIND], x[FIRST]);
        add_pair(e, "Add", positions, x[FIRST], x[ROWS]);
        positions = x[ROWS];
    }
    add_ints(&swap, "perm", order, 3);
    add_node(e, "Transpose", (const char *const[NODE_INPUTS]){ positions }, x[SWAPPED], &swap);
    add_pair(e, "Reshape", x[SWAPPED], x[SHAPE], x[ADDED]);
    add_pair(e, "Add", x[SEQUENCE], x[ADDED], names->out);
}

static void export_scale(Exporter *e, const GraphNode *n, const Names *names)
{
    const ScaleAttr *a = n->attr;
    add_with(e, "Mul", names->in[SCALE_IN_X], a->factor, names->out);
}

/* Images come normalised, and the loss is not part of inference. */
static void export_nothing(Exporter *e, const GraphNode *n, const Names *names)
{
    (void)e;
    (void)n;
    (void)names;
}

static const ExportOp exports[OP_COUNT] = {
    [OP_INPUT] = export_nothing,
    [OP_CONV2D] = export_conv2d,
    [OP_BATCHNORM] = export_batchnorm,
    [OP_ACTIVATION] = export_activation,
    [OP_ADD] = export_add,
    [OP_POOL2D] = export_pool2d,
    [OP_GLOBAL_AVGPOOL] = export_global_avgpool,
    [OP_SUBSAMPLE] = export_subsample,
    [OP_LINEAR] = export_linear,
    [OP_GATE] = export_gate,
    [OP_SCALE] = export_scale,
    [OP_LAYERNORM] = export_layernorm,
    [OP_ATTENTION] = export_attention,
    [OP_TOKENS] = export_tokens,
    [OP_SOFTMAX_XENT] = export_nothing,
};

/* ---- the file ---- */

static Status export_nodes(Exporter *e)
{
    const Graph *g = e->model->graph;
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        Names names = { .out = "" };
        if (!exports[n->kind])
            return fail(ERR_INTERNAL, "%s: ONNX has no form of op %s here", n->name,
                        op_name(n->kind));
        for (int k = 0; k < OP_MAX_INPUTS; k++)
            if (n->in[k] != TENSOR_NONE) name_tensor(e, n->in[k], names.in[k]);
        if (n->out[0] != TENSOR_NONE) name_tensor(e, n->out[0], names.out);
        exports[n->kind](e, n, &names);
    }
    return OK;
}

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

static void export_weights(Exporter *e)
{
    const Graph *g = e->model->graph;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        const GraphTensor *t = graph_tensor(g, id);
        if (t->role != ROLE_PARAM && t->role != ROLE_BUFFER) continue;
        add_tensor(e, t->name, ELEMENT_F32, t->desc.dims, rank_of(g, id),
                   safetensors_find(e->model->file, t->name)->data, tensor_plain_bytes(&t->desc));
    }
}

/* The fields of the graph in order; empties the exporter. */
static void assemble(Exporter *e, StrBuf *out)
{
    const Graph *g = e->model->graph;
    const GraphOptions *o = graph_options(g);
    const int64_t images[] = { 0, o->channels, o->height, o->width }, logits[] = { 0, o->classes };
    StrBuf graph = e->nodes, operators = { 0 };
    e->nodes = (StrBuf){ 0 };
    wire_put_text(&graph, GRAPH_NAME, e->model->def->name);
    if (e->initializers.failed) graph.failed = true;
    else str_add_n(&graph, e->initializers.text, e->initializers.length);
    str_free(&e->initializers);
    onnx_model_put_value(&graph, GRAPH_INPUT, "images", images, 4);
    onnx_model_put_value(&graph, GRAPH_OUTPUT, "logits", logits, 2);
    wire_put_int(out, MODEL_IR_VERSION, IR_VERSION);
    wire_put_text(out, MODEL_PRODUCER, "convoy");
    wire_put_text(out, MODEL_PRODUCER_VERSION, version_text());
    wire_put_int(&operators, OPERATOR_SET_VERSION, OPERATOR_SET);
    put_message(out, MODEL_OPERATOR_SET, &operators);
    put_message(out, MODEL_GRAPH, &graph);
    onnx_model_put_metadata(out, e->model);
}

Status onnx_export(const CheckpointModel *m, const char *path)
{
    Exporter e = { .model = m };
    StrBuf file = { 0 };
    Status status = export_nodes(&e);
    if (status == OK) export_weights(&e);
    if (status == OK) assemble(&e, &file);
    if (status == OK) status = file.failed ? fail(ERR_MEMORY, "%s: out of memory", path) : OK;
    if (status == OK) status = fs_write_atomic(path, file.text, file.length);
    str_free(&e.nodes);
    str_free(&e.initializers);
    str_free(&file);
    return status;
}
