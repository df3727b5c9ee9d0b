/* models.h - networks by name. A network is a description: it appends nodes to a graph and computes
 * nothing. */
#ifndef CONVOY_MODELS_MODELS_H
#define CONVOY_MODELS_MODELS_H
#include "models/graph/graph.h"

typedef enum Stem {
    STEM_IMAGENET /*7x7/2 + max pool 3x3/2*/,
    STEM_CIFAR /*3x3/1*/,
    STEM_COUNT
} Stem;
extern const char *const stem_names[STEM_COUNT + 1]; /* NULL at the end */
/* Blurs where images shrink (Zhang 2019); three ways of others, which give three networks with the
 * same parameters. */
typedef enum BlurPool {
    BLURPOOL_NONE,
    /* FFCV: stride 1 and zeros around it, before each convolution of 16 channels and more that has
     * a stride */
    BLURPOOL_FFCV,
    /* the same, and the max pool has stride 1 and a blur of stride 2 behind it */
    BLURPOOL_COMPOSER,
    /* timm's resnetblur: the 3x3 and the max pool have stride 1, and behind them (and the 3x3's
     * norm and activation) is a blur of stride 2, with the image mirrored around it */
    BLURPOOL_TIMM,
    BLURPOOL_COUNT
} BlurPool;
extern const char *const blurpool_names[BLURPOOL_COUNT + 1]; /* NULL at the end */
typedef struct ModelOptions {
    GraphOptions graph;
    /* the CIFAR ResNets have their own; EfficientNet: stride 1 for CIFAR's */
    Stem stem;
    bool zero_init_last_gamma; /* Goyal et al. 2017 5.1 */
    double width;              /* channel multiplier, 1 = as published; tests use narrow nets */
    int layers, hidden, heads; /* networks of text; 0: as published, hidden times width */
    BlurPool blurpool;         /* ResNets */
    /* Below 1; negative: as published, which is 0 of ResNets. What is dropped of the last block and
     * of the features. */
    double stochastic_depth, dropout;
    /* of the softmax's weights; transformers. Negative: as published, which is 0 of images'. */
    double attention_dropout;
    /* training: the teacher's evaluation of the same batch, whose logits the network learns from.
     * Borrowed; NULL: no teacher */
    const Graph *teacher;
} ModelOptions;

/* The images that a network was published with. */
typedef enum ModelInterpolation {
    MODEL_BILINEAR,
    MODEL_BICUBIC,
    MODEL_INTERPOLATION_COUNT
} ModelInterpolation;
typedef struct ModelInput {
    int channels, size;
} ModelInput;
/* Weights that others published of a network, and what they say of them: the evaluation, and what
 * it reaches. Those that come first give data.eval_resize its ratio. */
typedef struct ModelWeights {
    const char *name; /* torchvision's "IMAGENET1K_V2", timm's tag; NULL: no weights */
    double top1;      /* percent of ImageNet's validation images; 0: they have no last layer */
    int size, resize; /* pixels of an image, and of its shorter side before the crop */
    ModelInterpolation interpolation;
    bool halves; /* mean and std are 0.5 for each channel, not ImageNet's */
    /* torchvision's file: NAME, this, .pth; NULL: timm's, the Hub's timm/NAME.TAG */
    const char *file;
} ModelWeights;
enum { MODEL_WEIGHTS_MAX = 5 };

/* Whose names a network's tensors have. */
typedef enum ModelNames {
    MODEL_NAMES_TORCHVISION,
    MODEL_NAMES_TIMM,
    MODEL_NAMES_HF, /* Hugging Face's transformers */
    MODEL_NAMES_COUNT
} ModelNames;
typedef struct ModelDef {
    const char *name;    /* "resnet50" */
    const char *summary; /* one line for --help and inspect */
    /* appends forward nodes up to softmax_xent */
    Status (*build)(Graph *g, const struct ModelDef *def, const ModelOptions *o);
    const void *params; /* the family's own table row */
    ModelInput input;
    ModelWeights weights[MODEL_WEIGHTS_MAX]; /* without a name behind the last one */
    bool drops;                              /* has dropout and stochastic depth */
    bool stems;                              /* may have STEM_CIFAR, or nothing else */
    bool blurs;                              /* has blurpool */
    bool one_size;                           /* its weights depend on the image size */
    int least_size;                          /* of the images it can take; 0: 1 */
    /* the network with the same tensors, in the same order, under other names; NULL: none */
    const char *twin;
    ModelNames names; /* whose names these are; torchvision's where timm has the same */
    bool both;        /* its builder has either's names, those of `names` */
    bool apart;       /* timm has such a network under other names, which are not known here */
    const char *timm; /* timm's name of the same network; NULL: timm has none */
    bool text;        /* reads sequences of tokens, not images (GraphOptions.tokens) */
    bool segments;    /* whose tokens may be of two segments */
} ModelDef;

/* The network whose tensors are def's, in the same order, under these names; def itself where there
 * are no others, or it has both (ModelDef.both). */
const ModelDef *model_named(const ModelDef *def, ModelNames names);
/* Where weights are published: "resnet18-f37072fd.pth", or the repository
 * "timm/resnet18.a1_in1k". */
void model_weights_file(const ModelDef *def, const ModelWeights *w, char *out, size_t bytes);
const char *model_interpolation_name(ModelInterpolation interpolation); /* "bicubic" */
int model_count(void);
const ModelDef *model_at(int index);
const ModelDef *model_find(const char *name); /* NULL; model_suggest() for the error message */
enum { MODEL_SUGGESTIONS = 3, MODEL_SUGGESTION_BYTES = 160 };
/* "; it is called A here" for a name of timm; else " (did you mean A, B or C?)", nearest first;
 * where none is near, which command lists all. */
void model_suggest(const char *name, char *out, size_t bytes);
/* Creates the graph, builds the network, and with o->graph.training appends backward. */
Status model_build(Graph **out, const ModelDef *def, const ModelOptions *o);
/* Fills one parameter or buffer (plain row-major f32, tensor_elements long) by its init rule; draw
 * address = (seed, index of the tensor among parameters). */
Status model_init_tensor(const Graph *g, TensorId id, uint64_t seed, float *out);
#endif
