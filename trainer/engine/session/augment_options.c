/* augment_options.c - see augment_options.h. */
#include "trainer/engine/session/augment_options.h"

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
    PolicyOptions o = { .policy = c->data.auto_augment,
                        .table = c->data.autoaugment_policy,
                        .ops = (int)c->data.randaugment_ops,
                        .magnitude = (int)c->data.randaugment_magnitude,
                        .deviation = c->data.randaugment_std,
                        .bins = (int)c->data.magnitude_bins,
                        .severity = (int)c->data.augmix_severity,
                        .erase = c->data.random_erase,
                        .sampling = c->data.auto_augment_interpolation };
    for (int i = 0; i < 4; i++) o.jitter[i] = c->data.color_jitter.values[i];
    for (int i = 0; i < 3; i++) o.fill[i] = (uint8_t)fill->values[i < fill->count ? i : 0];
    return o;
}

void augment_options_fill(LoaderOptions *out, const Config *c, DataRole role)
{
    const bool train = role == DATA_TRAIN;
    const int own = train ? c->data.train_interpolation : CONFIG_OTHER;
    out->view = (ViewOptions){ .image_size = (int)c->data.image_size,
                               .eval_resize = (int)c->data.eval_resize,
                               .channels = (int)c->model.in_channels,
                               .augment = train ? c->data.augment : AUGMENT_NONE,
                               .min_crop_area = c->data.min_crop_area,
                               .interpolation =
                                   own == CONFIG_OTHER ? c->data.interpolation : (Interpolation)own,
                               .decoder = c->data.decoder,
                               .seek_index = c->data.seek_index };
    if (!train) return;
    out->view.policy = policy_options(c);
    out->mix = (MixOptions){ .mixup = c->data.mixup,
                             .cutmix = c->data.cutmix,
                             .prob = c->data.mixup_prob,
                             .switch_prob = c->data.mixup_switch_prob,
                             .off_epoch = c->data.mixup_off_epoch };
    out->repeats = (int)c->data.repeated_augmentation;
    out->order = c->data.order;
}
