/* units.h - what the samples of a run are called: images, or the sequences of a network that reads
 * text, whose speed is counted in tokens. */
#ifndef CONVOY_TRAINER_ENGINE_CONFIG_UNITS_H
#define CONVOY_TRAINER_ENGINE_CONFIG_UNITS_H
#include "trainer/engine/config/config.h"

typedef struct Units {
    const char *one, *many; /* "image", "images" */
    const char *rate;       /* "images/s", "sequences/s" */
    const char *speed;      /* as people read it: "images/s", "tokens/s" */
} Units;
extern const Units units_images, units_text;
extern const Units units_mixed; /* of runs of both kinds together */
const Units *units_of(const Config *c);
const char *units_name(const Units *u, int64_t count); /* "image" of 1, else "images" */
#endif
