/* config_check.c - the checks between keys. */
#include "kernels/backend_cuda.h"
#include "kernels/fuse_choice.h"
#include "kernels/ops/update.h"
#include "models/models.h"
#include "trainer/engine/config/config_internal.h"
#include "trainer/engine/config/param_groups.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define SENTENCE_BYTES 512

Status config_fail_key(const ConfigOrigin *origin, const char *key, const char *format, ...)
{
    char sentence[SENTENCE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    int line = origin->line[config_find_key(key)];
    if (line > 0) return fail(ERR_USAGE, "%s:%d: %s %s", origin->path, line, key, sentence);
    return fail(ERR_USAGE, "%s%s %s", line == ORIGIN_SET ? FROM_SET : "", key, sentence);
}

/* Keys that cannot stand beside others. Those that need a partner and would change nothing without
 * it are among them: who gives them means another run. A family's number that another choice leaves
 * unread, such as optimizer.alpha with sgd, is let be, with a warning of config_caution.c: a file
 * may hold both recipes. */
typedef struct Refusal {
    bool wrong;
    const char *key, *sentence;
} Refusal;

static Status refuse(const ConfigOrigin *origin, const Refusal *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].wrong) return config_fail_key(origin, rows[i].key, "%s", rows[i].sentence);
    return OK;
}

static Status check_model(const Config *c, const ConfigOrigin *origin)
{
    char suggestion[MODEL_SUGGESTION_BYTES];
    if (model_find(c->model.name)) return OK;
    model_suggest(c->model.name, suggestion, sizeof suggestion);
    return config_fail_key(origin, "model.name", "is \"%s\", which is no network%s", c->model.name,
                           suggestion);
}

static Status check_norms_and_cache(const Config *c, const ConfigOrigin *origin)
{
    const bool disk = c->data.cache == DATA_CACHE_DISK, dir = c->data.cache_dir[0] != '\0';
    const Refusal rows[] = {
        { c->model.bn_group != 0 && c->model.bn != BN_CHOICE_SYNC, "model.bn_group",
          "is of model.bn: sync, which is not what it is" },
        { disk && !dir, "data.cache_dir",
          "is empty; data.cache: disk needs a folder on a disk of each node" },
        { dir && !disk, "data.cache_dir", "is of data.cache: disk, which is not what it is" },
    };
    return refuse(origin, rows, sizeof rows / sizeof *rows);
}

static Status check_channels(const Config *c, const ConfigOrigin *origin, const char *key,
                             const ConfigList *list)
{
    if (list->count == 1 || list->count == c->model.in_channels) return OK;
    return config_fail_key(
        origin, key,
        "has %d values and model.in_channels is %lld; give one value, or one for each channel",
        list->count, (long long)c->model.in_channels);
}

static Status check_ascending(const Config *c, const ConfigOrigin *origin)
{
    const struct {
        const char *key;
        const ConfigList *list;
    } lists[] = { { "schedule.milestones", &c->schedule.milestones },
                  { "data.progressive_until", &c->data.progressive_until } };
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        const double *values = lists[k].list->values;
        for (int i = 1; i < lists[k].list->count; i++)
            if (values[i] <= values[i - 1])
                return config_fail_key(origin, lists[k].key, "must be ascending");
    }
    return OK;
}

static Status check_whole(const ConfigOrigin *origin, const char *key, const ConfigList *list)
{
    for (int i = 0; i < list->count; i++)
        if (list->values[i] != floor(list->values[i]))
            return config_fail_key(origin, key, "takes whole numbers");
    return OK;
}

/* As of data.image_size. */
#define TRAIN_SIZE_MIN 8

static Status check_progressive(const Config *c, const ConfigOrigin *origin)
{
    const ConfigList *sizes = &c->data.progressive_sizes, *until = &c->data.progressive_until;
    if (c->data.train_size != 0 && c->data.train_size < TRAIN_SIZE_MIN)
        return config_fail_key(origin, "data.train_size", "takes 0, or 8 to 4096");
    if (c->data.train_size != 0 && c->data.augment == AUGMENT_NONE)
        return config_fail_key(origin, "data.train_size",
                               "is beside data.augment none, which makes evaluation's images of "
                               "data.image_size; leave one of the two");
    const ModelDef *def = model_find(c->model.name);
    if (def && def->one_size && (c->data.train_size != 0 || sizes->count > 0))
        return config_fail_key(
            origin, sizes->count > 0 ? "data.progressive_sizes" : "data.train_size",
            "needs a network that takes any image size; %s (model.name) does not", def->name);
    TRY(check_whole(origin, "data.progressive_sizes", sizes));
    TRY(check_whole(origin, "data.progressive_until", until));
    if (sizes->count >= PROGRESSIVE_STAGES_MAX)
        return config_fail_key(origin, "data.progressive_sizes",
                               "has %d values; it takes at most %d", sizes->count,
                               PROGRESSIVE_STAGES_MAX - 1);
    if (sizes->count != until->count)
        return config_fail_key(
            origin, "data.progressive_until",
            "has %d values and data.progressive_sizes %d; give one for each size", until->count,
            sizes->count);
    return OK;
}

static Status check_schedule(const Config *c, const ConfigOrigin *origin)
{
    const ScheduleShape name = c->schedule.name;
    const bool warms = c->schedule.warmup_steps > 0 || c->schedule.warmup_epochs > 0;
    const bool counts = name == SCHEDULE_COSINE || name == SCHEDULE_POLY;
    const Refusal rows[] = {
        { c->schedule.warmup_steps > 0 && c->schedule.warmup_epochs > 0, "schedule.warmup_steps",
          "stands beside schedule.warmup_epochs; give one of the two, or 0 for the other" },
        { c->schedule.warmup_lr < 0 && c->schedule.warmup_lr != -1, "schedule.warmup_lr",
          "is below 0; give -1 or a learning rate" },
        { c->schedule.warmup_lr >= 0 && !warms, "schedule.warmup_lr",
          "needs a warm-up: schedule.warmup_epochs or schedule.warmup_steps above 0" },
        { name == SCHEDULE_TRIANGULAR && !warms, "schedule.name",
          "is triangular, which rises in schedule.warmup_epochs or schedule.warmup_steps; give one "
          "above 0" },
        { name == SCHEDULE_TRIANGULAR && c->schedule.warmup_lr < 0, "schedule.name",
          "is triangular, which needs schedule.warmup_lr to start from" },
        { c->schedule.decay_steps > 0 && !counts && name != SCHEDULE_TRIANGULAR,
          "schedule.decay_steps", "is of cosine, poly and triangular; schedule.name is another" },
        { c->schedule.decay_from == DECAY_FROM_START && !counts, "schedule.decay_from",
          "is start, which is of cosine and poly; schedule.name is another" },
    };
    return refuse(origin, rows, sizeof rows / sizeof *rows);
}

/* More than one set of weights. */
static Status check_averages(const Config *c, const ConfigOrigin *origin)
{
    static const char none[] = "needs ema.decay or ema.half_life above 0";
    const bool timm = c->ema.rule == EMA_TIMM, any = c->ema.decay > 0 || c->ema.half_life > 0;
    const LookaheadForm lookahead = c->optimizer.lookahead;
    const Refusal rows[] = {
        { c->ema.decay > 0 && c->ema.half_life > 0, "ema.half_life",
          "stands beside ema.decay; give one of the two, or 0 for the other" },
        { c->ema.half_life > 0 && !timm, "ema.half_life",
          "is of timm's rule; ema.rule is another" },
        { c->ema.warmup && !timm, "ema.warmup", "is of timm's rule; ema.rule is another" },
        { !any && !timm, "ema.rule", none },
        { !any && c->ema.warmup, "ema.warmup", none },
        { !any && c->ema.every != 1, "ema.every", none },
        { lookahead == LOOKAHEAD_OFF && c->optimizer.lookahead_steps != 6,
          "optimizer.lookahead_steps", "needs optimizer.lookahead" },
        { lookahead != LOOKAHEAD_TIMM && c->optimizer.lookahead_alpha != 0.5,
          "optimizer.lookahead_alpha", "needs optimizer.lookahead timm" },
        { c->optimizer.sam_rho == 0 && c->optimizer.sam_interval != 1, "optimizer.sam_interval",
          "needs optimizer.sam_rho above 0" },
    };
    return refuse(origin, rows, sizeof rows / sizeof *rows);
}

static Status check_augmentation(const Config *c, const ConfigOrigin *origin)
{
    const ConfigList *jitter = &c->data.color_jitter;
    if (jitter->count != 4)
        return config_fail_key(
            origin, "data.color_jitter",
            "has %d values; it takes four: brightness, contrast, saturation and hue",
            jitter->count);
    if (jitter->values[3] > 0.5)
        return config_fail_key(origin, "data.color_jitter",
                               "changes the hue by %g; at most 0.5 is possible", jitter->values[3]);
    const bool timm = c->data.auto_augment == POLICY_RANDAUGMENT_TIMM;
    if (timm && c->data.randaugment_magnitude > 10)
        return config_fail_key(origin, "data.randaugment_magnitude",
                               "is above 10, the most that randaugment_timm has");
    if (!timm && c->data.randaugment_magnitude >= c->data.magnitude_bins)
        return config_fail_key(
            origin, "data.randaugment_magnitude", "is %lld, not below data.magnitude_bins %lld",
            (long long)c->data.randaugment_magnitude, (long long)c->data.magnitude_bins);
    return check_channels(c, origin, "data.auto_augment_fill", &c->data.auto_augment_fill);
}

/* Keys of images and the loss that would change nothing. */
static Status check_idle(const Config *c, const ConfigOrigin *origin)
{
    const bool mixup = c->data.mixup > 0, cutmix = c->data.cutmix > 0, none = !mixup && !cutmix;
    const Refusal rows[] = {
        { none && c->data.mixup_prob < 1, "data.mixup_prob", "needs data.mixup or data.cutmix" },
        { none && c->data.mixup_off_epoch > 0, "data.mixup_off_epoch",
          "needs data.mixup or data.cutmix" },
        { !(mixup && cutmix) && c->data.mixup_switch_prob != 0.5, "data.mixup_switch_prob",
          "needs data.mixup and data.cutmix" },
        { c->data.random_erase == 0 && c->data.erase_mode != ERASE_CONST, "data.erase_mode",
          "needs data.random_erase above 0" },
        { c->data.order == ORDER_BALANCED && c->data.repeated_augmentation > 1, "data.order",
          "is balanced, which has no epochs for data.repeated_augmentation to be of" },
        { c->data.order == ORDER_BALANCED && c->data.augment == AUGMENT_AIRBENCH, "data.order",
          "is balanced, which has no epochs for data.augment airbench to flip by" },
        { c->train.bce_threshold > 0 && c->train.loss != LOSS_BCE, "train.bce_threshold",
          "is of bce; train.loss is another" },
        { c->train.bce_sum && c->train.loss != LOSS_BCE, "train.bce_sum",
          "is of bce; train.loss is another" },
    };
    return refuse(origin, rows, sizeof rows / sizeof *rows);
}

static Status check_scale(const Config *c, const ConfigOrigin *origin)
{
    const ConfigList *ranks = &c->scale.ranks;
    if (ranks->count == 0)
        return config_fail_key(origin, "scale.ranks", "names no number of ranks");
    for (int i = 0; i < ranks->count; i++) {
        if (ranks->values[i] != (double)(int64_t)ranks->values[i])
            return config_fail_key(origin, "scale.ranks", "must be whole numbers");
        if (i > 0 && ranks->values[i] <= ranks->values[i - 1])
            return config_fail_key(origin, "scale.ranks", "must be ascending");
        bool shared = c->train.global_batch % (int64_t)ranks->values[i] == 0;
        if (c->scale.mode != SCALE_STRONG || (c->train.global_batch > 0 && shared)) continue;
        return config_fail_key(
            origin, "scale.mode",
            "is strong, which needs train.global_batch to be a multiple of %g ranks; it is "
            "%lld",
            ranks->values[i], (long long)c->train.global_batch);
    }
    return OK;
}

static Status check_optimizer(const Config *c, const ConfigOrigin *origin)
{
    const int name = c->optimizer.name;
    const UpdateTraits *traits = update_traits((UpdateKind)name);
    const bool timm = name == UPDATE_LARS || name == UPDATE_LAMB;
    if (c->optimizer.betas.count != 2)
        return config_fail_key(origin, "optimizer.betas", "has %d values; it takes two",
                               c->optimizer.betas.count);
    if (c->optimizer.nesterov && !traits->by_momentum)
        return config_fail_key(origin, "optimizer.nesterov",
                               "must be false: %s has no Nesterov form (optimizer.name)",
                               traits->name);
    const Refusal rows[] = {
        { c->optimizer.nesterov && c->optimizer.momentum <= 0, "optimizer.nesterov",
          "needs optimizer.momentum above 0" },
        { c->optimizer.trust_clip && !timm, "optimizer.trust_clip",
          "needs optimizer.name lars or lamb" },
        { c->optimizer.always_adapt && !timm, "optimizer.always_adapt",
          "needs optimizer.name lars or lamb" },
    };
    return refuse(origin, rows, sizeof rows / sizeof *rows);
}

static Status check_trace(const Config *c, const ConfigOrigin *origin)
{
    int64_t first, last;
    if (c->log.trace_steps[0] == '\0' ||
        config_parse_trace_steps(c->log.trace_steps, &first, &last) == OK)
        return OK;
    return config_fail_key(origin, "log.trace_steps", "%s", status_message());
}

static Status check_device(const Config *c, const ConfigOrigin *origin)
{
    FuseChoice fuse;
    const bool cudnn = c->device.attention == KERNELS_CUDNN;
    const Refusal rows[] = {
        { cudnn && c->model.attention_dropout > 0, "device.attention",
          "is cudnn, which drops nothing: model.attention_dropout needs own or auto" },
        { cudnn && (c->train.precision == PRECISION_FP32 || c->train.precision == PRECISION_TF32),
          "device.attention",
          "is cudnn, which is for 16 bits: train.precision fp32 and tf32 need own or auto" },
    };
    TRY(refuse(origin, rows, sizeof rows / sizeof *rows));
    if (fuse_choice_parse(&fuse, c->device.fuse) == OK) return OK;
    return config_fail_key(origin, "device.fuse", "%s", status_message());
}

/* By what rule parameters decay, and at which rates they learn. */
static Status check_groups(const Config *c, const ConfigOrigin *origin)
{
    ParamGroups groups;
    if (param_groups_parse(&groups, c->optimizer.groups) == OK) return OK;
    return config_fail_key(origin, "optimizer.groups", "%s", status_message());
}

/* How images come into the network. */
static Status check_input(const Config *c, const ConfigOrigin *origin)
{
    TRY(check_channels(c, origin, "data.mean", &c->data.mean));
    TRY(check_channels(c, origin, "data.std", &c->data.std));
    if (c->model.in_channels != 1 && c->model.in_channels != 3)
        return config_fail_key(origin, "model.in_channels",
                               "is %lld; images are read with 1 or 3 channels",
                               (long long)c->model.in_channels);
    if (c->data.val_split > 0 && c->data.val[0])
        return config_fail_key(origin, "data.val_split",
                               "stands beside data.val; give one, or \"\" for data.val");
    if (c->data.eval_resize != 0 && c->data.eval_resize < c->data.image_size)
        return config_fail_key(origin, "data.eval_resize",
                               "is %lld, smaller than data.image_size %lld; 0 means the same",
                               (long long)c->data.eval_resize, (long long)c->data.image_size);
    return OK;
}

Status config_check_input(const Config *c)
{
    const ConfigOrigin stored = { .path = "stored config" };
    return check_input(c, &stored);
}

static Status check_batch(const Config *c, const ConfigOrigin *origin)
{
    const bool global = c->train.batch_mode == BATCH_GLOBAL, list = c->train.accumulate.count > 1;
    const LrScaling scaling = c->optimizer.lr_scaling;
    const Refusal rows[] = {
        { global && c->train.global_batch == 0, "train.global_batch",
          "must be given (above 0) when train.batch_mode is global" },
        { c->train.accumulate.count == 0, "train.accumulate", "is empty; give at least 1" },
        { list && global, "train.accumulate",
          "is a list by epoch, which train.batch_mode global has no use for: its step has "
          "train.global_batch images; make that per_rank" },
        { list && (scaling == LR_LINEAR || scaling == LR_SQRT), "optimizer.lr_scaling",
          "goes by the global batch, which train.accumulate changes from epoch to epoch; make it "
          "none or world_size" },
    };
    TRY(check_whole(origin, "train.accumulate", &c->train.accumulate));
    return refuse(origin, rows, sizeof rows / sizeof *rows);
}

Status config_check(const Config *c, const ConfigOrigin *origin)
{
    TRY(check_model(c, origin));
    TRY(check_norms_and_cache(c, origin));
    TRY(check_input(c, origin));
    TRY(check_ascending(c, origin));
    TRY(check_progressive(c, origin));
    TRY(check_schedule(c, origin));
    TRY(check_averages(c, origin));
    TRY(check_augmentation(c, origin));
    TRY(check_groups(c, origin));
    TRY(check_idle(c, origin));
    TRY(check_scale(c, origin));
    TRY(check_trace(c, origin));
    TRY(check_device(c, origin));
    TRY(check_optimizer(c, origin));
    return check_batch(c, origin);
}
