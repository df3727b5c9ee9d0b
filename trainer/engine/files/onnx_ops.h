/* onnx_ops.h - the operations of a network as nodes of ONNX. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_ONNX_OPS_H
#define CONVOY_TRAINER_ENGINE_FILES_ONNX_OPS_H
#include "trainer/engine/files/onnx_graph.h"

/* Adds the nodes of e->model->graph, of evaluation and not fused, and their constants. ERR_INTERNAL
 * names an op that has no form there. */
Status onnx_ops_export(OnnxGraph *e);
#endif
