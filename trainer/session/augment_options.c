/* augment_options.c - see augment_options.h. */
#include "trainer/session/augment_options.h"

static const Augment augments[] = { [CONFIG_AUGMENT_NONE] = AUGMENT_NONE,
                                    [CONFIG_AUGMENT_IMAGENET] = AUGMENT_IMAGENET,
                                    [CONFIG_AUGMENT_CIFAR] = AUGMENT_CIFAR };
static const AutoPolicy policies[] = { [CONFIG_POLICY_NONE] = POLICY_NONE,
                                       [CONFIG_POLICY_RANDAUGMENT] = POLICY_RANDAUGMENT,
                                       [CONFIG_POLICY_AUTOAUGMENT] = POLICY_AUTOAUGMENT,
                                       [CONFIG_POLICY_TRIVIALAUGMENT] = POLICY_TRIVIALAUGMENT,
                                       [CONFIG_POLICY_AUGMIX] = POLICY_AUGMIX };
static const AutoAugmentTable tables[] = { [CONFIG_AUTOAUGMENT_IMAGENET] = AUTOAUGMENT_IMAGENET,
                                           [CONFIG_AUTOAUGMENT_CIFAR10] = AUTOAUGMENT_CIFAR10,
                                           [CONFIG_AUTOAUGMENT_SVHN] = AUTOAUGMENT_SVHN };

bool augment_options_erase(const Config *c)
{
    return c->data.random_erase > 0;
}

bool augment_options_mix(const Config *c)
{
    return c->data.mixup > 0 || c->data.cutmix > 0;
}

static PolicyOptions policy_options(const Config *c)
{
    const ConfigList *fill = &c->data.auto_augment_fill;
    PolicyOptions o = { .policy = policies[c->data.auto_augment],
                        .table = tables[c->data.autoaugment_policy],
                        .ops = (int)c->data.randaugment_ops,
                        .magnitude = (int)c->data.randaugment_magnitude,
                        .bins = (int)c->data.magnitude_bins,
                        .severity = (int)c->data.augmix_severity,
                        .erase = c->data.random_erase,
                        .nearest = c->data.auto_augment_interpolation == CONFIG_SAMPLING_NEAREST };
    for (int i = 0; i < 4; i++) o.jitter[i] = c->data.color_jitter.values[i];
    for (int i = 0; i < 3; i++) o.fill[i] = (uint8_t)fill->values[i < fill->count ? i : 0];
    return o;
}

void augment_options_fill(LoaderOptions *out, const Config *c, DataRole role)
{
    const bool train = role == DATA_TRAIN;
    const int own = train ? c->data.train_interpolation : 0; /* 0: the same */
    out->view =
        (ViewOptions){ .image_size = (int)c->data.image_size,
                       .eval_resize = (int)c->data.eval_resize,
                       .channels = (int)c->model.in_channels,
                       .augment = train ? augments[c->data.augment] : AUGMENT_NONE,
                       .interpolation = (Interpolation)(own > 0 ? own - 1 : c->data.interpolation),
                       .stock_decoder = c->data.decoder == CONFIG_DECODER_STOCK,
                       .ignore_seek = c->data.seek_index == CONFIG_SEEK_INDEX_OFF };
    if (!train) return;
    out->view.policy = policy_options(c);
    out->mix = (MixOptions){ .mixup = c->data.mixup, .cutmix = c->data.cutmix };
    out->repeats = (int)c->data.repeated;
}
