/* graph.h - a network as one append-only array of nodes, and the builder that models/ write it
 * with.
 *
 * Ids are indices and an input must already exist, so the array is the topological order:
 * everything afterwards reads it forward. graph_append_backward() appends gradient nodes (phase
 * BACKWARD) behind the forward ones. A graph has a fixed batch size and image size; several
 * programs (training, evaluation) are several graphs whose parameters have the same names in the
 * same order.
 *
 * The builder is sticky: after an error every call returns TENSOR_NONE and graph_status() tells the
 * first error, so a model is written without an if per line. All memory is the graph's arena. */
#ifndef CONVOY_MODELS_GRAPH_GRAPH_H
#define CONVOY_MODELS_GRAPH_GRAPH_H
#include "base/status.h"
#include "kernels/op.h"

typedef int TensorId;
#define TENSOR_NONE (-1)

typedef enum TensorRole {
    ROLE_INPUT,      /* given from outside each step: images, labels, scalars */
    ROLE_PARAM,      /* trained; name is torchvision's */
    ROLE_BUFFER,     /* batch-norm running statistics; name is torchvision's */
    ROLE_GRAD,       /* gradient of a parameter */
    ROLE_ACTIVATION, /* everything in between */
    ROLE_OUTPUT,     /* read from outside: stats */
    ROLE_TEACHER     /* a teacher's parameter or buffer, which no run changes: teacher.NAME */
} TensorRole;
typedef enum Phase { PHASE_FORWARD, PHASE_BACKWARD } Phase;
typedef enum InitKind {
    INIT_ZERO,
    INIT_ONE,
    INIT_INVERSE /*1/fan*/,
    INIT_HE_FAN_OUT /*normal, sqrt(2/fan), fan = K R S*/,
    INIT_XAVIER /*U(+-sqrt(6/fan)), fan = inputs + outputs*/,
    INIT_UNIFORM_FAN /*U(+-1/sqrt(fan)); with fan_in as torch.nn.Linear*/,
    INIT_NORMAL /*normal, 1/fan: MobileNet's and RegNet's last layers have 100*/,
    INIT_NORMAL_PADDED /*the same, with zeros in the row of <pad>, which is the second*/,
    /* INIT_UNIFORM_FAN, then filter k < C of a convolution becomes channel k itself */
    INIT_IDENTITY,
    /* made of the training images when a run begins (models/whiten.h); until then
     * INIT_UNIFORM_FAN */
    INIT_WHITEN
} InitKind;

typedef struct GraphTensor {
    /* params and buffers: torchvision's; others: producing node's name; never NULL */
    const char *name;
    TensorDesc desc;
    TensorRole role;
    int producer; /* node index, -1 for inputs, parameters and buffers */
    /* The producer, or of a gradient the last node with it among its inputs, which adds to it in
     * place: that of a second use of the parameter. */
    int last_writer;
    /* params: their gradient tensor once backward was appended; else TENSOR_NONE */
    TensorId grad;
    TensorId grad_of; /* ROLE_GRAD: the parameter; else TENSOR_NONE */
    InitKind init;    /* params and buffers */
    int64_t fan;      /* for init */
    /* params: weight decay applies by default (convolution and linear weights, not biases and
     * norms) */
    bool decay;
    bool frozen; /* params: stays as it is and has no gradient (graph_freeze, graph_set_init) */
} GraphTensor;

typedef struct GraphNode {
    OpKind kind;
    Phase phase;
    const char *name; /* "layer1.0.conv1"; backward nodes "layer1.0.conv1.bwd_data" */
    const void *attr;
    bool again;   /* repeats one of forward (FuseOptions.recompute) */
    bool teacher; /* of the teacher's evaluation, whatever the graph is for */
    TensorId in[OP_MAX_INPUTS], out[OP_MAX_OUTPUTS]; /* TENSOR_NONE where absent */
} GraphNode;

typedef struct Graph Graph;
Status graph_create(Graph **out);
void graph_destroy(Graph *g);
FREED_BY_POINTER(Graph, graph_destroy)
/* What of n's outputs must be summed over ranks before anybody reads it; TENSOR_NONE: nothing. */
TensorId graph_rank_sum(const GraphNode *n);
/* the first error of the builder; its sentence is re-recorded with fail() */
Status graph_status(const Graph *g);
int graph_node_count(const Graph *g);
int graph_tensor_count(const Graph *g);
const GraphNode *graph_node(const Graph *g, int index);
const GraphTensor *graph_tensor(const Graph *g, TensorId id);
/* parameter or buffer by name, a teacher's too; TENSOR_NONE */
TensorId graph_find(const Graph *g, const char *name);
int64_t graph_parameter_elements(const Graph *g); /* sum over ROLE_PARAM */
double graph_flops(const Graph *g, Phase phase);
double graph_node_flops(const Graph *g, int index);
/* Products of the forward convolutions, linear layers and attentions: what papers call
 * multiply-adds. */
int64_t graph_multiply_adds(const Graph *g);
/* What the products of a step take, forward and backward, fused or not: FLOPs of convolutions,
 * linear layers and attentions and of their gradients, once each. */
double graph_product_flops(const Graph *g);

/* what building a network depends on besides its description */
typedef struct GraphOptions {
    int64_t batch, channels, height, width; /* images */
    int64_t classes;
    /* Text: the most tokens of one of the batch's sequences, in a canvas (kernels/op_embed.h); 0:
     * images. */
    int64_t tokens;
    int64_t places; /* of the canvas; 0: batch * tokens, with which all batches fit */
    int64_t words;  /* the dictionary, with <mask>; 0: classes */
    int64_t masked; /* rows of the network's head; 0: one for each sequence */
    bool segments;  /* words are of one of several segments */
    /* training: batch statistics (unless frozen), backward can be appended; else evaluation */
    bool training;
    bool bn_frozen;
    int bn_ranks; /* training: statistics are of so many ranks' batches; 0, 1: of this batch */
    /* training: the gradient of the logits is multiplied by a dynamic loss scale, an input */
    bool loss_scale;
    float label_smoothing;
    /* training (evaluation's is cross entropy, unless multi); bce_*: XentAttr's threshold, sum */
    LossKind loss;
    float bce_threshold;
    bool bce_sum, class_weights;
    float distill_temperature, distill_weight; /* XentAttr's, where there is a teacher */
    bool multi; /* any number of labels per image: the loss is LOSS_BCE, in evaluation too */
    /* training: boxes are erased, images and targets are mixed, as further inputs say */
    bool erase, mix;
    EraseMode erase_mode;
    int views;          /* evaluation: VIEWS_..., whose logits are averaged */
    uint64_t seed;      /* training: of the draws of dropout and stochastic depth */
    const char *freeze; /* training: graph_freeze()'s list; NULL: none. Borrowed by model_build() */
    float mean[OP_MAX_IMAGE_CHANNELS], std[OP_MAX_IMAGE_CHANNELS];
} GraphOptions;

/* ---- builder: names are joined by the caller; weights are created as name.weight, name.bias,
 * name.running_mean, name.running_var ---- */
/* "images" u8 N,H,W,C -> OP_INPUT -> f32 N,C,H,W; where the options say so also from "erase" i32
 * [N,ERASE_COUNT] and "mix" f32 [MIX_COUNT], and with several views to as many times N images. */
TensorId graph_images(Graph *g, const GraphOptions *o);
typedef struct EmbedOptions {
    const char *words, *positions, *segments; /* names of the tables; NULL: no segments */
    int64_t width;                            /* of their rows */
    int64_t position_rows, segment_rows;
    int offset; /* the row of a sequence's first position */
} EmbedOptions;
/* Canvas of the inputs i32 "ids" [T], "where" [T,2], "starts" [N+1], with options.segments
 * "segments" [T], in training "order" [T], and with options.masked "rows" [masked]
 * (kernels/op_embed.h), where N is options.batch and T is N times options.tokens. Tables start
 * normal, with deviation 0.02. */
TensorId graph_embed(Graph *g, const char *name, const EmbedOptions *e);
/* The places of canvas x that rows names, as [rows,C]: input "rows", or "starts" for the first
 * words of all sequences. */
TensorId graph_pick(Graph *g, const char *name, TensorId x, TensorId rows);
TensorId graph_conv2d(Graph *g, const char *name, TensorId x, int64_t filters, int kernel_size,
                      int stride, int pad, int groups);
/* The same with all that a convolution can have; attr->groups divides channels and filters.
 * fan_per_group: initial values are drawn for K R S / groups. */
TensorId graph_conv2d_attr(Graph *g, const char *name, TensorId x, int64_t filters, int kernel_size,
                           const Conv2dAttr *attr, bool fan_per_group);
/* The same with a bias, name.bias. */
TensorId graph_conv2d_biased(Graph *g, const char *name, TensorId x, int64_t filters,
                             int kernel_size, const Conv2dAttr *attr);
/* A linear layer with bias over the channels of each position of x [N,C,H,W]: name.weight
 * [out_features,C]. A 1x1 convolution to those who compute it. */
TensorId graph_linear_positions(Graph *g, const char *name, TensorId x, int64_t out_features);
/* The same under the names that torch.nn.MultiheadAttention gives what packs queries, keys and
 * values: layer.in_proj_weight, layer.in_proj_bias. */
TensorId graph_linear_packed(Graph *g, const char *layer, TensorId x, int64_t out_features);
/* A sequence of a class token and x's pixels, with positions added, of which the parameters have
 * these names: [1,1,C] and [1,L,C]. They start at zero, as graph_set_init() may change. */
TensorId graph_tokens(Graph *g, const char *name, TensorId x, const char *first,
                      const char *positions);
/* x times a factor for each channel, layer.suffix [C,1,1] (torchvision's) or [C] (timm's), all of
 * which start at 1 / inverse: a convolution of each channel with one weight. Touvron et al. 2021,
 * LayerScale. */
TensorId graph_layer_scale(Graph *g, const char *layer, const char *suffix, TensorId x, bool flat,
                           int64_t inverse);
typedef struct BnOptions {
    float eps, momentum;
    ActKind act;
    TensorId residual;
    bool zero_gamma;
    bool frozen; /* by its running statistics in training too */
} BnOptions;
TensorId graph_batchnorm(Graph *g, const char *name, TensorId x, const BnOptions *bn);
/* Over the channels of each position of x (rank 4 or 2): name.weight, name.bias. */
TensorId graph_layernorm(Graph *g, const char *name, TensorId x, float eps);
/* Global response normalisation (kernels/op_norm.h): name.weight, name.bias, both 0 at first. */
TensorId graph_grn(Graph *g, const char *name, TensorId x, float eps);
TensorId graph_activation(Graph *g, const char *name, TensorId x, ActKind act);
TensorId graph_pool2d(Graph *g, const char *name, TensorId x, const Pool2dAttr *attr);
/* A 3x3 blur (POOL_BLUR), padded by 1 with zeros or mirrored; it has no parameters. ERR_USAGE where
 * the image is too small for a mirror. */
TensorId graph_blur(Graph *g, const char *name, TensorId x, int stride, bool reflect);
TensorId graph_global_avgpool(Graph *g, const char *name, TensorId x);
TensorId graph_subsample(Graph *g, const char *name, TensorId x, int stride, int64_t out_channels);
TensorId graph_linear(Graph *g, const char *name, TensorId x, int64_t out_features);
/* The same with other first values: weights from U(+-1/sqrt(out_features)), biases zero. */
TensorId graph_linear_fan_out(Graph *g, const char *name, TensorId x, int64_t out_features);
/* graph_linear() without a bias. */
TensorId graph_linear_no_bias(Graph *g, const char *name, TensorId x, int64_t out_features);
/* graph_linear() with the rows of another layer's table [out_features,C] for weights: of its own it
 * has the bias, zeros at first. */
TensorId graph_linear_tied(Graph *g, const char *name, TensorId x, TensorId weight);
/* A 1x1 convolution with bias of images of one pixel, given as N,C: weights are shaped and start as
 * a convolution's. */
TensorId graph_linear_1x1(Graph *g, const char *name, TensorId x, int64_t out_features);
TensorId graph_add(Graph *g, const char *name, TensorId a, TensorId b); /* a + b */
/* hard: GateAttr's */
TensorId graph_gate(Graph *g, const char *name, TensorId x, TensorId gate, bool hard);
TensorId graph_scale(Graph *g, const char *name, TensorId x, float factor);
/* Another rule for the first values of a parameter that a layer has made, and whether it stays at
 * them. */
void graph_set_init(Graph *g, const char *parameter, InitKind init, int64_t fan, bool frozen);
/* Dropout of elements, or of whole images, and then the sum with residual (TENSOR_NONE: none); for
 * training graphs and rates above 0. Elements of a canvas are drawn by its input "where". */
TensorId graph_drop(Graph *g, const char *name, TensorId x, float rate, bool per_image,
                    TensorId residual);
/* Multi-head attention of packed queries, keys and values (kernels/op_attention.h); what it drops
 * of the softmax it drops in training. In a canvas within each sequence, by its input "starts". */
TensorId graph_attention(Graph *g, const char *name, TensorId qkv, int heads, float drop_rate);
/* Ends the network: creates inputs "labels" i32, one for each row of the logits (of several views,
 * each image), "scalars" f32 [SCALAR_COUNT] and, where the options say so, "loss_scale" f32
 * [LOSS_SCALE_COUNT], "class_weights" f32 [classes] and "targets" u8 [labels, (classes + 7) / 8];
 * takes "mix" where graph_images() made it; and the output "stats" f64 [4]. */
TensorId graph_softmax_xent(Graph *g, TensorId logits);
TensorId graph_logits(const Graph *g); /* what graph_softmax_xent was given */
TensorId graph_input(const Graph *g,
                     /* "images", "labels", "scalars", "loss_scale", "class_weights", "targets",
                      * "erase", "mix", those of graph_embed(), "stats" */
                     const char *name);

/* The general door behind all of the above and of grad.c: infers shapes, creates the outputs that
 * wanted[] names. attr is copied. preset[i].rank != 0 fixes an output's shape. Returns the node
 * index or -1. */
int graph_add_node(Graph *g, OpKind kind, Phase phase, const char *name, const void *attr,
                   const TensorId *in, const bool *wanted, const TensorDesc *preset);
TensorId graph_add_tensor(Graph *g, const char *name, TensorRole role, const TensorDesc *desc);
void graph_set_options(Graph *g, const GraphOptions *o); /* copied; builder calls read it */
const GraphOptions *graph_options(const Graph *g);

/* freeze.c: the parameters that training leaves as they are, by a list of items between commas or
 * blanks (NULL, "": none). One with * or ? in it, or the name of a parameter, stands for what it
 * matches; any other for the stage or layer of that name and all that the network has before it. A
 * batch norm of frozen parameters goes on by its mode, and so do its running statistics. Between
 * the network and its backward pass. ERR_USAGE naming model.freeze: an item fits nothing, or
 * nothing is left to train. */
Status graph_freeze(Graph *g, const char *list);

/* teacher.c: puts the evaluation that teacher is before g's own nodes, between the network and its
 * backward pass: of the same images, erased and mixed as g's are, but normalised by the teacher's
 * mean and std. The loss of g takes its logits. Nothing of teacher is borrowed. */
Status graph_add_teacher(Graph *g, const Graph *teacher);

/* grad.c: walks the nodes in reverse and appends one backward node (or two: data, weights) per
 * forward node by its op's rule; sums gradients of a tensor with several consumers by OP_ADD.
 * Parameters get grad tensors; the gradient of images is never computed, nor any below which no
 * parameter trains. */
Status graph_append_backward(Graph *g);

/* Which results of forward a training step does not keep for backward but makes again, with the
 * same bits: those of one pass over memory, or all but the inputs of blocks. */
typedef enum Recompute {
    RECOMPUTE_NONE,
    RECOMPUTE_NORMS,
    RECOMPUTE_BLOCKS,
    RECOMPUTE_COUNT
} Recompute;
extern const char *const recompute_names[RECOMPUTE_COUNT + 1]; /* NULL at the end */

typedef struct FuseOptions {
    bool add_into_batchnorm_bwd;
    /* Whether fusion's ops `after` are to replace those `before`; NULL: never. */
    bool (*takes)(void *cookie, const Fusion *fusion);
    void *cookie;
    Recompute recompute; /* of a graph with a backward pass */
} FuseOptions;
/* fuse.c: rewrites patterns that the backend offers; the graph stays in topological order, unused
 * nodes are removed. */
Status graph_fuse(Graph *g, const FuseOptions *o);

/* dump.c */
struct StrBuf;
/* layer, output shape, parameters, FLOPs; totals */
Status graph_dump_table(const Graph *g, struct StrBuf *out);
Status graph_dump_dot(const Graph *g, struct StrBuf *out);
#endif
