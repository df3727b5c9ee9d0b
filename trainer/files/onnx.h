/* onnx.h - a stored network as an ONNX file for inference. */
#ifndef CONVOY_TRAINER_FILES_ONNX_H
#define CONVOY_TRAINER_FILES_ONNX_H
#include "trainer/files/checkpoint_model.h"

/* Writes m to path: input "images" f32 [N,C,H,W], normalised as in training, N free; output
 * "logits" [N,classes]. Its metadata are JSON: classes, mean, std, image_size. ERR_IO where it
 * cannot be written. */
Status onnx_export(const CheckpointModel *m, const char *path);
#endif
