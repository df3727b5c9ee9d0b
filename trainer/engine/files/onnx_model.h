/* onnx_model.h - what an ONNX file says beside its nodes and weights: the network's two ends, and
 * what inference must know besides the graph. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_ONNX_MODEL_H
#define CONVOY_TRAINER_ENGINE_FILES_ONNX_MODEL_H
#include "base/str.h"
#include "trainer/engine/files/checkpoint_model.h"

/* The input: f32 N,C,H,W, or pixels: u8 N,H,W,C. N is free, and with free_size H and W. */
void onnx_model_put_images(StrBuf *out, int field, const GraphOptions *o, bool pixels,
                           bool free_size);
void onnx_model_put_logits(StrBuf *out, int field, const GraphOptions *o); /* f32 N,classes */
/* How images are made, and what the answers mean. */
void onnx_model_put_metadata(StrBuf *out, const CheckpointModel *m);
#endif
