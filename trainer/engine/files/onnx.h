/* onnx.h - a stored network as an ONNX file for inference. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_ONNX_H
#define CONVOY_TRAINER_ENGINE_FILES_ONNX_H
#include "trainer/engine/files/checkpoint_model.h"

/* Writes m to path: input "images" f32 [N,C,H,W], normalised as in training, or with pixels u8
 * [N,H,W,C] as decoded; output "logits" [N,classes]. N is free, and H and W where the network is
 * the same for images of any size. Its metadata are JSON: classes, mean, std, image_size. ERR_IO
 * where it cannot be written. */
Status onnx_export(const CheckpointModel *m, const char *path, bool pixels);
#endif
