/* choices.h - the enum keys that no lower room knows: what the trainer alone chooses. Names stand
 * in the order of their enum, NULL at the end. */
#ifndef CONVOY_TRAINER_ENGINE_CONFIG_CHOICES_H
#define CONVOY_TRAINER_ENGINE_CONFIG_CHOICES_H

/* of what an evaluation averages the logits (VIEWS_...) */
typedef enum TtaChoice { TTA_NONE, TTA_FLIP, TTA_AIRBENCH, TTA_CHOICE_COUNT } TtaChoice;
typedef enum BnChoice {
    BN_CHOICE_TRAIN,
    BN_CHOICE_FROZEN,
    BN_CHOICE_SYNC,
    BN_CHOICE_COUNT
} BnChoice;
/* what a network of text is trained to say: masked words, or the class of a sequence */
typedef enum HeadChoice { HEAD_MLM, HEAD_CLASSIFY, HEAD_CHOICE_COUNT } HeadChoice;
typedef enum BatchMode { BATCH_PER_RANK, BATCH_GLOBAL, BATCH_MODE_COUNT } BatchMode;
typedef enum OnNan { ON_NAN_STOP, ON_NAN_ROLLBACK, ON_NAN_COUNT } OnNan;
typedef enum LrScaling { LR_NONE, LR_LINEAR, LR_SQRT, LR_WORLD_SIZE, LR_SCALING_COUNT } LrScaling;
typedef enum ScheduleShape {
    SCHEDULE_COSINE,
    SCHEDULE_STEP,
    SCHEDULE_POLY,
    SCHEDULE_CONSTANT,
    SCHEDULE_EXPONENTIAL,
    SCHEDULE_TRIANGULAR,
    SCHEDULE_SHAPE_COUNT
} ScheduleShape;
/* Which parameters optimizer.weight_decay leaves out: by whose rule. */
typedef enum DecaySkip {
    DECAY_SKIP_TIMM,        /* of at most one dimension: biases and norms */
    DECAY_SKIP_MLPERF,      /* batch norms and biases */
    DECAY_SKIP_TORCHVISION, /* norms alone */
    DECAY_SKIP_FFCV,        /* with "bn" in the name */
    DECAY_SKIP_NONE,
    DECAY_SKIP_COUNT
} DecaySkip;
typedef enum DecayFrom { DECAY_FROM_WARMUP, DECAY_FROM_START, DECAY_FROM_COUNT } DecayFrom;
typedef enum LookaheadForm {
    LOOKAHEAD_OFF,
    LOOKAHEAD_TIMM,
    LOOKAHEAD_AIRBENCH,
    LOOKAHEAD_FORM_COUNT
} LookaheadForm;
typedef enum EmaRule { EMA_TIMM, EMA_TORCHVISION, EMA_RULE_COUNT } EmaRule;
typedef enum GradDtype {
    GRAD_DTYPE_AUTO,
    GRAD_DTYPE_FP32,
    GRAD_DTYPE_BF16,
    GRAD_DTYPE_COUNT
} GradDtype;
typedef enum BackendChoice {
    BACKEND_AUTO,
    BACKEND_CPU,
    BACKEND_CUDA,
    BACKEND_CHOICE_COUNT
} BackendChoice;
typedef enum BindChoice { BIND_AUTO, BIND_NONE, BIND_CHOICE_COUNT } BindChoice;
typedef enum LogFormat {
    LOG_FORMAT_LINE,
    LOG_FORMAT_TABLE,
    LOG_FORMAT_EPOCH,
    LOG_FORMAT_JSON,
    LOG_FORMAT_COUNT
} LogFormat;
typedef enum MonitorGpu {
    MONITOR_GPU_AUTO,
    MONITOR_GPU_ON,
    MONITOR_GPU_OFF,
    MONITOR_GPU_COUNT
} MonitorGpu;
typedef enum ScaleMode { SCALE_WEAK, SCALE_STRONG, SCALE_MODE_COUNT } ScaleMode;
typedef enum ScaleData { SCALE_REAL, SCALE_SYNTHETIC, SCALE_DATA_COUNT } ScaleData;

extern const char *const tta_choice_names[TTA_CHOICE_COUNT + 1];
extern const char *const bn_choice_names[BN_CHOICE_COUNT + 1];
extern const char *const head_choice_names[HEAD_CHOICE_COUNT + 1];
extern const char *const batch_mode_names[BATCH_MODE_COUNT + 1];
extern const char *const on_nan_names[ON_NAN_COUNT + 1];
extern const char *const lr_scaling_names[LR_SCALING_COUNT + 1];
extern const char *const schedule_shape_names[SCHEDULE_SHAPE_COUNT + 1];
extern const char *const decay_skip_names[DECAY_SKIP_COUNT + 1];
extern const char *const decay_from_names[DECAY_FROM_COUNT + 1];
extern const char *const lookahead_form_names[LOOKAHEAD_FORM_COUNT + 1];
extern const char *const ema_rule_names[EMA_RULE_COUNT + 1];
extern const char *const grad_dtype_names[GRAD_DTYPE_COUNT + 1];
extern const char *const backend_choice_names[BACKEND_CHOICE_COUNT + 1];
extern const char *const bind_choice_names[BIND_CHOICE_COUNT + 1];
extern const char *const log_format_names[LOG_FORMAT_COUNT + 1];
extern const char *const monitor_gpu_names[MONITOR_GPU_COUNT + 1];
extern const char *const scale_mode_names[SCALE_MODE_COUNT + 1];
extern const char *const scale_data_names[SCALE_DATA_COUNT + 1];
#endif
