/* hub.h - the configuration beside weights that timm reads from a folder ("local-dir:") or a
 * repository of the Hugging Face Hub ("hf-hub:"). */
#ifndef CONVOY_TRAINER_ENGINE_FILES_HUB_H
#define CONVOY_TRAINER_ENGINE_FILES_HUB_H
#include "trainer/engine/files/checkpoint_model.h"

#define HUB_WEIGHTS "model.safetensors"
#define HUB_CONFIG  "config.json"
/* ERR_USAGE where timm has no network that computes what m's does. */
Status hub_check(const CheckpointModel *m);
/* Writes the configuration of timm's network: how images are prepared, the classes, and which
 * layers follow the channels of images and the number of classes. */
Status hub_write_config(const CheckpointModel *m, const char *path);
#endif
