/* run_source.h - a run as commands are given it: a config file, its folder, or a checkpoint.
 *
 * A folder stands for its config.yaml and for its best checkpoint, or the latest where none was
 * evaluated. A checkpoint stands for the configuration that it holds, and for the folder that it
 * lies in where that is a run's. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_RUN_SOURCE_H
#define CONVOY_TRAINER_ENGINE_FILES_RUN_SOURCE_H
#include "trainer/engine/config/config.h"

/* What config_load() does, of any of the three; word NULL: defaults. ERR_DATA naming a checkpoint
 * that is no good. */
Status run_source_config(Config **out, const char *word, const char *const *sets, int set_count);
bool run_source_is_checkpoint(const char *word); /* a safetensors file, by its content */
/* A folder's checkpoint; any other word as it is. Returns to caller (mem_free). ERR_DATA where a
 * run has none, ERR_USAGE where the folder is not that of a run. */
Status run_source_checkpoint(char **out, const char *word);
#endif
