/* inverted.h - the inverted bottleneck of MobileNets and EfficientNets: 1x1 to widen, depthwise,
 * squeeze-and-excitation, 1x1 to narrow; or fused, with one convolution for the first two. */
#ifndef CONVOY_MODELS_INVERTED_H
#define CONVOY_MODELS_INVERTED_H
#include "models/blocks.h"

/* Layers of a block, in order; the first exists only where the block widens. */
enum { INVERTED_EXPAND, INVERTED_DEPTHWISE, INVERTED_EXCITE, INVERTED_PROJECT, INVERTED_LAYERS };
/* What follows the block's name. The excitation has no norm but two layers: its "conv" squeezes,
 * its "bn" excites. */
typedef struct InvertedNames {
    const char *conv, *bn;
} InvertedNames;

/* timm's. [1]: where the block expands. */
extern const InvertedNames inverted_timm_names[2][INVERTED_LAYERS];

typedef struct InvertedOptions {
    const char *name; /* "features.1.0.block" */
    /* of the layers; NULL: torchvision's, who numbers those that there are */
    const InvertedNames *names;
    bool bare_project; /* so numbered, its last convolution and norm are two layers */
    bool fused;
    int64_t inner, channels; /* width inside; of the output */
    int64_t squeezed;        /* of the excitation; 0: none */
    ActKind squeezed_act;
    bool hard_gate;
    ConvBnOptions layer; /* kernel_size and stride of its depthwise, and what all layers have */
    bool zero_init_last_gamma;
    float drop_rate; /* of images, for which the block is its input alone; in training graphs */
} InvertedOptions;
/* y, or where the shape stays x + y, with images dropped from y. */
TensorId inverted_block(Graph *g, TensorId x, const InvertedOptions *o);

/* channels to the nearest multiple of 8, but never down by more than a tenth. */
int64_t inverted_round_channels(double channels);
#endif
