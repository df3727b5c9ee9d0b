/* imagenet_names.h - names of ImageNet's classes, for weights that come without. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_IMAGENET_NAMES_H
#define CONVOY_TRAINER_ENGINE_FILES_IMAGENET_NAMES_H
#include <stddef.h>
#include <stdint.h>

#define IMAGENET_CLASSES 1000
/* Copies the name of ILSVRC2012's class, below IMAGENET_CLASSES: "tench" of 0. */
void imagenet_name(int64_t label, char *out, size_t bytes);
#endif
