/* inspect_text.h - what convoy inspect dataset says of text, and a batch of it as a file. */
#ifndef CONVOY_TRAINER_APP_CMD_INSPECT_TEXT_H
#define CONVOY_TRAINER_APP_CMD_INSPECT_TEXT_H
#include "data/data.h"
#include "trainer/engine/config/config.h"

/* Prints sentences, sequences, how full they are, and unknown words. */
Status inspect_text_print(const Dataset *d, const SequenceFacts *f);
/* Writes the inputs of a network for one global batch of c, by the names that data/load/loader.h
 * gives them, to a safetensors file: of step (0-based) of a run with one rank, or of an
 * evaluation's batch. ERR_* names path. */
Status inspect_text_batch(const Dataset *d, DataRole role, const Config *c, int64_t step,
                          const char *path);
#endif
