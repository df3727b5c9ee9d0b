/* choices.h - the enum keys that no lower room knows: what the trainer alone chooses, a list of
 * values with their words for each. Names stand in the order of their enum, NULL at the end. */
#ifndef CONVOY_TRAINER_ENGINE_CONFIG_CHOICES_H
#define CONVOY_TRAINER_ENGINE_CONFIG_CHOICES_H

#define CHOICE_VALUE(value, word) value,
#define CHOICE_ENUM(Type, names, count, LIST)                                                      \
    typedef enum Type { LIST(CHOICE_VALUE) count } Type;                                           \
    extern const char *const names[count + 1];

/* clang-format off */
/* of what an evaluation averages the logits (VIEWS_...) */
#define TTA_CHOICE_LIST(X) X(TTA_NONE, "none") X(TTA_FLIP, "flip") X(TTA_AIRBENCH, "airbench")
CHOICE_ENUM(TtaChoice, tta_choice_names, TTA_CHOICE_COUNT, TTA_CHOICE_LIST)
/* which weights of a file: auto is what the command makes of it */
#define WEIGHTS_CHOICE_LIST(X)                                                                     \
    X(WEIGHTS_OF_BEST, "auto") X(WEIGHTS_RAW, "raw") X(WEIGHTS_EMA, "ema")
CHOICE_ENUM(WeightsChoice, weights_choice_names, WEIGHTS_CHOICE_COUNT, WEIGHTS_CHOICE_LIST)
#define BN_CHOICE_LIST(X)                                                                          \
    X(BN_CHOICE_TRAIN, "train") X(BN_CHOICE_FROZEN, "frozen") X(BN_CHOICE_SYNC, "sync")
CHOICE_ENUM(BnChoice, bn_choice_names, BN_CHOICE_COUNT, BN_CHOICE_LIST)
/* what a network of text is trained to say: masked words, or the class of a sequence */
#define HEAD_CHOICE_LIST(X) X(HEAD_MLM, "mlm") X(HEAD_CLASSIFY, "classify")
CHOICE_ENUM(HeadChoice, head_choice_names, HEAD_CHOICE_COUNT, HEAD_CHOICE_LIST)
#define BATCH_MODE_LIST(X) X(BATCH_PER_RANK, "per_rank") X(BATCH_GLOBAL, "global")
CHOICE_ENUM(BatchMode, batch_mode_names, BATCH_MODE_COUNT, BATCH_MODE_LIST)
#define ON_NAN_LIST(X) X(ON_NAN_STOP, "stop") X(ON_NAN_ROLLBACK, "rollback")
CHOICE_ENUM(OnNan, on_nan_names, ON_NAN_COUNT, ON_NAN_LIST)
#define LR_SCALING_LIST(X)                                                                         \
    X(LR_NONE, "none") X(LR_LINEAR, "linear") X(LR_SQRT, "sqrt") X(LR_WORLD_SIZE, "world_size")
CHOICE_ENUM(LrScaling, lr_scaling_names, LR_SCALING_COUNT, LR_SCALING_LIST)
#define SCHEDULE_SHAPE_LIST(X)                                                                     \
    X(SCHEDULE_COSINE, "cosine") X(SCHEDULE_STEP, "step") X(SCHEDULE_POLY, "poly")                 \
    X(SCHEDULE_CONSTANT, "constant") X(SCHEDULE_EXPONENTIAL, "exponential")                        \
    X(SCHEDULE_TRIANGULAR, "triangular")
CHOICE_ENUM(ScheduleShape, schedule_shape_names, SCHEDULE_SHAPE_COUNT, SCHEDULE_SHAPE_LIST)
/* Which parameters optimizer.weight_decay leaves out, by whose rule. timm: of at most one
 * dimension, biases and norms; mlperf: batch norms and biases; torchvision: norms alone; ffcv: with
 * "bn" in the name. */
#define DECAY_SKIP_LIST(X)                                                                         \
    X(DECAY_SKIP_TIMM, "timm") X(DECAY_SKIP_MLPERF, "mlperf")                                      \
    X(DECAY_SKIP_TORCHVISION, "torchvision") X(DECAY_SKIP_FFCV, "ffcv")                            \
    X(DECAY_SKIP_NONE, "none")
CHOICE_ENUM(DecaySkip, decay_skip_names, DECAY_SKIP_COUNT, DECAY_SKIP_LIST)
#define DECAY_FROM_LIST(X) X(DECAY_FROM_WARMUP, "warmup") X(DECAY_FROM_START, "start")
CHOICE_ENUM(DecayFrom, decay_from_names, DECAY_FROM_COUNT, DECAY_FROM_LIST)
#define LOOKAHEAD_FORM_LIST(X)                                                                     \
    X(LOOKAHEAD_OFF, "off") X(LOOKAHEAD_TIMM, "timm") X(LOOKAHEAD_AIRBENCH, "airbench")
CHOICE_ENUM(LookaheadForm, lookahead_form_names, LOOKAHEAD_FORM_COUNT, LOOKAHEAD_FORM_LIST)
#define EMA_RULE_LIST(X) X(EMA_TIMM, "timm") X(EMA_TORCHVISION, "torchvision")
CHOICE_ENUM(EmaRule, ema_rule_names, EMA_RULE_COUNT, EMA_RULE_LIST)
#define GRAD_DTYPE_LIST(X)                                                                         \
    X(GRAD_DTYPE_AUTO, "auto") X(GRAD_DTYPE_FP32, "fp32") X(GRAD_DTYPE_BF16, "bf16")
CHOICE_ENUM(GradDtype, grad_dtype_names, GRAD_DTYPE_COUNT, GRAD_DTYPE_LIST)
#define BACKEND_CHOICE_LIST(X) X(BACKEND_AUTO, "auto") X(BACKEND_CPU, "cpu") X(BACKEND_CUDA, "cuda")
CHOICE_ENUM(BackendChoice, backend_choice_names, BACKEND_CHOICE_COUNT, BACKEND_CHOICE_LIST)
#define BIND_CHOICE_LIST(X) X(BIND_AUTO, "auto") X(BIND_NONE, "none")
CHOICE_ENUM(BindChoice, bind_choice_names, BIND_CHOICE_COUNT, BIND_CHOICE_LIST)
#define LOG_FORMAT_LIST(X)                                                                         \
    X(LOG_FORMAT_LINE, "line") X(LOG_FORMAT_TABLE, "table") X(LOG_FORMAT_EPOCH, "epoch")           \
    X(LOG_FORMAT_JSON, "json")
CHOICE_ENUM(LogFormat, log_format_names, LOG_FORMAT_COUNT, LOG_FORMAT_LIST)
#define MONITOR_GPU_LIST(X)                                                                        \
    X(MONITOR_GPU_AUTO, "auto") X(MONITOR_GPU_ON, "on") X(MONITOR_GPU_OFF, "off")
CHOICE_ENUM(MonitorGpu, monitor_gpu_names, MONITOR_GPU_COUNT, MONITOR_GPU_LIST)
#define SCALE_MODE_LIST(X) X(SCALE_WEAK, "weak") X(SCALE_STRONG, "strong")
CHOICE_ENUM(ScaleMode, scale_mode_names, SCALE_MODE_COUNT, SCALE_MODE_LIST)
#define SCALE_DATA_LIST(X) X(SCALE_REAL, "real") X(SCALE_SYNTHETIC, "synthetic")
CHOICE_ENUM(ScaleData, scale_data_names, SCALE_DATA_COUNT, SCALE_DATA_LIST)
/* clang-format on */
#endif
