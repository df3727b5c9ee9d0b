/* choices.c - the names of the choices in choices.h. */
#include "trainer/engine/config/choices.h"

const char *const tta_choice_names[TTA_CHOICE_COUNT + 1] = {
    [TTA_NONE] = "none", [TTA_FLIP] = "flip", [TTA_AIRBENCH] = "airbench"
};
const char *const bn_choice_names[BN_CHOICE_COUNT + 1] = {
    [BN_CHOICE_TRAIN] = "train", [BN_CHOICE_FROZEN] = "frozen", [BN_CHOICE_SYNC] = "sync"
};
const char *const head_choice_names[HEAD_CHOICE_COUNT + 1] = {
    [HEAD_MLM] = "mlm", [HEAD_CLASSIFY] = "classify"
};
const char *const batch_mode_names[BATCH_MODE_COUNT + 1] = {
    [BATCH_PER_RANK] = "per_rank", [BATCH_GLOBAL] = "global"
};
const char *const on_nan_names[ON_NAN_COUNT + 1] = {
    [ON_NAN_STOP] = "stop", [ON_NAN_ROLLBACK] = "rollback"
};
const char *const lr_scaling_names[LR_SCALING_COUNT + 1] = {
    [LR_NONE] = "none", [LR_LINEAR] = "linear", [LR_SQRT] = "sqrt", [LR_WORLD_SIZE] = "world_size"
};
const char *const schedule_shape_names[SCHEDULE_SHAPE_COUNT + 1] = {
    [SCHEDULE_COSINE] = "cosine",
    [SCHEDULE_STEP] = "step",
    [SCHEDULE_POLY] = "poly",
    [SCHEDULE_CONSTANT] = "constant",
    [SCHEDULE_EXPONENTIAL] = "exponential",
    [SCHEDULE_TRIANGULAR] = "triangular"
};
const char *const decay_skip_names[DECAY_SKIP_COUNT + 1] = { [DECAY_SKIP_TIMM] = "timm",
                                                             [DECAY_SKIP_MLPERF] = "mlperf",
                                                             [DECAY_SKIP_TORCHVISION] =
                                                                 "torchvision",
                                                             [DECAY_SKIP_FFCV] = "ffcv",
                                                             [DECAY_SKIP_NONE] = "none" };
const char *const decay_from_names[DECAY_FROM_COUNT + 1] = {
    [DECAY_FROM_WARMUP] = "warmup", [DECAY_FROM_START] = "start"
};
const char *const lookahead_form_names[LOOKAHEAD_FORM_COUNT + 1] = {
    [LOOKAHEAD_OFF] = "off", [LOOKAHEAD_TIMM] = "timm", [LOOKAHEAD_AIRBENCH] = "airbench"
};
const char *const ema_rule_names[EMA_RULE_COUNT + 1] = {
    [EMA_TIMM] = "timm", [EMA_TORCHVISION] = "torchvision"
};
const char *const grad_dtype_names[GRAD_DTYPE_COUNT + 1] = {
    [GRAD_DTYPE_AUTO] = "auto", [GRAD_DTYPE_FP32] = "fp32", [GRAD_DTYPE_BF16] = "bf16"
};
const char *const backend_choice_names[BACKEND_CHOICE_COUNT + 1] = {
    [BACKEND_AUTO] = "auto", [BACKEND_CPU] = "cpu", [BACKEND_CUDA] = "cuda"
};
const char *const bind_choice_names[BIND_CHOICE_COUNT + 1] = {
    [BIND_AUTO] = "auto", [BIND_NONE] = "none"
};
const char *const log_format_names[LOG_FORMAT_COUNT + 1] = { [LOG_FORMAT_LINE] = "line",
                                                             [LOG_FORMAT_TABLE] = "table",
                                                             [LOG_FORMAT_EPOCH] = "epoch",
                                                             [LOG_FORMAT_JSON] = "json" };
const char *const monitor_gpu_names[MONITOR_GPU_COUNT + 1] = {
    [MONITOR_GPU_AUTO] = "auto", [MONITOR_GPU_ON] = "on", [MONITOR_GPU_OFF] = "off"
};
const char *const scale_mode_names[SCALE_MODE_COUNT + 1] = {
    [SCALE_WEAK] = "weak", [SCALE_STRONG] = "strong"
};
const char *const scale_data_names[SCALE_DATA_COUNT + 1] = {
    [SCALE_REAL] = "real", [SCALE_SYNTHETIC] = "synthetic"
};
