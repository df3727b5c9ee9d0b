/* kept_config.h - the config.yaml of a run folder, and those of the run's earlier parts. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_KEPT_CONFIG_H
#define CONVOY_TRAINER_ENGINE_FILES_KEPT_CONFIG_H
#include "base/status.h"
#include "trainer/engine/config/config.h"

/* Writes dir/config.yaml. Of a run that is not new, one that lies there and differs is of an
 * earlier part: it is kept as the first config-N.yaml that is free. */
Status kept_config_write(const char *dir, const Config *config, bool is_new);
#endif
