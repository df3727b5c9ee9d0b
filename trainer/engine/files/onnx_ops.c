/* onnx_ops.c - each node of an evaluation graph becomes some ONNX nodes, by a table of functions.
 */
#include "trainer/engine/files/onnx_ops.h"
#include "kernels/blur.h"
#include "kernels/ops/attention.h"

enum { NAME_BYTES = ONNX_GRAPH_NAME_BYTES, NODE_INPUTS = ONNX_GRAPH_NODE_INPUTS };

/* x (1 + erf(x / sqrt(2))) / 2: a node for all of it comes with operator set 20. */
static void add_gelu(OnnxGraph *e, const char *x, const char *output)
{
    char part[4][NAME_BYTES];
    for (int i = 0; i < 4; i++) onnx_graph_name_extra(e, part[i]);
    onnx_graph_add_with(e, "Mul", x, 0.70710678F, part[0]);
    onnx_graph_add_pair(e, "Erf", part[0], NULL, part[1]);
    onnx_graph_add_with(e, "Add", part[1], 1, part[2]);
    onnx_graph_add_with(e, "Mul", part[2], 0.5F, part[3]);
    onnx_graph_add_pair(e, "Mul", x, part[3], output);
}

/* x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3): (1 + tanh u) / 2 = sigmoid(2 u). */
static void add_gelu_tanh(OnnxGraph *e, const char *x, const char *output)
{
    char part[5][NAME_BYTES];
    for (int i = 0; i < 5; i++) onnx_graph_name_extra(e, part[i]);
    onnx_graph_add_pair(e, "Mul", x, x, part[0]);
    onnx_graph_add_with(e, "Mul", part[0], 0.0713548163F, part[1]);
    onnx_graph_add_with(e, "Add", part[1], 1.59576912F, part[2]);
    onnx_graph_add_pair(e, "Mul", x, part[2], part[3]);
    onnx_graph_add_pair(e, "Sigmoid", part[3], NULL, part[4]);
    onnx_graph_add_pair(e, "Mul", x, part[4], output);
}

/* As a node of its own hard swish comes with operator set 14. */
static void add_hard_sigmoid(OnnxGraph *e, const char *x, const char *output)
{
    StrBuf attributes = { 0 };
    onnx_graph_add_float(&attributes, "alpha", 1.0F / 6);
    onnx_graph_add_float(&attributes, "beta", 0.5F);
    onnx_graph_add_node(e, "HardSigmoid", (const char *const[NODE_INPUTS]){ x }, output,
                        &attributes);
}

static void add_activation(OnnxGraph *e, ActKind act, const char *x, const char *output)
{
    char gate[NAME_BYTES];
    switch (act) {
    case ACT_NONE:
        onnx_graph_add_pair(e, "Identity", x, NULL, output);
        break;
    case ACT_RELU:
        onnx_graph_add_pair(e, "Relu", x, NULL, output);
        break;
    case ACT_TANH:
        onnx_graph_add_pair(e, "Tanh", x, NULL, output);
        break;
    case ACT_SILU:
        onnx_graph_name_extra(e, gate);
        onnx_graph_add_pair(e, "Sigmoid", x, NULL, gate);
        onnx_graph_add_pair(e, "Mul", x, gate, output);
        break;
    case ACT_GELU:
        add_gelu(e, x, output);
        break;
    case ACT_GELU_TANH:
        add_gelu_tanh(e, x, output);
        break;
    case ACT_RELU6:
        onnx_graph_name_extra(e, gate);
        onnx_graph_add_pair(e, "Relu", x, NULL, gate);
        onnx_graph_add_with(e, "Min", gate, 6, output);
        break;
    case ACT_HARD_SWISH:
        onnx_graph_name_extra(e, gate);
        add_hard_sigmoid(e, x, gate);
        onnx_graph_add_pair(e, "Mul", x, gate, output);
        break;
    case ACT_COUNT:
        ASSERT(!"an activation");
    }
}

/* ---- one function for each op ---- */

typedef struct Names { /* of a node's tensors; "" where absent */
    char in[OP_MAX_INPUTS][NAME_BYTES], out[NAME_BYTES];
} Names;
typedef void (*ExportOp)(OnnxGraph *e, const GraphNode *n, const Names *names);

static const TensorDesc *desc_of(const OnnxGraph *e, TensorId id)
{
    return &graph_tensor(e->model->graph, id)->desc;
}

static void export_conv2d(OnnxGraph *e, const GraphNode *n, const Names *names)
{
    const Conv2dAttr *a = n->attr;
    const char *bias = names->in[CONV_IN_B];
    const int64_t strides[] = { a->stride_h, a->stride_w },
                  pads[] = { a->pad_top, a->pad_left, a->pad_bottom, a->pad_right };
    StrBuf attributes = { 0 };
    onnx_graph_add_ints(&attributes, "strides", strides, 2);
    onnx_graph_add_ints(&attributes, "pads", pads, 4);
    onnx_graph_add_ints(&attributes, "kernel_shape", &desc_of(e, n->in[CONV_IN_W])->dims[2], 2);
    onnx_graph_add_int(&attributes, "group", a->groups);
    onnx_graph_add_node(e, "Conv",
                        (const char *const[NODE_INPUTS]){
                            names->in[CONV_IN_X], names->in[CONV_IN_W], bias[0] ? bias : NULL },
                        names->out, &attributes);
}

static void export_batchnorm(OnnxGraph *e, const GraphNode *n, const Names *names)
{
    const BatchNormAttr *a = n->attr;
    const bool residual = n->in[BN_IN_RESIDUAL] != TENSOR_NONE;
    char norm[NAME_BYTES], sum[NAME_BYTES];
    StrBuf attributes = { 0 };
    onnx_graph_add_float(&attributes, "epsilon", a->eps);
    const char *const inputs[NODE_INPUTS] = { names->in[BN_IN_X], names->in[BN_IN_GAMMA],
                                              names->in[BN_IN_BETA], names->in[BN_IN_RUNNING_MEAN],
                                              names->in[BN_IN_RUNNING_VAR] };
    onnx_graph_name_extra(e, norm);
    onnx_graph_name_extra(e, sum);
    const char *last = !residual && a->act == ACT_NONE ? names->out : norm;
    onnx_graph_add_node(e, "BatchNormalization", inputs, last, &attributes);
    if (residual) {
        last = a->act == ACT_NONE ? names->out : sum;
        onnx_graph_add_pair(e, "Add", norm, names->in[BN_IN_RESIDUAL], last);
    }
    if (a->act != ACT_NONE) add_activation(e, a->act, last, names->out);
}

static void export_activation(OnnxGraph *e, const GraphNode *n, const Names *names)
{
    const ActivationAttr *a = n->attr;
    add_activation(e, a->act, names->in[ACTIVATION_IN_X], names->out);
}

static void export_add(OnnxGraph *e, const GraphNode *n, const Names *names)
{
    (void)n;
    onnx_graph_add_pair(e, "Add", names->in[ADD_IN_A], names->in[ADD_IN_B], names->out);
}

/* The image with one mirrored pixel on each side; its name goes to out. */
static void add_mirror(OnnxGraph *e, const char *x, char out[NAME_BYTES])
{
    static const int64_t pads[] = { 0, 0, 1, 1, 0, 0, 1, 1 };
    char pad[NAME_BYTES];
    StrBuf attributes = { 0 };
    onnx_graph_add_text(&attributes, "mode", "reflect");
    onnx_graph_add_constant(e, pads, 8, pad);
    onnx_graph_name_extra(e, out);
    onnx_graph_add_node(e, "Pad", (const char *const[NODE_INPUTS]){ x, pad }, out, &attributes);
}

/* A convolution of each channel by itself with constant weights. */
static void export_blur(OnnxGraph *e, const GraphNode *n, const Names *names)
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
    onnx_graph_name_extra(e, filters);
    if (!all.failed)
        onnx_graph_add_tensor(e, filters, ONNX_GRAPH_F32, dims, 4, all.text, all.length);
    str_free(&all);
    if (mirrors) add_mirror(e, names->in[POOL_IN_X], mirror);
    onnx_graph_add_ints(&attributes, "strides", strides, 2);
    onnx_graph_add_ints(&attributes, "pads", pads, 4);
    onnx_graph_add_ints(&attributes, "kernel_shape", &dims[2], 2);
    onnx_graph_add_int(&attributes, "group", channels);
    onnx_graph_add_node(
        e, "Conv",
        (const char *const[NODE_INPUTS]){ mirrors ? mirror : names->in[POOL_IN_X], filters },
        names->out, &attributes);
}

static void export_pool2d(OnnxGraph *e, const GraphNode *n, const Names *names)
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
    onnx_graph_add_ints(&attributes, "kernel_shape", kernel_size, 2);
    onnx_graph_add_ints(&attributes, "strides", strides, 2);
    onnx_graph_add_ints(&attributes, "pads", pads, 4);
    if (a->kind == POOL_AVG) onnx_graph_add_int(&attributes, "count_include_pad", 1);
    if (a->kind == POOL_AVG_TILES) onnx_graph_add_int(&attributes, "ceil_mode", 1);
    ASSERT(types[a->kind]);
    onnx_graph_add_node(e, types[a->kind], (const char *const[NODE_INPUTS]){ names->in[POOL_IN_X] },
                        names->out, &attributes);
}

static void export_global_avgpool(OnnxGraph *e, const GraphNode *n, const Names *names)
{
    char mean[NAME_BYTES];
    (void)n;
    onnx_graph_name_extra(e, mean);
    onnx_graph_add_pair(e, "GlobalAveragePool", names->in[GLOBAL_AVGPOOL_IN_X], NULL, mean);
    onnx_graph_add_pair(e, "Flatten", mean, NULL, names->out);
}

static void export_subsample(OnnxGraph *e, const GraphNode *n, const Names *names)
{
    const SubsampleAttr *a = n->attr;
    const int64_t added = a->out_channels - desc_of(e, n->in[SUBSAMPLE_IN_X])->dims[1];
    const int64_t starts[] = { 0, 0 }, ends[] = { INT32_MAX, INT32_MAX }, axes[] = { 2, 3 },
                  steps[] = { a->stride, a->stride }, pads[] = { 0, 0, 0, 0, 0, added, 0, 0 };
    char start[NAME_BYTES], end[NAME_BYTES], axis[NAME_BYTES], step[NAME_BYTES], pad[NAME_BYTES],
        part[NAME_BYTES];
    onnx_graph_add_constant(e, starts, 2, start);
    onnx_graph_add_constant(e, ends, 2, end);
    onnx_graph_add_constant(e, axes, 2, axis);
    onnx_graph_add_constant(e, steps, 2, step);
    onnx_graph_add_constant(e, pads, 8, pad);
    onnx_graph_name_extra(e, part);
    onnx_graph_add_node(
        e, "Slice",
        (const char *const[NODE_INPUTS]){ names->in[SUBSAMPLE_IN_X], start, end, axis, step }, part,
        NULL);
    onnx_graph_add_pair(e, "Pad", part, pad, names->out);
}

static void export_linear(OnnxGraph *e, const GraphNode *n, const Names *names)
{
    const char *x = names->in[LINEAR_IN_X], *bias = names->in[LINEAR_IN_B];
    char flat[NAME_BYTES];
    StrBuf attributes = { 0 };
    if (desc_of(e, n->in[LINEAR_IN_X])->rank == 4) {
        onnx_graph_name_extra(e, flat);
        onnx_graph_add_pair(e, "Flatten", x, NULL, flat);
        x = flat;
    }
    onnx_graph_add_int(&attributes, "transB", 1);
    onnx_graph_add_node(
        e, "Gemm",
        (const char *const[NODE_INPUTS]){ x, names->in[LINEAR_IN_W], bias[0] ? bias : NULL },
        names->out, &attributes);
}

static void export_gate(OnnxGraph *e, const GraphNode *n, const Names *names)
{
    static const int64_t axes[] = { 2, 3 };
    const GateAttr *a = n->attr;
    char gate[NAME_BYTES], axis[NAME_BYTES], pixel[NAME_BYTES];
    onnx_graph_name_extra(e, gate);
    if (a->hard) add_hard_sigmoid(e, names->in[GATE_IN_G], gate);
    else onnx_graph_add_pair(e, "Sigmoid", names->in[GATE_IN_G], NULL, gate);
    onnx_graph_add_constant(e, axes, 2, axis);
    onnx_graph_name_extra(e, pixel);
    onnx_graph_add_pair(e, "Unsqueeze", gate, axis, pixel);
    onnx_graph_add_pair(e, "Mul", names->in[GATE_IN_X], pixel, names->out);
}

static void add_transpose(OnnxGraph *e, const char *x, const int64_t order[4], const char *output)
{
    StrBuf attributes = { 0 };
    onnx_graph_add_ints(&attributes, "perm", order, 4);
    onnx_graph_add_node(e, "Transpose", (const char *const[NODE_INPUTS]){ x }, output, &attributes);
}

static void add_reduction(OnnxGraph *e, const char *type, const char *x, const int64_t *axes,
                          int count, const char *output)
{
    StrBuf attributes = { 0 };
    onnx_graph_add_ints(&attributes, "axes", axes, count);
    onnx_graph_add_node(e, type, (const char *const[NODE_INPUTS]){ x }, output, &attributes);
}

/* x + (gamma x response + beta), gamma and beta as [C,1,1] */
static void export_grn(OnnxGraph *e, const GraphNode *n, const Names *names)
{
    static const int64_t pixels[] = { 2, 3 }, channels[] = { 1 }, behind[] = { 1, 2 };
    const char *x = names->in[LAYERNORM_IN_X];
    enum { NORMS, MEAN, BELOW, RESPONSE, SCALED, AXES, GAMMA, BETA, TIMES, MORE, PARTS };
    char part[PARTS][NAME_BYTES];
    for (int i = 0; i < PARTS; i++)
        if (i != AXES) onnx_graph_name_extra(e, part[i]);
    onnx_graph_add_constant(e, behind, 2, part[AXES]);
    add_reduction(e, "ReduceL2", x, pixels, 2, part[NORMS]);
    add_reduction(e, "ReduceMean", part[NORMS], channels, 1, part[MEAN]);
    onnx_graph_add_with(e, "Add", part[MEAN], ((const LayerNormAttr *)n->attr)->eps, part[BELOW]);
    onnx_graph_add_pair(e, "Div", part[NORMS], part[BELOW], part[RESPONSE]);
    onnx_graph_add_pair(e, "Mul", x, part[RESPONSE], part[SCALED]);
    onnx_graph_add_pair(e, "Unsqueeze", names->in[LAYERNORM_IN_GAMMA], part[AXES], part[GAMMA]);
    onnx_graph_add_pair(e, "Unsqueeze", names->in[LAYERNORM_IN_BETA], part[AXES], part[BETA]);
    onnx_graph_add_pair(e, "Mul", part[SCALED], part[GAMMA], part[TIMES]);
    onnx_graph_add_pair(e, "Add", part[TIMES], part[BETA], part[MORE]);
    onnx_graph_add_pair(e, "Add", x, part[MORE], names->out);
}

/* Over the last axis: of images, whose channels are the second, behind a transpose. */
static void export_layernorm(OnnxGraph *e, const GraphNode *n, const Names *names)
{
    static const int64_t last[] = { 0, 2, 3, 1 }, second[] = { 0, 3, 1, 2 };
    const bool images = desc_of(e, n->in[LAYERNORM_IN_X])->rank == 4;
    const char *x = names->in[LAYERNORM_IN_X], *y = names->out;
    char rows[NAME_BYTES], norm[NAME_BYTES];
    StrBuf attributes = { 0 };
    if (images) {
        onnx_graph_name_extra(e, rows);
        onnx_graph_name_extra(e, norm);
        add_transpose(e, x, last, rows);
        x = rows;
        y = norm;
    }
    onnx_graph_add_float(&attributes, "epsilon", ((const LayerNormAttr *)n->attr)->eps);
    onnx_graph_add_node(e, "LayerNormalization",
                        (const char *const[NODE_INPUTS]){ x, names->in[LAYERNORM_IN_GAMMA],
                                                          names->in[LAYERNORM_IN_BETA] },
                        y, &attributes);
    if (images) add_transpose(e, norm, second, names->out);
}

static void add_swap(OnnxGraph *e, const char *x, const char *output)
{
    static const int64_t order[] = { 0, 1, 2, 4, 3 };
    StrBuf attributes = { 0 };
    onnx_graph_add_ints(&attributes, "perm", order, 5);
    onnx_graph_add_node(e, "Transpose", (const char *const[NODE_INPUTS]){ x }, output, &attributes);
}

/* Of [N,3,heads,d,L], each part [N,1,heads,d,L]: scores are q^T k, y is v softmax(scores)^T. */
static void export_attention(OnnxGraph *e, const GraphNode *n, const Names *names)
{
    const int64_t *qkv = desc_of(e, n->in[ATTENTION_IN_QKV])->dims;
    const AttentionSizes z = attention_sizes(n->attr, desc_of(e, n->in[ATTENTION_IN_QKV]), NULL);
    const int64_t split[] = { 0, 3, z.heads, z.width, z.length },
                  join[] = { 0, z.heads * z.width, qkv[2], qkv[3] };
    enum { HEADS, Q, K, V, Q_ROWS, PRODUCT, SCORES, P, P_COLUMNS, Y, EXTRAS };
    char shape[2][NAME_BYTES], x[EXTRAS][NAME_BYTES];
    StrBuf axis = { 0 };
    onnx_graph_add_constant(e, split, 5, shape[0]);
    onnx_graph_add_constant(e, join, 4, shape[1]);
    for (int i = 0; i < EXTRAS; i++) onnx_graph_name_extra(e, x[i]);
    onnx_graph_add_pair(e, "Reshape", names->in[ATTENTION_IN_QKV], shape[0], x[HEADS]);
    for (int64_t part = 0; part < 3; part++) {
        char index[NAME_BYTES];
        StrBuf second = { 0 };
        onnx_graph_add_constant(e, &part, 1, index);
        onnx_graph_add_int(&second, "axis", 1);
        onnx_graph_add_node(e, "Gather", (const char *const[NODE_INPUTS]){ x[HEADS], index },
                            x[Q + part], &second);
    }
    add_swap(e, x[Q], x[Q_ROWS]);
    onnx_graph_add_pair(e, "MatMul", x[Q_ROWS], x[K], x[PRODUCT]);
    onnx_graph_add_with(e, "Mul", x[PRODUCT], z.scale, x[SCORES]);
    onnx_graph_add_int(&axis, "axis", -1);
    onnx_graph_add_node(e, "Softmax", (const char *const[NODE_INPUTS]){ x[SCORES] }, x[P], &axis);
    add_swap(e, x[P], x[P_COLUMNS]);
    onnx_graph_add_pair(e, "MatMul", x[V], x[P_COLUMNS], x[Y]);
    onnx_graph_add_pair(e, "Reshape", x[Y], shape[1], names->out);
}

/* Room in front of the pixels of each image and behind the class token, and one sum: no image of
 * the batch, whose size is free, needs a copy of the token. */
static void export_tokens(OnnxGraph *e, const GraphNode *n, const Names *names)
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
    for (int i = PIXELS; i < EXTRAS; i++) onnx_graph_name_extra(e, x[i]);
    onnx_graph_add_constant(e, columns, 4, x[SHAPE]);
    onnx_graph_add_constant(e, front, 8, x[FRONT]);
    onnx_graph_add_pair(e, "Reshape", names->in[TOKENS_IN_X], x[SHAPE], x[PIXELS]);
    onnx_graph_add_pair(e, "Pad", x[PIXELS], x[FRONT], x[SEQUENCE]);
    if (classed) {
        onnx_graph_add_constant(e, behind, 6, x[BEHIND]);
        onnx_graph_add_pair(e, "Pad", names->in[TOKENS_IN_CLASS], x[BEHIND], x[FIRST]);
        onnx_graph_add_pair(e, "Add", positions, x[FIRST], x[ROWS]);
        positions = x[ROWS];
    }
    onnx_graph_add_ints(&swap, "perm", order, 3);
    onnx_graph_add_node(e, "Transpose", (const char *const[NODE_INPUTS]){ positions }, x[SWAPPED],
                        &swap);
    onnx_graph_add_pair(e, "Reshape", x[SWAPPED], x[SHAPE], x[ADDED]);
    onnx_graph_add_pair(e, "Add", x[SEQUENCE], x[ADDED], names->out);
}

static void export_scale(OnnxGraph *e, const GraphNode *n, const Names *names)
{
    const ScaleAttr *a = n->attr;
    onnx_graph_add_with(e, "Mul", names->in[SCALE_IN_X], a->factor, names->out);
}

/* (picture - 255 mean) / (255 std) of u8 N,H,W,C; images that come normalised stay as they are. */
static void export_input(OnnxGraph *e, const GraphNode *n, const Names *names)
{
    static const int64_t second[] = { 0, 3, 1, 2 };
    const GraphOptions *o = graph_options(e->model->graph);
    const int64_t dims[] = { o->channels, 1, 1 };
    char wide[NAME_BYTES], turned[NAME_BYTES], centred[NAME_BYTES], mean[NAME_BYTES],
        std[NAME_BYTES];
    float means[OP_MAX_IMAGE_CHANNELS], stds[OP_MAX_IMAGE_CHANNELS];
    StrBuf to = { 0 };
    (void)n;
    if (!e->pixels) return;
    for (int c = 0; c < o->channels; c++) {
        means[c] = 255 * o->mean[c];
        stds[c] = 255 * o->std[c];
    }
    char *const made[] = { wide, turned, centred, mean, std };
    for (int i = 0; i < 5; i++) onnx_graph_name_extra(e, made[i]);
    onnx_graph_add_tensor(e, mean, ONNX_GRAPH_F32, dims, 3, means, (size_t)dims[0] * sizeof *means);
    onnx_graph_add_tensor(e, std, ONNX_GRAPH_F32, dims, 3, stds, (size_t)dims[0] * sizeof *stds);
    onnx_graph_add_int(&to, "to", ONNX_GRAPH_F32);
    onnx_graph_add_node(e, "Cast", (const char *const[NODE_INPUTS]){ "images" }, wide, &to);
    add_transpose(e, wide, second, turned);
    onnx_graph_add_pair(e, "Sub", turned, mean, centred);
    onnx_graph_add_pair(e, "Div", centred, std, names->out);
}

/* The loss is not part of inference. */
static void export_nothing(OnnxGraph *e, const GraphNode *n, const Names *names)
{
    (void)e;
    (void)n;
    (void)names;
}

static const ExportOp exports[OP_COUNT] = {
    [OP_INPUT] = export_input,
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
    [OP_GRN] = export_grn,
    [OP_ATTENTION] = export_attention,
    [OP_TOKENS] = export_tokens,
    [OP_SOFTMAX_XENT] = export_nothing,
};

Status onnx_ops_export(OnnxGraph *e)
{
    const Graph *g = e->model->graph;
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        Names names = { .out = "" };
        if (!exports[n->kind])
            return fail(ERR_INTERNAL, "%s: cannot be exported to ONNX: operation %s", n->name,
                        op_name(n->kind));
        for (int k = 0; k < OP_MAX_INPUTS; k++)
            if (n->in[k] != TENSOR_NONE) onnx_graph_name_tensor(e, n->in[k], names.in[k]);
        if (n->out[0] != TENSOR_NONE) onnx_graph_name_tensor(e, n->out[0], names.out);
        exports[n->kind](e, n, &names);
    }
    return OK;
}
