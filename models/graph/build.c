/* build.c - the builder calls that networks are written with: one per forward op, with its weights.
 *
 * A call creates the parameters and buffers of its layer (named as torchvision names them, with
 * their init rule and whether weight decay applies) and one node. What a layer needs besides its
 * own arguments it reads from the graph's options: the batch-norm mode, whether backward will want
 * the batch-norm statistics, the pooling index and the gradient of the logits. An evaluation graph
 * asks for none of these, so it carries no memory for them. */
#include "models/graph/graph.h"
#include "models/graph/graph_internal.h"
#include <string.h>

/* Description of x if the graph is healthy and x has this rank (0: any); else NULL, with the error
 * kept. The copy outlives growth. */
static bool take_desc(Graph *g, const char *name, TensorId x, int rank, TensorDesc *out)
{
    if (g->status != OK) return false;
    if (x < 0 || x >= g->tensor_count) {
        graph_break(g, fail(ERR_INTERNAL, "%s: input tensor %d does not exist", name, x));
        return false;
    }
    *out = g->tensors[x].desc;
    if (rank == 0 || out->rank == rank) return true;
    graph_break(g, fail(ERR_INTERNAL, "%s: input has rank %d, not %d", name, out->rank, rank));
    return false;
}

static TensorId node_output(const Graph *g, int node, int slot)
{
    return node < 0 ? TENSOR_NONE : g->nodes[node].out[slot];
}

/* A node with one input and its required outputs; returns the first. */
static TensorId add_unary(Graph *g, OpKind kind, const char *name, const void *attr, TensorId x)
{
    const TensorId in[OP_MAX_INPUTS] = { x };
    return node_output(g, graph_add_node(g, kind, PHASE_FORWARD, name, attr, in, NULL, NULL), 0);
}

typedef struct WeightSpec {
    const char *suffix;
    TensorRole role;
    InitKind init;
    int64_t fan;
    bool decay;
} WeightSpec;

/* Creates layer.suffix; names must be new, since checkpoints and other programs find tensors by
 * name. */
static TensorId add_weight(Graph *g, const char *layer, const WeightSpec *spec, int rank,
                           const int64_t *dims)
{
    if (g->status != OK) return TENSOR_NONE;
    const char *name = arena_printf(g->arena, layer[0] ? "%s.%s" : "%s%s", layer, spec->suffix);
    if (!name) {
        graph_break(g, ERR_MEMORY);
        return TENSOR_NONE;
    }
    if (graph_find(g, name) != TENSOR_NONE) {
        graph_break(g, fail(ERR_INTERNAL, "%s: this name is already taken", name));
        return TENSOR_NONE;
    }
    TensorDesc desc = tensor_desc(DTYPE_F32, rank, dims);
    TensorId id = graph_add_tensor(g, name, spec->role, &desc);
    if (id == TENSOR_NONE) return id;
    GraphTensor *t = &g->tensors[id];
    t->init = spec->init;
    t->fan = spec->fan;
    t->decay = spec->decay;
    return id;
}

TensorId graph_images(Graph *g, const GraphOptions *o)
{
    if (g->status != OK) return TENSOR_NONE;
    if (o->channels < 1 || o->channels > OP_MAX_IMAGE_CHANNELS) {
        graph_break(g, fail(ERR_USAGE, "images have %lld channels; 1 to %d are possible",
                            (long long)o->channels, OP_MAX_IMAGE_CHANNELS));
        return TENSOR_NONE;
    }
    const int64_t dims[] = { o->batch, o->height, o->width, o->channels };
    TensorDesc desc = tensor_desc(DTYPE_U8, 4, dims);
    TensorId images = graph_add_tensor(g, "images", ROLE_INPUT, &desc);
    const bool erase = o->training && o->erase, mix = o->training && o->mix;
    InputAttr attr;
    memset(&attr, 0, sizeof attr);
    attr.views = o->training ? 1 : o->views;
    attr.erase = erase ? o->erase_mode : ERASE_CONST;
    memcpy(attr.mean, o->mean, sizeof attr.mean);
    memcpy(attr.std, o->std, sizeof attr.std);
    const int64_t box_dims[] = { o->batch, ERASE_COUNT }, mix_dims[] = { MIX_COUNT };
    const TensorDesc boxes = tensor_desc(DTYPE_I32, 2, box_dims),
                     mixing = tensor_desc(DTYPE_F32, 1, mix_dims);
    TensorId in[OP_MAX_INPUTS] = { images, TENSOR_NONE, TENSOR_NONE };
    if (erase) in[INPUT_IN_ERASE] = graph_add_tensor(g, "erase", ROLE_INPUT, &boxes);
    if (mix) in[INPUT_IN_MIX] = graph_add_tensor(g, "mix", ROLE_INPUT, &mixing);
    return node_output(
        g, graph_add_node(g, OP_INPUT, PHASE_FORWARD, "input", &attr, in, NULL, NULL), INPUT_OUT_X);
}

/* layer.suffix, of rank dims behind each other, and with bias layer.bias; then the node. */
static TensorId add_conv(Graph *g, const char *layer, TensorId x, const Conv2dAttr *attr,
                         const WeightSpec *weight, int rank, const int64_t *dims, bool biased)
{
    static const WeightSpec bias = { "bias", ROLE_PARAM, INIT_ZERO, 0, false };
    const TensorId in[OP_MAX_INPUTS] = { [CONV_IN_X] = x,
                                         [CONV_IN_W] = add_weight(g, layer, weight, rank, dims),
                                         [CONV_IN_B] = biased ? add_weight(g, layer, &bias, 1, dims)
                                                              : TENSOR_NONE };
    return node_output(g, graph_add_node(g, OP_CONV2D, PHASE_FORWARD, layer, attr, in, NULL, NULL),
                       CONV_OUT_Y);
}

static TensorId add_windowed(Graph *g, const char *name, TensorId x, int64_t filters,
                             int kernel_size, const Conv2dAttr *attr, bool fan_per_group,
                             bool biased)
{
    TensorDesc xd;
    if (!take_desc(g, name, x, 4, &xd)) return TENSOR_NONE;
    const int groups = attr->groups;
    if (groups < 1 || filters < 1 || xd.dims[1] % groups || filters % groups) {
        graph_break(g, fail(ERR_INTERNAL,
                            "%s: %lld channels and %lld filters do not divide into %d groups", name,
                            (long long)xd.dims[1], (long long)filters, groups));
        return TENSOR_NONE;
    }
    const int64_t dims[] = { filters, xd.dims[1] / groups, kernel_size, kernel_size };
    const int64_t fan = filters * kernel_size * kernel_size / (fan_per_group ? groups : 1);
    const WeightSpec weight = { "weight", ROLE_PARAM, INIT_HE_FAN_OUT, fan, true };
    return add_conv(g, name, x, attr, &weight, 4, dims, biased);
}

TensorId graph_conv2d_attr(Graph *g, const char *name, TensorId x, int64_t filters, int kernel_size,
                           const Conv2dAttr *attr, bool fan_per_group)
{
    return add_windowed(g, name, x, filters, kernel_size, attr, fan_per_group, false);
}

TensorId graph_conv2d_biased(Graph *g, const char *name, TensorId x, int64_t filters,
                             int kernel_size, const Conv2dAttr *attr)
{
    return add_windowed(g, name, x, filters, kernel_size, attr, false, true);
}

TensorId graph_linear_positions(Graph *g, const char *name, TensorId x, int64_t out_features)
{
    static const Conv2dAttr attr = { .stride_h = 1, .stride_w = 1, .groups = 1 };
    const WeightSpec weight = { "weight", ROLE_PARAM, INIT_HE_FAN_OUT, out_features, true };
    TensorDesc xd;
    if (!take_desc(g, name, x, 4, &xd)) return TENSOR_NONE;
    const int64_t dims[] = { out_features, xd.dims[1] };
    return add_conv(g, name, x, &attr, &weight, 2, dims, true);
}

TensorId graph_linear_packed(Graph *g, const char *layer, TensorId x, int64_t out_features)
{
    static const Conv2dAttr attr = { .stride_h = 1, .stride_w = 1, .groups = 1 };
    static const WeightSpec bias = { "in_proj_bias", ROLE_PARAM, INIT_ZERO, 0, false };
    TensorDesc xd;
    if (!take_desc(g, layer, x, 4, &xd)) return TENSOR_NONE;
    const int64_t dims[] = { out_features, xd.dims[1] };
    const WeightSpec weight = { "in_proj_weight", ROLE_PARAM, INIT_XAVIER, dims[0] + dims[1],
                                true };
    const TensorId in[OP_MAX_INPUTS] = { [CONV_IN_X] = x,
                                         [CONV_IN_W] = add_weight(g, layer, &weight, 2, dims),
                                         [CONV_IN_B] = add_weight(g, layer, &bias, 1, dims) };
    const char *name = arena_printf(g->arena, "%s.in_proj", layer);
    if (!name) graph_break(g, ERR_MEMORY);
    return node_output(
        g, name ? graph_add_node(g, OP_CONV2D, PHASE_FORWARD, name, &attr, in, NULL, NULL) : -1,
        CONV_OUT_Y);
}

TensorId graph_tokens(Graph *g, const char *name, TensorId x, const char *first,
                      const char *positions)
{
    TensorDesc xd;
    if (!take_desc(g, name, x, 4, &xd)) return TENSOR_NONE;
    const int64_t channels = xd.dims[1], first_dims[] = { 1, 1, channels },
                  dims[] = { 1, xd.dims[2] * xd.dims[3] + 1, channels };
    const WeightSpec token = { first, ROLE_PARAM, INIT_ZERO, 0, false },
                     place = { positions, ROLE_PARAM, INIT_ZERO, 0, false };
    const TensorId in[OP_MAX_INPUTS] = { [TOKENS_IN_X] = x,
                                         [TOKENS_IN_CLASS] =
                                             add_weight(g, "", &token, 3, first_dims),
                                         [TOKENS_IN_POSITIONS] =
                                             add_weight(g, "", &place, 3, dims) };
    return node_output(g, graph_add_node(g, OP_TOKENS, PHASE_FORWARD, name, NULL, in, NULL, NULL),
                       TOKENS_OUT_Y);
}

/* Rows of a table under its whole name. */
static TensorId add_table(Graph *g, const char *name, int64_t rows, int64_t width)
{
    const WeightSpec table = { name, ROLE_PARAM, INIT_NORMAL, 50, true };
    return add_weight(g, "", &table, 2, (const int64_t[]){ rows, width });
}

static TensorId add_indices(Graph *g, const char *name, int rank, int64_t a, int64_t b)
{
    const TensorDesc desc = tensor_desc(DTYPE_I32, rank, (const int64_t[]){ a, b });
    return graph_add_tensor(g, name, ROLE_INPUT, &desc);
}

TensorId graph_embed(Graph *g, const char *name, const EmbedOptions *e)
{
    const GraphOptions *o = &g->options;
    const int64_t places = o->places ? o->places : o->batch * o->tokens;
    const int64_t words = o->words ? o->words : o->classes;
    const EmbedAttr attr = { .offset = e->offset };
    TensorId in[OP_MAX_INPUTS];
    if (g->status != OK) return TENSOR_NONE;
    if (o->segments != !!e->segments || e->offset + o->tokens > e->position_rows) {
        graph_break(g,
                    fail(ERR_INTERNAL, "%s: %lld positions from %d on, %s segments", name,
                         (long long)e->position_rows, e->offset, o->segments ? "with" : "without"));
        return TENSOR_NONE;
    }
    in[EMBED_IN_WORDS] = add_table(g, e->words, words, e->width);
    in[EMBED_IN_POSITIONS] = add_table(g, e->positions, e->position_rows, e->width);
    in[EMBED_IN_SEGMENTS] =
        o->segments ? add_table(g, e->segments, e->segment_rows, e->width) : TENSOR_NONE;
    in[EMBED_IN_IDS] = add_indices(g, "ids", 1, places, 0);
    in[EMBED_IN_WHERE] = add_indices(g, "where", 2, places, 2);
    in[EMBED_IN_SEGMENT_IDS] = o->segments ? add_indices(g, "segments", 1, places, 0) : TENSOR_NONE;
    add_indices(g, "starts", 1, o->batch + 1, 0);
    if (o->training) add_indices(g, "order", 1, places, 0);
    if (o->masked) add_indices(g, "rows", 1, o->masked, 0);
    return node_output(g, graph_add_node(g, OP_EMBED, PHASE_FORWARD, name, &attr, in, NULL, NULL),
                       EMBED_OUT_Y);
}

TensorId graph_pick(Graph *g, const char *name, TensorId x, TensorId rows)
{
    TensorDesc rd;
    if (!take_desc(g, name, rows, 1, &rd)) return TENSOR_NONE;
    const PickAttr attr = { .count = rd.dims[0] - (rows == graph_input(g, "starts")) };
    const TensorId in[OP_MAX_INPUTS] = { [PICK_IN_X] = x, [PICK_IN_ROWS] = rows };
    return node_output(g, graph_add_node(g, OP_PICK, PHASE_FORWARD, name, &attr, in, NULL, NULL),
                       PICK_OUT_Y);
}

TensorId graph_layer_scale(Graph *g, const char *layer, const char *suffix, TensorId x, bool flat,
                           int64_t inverse)
{
    const WeightSpec factors = { suffix, ROLE_PARAM, INIT_INVERSE, inverse, false };
    TensorDesc xd;
    if (!take_desc(g, layer, x, 4, &xd)) return TENSOR_NONE;
    const Conv2dAttr attr = { .stride_h = 1, .stride_w = 1, .groups = (int)xd.dims[1] };
    const int64_t dims[] = { xd.dims[1], 1, 1 };
    return add_conv(g, layer, x, &attr, &factors, flat ? 1 : 3, dims, false);
}

TensorId graph_conv2d(Graph *g, const char *name, TensorId x, int64_t filters, int kernel_size,
                      int stride, int pad, int groups)
{
    const Conv2dAttr attr = { .stride_h = stride,
                              .stride_w = stride,
                              .pad_top = pad,
                              .pad_bottom = pad,
                              .pad_left = pad,
                              .pad_right = pad,
                              .groups = groups };
    return graph_conv2d_attr(g, name, x, filters, kernel_size, &attr, false);
}

/* The sums of x, which whoever runs the graph adds up over ranks. */
static TensorId add_sums(Graph *g, const char *name, TensorId x)
{
    const char *own = arena_printf(g->arena, "%s.sums", name);
    if (!own) graph_break(g, ERR_MEMORY);
    return own ? add_unary(g, OP_BN_SUMS, own, NULL, x) : TENSOR_NONE;
}

TensorId graph_batchnorm(Graph *g, const char *name, TensorId x, const BnOptions *bn)
{
    TensorDesc xd;
    if (!take_desc(g, name, x, 4, &xd)) return TENSOR_NONE;
    const WeightSpec gamma = { "weight", ROLE_PARAM, bn->zero_gamma ? INIT_ZERO : INIT_ONE, 0,
                               false };
    const WeightSpec beta = { "bias", ROLE_PARAM, INIT_ZERO, 0, false };
    const WeightSpec mean = { "running_mean", ROLE_BUFFER, INIT_ZERO, 0, false };
    const WeightSpec var = { "running_var", ROLE_BUFFER, INIT_ONE, 0, false };
    const int64_t dims[] = { xd.dims[1] };
    TensorId in[OP_MAX_INPUTS] = { [BN_IN_X] = x, [BN_IN_RESIDUAL] = bn->residual };
    in[BN_IN_GAMMA] = add_weight(g, name, &gamma, 1, dims);
    in[BN_IN_BETA] = add_weight(g, name, &beta, 1, dims);
    in[BN_IN_RUNNING_MEAN] = add_weight(g, name, &mean, 1, dims);
    in[BN_IN_RUNNING_VAR] = add_weight(g, name, &var, 1, dims);
    const BatchNormMode mode = !g->options.training                 ? BN_EVAL
                               : bn->frozen || g->options.bn_frozen ? BN_FROZEN
                                                                    : BN_TRAIN;
    const bool over_ranks = mode == BN_TRAIN && g->options.bn_ranks > 1;
    const BatchNormAttr attr = { .eps = bn->eps,
                                 .momentum = bn->momentum,
                                 .mode = mode,
                                 .act = bn->act,
                                 .ranks = over_ranks ? g->options.bn_ranks : 0 };
    in[BN_IN_SUMS] = over_ranks ? add_sums(g, name, x) : TENSOR_NONE;
    const bool wanted[OP_MAX_OUTPUTS] = { [BN_OUT_Y] = true, [BN_OUT_SAVED] = g->options.training };
    return node_output(
        g, graph_add_node(g, OP_BATCHNORM, PHASE_FORWARD, name, &attr, in, wanted, NULL), BN_OUT_Y);
}

/* kind: OP_LAYERNORM, or OP_GRN, which has the same slots. */
static TensorId add_layer_norm(Graph *g, OpKind kind, const char *name, TensorId x, float eps)
{
    const WeightSpec gamma = { "weight", ROLE_PARAM, kind == OP_GRN ? INIT_ZERO : INIT_ONE, 0,
                               false },
                     beta = { "bias", ROLE_PARAM, INIT_ZERO, 0, false };
    TensorDesc xd;
    if (!take_desc(g, name, x, 0, &xd)) return TENSOR_NONE;
    const LayerNormAttr attr = { .eps = eps };
    const int64_t dims[] = { xd.dims[1] };
    TensorId in[OP_MAX_INPUTS] = { [LAYERNORM_IN_X] = x };
    in[LAYERNORM_IN_GAMMA] = add_weight(g, name, &gamma, 1, dims);
    in[LAYERNORM_IN_BETA] = add_weight(g, name, &beta, 1, dims);
    return node_output(g, graph_add_node(g, kind, PHASE_FORWARD, name, &attr, in, NULL, NULL),
                       LAYERNORM_OUT_Y);
}

TensorId graph_layernorm(Graph *g, const char *name, TensorId x, float eps)
{
    return add_layer_norm(g, OP_LAYERNORM, name, x, eps);
}

TensorId graph_grn(Graph *g, const char *name, TensorId x, float eps)
{
    return add_layer_norm(g, OP_GRN, name, x, eps);
}

TensorId graph_activation(Graph *g, const char *name, TensorId x, ActKind act)
{
    const ActivationAttr attr = { .act = act };
    return add_unary(g, OP_ACTIVATION, name, &attr, x);
}

TensorId graph_pool2d(Graph *g, const char *name, TensorId x, const Pool2dAttr *attr)
{
    const TensorId in[OP_MAX_INPUTS] = { [POOL_IN_X] = x };
    const bool wanted[OP_MAX_OUTPUTS] = {
        [POOL_OUT_Y] = true, [POOL_OUT_INDEX] = g->options.training && attr->kind == POOL_MAX
    };
    return node_output(g, graph_add_node(g, OP_POOL2D, PHASE_FORWARD, name, attr, in, wanted, NULL),
                       POOL_OUT_Y);
}

TensorId graph_blur(Graph *g, const char *name, TensorId x, int stride, bool reflect)
{
    TensorDesc xd;
    if (!take_desc(g, name, x, 4, &xd)) return TENSOR_NONE;
    if (reflect && (xd.dims[2] < 2 || xd.dims[3] < 2)) {
        graph_break(
            g, fail(ERR_USAGE, "%s: a single pixel cannot be mirrored; use larger images", name));
        return TENSOR_NONE;
    }
    const Pool2dAttr attr = { .kind = reflect ? POOL_BLUR_REFLECT : POOL_BLUR,
                              .kernel_h = 3,
                              .kernel_w = 3,
                              .stride_h = stride,
                              .stride_w = stride,
                              .pad_h = 1,
                              .pad_w = 1 };
    return graph_pool2d(g, name, x, &attr);
}

TensorId graph_global_avgpool(Graph *g, const char *name, TensorId x)
{
    return add_unary(g, OP_GLOBAL_AVGPOOL, name, NULL, x);
}

TensorId graph_subsample(Graph *g, const char *name, TensorId x, int stride, int64_t out_channels)
{
    const SubsampleAttr attr = { .stride = stride, .out_channels = out_channels };
    return add_unary(g, OP_SUBSAMPLE, name, &attr, x);
}

typedef struct LinearOptions {
    InitKind weight, bias;
    int rank;     /* of the weights */
    bool fan_out; /* the fan of first values is that of outputs */
    bool no_bias;
} LinearOptions;

static TensorId add_linear(Graph *g, const char *name, TensorId x, int64_t out_features,
                           const LinearOptions *o)
{
    TensorDesc xd;
    if (!take_desc(g, name, x, 0, &xd)) return TENSOR_NONE;
    int64_t features = 1;
    for (int i = 1; i < xd.rank; i++) features *= xd.dims[i];
    const int64_t fan = o->fan_out ? out_features : features;
    const WeightSpec weight = { "weight", ROLE_PARAM, o->weight, fan, true };
    const WeightSpec bias = { "bias", ROLE_PARAM, o->bias, fan, false };
    const int64_t weight_dims[] = { out_features, features, 1, 1 }, bias_dims[] = { out_features };
    TensorId in[OP_MAX_INPUTS] = { [LINEAR_IN_X] = x };
    in[LINEAR_IN_W] = add_weight(g, name, &weight, o->rank, weight_dims);
    in[LINEAR_IN_B] = o->no_bias ? TENSOR_NONE : add_weight(g, name, &bias, 1, bias_dims);
    return node_output(g, graph_add_node(g, OP_LINEAR, PHASE_FORWARD, name, NULL, in, NULL, NULL),
                       LINEAR_OUT_Y);
}

TensorId graph_linear(Graph *g, const char *name, TensorId x, int64_t out_features)
{
    const LinearOptions o = { .weight = INIT_UNIFORM_FAN, .bias = INIT_UNIFORM_FAN, .rank = 2 };
    return add_linear(g, name, x, out_features, &o);
}

TensorId graph_linear_no_bias(Graph *g, const char *name, TensorId x, int64_t out_features)
{
    const LinearOptions o = { .weight = INIT_UNIFORM_FAN, .rank = 2, .no_bias = true };
    return add_linear(g, name, x, out_features, &o);
}

TensorId graph_linear_tied(Graph *g, const char *name, TensorId x, TensorId weight)
{
    static const WeightSpec bias = { "bias", ROLE_PARAM, INIT_ZERO, 0, false };
    TensorDesc wd;
    if (!take_desc(g, name, weight, 2, &wd)) return TENSOR_NONE;
    const TensorId in[OP_MAX_INPUTS] = { [LINEAR_IN_X] = x,
                                         [LINEAR_IN_W] = weight,
                                         [LINEAR_IN_B] = add_weight(g, name, &bias, 1, wd.dims) };
    return node_output(g, graph_add_node(g, OP_LINEAR, PHASE_FORWARD, name, NULL, in, NULL, NULL),
                       LINEAR_OUT_Y);
}

TensorId graph_linear_fan_out(Graph *g, const char *name, TensorId x, int64_t out_features)
{
    const LinearOptions o = {
        .weight = INIT_UNIFORM_FAN, .bias = INIT_ZERO, .rank = 2, .fan_out = true
    };
    return add_linear(g, name, x, out_features, &o);
}

TensorId graph_linear_1x1(Graph *g, const char *name, TensorId x, int64_t out_features)
{
    const LinearOptions o = {
        .weight = INIT_HE_FAN_OUT, .bias = INIT_ZERO, .rank = 4, .fan_out = true
    };
    return add_linear(g, name, x, out_features, &o);
}

TensorId graph_scale(Graph *g, const char *name, TensorId x, float factor)
{
    const ScaleAttr attr = { .factor = factor };
    return add_unary(g, OP_SCALE, name, &attr, x);
}

void graph_set_init(Graph *g, const char *parameter, InitKind init, int64_t fan, bool frozen)
{
    if (g->status != OK) return;
    const TensorId id = graph_find(g, parameter);
    if (id == TENSOR_NONE) {
        graph_break(g, fail(ERR_INTERNAL, "%s: no such parameter", parameter));
        return;
    }
    g->tensors[id].init = init;
    g->tensors[id].fan = fan;
    g->tensors[id].frozen = frozen;
}

TensorId graph_add(Graph *g, const char *name, TensorId a, TensorId b)
{
    const TensorId in[OP_MAX_INPUTS] = { [ADD_IN_A] = a, [ADD_IN_B] = b };
    return node_output(g, graph_add_node(g, OP_ADD, PHASE_FORWARD, name, NULL, in, NULL, NULL),
                       ADD_OUT_Y);
}

TensorId graph_gate(Graph *g, const char *name, TensorId x, TensorId gate, bool hard)
{
    const GateAttr attr = { .hard = hard };
    const TensorId in[OP_MAX_INPUTS] = { [GATE_IN_X] = x, [GATE_IN_G] = gate };
    return node_output(g, graph_add_node(g, OP_GATE, PHASE_FORWARD, name, &attr, in, NULL, NULL),
                       GATE_OUT_Y);
}

/* The step scalars, an input that the first node which reads them creates. */
static TensorId take_scalars(Graph *g)
{
    const int64_t dims[] = { SCALAR_COUNT };
    const TensorDesc desc = tensor_desc(DTYPE_F32, 1, dims);
    const TensorId have = graph_input(g, "scalars");
    return have != TENSOR_NONE ? have : graph_add_tensor(g, "scalars", ROLE_INPUT, &desc);
}

/* Of the next layer that draws. */
static DropAttr drop_attr(const Graph *g, float rate, bool per_image)
{
    DropAttr attr = { .seed = g->options.seed, .rate = rate, .per_image = per_image };
    for (int i = 0; i < g->node_count; i++)
        attr.layer += g->nodes[i].kind == OP_DROP || g->nodes[i].kind == OP_ATTENTION;
    return attr;
}

TensorId graph_drop(Graph *g, const char *name, TensorId x, float rate, bool per_image,
                    TensorId residual)
{
    const DropAttr attr = drop_attr(g, rate, per_image);
    TensorDesc xd;
    if (!take_desc(g, name, x, 0, &xd)) return TENSOR_NONE;
    const TensorId in[OP_MAX_INPUTS] = {
        [DROP_IN_X] = x,
        [DROP_IN_SCALARS] = take_scalars(g),
        [DROP_IN_RESIDUAL] = residual,
        [DROP_IN_WHERE] = xd.rank == 4 && !per_image ? graph_input(g, "where") : TENSOR_NONE,
    };
    return node_output(g, graph_add_node(g, OP_DROP, PHASE_FORWARD, name, &attr, in, NULL, NULL),
                       DROP_OUT_Y);
}

TensorId graph_attention(Graph *g, const char *name, TensorId qkv, int heads, float drop_rate)
{
    const bool training = g->options.training, drops = training && drop_rate > 0;
    const AttentionAttr attr = { .heads = heads,
                                 .longest = (int)g->options.tokens,
                                 .drop = drop_attr(g, drops ? drop_rate : 0, false) };
    const TensorId in[OP_MAX_INPUTS] = {
        [ATTENTION_IN_QKV] = qkv,
        [ATTENTION_IN_SCALARS] = drops ? take_scalars(g) : TENSOR_NONE,
        [ATTENTION_IN_STARTS] = graph_input(g, "starts"),
    };
    const bool wanted[OP_MAX_OUTPUTS] = {
        [ATTENTION_OUT_Y] = true, [ATTENTION_OUT_LSE] = training
    };
    return node_output(
        g, graph_add_node(g, OP_ATTENTION, PHASE_FORWARD, name, &attr, in, wanted, NULL),
        ATTENTION_OUT_Y);
}

TensorId graph_softmax_xent(Graph *g, TensorId logits)
{
    TensorDesc ld;
    if (!take_desc(g, "loss", logits, 2, &ld)) return TENSOR_NONE;
    const int views = g->options.training ? VIEWS_ONE : op_input_views(g->options.views);
    const int64_t label_dims[] = { ld.dims[0] / views };
    const TensorDesc labels = tensor_desc(DTYPE_I32, 1, label_dims);
    const int64_t loss_scale_dims[] = { LOSS_SCALE_COUNT };
    const TensorDesc loss_scale = tensor_desc(DTYPE_F32, 1, loss_scale_dims);
    const TensorDesc weights = tensor_desc(DTYPE_F32, 1, (int64_t[]){ ld.dims[1] });
    const TensorDesc targets =
        tensor_desc(DTYPE_U8, 2, (int64_t[]){ label_dims[0], (ld.dims[1] + 7) / 8 });
    const GraphOptions *o = &g->options;
    TensorId in[OP_MAX_INPUTS] = { [XENT_IN_LOGITS] = logits,
                                   [XENT_IN_LOSS_SCALE] = TENSOR_NONE,
                                   [XENT_IN_CLASS_WEIGHTS] = TENSOR_NONE,
                                   [XENT_IN_TARGETS] = TENSOR_NONE,
                                   [XENT_IN_TEACHER] = TENSOR_NONE };
    in[XENT_IN_MIX] = graph_input(g, "mix");
    in[XENT_IN_LABELS] = graph_add_tensor(g, "labels", ROLE_INPUT, &labels);
    in[XENT_IN_SCALARS] = take_scalars(g);
    if (g->options.training && g->options.loss_scale)
        in[XENT_IN_LOSS_SCALE] = graph_add_tensor(g, "loss_scale", ROLE_INPUT, &loss_scale);
    if (o->training && o->class_weights)
        in[XENT_IN_CLASS_WEIGHTS] = graph_add_tensor(g, "class_weights", ROLE_INPUT, &weights);
    if (o->multi) in[XENT_IN_TARGETS] = graph_add_tensor(g, "targets", ROLE_INPUT, &targets);
    const XentAttr attr = { .label_smoothing = o->label_smoothing,
                            .views = views,
                            .loss = o->training || o->multi ? o->loss : LOSS_CROSS_ENTROPY,
                            .threshold = o->bce_threshold,
                            .sum = o->bce_sum,
                            .temperature = o->distill_temperature,
                            .distill = o->distill_weight };
    const bool wanted[OP_MAX_OUTPUTS] = {
        [XENT_OUT_STATS] = true, [XENT_OUT_DLOGITS] = g->options.training
    };
    TensorId stats = node_output(
        g, graph_add_node(g, OP_SOFTMAX_XENT, PHASE_FORWARD, "loss", &attr, in, wanted, NULL),
        XENT_OUT_STATS);
    if (stats == TENSOR_NONE) return stats;
    g->tensors[stats].role = ROLE_OUTPUT;
    g->tensors[stats].name = "stats";
    g->logits = logits;
    return stats;
}
