/* choices.c - the names of the choices in choices.h. */
#include "trainer/engine/config/choices.h"

#define CHOICE_WORD(value, word)         [value] = word,
#define CHOICE_NAMES(names, count, LIST) const char *const names[count + 1] = { LIST(CHOICE_WORD) };

CHOICE_NAMES(tta_choice_names, TTA_CHOICE_COUNT, TTA_CHOICE_LIST)
CHOICE_NAMES(bn_choice_names, BN_CHOICE_COUNT, BN_CHOICE_LIST)
CHOICE_NAMES(batch_mode_names, BATCH_MODE_COUNT, BATCH_MODE_LIST)
CHOICE_NAMES(on_nan_names, ON_NAN_COUNT, ON_NAN_LIST)
CHOICE_NAMES(lr_scaling_names, LR_SCALING_COUNT, LR_SCALING_LIST)
CHOICE_NAMES(schedule_shape_names, SCHEDULE_SHAPE_COUNT, SCHEDULE_SHAPE_LIST)
CHOICE_NAMES(decay_skip_names, DECAY_SKIP_COUNT, DECAY_SKIP_LIST)
CHOICE_NAMES(decay_from_names, DECAY_FROM_COUNT, DECAY_FROM_LIST)
CHOICE_NAMES(lookahead_form_names, LOOKAHEAD_FORM_COUNT, LOOKAHEAD_FORM_LIST)
CHOICE_NAMES(ema_rule_names, EMA_RULE_COUNT, EMA_RULE_LIST)
CHOICE_NAMES(grad_dtype_names, GRAD_DTYPE_COUNT, GRAD_DTYPE_LIST)
CHOICE_NAMES(backend_choice_names, BACKEND_CHOICE_COUNT, BACKEND_CHOICE_LIST)
CHOICE_NAMES(bind_choice_names, BIND_CHOICE_COUNT, BIND_CHOICE_LIST)
CHOICE_NAMES(log_format_names, LOG_FORMAT_COUNT, LOG_FORMAT_LIST)
CHOICE_NAMES(monitor_gpu_names, MONITOR_GPU_COUNT, MONITOR_GPU_LIST)
CHOICE_NAMES(scale_mode_names, SCALE_MODE_COUNT, SCALE_MODE_LIST)
CHOICE_NAMES(scale_data_names, SCALE_DATA_COUNT, SCALE_DATA_LIST)
