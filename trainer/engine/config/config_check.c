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
#include <string.h>

#define SENTENCE_BYTES 512

Status config_fail_key(const ConfigOrigin *origin, const char *key, const char *format, ...)
{
    char sentence[SENTENCE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    const int line = origin->line[config_find_key(key)];
    const char *gap = sentence[0] == ':' ? "" : " ";
    if (line > 0) return fail(ERR_USAGE, "%s:%d: %s%s%s", origin->path, line, key, gap, sentence);
    return fail(ERR_USAGE, "%s%s%s%s", line == ORIGIN_SET ? FROM_SET : "", key, gap, sentence);
}

/* Keys that change nothing without another one: who gives them means another run. A family's number
 * that another choice leaves unread, such as optimizer.alpha with sgd, is let be, with a warning of
 * config_caution.c: a file may hold both recipes. */
typedef struct Requirement {
    const char *key, *other;
    const char *words;   /* of other, as a message has them; NULL: above 0, or of a text any */
    const char *instead; /* a key that may be above 0 in place of other, or NULL */
} Requirement;

static const Requirement requirements[] = {
    { "model.bn_group", "model.bn", "sync", NULL },
    { "data.cache_dir", "data.cache", "disk", NULL },
    { "schedule.warmup_lr", "schedule.warmup_epochs", NULL, "schedule.warmup_steps" },
    { "schedule.decay_steps", "schedule.name", "cosine, poly or triangular", NULL },
    { "schedule.decay_from", "schedule.name", "cosine or poly", NULL },
    { "ema.half_life", "ema.rule", "timm", NULL },
    { "ema.warmup", "ema.rule", "timm", NULL },
    { "ema.rule", "ema.decay", NULL, "ema.half_life" },
    { "ema.warmup", "ema.decay", NULL, "ema.half_life" },
    { "ema.every", "ema.decay", NULL, "ema.half_life" },
    { "data.mixup_prob", "data.mixup", NULL, "data.cutmix" },
    { "data.mixup_off_epoch", "data.mixup", NULL, "data.cutmix" },
    { "data.mixup_switch_prob", "data.mixup", NULL, NULL },
    { "data.mixup_switch_prob", "data.cutmix", NULL, NULL },
    { "data.erase_mode", "data.random_erase", NULL, NULL },
    { "data.labels", "train.loss", "bce", NULL },
    { "data.labels", "data.format", "auto, list or synthetic", NULL },
    { "train.bce_threshold", "train.loss", "bce", NULL },
    { "train.bce_sum", "train.loss", "bce", NULL },
    { "optimizer.nesterov", "optimizer.momentum", NULL, NULL },
    { "optimizer.trust_clip", "optimizer.name", "lars or lamb", NULL },
    { "optimizer.always_adapt", "optimizer.name", "lars or lamb", NULL },
    { "optimizer.lookahead_steps", "optimizer.lookahead", "timm or airbench", NULL },
    { "optimizer.lookahead_alpha", "optimizer.lookahead", "timm", NULL },
    { "optimizer.sam_interval", "optimizer.sam_rho", NULL, NULL },
    { "train.teacher", "data.labels", "single", NULL },
    { "train.teacher_model", "train.teacher", NULL, NULL },
    { "train.distill_temperature", "train.teacher", NULL, NULL },
    { "train.distill_weight", "train.teacher", NULL, NULL },
};

/* Whether the key's value is text, as config_add_value() writes it. */
static bool has_value(const Config *c, const char *key, const char *text)
{
    StrBuf value FREED_BY(str_free) = { 0 };
    config_add_value(c, &config_keys[config_find_key(key)], &value);
    return value.failed || strcmp(value.text, text) == 0;
}

static bool has_default(const Config *c, const char *key)
{
    return config_has_default(c, &config_keys[config_find_key(key)]);
}

static bool is_listed(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += n)
        if ((at == words || at[-1] == ' ') && strchr(", ", at[n])) return true;
    return false;
}

static Status check_requirement(const Config *c, const ConfigOrigin *origin, const Requirement *r)
{
    StrBuf value FREED_BY(str_free) = { 0 };
    config_add_value(c, &config_keys[config_find_key(r->other)], &value);
    if (value.failed) return ERR_MEMORY;
    if (r->words && !is_listed(r->words, value.text))
        return config_fail_key(origin, r->key, "requires %s: %s (it is %s)", r->other, r->words,
                               value.text);
    if (!r->words && strcmp(value.text, "\"\"") == 0)
        return config_fail_key(origin, r->key, "requires %s", r->other);
    if (!r->words && strcmp(value.text, "0") == 0 && (!r->instead || has_value(c, r->instead, "0")))
        return config_fail_key(origin, r->key, "requires %s%s%s above 0", r->other,
                               r->instead ? " or " : "", r->instead ? r->instead : "");
    return OK;
}

static Status check_requirements(const Config *c, const ConfigOrigin *origin)
{
    for (size_t i = 0; i < sizeof requirements / sizeof *requirements; i++)
        if (!has_default(c, requirements[i].key))
            TRY(check_requirement(c, origin, &requirements[i]));
    return OK;
}

/* Two numbers of which one replaces the other. */
static Status check_either(const Config *c, const ConfigOrigin *origin)
{
    static const char *const pairs[][2] = { { "schedule.warmup_steps", "schedule.warmup_epochs" },
                                            { "ema.half_life", "ema.decay" } };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (!has_value(c, pairs[i][0], "0") && !has_value(c, pairs[i][1], "0"))
            return config_fail_key(origin, pairs[i][0],
                                   "cannot be combined with %s; set one of them to 0", pairs[i][1]);
    return OK;
}

/* Values that exclude each other in ways of their own. */
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
    return config_fail_key(origin, "model.name", ": unknown network \"%s\"%s", c->model.name,
                           suggestion);
}

static Status check_channels(const Config *c, const ConfigOrigin *origin, const char *key,
                             const ConfigList *list)
{
    if (list->count == 1 || list->count == c->model.in_channels) return OK;
    return config_fail_key(
        origin, key,
        "has %d values, but model.in_channels is %lld; give one value, or one per channel",
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
            return config_fail_key(origin, key, "must be whole numbers");
    return OK;
}

/* As of data.image_size. */
#define TRAIN_SIZE_MIN 8

static Status check_progressive(const Config *c, const ConfigOrigin *origin)
{
    const ConfigList *sizes = &c->data.progressive_sizes, *until = &c->data.progressive_until;
    if (c->data.train_size != 0 && c->data.train_size < TRAIN_SIZE_MIN)
        return config_fail_key(origin, "data.train_size", "must be 0, or from 8 to 4096");
    if (c->data.train_size != 0 && c->data.augment == AUGMENT_NONE)
        return config_fail_key(origin, "data.train_size",
                               "cannot be combined with data.augment: none, which makes training "
                               "images of data.image_size, as for evaluation");
    const ModelDef *def = model_find(c->model.name);
    if (def && def->one_size && (c->data.train_size != 0 || sizes->count > 0))
        return config_fail_key(
            origin, sizes->count > 0 ? "data.progressive_sizes" : "data.train_size",
            "requires a network that takes any image size; %s (model.name) does not", def->name);
    TRY(check_whole(origin, "data.progressive_sizes", sizes));
    TRY(check_whole(origin, "data.progressive_until", until));
    if (sizes->count >= PROGRESSIVE_STAGES_MAX)
        return config_fail_key(origin, "data.progressive_sizes",
                               "has %d values; at most %d are allowed", sizes->count,
                               PROGRESSIVE_STAGES_MAX - 1);
    if (sizes->count != until->count)
        return config_fail_key(
            origin, "data.progressive_until",
            "has %d values, but data.progressive_sizes has %d; give one per size", until->count,
            sizes->count);
    return OK;
}

static Status check_combinations(const Config *c, const ConfigOrigin *origin)
{
    const bool triangular = c->schedule.name == SCHEDULE_TRIANGULAR;
    const bool warms = c->schedule.warmup_steps > 0 || c->schedule.warmup_epochs > 0;
    const bool balanced = c->data.order == ORDER_BALANCED;
    const bool cudnn = c->device.attention == KERNELS_CUDNN;
    const bool global = c->train.batch_mode == BATCH_GLOBAL, list = c->train.accumulate.count > 1;
    const LrScaling scaling = c->optimizer.lr_scaling;
    const Refusal rows[] = {
        { c->data.cache == DATA_CACHE_DISK && !c->data.cache_dir[0], "data.cache_dir",
          "must be set with data.cache: disk, to a folder on a local disk of each node" },
        { c->schedule.warmup_lr < 0 && c->schedule.warmup_lr != -1, "schedule.warmup_lr",
          "is below 0; set a learning rate, or -1 for the default" },
        { triangular && !warms, "schedule.name",
          ": triangular requires schedule.warmup_epochs or schedule.warmup_steps above 0" },
        { triangular && c->schedule.warmup_lr < 0, "schedule.name",
          ": triangular requires schedule.warmup_lr, the learning rate to start from" },
        { balanced && c->data.repeated_augmentation > 1, "data.order",
          ": balanced cannot be combined with data.repeated_augmentation, which counts by epochs" },
        { balanced && c->data.augment == AUGMENT_AIRBENCH, "data.order",
          ": balanced cannot be combined with data.augment: airbench, which flips by epochs" },
        { cudnn && (c->train.precision == PRECISION_FP32 || c->train.precision == PRECISION_TF32),
          "device.attention",
          ": cudnn does not support train.precision: fp32 and tf32; use own or auto" },
        { c->train.recompute != RECOMPUTE_NONE && c->device.batchnorm != KERNELS_OWN,
          "train.recompute", "requires device.batchnorm: own, whose bits it can make again" },
        { global && c->train.global_batch == 0, "train.global_batch",
          "must be above 0 with train.batch_mode: global" },
        { c->train.accumulate.count == 0, "train.accumulate", "is empty; give at least one value" },
        { list && global, "train.accumulate",
          "cannot be a list with train.batch_mode: global, where every step has "
          "train.global_batch images; use per_rank" },
        { list && (scaling == LR_LINEAR || scaling == LR_SQRT), "optimizer.lr_scaling",
          ": linear and sqrt depend on the global batch, which train.accumulate changes between "
          "epochs; use none or world_size" },
    };
    return refuse(origin, rows, sizeof rows / sizeof *rows);
}

static Status check_augmentation(const Config *c, const ConfigOrigin *origin)
{
    const ConfigList *jitter = &c->data.color_jitter;
    if (jitter->count != 4)
        return config_fail_key(
            origin, "data.color_jitter",
            "has %d values; it takes 4: brightness, contrast, saturation and hue", jitter->count);
    if (jitter->values[3] > 0.5)
        return config_fail_key(origin, "data.color_jitter",
                               "has %g for hue; at most 0.5 is allowed", jitter->values[3]);
    const bool timm = c->data.auto_augment == POLICY_RANDAUGMENT_TIMM;
    if (timm && c->data.randaugment_magnitude > 10)
        return config_fail_key(origin, "data.randaugment_magnitude",
                               "must be at most 10 with data.auto_augment: randaugment_timm");
    if (!timm && c->data.randaugment_magnitude >= c->data.magnitude_bins)
        return config_fail_key(origin, "data.randaugment_magnitude",
                               "is %lld; it must be below data.magnitude_bins (%lld)",
                               (long long)c->data.randaugment_magnitude,
                               (long long)c->data.magnitude_bins);
    return check_channels(c, origin, "data.auto_augment_fill", &c->data.auto_augment_fill);
}

static Status check_scale(const Config *c, const ConfigOrigin *origin)
{
    const ConfigList *ranks = &c->scale.ranks;
    if (ranks->count == 0)
        return config_fail_key(origin, "scale.ranks",
                               "is empty; give at least one number of ranks");
    for (int i = 0; i < ranks->count; i++) {
        if (ranks->values[i] != (double)(int64_t)ranks->values[i])
            return config_fail_key(origin, "scale.ranks", "must be whole numbers");
        if (i > 0 && ranks->values[i] <= ranks->values[i - 1])
            return config_fail_key(origin, "scale.ranks", "must be ascending");
        bool shared = c->train.global_batch % (int64_t)ranks->values[i] == 0;
        if (c->scale.mode != SCALE_STRONG || (c->train.global_batch > 0 && shared)) continue;
        return config_fail_key(
            origin, "scale.mode",
            ": strong requires train.global_batch to be a multiple of %g ranks (it is %lld)",
            ranks->values[i], (long long)c->train.global_batch);
    }
    return OK;
}

static Status check_optimizer(const Config *c, const ConfigOrigin *origin)
{
    const UpdateTraits *traits = update_traits((UpdateKind)c->optimizer.name);
    if (c->optimizer.betas.count != 2)
        return config_fail_key(origin, "optimizer.betas", "has %d values; it takes 2",
                               c->optimizer.betas.count);
    if (c->optimizer.nesterov && !traits->nesterov)
        return config_fail_key(origin, "optimizer.nesterov",
                               "is not supported by %s (optimizer.name); set it to false",
                               traits->name);
    return OK;
}

/* Keys whose text has a form of its own. */
static Status check_texts(const Config *c, const ConfigOrigin *origin)
{
    FuseChoice fuse;
    ParamGroups groups;
    int64_t first, last;
    const char *wrong = NULL;
    if (param_groups_parse(&groups, c->optimizer.groups) != OK) wrong = "optimizer.groups";
    else if (fuse_choice_parse(&fuse, c->device.fuse) != OK) wrong = "device.fuse";
    else if (c->log.trace_steps[0] &&
             config_parse_trace_steps(c->log.trace_steps, &first, &last) != OK)
        wrong = "log.trace_steps";
    return wrong ? config_fail_key(origin, wrong, "%s", status_message()) : OK;
}

/* How images come into the network. */
static Status check_input(const Config *c, const ConfigOrigin *origin)
{
    TRY(check_channels(c, origin, "data.mean", &c->data.mean));
    TRY(check_channels(c, origin, "data.std", &c->data.std));
    if (c->model.in_channels != 1 && c->model.in_channels != 3)
        return config_fail_key(origin, "model.in_channels", "is %lld; it must be 1 or 3",
                               (long long)c->model.in_channels);
    if (c->data.val_split > 0 && c->data.val[0])
        return config_fail_key(origin, "data.val_split",
                               "cannot be combined with data.val; set data.val_split to 0, or "
                               "data.val to \"\"");
    if (c->data.eval_resize != 0 && c->data.eval_resize < c->data.image_size)
        return config_fail_key(origin, "data.eval_resize",
                               "is %lld, less than data.image_size (%lld); 0 means data.image_size",
                               (long long)c->data.eval_resize, (long long)c->data.image_size);
    return OK;
}

Status config_check_input(const Config *c)
{
    const ConfigOrigin stored = { .path = "stored config" };
    return check_input(c, &stored);
}

/* ---- networks of images and of text ---- */

/* Keys that say something of the one kind alone. */
static const char *const image_keys[] = {
    "model.in_channels",
    "model.stem",
    "model.blurpool",
    "model.zero_init_last_gamma",
    "model.bn",
    "data.class_map",
    "data.val_split",
    "data.val_split_seed",
    "data.order",
    "data.allow_empty_classes",
    "data.labels",
    "data.image_size",
    "data.train_size",
    "data.mean",
    "data.std",
    "data.augment",
    "data.min_crop_area",
    "data.interpolation",
    "data.train_interpolation",
    "data.cache",
    "data.progressive_sizes",
    "data.tta",
    "data.color_jitter",
    "data.auto_augment",
    "data.random_erase",
    "data.mixup",
    "data.cutmix",
    "data.seek_index",
    "data.repeated_augmentation",
    "train.teacher",
};
static const char *const text_keys[] = { "model.head",  "model.layers",   "model.hidden",
                                         "model.heads", "data.tokens",    "data.break_mode",
                                         "data.mask",   "data.mask_keep", "data.mask_random" };

static Status refuse_keys(const Config *c, const ConfigOrigin *origin, const char *const *keys,
                          size_t count, const char *wanted)
{
    for (size_t i = 0; i < count; i++)
        if (!has_default(c, keys[i]))
            return config_fail_key(origin, keys[i], "requires a network %s; %s (model.name) %s",
                                   wanted, c->model.name,
                                   config_is_text(c) ? "reads text" : "reads images");
    return OK;
}

#define REFUSE_KEYS(keys, wanted) refuse_keys(c, origin, keys, sizeof keys / sizeof *keys, wanted)

static Status check_kind(const Config *c, const ConfigOrigin *origin)
{
    const bool text = config_is_text(c), masked = config_is_masked(c);
    const Refusal rows[] = {
        { text && c->data.format != DATA_AUTO && c->data.format != DATA_FAIRSEQ &&
              c->data.format != DATA_SYNTHETIC,
          "data.format",
          ": networks of text read what fairseq-preprocess writes; use fairseq or auto" },
        { !text && c->data.format == DATA_FAIRSEQ, "data.format",
          ": fairseq is text, which requires a network that reads it, such as roberta_base "
          "(model.name)" },
        { c->data.mask_keep + c->data.mask_random > 1, "data.mask_random",
          "and data.mask_keep add up to more than 1" },
        { masked && c->train.loss != LOSS_CROSS_ENTROPY, "train.loss",
          ": masked words are learnt by cross_entropy" },
        { masked && c->train.label_smoothing > 0, "train.label_smoothing",
          "requires model.head: classify" },
        { masked && c->train.class_weights[0], "train.class_weights",
          "requires model.head: classify" },
    };
    TRY(refuse(origin, rows, sizeof rows / sizeof *rows));
    return text ? REFUSE_KEYS(image_keys, "that reads images")
                : REFUSE_KEYS(text_keys, "that reads text");
}

Status config_check(const Config *c, const ConfigOrigin *origin)
{
    TRY(check_model(c, origin));
    TRY(check_kind(c, origin));
    TRY(check_input(c, origin));
    TRY(check_ascending(c, origin));
    TRY(check_progressive(c, origin));
    TRY(check_combinations(c, origin));
    TRY(check_either(c, origin));
    TRY(check_augmentation(c, origin));
    TRY(check_texts(c, origin));
    TRY(check_scale(c, origin));
    TRY(check_optimizer(c, origin));
    TRY(check_whole(origin, "train.accumulate", &c->train.accumulate));
    return check_requirements(c, origin);
}
