/* torch_file.h - files of PyTorch's torch.save(): a zip archive, or before 1.6 a row of pickles.
 *
 * What a state_dict needs is read, by its name, and nothing is run (pickle.h). Sizes, offsets and
 * strides are checked against the file. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_TORCH_FILE_H
#define CONVOY_TRAINER_ENGINE_FILES_TORCH_FILE_H
#include "trainer/engine/files/safetensors.h"

enum { TORCH_FILE_START = 264 };
/* Whether a file begins like one of PyTorch's, or like any pickle or zip archive. */
bool torch_file_is(const uint8_t *start, size_t bytes);
/* The tensors of the state_dict in it, or of the one that a training program's checkpoint has under
 * a usual key; before the names of averaged ones that lie beside it stands WEIGHTS_EMA_PREFIX.
 * ERR_DATA naming
 * path, also for anything that is not of weights, with its full name. */
Status torch_file_open(SafeFile **out, const char *path);
#endif
