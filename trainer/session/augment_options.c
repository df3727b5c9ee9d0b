/* augment_options.c - see augment_options.h. */
#include "trainer/session/augment_options.h"

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

void augment_options_fill(const Config *c, LoaderOptions *out)
{
    const ConfigList *fill = &c->data.auto_augment_fill;
    out->mix = (MixOptions){ .mixup = c->data.mixup, .cutmix = c->data.cutmix };
    out->repeats = (int)c->data.repeated;
    out->policy =
        (PolicyOptions){ .policy = policies[c->data.auto_augment],
                         .table = tables[c->data.autoaugment_policy],
                         .ops = (int)c->data.randaugment_ops,
                         .magnitude = (int)c->data.randaugment_magnitude,
                         .bins = (int)c->data.magnitude_bins,
                         .severity = (int)c->data.augmix_severity,
                         .erase = c->data.random_erase,
                         .nearest = c->data.auto_augment_interpolation == CONFIG_SAMPLING_NEAREST };
    for (int i = 0; i < 4; i++) out->policy.jitter[i] = c->data.color_jitter.values[i];
    for (int i = 0; i < 3; i++)
        out->policy.fill[i] = (uint8_t)fill->values[i < fill->count ? i : 0];
}
