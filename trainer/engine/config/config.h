/* config.h - a run's configuration: one struct, filled from defaults, a YAML file and --set
 * key=value, through one table of keys.
 *
 * Only trainer/ sees Config; the other rooms take their own option structs. Strings are owned by
 * the Config. */
#ifndef CONVOY_TRAINER_ENGINE_CONFIG_CONFIG_H
#define CONVOY_TRAINER_ENGINE_CONFIG_CONFIG_H
#include "base/status.h"
#include "base/str.h"
#include "data/data.h"
#include "kernels/op_input.h"
#include "models/models.h"
#include "trainer/engine/config/choices.h"
#include <stdbool.h>
#include <stdint.h>

#define CONFIG_LIST_MAX        16
#define PROGRESSIVE_STAGES_MAX 8           /* image sizes of a run */
#define CONFIG_BYTES_MAX       (256 << 10) /* of its text; more is another file, by mistake */
typedef struct ConfigList {
    int count;
    double values[CONFIG_LIST_MAX];
} ConfigList;

/* An enum key holds a value of its owner's enum; this where it says a word more than that has:
 * auto, same. */
#define CONFIG_OTHER (-1)

typedef struct Config {
    struct {
        char *name, *init, *freeze;
        WeightsChoice init_weights;
        int64_t classes /*0 = from the dataset*/, in_channels;
        int stem /*Stem*/, blurpool /*BlurPool*/;
        BnChoice bn;
        int64_t bn_group; /*0 = all ranks*/
        bool zero_init_last_gamma;
        double stochastic_depth, dropout /*-1 = as published*/, attention_dropout;
        HeadChoice head;
        int64_t layers, hidden, heads /*0 = as published*/;
    } model;
    struct {
        char *dir /*empty: it is in train and val*/, *train, *val, *index, *class_map;
        double val_split /*0 = off*/;
        int64_t val_split_seed;
        SampleOrder order;
        DataFormat format;
        LabelKind labels;
        Augment augment;
        Interpolation interpolation;
        int train_interpolation /*Interpolation, or CONFIG_OTHER: the same*/;
        HuffmanDecoder decoder;
        SeekUse seek_index;
        int64_t seek_index_mb;
        int64_t image_size, eval_resize /*0 = image_size; auto is resolved*/;
        int64_t train_size /*0 = image_size*/;
        bool eval_resize_auto; /* no key: it was auto */
        ConfigList progressive_sizes, progressive_until /*epochs*/;
        int64_t threads /*0 = auto*/, synthetic_images;
        int64_t readers /*0 = auto*/;
        double read_ahead_mb;
        DataCache cache;
        int64_t cache_mb /*0 = auto*/;
        char *cache_dir /*of cache: disk*/;
        ConfigList mean, std;
        AutoPolicy auto_augment;
        AutoAugmentTable autoaugment_policy;
        Sampling auto_augment_interpolation;
        int64_t randaugment_ops, randaugment_magnitude, magnitude_bins, augmix_severity,
            repeated_augmentation;
        double min_crop_area, random_erase, mixup, cutmix, mixup_prob, mixup_switch_prob;
        int64_t mixup_off_epoch /*0 = never*/;
        EraseMode erase_mode;
        double randaugment_std;
        bool allow_empty_classes;
        TtaChoice tta;
        ConfigList color_jitter /*brightness, contrast, saturation, hue*/, auto_augment_fill;
        double max_bad_fraction;
        int64_t tokens;
        TokenBreak break_mode;
        double mask, mask_keep, mask_random;
    } data;
    struct {
        double epochs;
        int64_t max_steps /*0 = no limit*/, batch_per_rank, global_batch, seed;
        ConfigList accumulate /*by epoch*/;
        BatchMode batch_mode;
        int precision /*Precision, or CONFIG_OTHER: auto*/;
        int precision_auto /*what auto is in a run; CONFIG_OTHER: open*/;
        LossKind loss;
        double bce_threshold /*0 = off*/;
        bool bce_sum;
        char *class_weights /*empty: none*/;
        char *teacher /*empty: none*/, *teacher_model;
        double distill_temperature, distill_weight;
        double label_smoothing, eval_every /*epochs; 0 = only at the end*/;
        int64_t patience /*evaluations; 0 = without end*/;
        double loss_scale;
        int64_t loss_scale_interval;
        OnNan on_nan;
        double rollback_lr;
        int64_t rollback_limit;
        Recompute recompute;
    } train;
    struct {
        int name /*UpdateKind*/;
        LrScaling lr_scaling;
        double lr, momentum, weight_decay, eps /*auto is resolved*/, clip_norm /*0 = off*/;
        double alpha, trust_coefficient;
        bool nesterov, trust_clip, always_adapt;
        DecaySkip decay_skip;
        ConfigList betas /*count CONFIG_OTHER until it is loaded: auto*/;
        double head_lr, layer_decay /*factors; 1 = off*/;
        char *groups;
        double sam_rho /*0 = off*/;
        int64_t sam_interval;
        LookaheadForm lookahead;
        int64_t lookahead_steps;
        double lookahead_alpha;
    } optimizer;
    struct {
        double decay, half_life /*both 0 = off*/;
        EmaRule rule;
        int64_t every;
        bool warmup, best;
    } ema;
    struct {
        ScheduleShape name;
        double warmup_epochs, warmup_lr /*-1: a step's share of the rise*/, min_lr, power, gamma,
            decay_epochs;
        int64_t warmup_steps /*0: warmup_epochs*/, decay_steps /*0: the rest of the run*/;
        DecayFrom decay_from;
        ConfigList milestones;
    } schedule;
    struct {
        double bucket_mb, first_bucket_mb, timeout_s;
        int64_t max_ctas /*0 = NCCL's own choice*/;
        GradDtype grad_dtype;
        bool zero_copy;
    } comm;
    struct {
        double every_epochs /*0 = never but at the end*/;
        int64_t every_steps /*0 = off*/, keep;
        char *resume, *on_save /*empty: nothing*/;
        double on_save_timeout_s;
    } checkpoint;
    struct {
        double start_s, step_s, evaluation_s, checkpoint_s, disconnect_s; /*0 = no limit*/
    } watchdog;
    struct {
        int64_t every;
        bool grad_norm;
        LogFormat format;
        char *file, *trace_steps; /* empty: none */
    } log;
    struct {
        bool tensorboard;
        char *prometheus, *emf; /*empty: none*/
        MonitorGpu gpu;
        double every_s;
    } monitor;
    struct {
        double price_per_host_hour, price_per_kwh, pue, grams_per_kwh, host_watts; /*0 = not given*/
        char *currency, *price_note, *powercap;
    } cost;
    struct {
        char *dir;
    } run;
    struct {
        ConfigList ranks;
        ScaleMode mode;
        ScaleData data;
        int64_t repeats, steps /*0 = whole epochs*/, warmup_steps, epochs;
        char *dir; /* empty: beside the run folder */
    } scale;
    struct {
        BackendChoice backend;
        BindChoice bind;
        int64_t threads /*0 = auto*/, index /*-1 = by local rank*/,
            workspace_mb /*0 = by precision*/, side_depth;
        double peak_tflops /*0 = by the data sheet*/;
        bool cuda_graph, emulate, winograd;
        char *fuse; /* FuseChoice */
        int batchnorm /*KernelMode*/, depthwise, attention;
        char *plan_cache; /* empty: beside the run folder */
        /* no key: a JSON text of a device that is not here (inspect memory); borrowed */
        const char *properties;
    } device;
    unsigned unread; /* no key: of config_caution.c */
} Config;

/* Starts from defaults, reads path (NULL: none), applies sets[0..n) ("key=value"). The folder of a
 * run stands for the config.yaml in it and for going on there: run.dir is that folder, and
 * checkpoint.resume no longer none. ERR_USAGE with file:line and the nearest key for an unknown
 * one, with range or names for a bad value; consistency between keys is checked last. */
Status config_load(Config **out, const char *path, const char *const *sets, int set_count);
/* Applies sets to what was loaded or parsed, and checks it again. */
Status config_override(Config *c, const char *const *sets, int set_count);
void config_destroy(Config *c);
FREED_BY_POINTER(Config, config_destroy)
/* Warns, before training, of what c says but hardly means. resumed: from a checkpoint. */
void config_warn(const Config *c, bool resumed);
/* What to use here for an option or key of another program: "use optimizer.lr=RATE (...)"; nothing
 * for a word that nobody knows. */
void config_add_advice(const char *word, StrBuf *out);
/* From defaults and a text of config_dump_yaml. */
Status config_parse(Config **out, const char *yaml);
/* The same of a file: the config.yaml of a run. */
Status config_stored(Config **out, const char *path);
/* What c's keys make of a network, for inference on one square image of that size. classes
 * -1: model.classes, or 1000 where that is left to a data set. */
ModelOptions config_model_options(const Config *c, int64_t image_size, int64_t classes);
/* For a network of text: the rows of its head in a micro-batch of that number of sequences; 0: one
 * for each. */
void config_set_batch(const Config *c, int64_t batch, GraphOptions *g);
/* What a loader of text needs to know of its batches; of images nothing. After o->batch. */
void config_fill_text(const Config *c, LoaderOptions *o);
TokenOptions config_token_options(const Config *c);
/* Its network reads text; of those one that learns to fill in masked words, else one that
 * classifies. */
bool config_is_text(const Config *c);
bool config_is_masked(const Config *c);
/* Consistency of the keys that say how images come into the network: all that evaluation takes from
 * a stored text. */
Status config_check_input(const Config *c);
/* every key, in table order; loads back to an equal Config */
Status config_dump_yaml(const Config *c, StrBuf *out);
/* Adds the names and values of MATH keys in which the two differ, for the message on resume. */
Status config_math_difference(const Config *then, const Config *now, StrBuf *out);
/* The same of all keys but run.dir, which differs between runs by nature, those of scale, which
 * training does not read, and those of cost, which change no work. */
Status config_difference(const Config *then, const Config *now, StrBuf *out);
/* The first key from the one of that index on, of those that config_difference() compares, that is
 * not the same in all of list (NULL ones are passed over), with its name; -1: none. */
int config_next_difference(const Config *const *list, int count, int from, const char **name);
bool config_is_key(const char *text, size_t n);               /* its first n bytes */
void config_add_key(const Config *c, int index, StrBuf *out); /* its value, as YAML */
enum { CONFIG_PRINTS_MAX = 224 };
/* A number for each key's value, in the order of the table, for ranks to compare; 0 for where data
 * lies, which may differ from host to host. Returns how many. */
int config_prints(const Config *c, uint32_t prints[CONFIG_PRINTS_MAX]);
/* Adds "KEY is VALUE; ..." of the keys for which prints has another number. */
void config_add_unlike(const Config *c, const uint32_t prints[CONFIG_PRINTS_MAX], StrBuf *out);
Status config_write_markdown(StrBuf *out); /* docs/config.md */
Status config_print_help(StrBuf *out);     /* convoy inspect config */
const char *config_yaml_version(void);     /* of libyaml */

/* The pattern that a config key holds with its per cent signs filled in, NULL for "";
 * returns to caller (mem_free). ERR_USAGE: %x is unknown, or the ranks would write to one file. */
Status config_file_name(char **out, const char *key, const char *pattern, int rank, int world);
/* log.trace_steps: "A-B" or "A", steps as records number them (from 1). ERR_USAGE otherwise. */
Status config_parse_trace_steps(const char *text, int64_t *first, int64_t *last);
#endif
