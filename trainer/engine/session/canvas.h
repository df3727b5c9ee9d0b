/* canvas.h - how many places the programs of a run on text have (kernels/op_embed.h). The sequences
 * of a micro-batch lie one behind the other, so it seldom fills the batch * tokens places that it
 * could: there are programs for several numbers of places, chosen by the micro-batches that the
 * shuffled set begins with, and each micro-batch takes the smallest that holds it; the last of a
 * step the smallest that holds those of all ranks, so that these run the same program. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_CANVAS_H
#define CONVOY_TRAINER_ENGINE_SESSION_CANVAS_H
#include "data/data.h"

enum { CANVAS_MAX = 8 };
/* Fills places with different numbers, ascending, the last batch * tokens; returns how many. The
 * same wherever the data and the arguments are. */
int canvas_choose(const Dataset *d, int64_t batch, int64_t tokens, int64_t places[CANVAS_MAX]);
#endif
