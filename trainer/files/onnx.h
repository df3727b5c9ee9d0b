/* onnx.h - a stored network as an ONNX file for inference. */
#ifndef CONVOY_TRAINER_ONNX_H
#define CONVOY_TRAINER_ONNX_H
#include "trainer/files/stored.h"

/* Writes m to path: input "images" f32 [N,C,H,W], normalised as in training, N free; output
 * "logits" [N,classes]. ERR_IO where it cannot be written. */
Status onnx_export(const StoredModel *m, const char *path);
#endif
