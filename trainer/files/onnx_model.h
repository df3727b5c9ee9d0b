/* onnx_model.h - what an ONNX file says beside its nodes and weights: the network's two ends, and
 * what inference must know besides the graph. */
#ifndef CONVOY_TRAINER_FILES_ONNX_MODEL_H
#define CONVOY_TRAINER_FILES_ONNX_MODEL_H
#include "base/str.h"
#include "trainer/files/checkpoint_model.h"

/* An f32 value whose first dimension is free. */
void onnx_model_put_value(StrBuf *out, int field, const char *name, const int64_t *dims, int rank);
/* How images are made, and what the answers mean. */
void onnx_model_put_metadata(StrBuf *out, const CheckpointModel *m);
#endif
