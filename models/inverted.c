/* inverted.c - see inverted.h. */
#include "models/inverted.h"
#include <stdio.h>

#define CHANNELS_MULTIPLE 8

const InvertedNames inverted_timm_names[2][INVERTED_LAYERS] = {
    { [INVERTED_DEPTHWISE] = { "conv_dw", "bn1" },
      [INVERTED_EXCITE] = { "se.conv_reduce", "se.conv_expand" },
      [INVERTED_PROJECT] = { "conv_pw", "bn2" } },
    { { "conv_pw", "bn1" },
      { "conv_dw", "bn2" },
      { "se.conv_reduce", "se.conv_expand" },
      { "conv_pwl", "bn3" } }
};

typedef struct Builder {
    Graph *g;
    const InvertedOptions *o;
    int index; /* of the next layer, as torchvision counts */
} Builder;

/* Names of the next layer's two parts. */
static void name_parts(Builder *b, int layer, char conv[BLOCK_NAME_MAX], char bn[BLOCK_NAME_MAX])
{
    const char *block = b->o->name, *first = layer == INVERTED_EXCITE ? "fc1" : "0",
               *second = layer == INVERTED_EXCITE ? "fc2" : "1";
    const int index = b->index++;
    if (b->o->names) {
        snprintf(conv, BLOCK_NAME_MAX, "%s.%s", block, b->o->names[layer].conv);
        snprintf(bn, BLOCK_NAME_MAX, "%s.%s", block, b->o->names[layer].bn);
    } else if (layer == INVERTED_PROJECT && b->o->bare_project) {
        snprintf(conv, BLOCK_NAME_MAX, "%s.%d", block, index);
        snprintf(bn, BLOCK_NAME_MAX, "%s.%d", block, index + 1);
    } else {
        snprintf(conv, BLOCK_NAME_MAX, "%s.%d.%s", block, index, first);
        snprintf(bn, BLOCK_NAME_MAX, "%s.%d.%s", block, index, second);
    }
}

static TensorId add_layer(Builder *b, int layer, TensorId x, const ConvBnOptions *o)
{
    char conv[BLOCK_NAME_MAX], bn[BLOCK_NAME_MAX];
    name_parts(b, layer, conv, bn);
    return block_conv_bn(b->g, conv, bn, x, o);
}

static TensorId add_excitation(Builder *b, TensorId x)
{
    char squeeze[BLOCK_NAME_MAX], excite[BLOCK_NAME_MAX];
    const ExciteOptions o = { .name = b->o->name,
                              .squeeze = squeeze,
                              .excite = excite,
                              .squeezed = b->o->squeezed,
                              .act = b->o->squeezed_act,
                              .hard = b->o->hard_gate };
    name_parts(b, INVERTED_EXCITE, squeeze, excite);
    return block_excite(b->g, x, &o);
}

TensorId inverted_block(Graph *g, TensorId x, const InvertedOptions *o)
{
    Builder b = { .g = g, .o = o };
    if (x == TENSOR_NONE) return x;
    const int64_t channels = graph_tensor(g, x)->desc.dims[1];
    const bool widens = o->inner != channels, projects = widens || !o->fused,
               identity = o->layer.stride == 1 && channels == o->channels,
               drops = identity && o->drop_rate > 0;
    ConvBnOptions narrow = o->layer, wide = o->layer;
    narrow.kernel_size = narrow.stride = 1;
    ConvBnOptions expand = narrow;
    expand.filters = o->inner;
    narrow.filters = o->channels;
    narrow.act = ACT_NONE;
    narrow.zero_gamma = identity && o->zero_init_last_gamma;
    narrow.residual = identity && !drops ? x : TENSOR_NONE;
    wide.filters = o->inner;
    wide.groups = o->fused ? 1 : (int)o->inner;
    TensorId y = widens && !o->fused ? add_layer(&b, INVERTED_EXPAND, x, &expand) : x;
    y = add_layer(&b, o->fused && widens ? INVERTED_EXPAND : INVERTED_DEPTHWISE, y, &wide);
    if (o->squeezed) y = add_excitation(&b, y);
    if (projects) y = add_layer(&b, INVERTED_PROJECT, y, &narrow);
    char name[BLOCK_NAME_MAX];
    snprintf(name, sizeof name, "%s.%s", o->name, drops ? "drop" : "sum");
    if (drops) return graph_drop(g, name, y, o->drop_rate, true, x);
    return identity && !projects ? graph_add(g, name, y, x) : y;
}

int64_t inverted_round_channels(double channels)
{
    int64_t rounded =
        (int64_t)(channels + CHANNELS_MULTIPLE / 2.0) / CHANNELS_MULTIPLE * CHANNELS_MULTIPLE;
    if (rounded < CHANNELS_MULTIPLE) rounded = CHANNELS_MULTIPLE;
    return (double)rounded < 0.9 * channels ? rounded + CHANNELS_MULTIPLE : rounded;
}
