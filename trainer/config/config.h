/* config.h - a run's configuration: one struct, filled from defaults, a YAML file and --set
 * key=value, through one table of keys.
 *
 * Only trainer/ sees Config; the other rooms take their own option structs. Strings are owned by
 * the Config. */
#ifndef CONVOY_TRAINER_CONFIG_CONFIG_H
#define CONVOY_TRAINER_CONFIG_CONFIG_H
#include "base/status.h"
#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>

#define CONFIG_LIST_MAX 16
typedef struct ConfigList {
    int count;
    double values[CONFIG_LIST_MAX];
} ConfigList;

/* Values of enum keys are indices into the key's list of names; these enums are in that order. */
enum { CONFIG_BN_TRAIN, CONFIG_BN_FROZEN };
enum { CONFIG_STEM_IMAGENET, CONFIG_STEM_CIFAR };
enum { CONFIG_AUGMENT_NONE, CONFIG_AUGMENT_IMAGENET, CONFIG_AUGMENT_CIFAR };
enum { CONFIG_INTERPOLATION_BILINEAR, CONFIG_INTERPOLATION_BICUBIC };
enum { CONFIG_CACHE_PAGE, CONFIG_CACHE_RAM, CONFIG_CACHE_NONE };
enum { CONFIG_DECODER_FAST, CONFIG_DECODER_STOCK };
enum { CONFIG_SEEK_INDEX_AUTO, CONFIG_SEEK_INDEX_OFF };
enum {
    CONFIG_POLICY_NONE,
    CONFIG_POLICY_RANDAUGMENT,
    CONFIG_POLICY_AUTOAUGMENT,
    CONFIG_POLICY_TRIVIALAUGMENT,
    CONFIG_POLICY_AUGMIX
};
enum { CONFIG_AUTOAUGMENT_IMAGENET, CONFIG_AUTOAUGMENT_CIFAR10, CONFIG_AUTOAUGMENT_SVHN };
enum { CONFIG_SAMPLING_BILINEAR, CONFIG_SAMPLING_NEAREST };
enum { CONFIG_BATCH_PER_RANK, CONFIG_BATCH_GLOBAL };
enum {
    CONFIG_PRECISION_AUTO,
    CONFIG_PRECISION_FP32,
    CONFIG_PRECISION_TF32,
    CONFIG_PRECISION_BF16,
    CONFIG_PRECISION_FP16
};
enum { CONFIG_LR_NONE, CONFIG_LR_LINEAR, CONFIG_LR_SQRT, CONFIG_LR_WORLD_SIZE };
enum {
    CONFIG_SCHEDULE_COSINE,
    CONFIG_SCHEDULE_STEP,
    CONFIG_SCHEDULE_POLY,
    CONFIG_SCHEDULE_CONSTANT
};
enum { CONFIG_GRAD_DTYPE_AUTO, CONFIG_GRAD_DTYPE_FP32, CONFIG_GRAD_DTYPE_BF16 };
enum { CONFIG_SCALE_WEAK, CONFIG_SCALE_STRONG };
enum { CONFIG_SCALE_REAL, CONFIG_SCALE_SYNTHETIC };
enum { CONFIG_BACKEND_AUTO, CONFIG_BACKEND_CPU, CONFIG_BACKEND_CUDA };
enum { CONFIG_LOG_LINE, CONFIG_LOG_TABLE, CONFIG_LOG_EPOCH, CONFIG_LOG_JSON };
enum { CONFIG_MONITOR_GPU_AUTO, CONFIG_MONITOR_GPU_ON, CONFIG_MONITOR_GPU_OFF };
enum { CONFIG_FUSE_AUTO, CONFIG_FUSE_NONE, CONFIG_FUSE_ALL };
enum { CONFIG_KERNELS_OWN, CONFIG_KERNELS_CUDNN, CONFIG_KERNELS_AUTO };

typedef struct Config {
    struct {
        char *name, *init;
        int64_t classes /*0 = from the dataset*/, in_channels;
        int stem, bn;
        bool zero_init_last_gamma;
        double stochastic_depth, dropout /*-1 = as published*/;
    } model;
    struct {
        char *train, *val, *index;
        int format /*DataFormat*/, augment, interpolation, train_interpolation, decoder, seek_index;
        int64_t seek_index_mb;
        int64_t image_size, eval_resize /*0 = image_size*/;
        ConfigList progressive_sizes, progressive_until /*epochs*/;
        int64_t threads /*0 = auto*/, synthetic_images;
        int64_t readers /*0 = auto*/;
        double read_ahead_mb;
        int cache;
        int64_t cache_mb /*0 = auto*/;
        ConfigList mean, std;
        int auto_augment, autoaugment_policy, auto_augment_interpolation;
        int64_t randaugment_ops, randaugment_magnitude, magnitude_bins, augmix_severity, repeated;
        double random_erase, mixup, cutmix;
        bool flip_eval;
        ConfigList color_jitter /*brightness, contrast, saturation, hue*/, auto_augment_fill;
        double max_bad_fraction;
    } data;
    struct {
        double epochs;
        int64_t max_steps /*0 = no limit*/, batch_per_rank, global_batch, accumulate, seed;
        int batch_mode, precision;
        double label_smoothing, eval_every /*epochs; 0 = only at the end*/;
        double loss_scale;
        int64_t loss_scale_interval;
    } train;
    struct {
        int name, lr_scaling;
        double lr, momentum, weight_decay, eps, clip_norm /*0 = off*/;
        bool nesterov, decay_all;
        ConfigList betas;
    } optimizer;
    struct {
        int name;
        double warmup_epochs, min_lr, power, gamma;
        ConfigList milestones;
    } schedule;
    struct {
        double bucket_mb, first_bucket_mb, timeout_s;
        int64_t max_ctas /*0 = NCCL's own choice*/;
        int grad_dtype;
    } comm;
    struct {
        double every_epochs /*0 = never but at the end*/;
        int64_t every_steps /*0 = off*/, keep;
        char *resume, *on_save /*empty: nothing*/;
        double on_save_limit_s;
    } checkpoint;
    struct {
        double start_s, step_s, evaluation_s, checkpoint_s, cut_off_s; /*0 = no limit*/
    } watchdog;
    struct {
        int64_t every;
        bool grad_norm;
        int format;
        char *file, *trace_steps; /* empty: none */
    } log;
    struct {
        bool tensorboard;
        char *prometheus, *emf; /*empty: none*/
        int gpu;
        double every_s;
    } monitor;
    struct {
        char *dir;
    } run;
    struct {
        ConfigList ranks;
        int mode, data;
        int64_t repeats, steps /*0 = whole epochs*/, warmup_steps, epochs;
        char *dir; /* empty: beside the run folder */
    } scale;
    struct {
        int backend;
        int64_t threads /*0 = auto*/, index /*-1 = by local rank*/,
            workspace_mb /*0 = by precision*/;
        bool graph;
        int fuse, batchnorm, depthwise;
        char *plan_cache; /* empty: beside the run folder */
        /* no key: a JSON text of a device that is not here (inspect memory); borrowed */
        const char *properties;
    } device;
} Config;

/* Starts from defaults, reads path (NULL: none), applies sets[0..n) ("key=value"). ERR_USAGE with
 * file:line and the nearest key for an unknown one, with range or names for a bad value;
 * consistency between keys is checked last. */
Status config_load(Config **out, const char *path, const char *const *sets, int set_count);
void config_destroy(Config *c);
/* From defaults and a text of config_dump_yaml, perhaps of another version: unknown keys are
 * ignored. */
Status config_parse(Config **out, const char *yaml);
/* Consistency of the keys that say how images come into the network: all that evaluation takes from
 * a stored text. */
Status config_check_input(const Config *c);
/* every key, in table order; loads back to an equal Config */
Status config_dump_yaml(const Config *c, StrBuf *out);
/* CRC-32C over the keys that change results (flag MATH) */
uint32_t config_math_hash(const Config *c);
/* Names and values of MATH keys in which a dumped YAML text differs from c, "" if none: for the
 * message on resume. */
Status config_math_difference(const Config *c, const char *yaml, StrBuf *out);
/* The same for two configurations and all keys but run.dir, which differs between runs by nature,
 * and those of scale, which training does not read. */
Status config_difference(const Config *then, const Config *now, StrBuf *out);
Status config_write_markdown(StrBuf *out); /* docs/config.md */
Status config_print_help(StrBuf *out);     /* convoy inspect config */
const char *config_yaml_version(void);     /* of libyaml */

/* The pattern that a config key holds with its per cent signs filled in; returns to caller
 * (mem_free). ERR_USAGE: %x is unknown, or the ranks would write to one file. */
Status config_file_name(char **out, const char *key, const char *pattern, int rank, int world,
                        const char *host);
/* log.trace_steps: "A-B" or "A", steps as records number them (from 1). ERR_USAGE otherwise. */
Status config_parse_trace_steps(const char *text, int64_t *first, int64_t *last);
#endif
