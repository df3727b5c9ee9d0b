/* blocks.h - the pieces that the residual networks are made of. Each appends nodes to a graph and
 * returns the tensor it ends in. */
#ifndef CONVOY_MODELS_BLOCKS_H
#define CONVOY_MODELS_BLOCKS_H
#include "models/models.h"

#define BLOCK_NAME_MAX 64

/* Square convolution, padded so that stride 1 keeps the size, then batch norm with what it can do
 * on the way out. */
typedef struct ConvBnOptions {
    int64_t filters;
    int kernel_size, stride;
    ActKind act;
    TensorId residual; /* added before the activation; TENSOR_NONE: none */
    bool zero_gamma;
    int groups; /* 0: 1 */
    /* TensorFlow's: as many positions as strides fit into the image, the odd pixel behind */
    bool same_padding;
    bool fan_per_group;  /* graph_conv2d_attr() */
    float eps, momentum; /* 0: 1e-5, 0.1 */
    BlurPool blurpool;   /* where it has a stride */
} ConvBnOptions;
TensorId block_conv_bn(Graph *g, const char *conv_name, const char *bn_name, TensorId x,
                       const ConvBnOptions *o);

/* For convolutions that timm does not blur: the first one and shortcuts. */
BlurPool block_blur_before(BlurPool blurpool);

/* Squeeze-and-excitation: x times a gate for each channel of an image, from the channels' means by
 * two layers with squeezed channels and an activation between them. */
typedef struct ExciteOptions {
    const char *name;             /* of the block, for what has no parameters */
    const char *squeeze, *excite; /* of the two layers: 1x1 convolutions with bias */
    int64_t squeezed;
    ActKind act;
    bool hard;           /* GateAttr */
    bool uniform_biases; /* as torch makes them; else they start at 0 */
} ExciteOptions;
TensorId block_excite(Graph *g, TensorId x, const ExciteOptions *o);

typedef enum ShortcutKind {
    SHORTCUT_PROJECTION, /* 1x1 convolution and batch norm: He et al. 2015, option B */
    /* the same behind the mean of each stride x stride pixels: ResNet-D, He et al. 2019; named as
     * timm's */
    SHORTCUT_AVERAGE,
    /* every stride-th pixel, zeros for new channels: option A, no parameters */
    SHORTCUT_SUBSAMPLE
} ShortcutKind;

typedef struct BlockOptions {
    const char *name; /* "layer1.0" */
    int64_t planes;   /* width inside the block */
    int64_t spatial;  /* of a bottleneck's 3x3, where that is another; 0: planes */
    int groups;       /* of a bottleneck's 3x3; 0: 1 */
    int stride;
    ShortcutKind shortcut; /* taken where stride or channels change; else the identity */
    bool zero_init_last_gamma;
    BlurPool blurpool;
    float drop_rate; /* of images, for which the block is its shortcut alone; in training graphs */
    bool excites;    /* squeeze-and-excitation in front of the sum, timm's names and shapes */
} BlockOptions;
typedef TensorId (*BlockBuilder)(Graph *g, TensorId x, const BlockOptions *o);

TensorId block_basic(Graph *g, TensorId x, const BlockOptions *o); /* 3x3, 3x3 */
TensorId block_bottleneck(Graph *g, TensorId x,
                          /* 1x1, 3x3 with the stride (v1.5), 1x1 to 4 * planes */
                          const BlockOptions *o);
TensorId block_excited_bottleneck(Graph *g, TensorId x, const BlockOptions *o);

/* The drop rate of a block by its number from 0, in a training graph: o->stochastic_depth of the
 * last one, linearly less before it, none of the first, which is timm's rule for ResNets: rate * i
 * / (n - 1). (Of EfficientNets both torchvision and timm divide by n.) */
float block_drop_rate(const ModelOptions *o, int block, int blocks);
/* Starts a linear layer from normal weights of deviation 0.01 and biases of 0. */
void block_small_linear(Graph *g, const char *name);
/* Ends a ResNet: mean over the image, dropout in training graphs, a linear layer and the loss. */
void block_classifier(Graph *g, const char *name, TensorId x, const ModelOptions *o);

/* channels * width, rounded to a multiple of 8, at least 8. */
int64_t block_scale_channels(int64_t channels, double width);
#endif
