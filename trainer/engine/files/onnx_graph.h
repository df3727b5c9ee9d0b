/* onnx_graph.h - an ONNX graph under construction: nodes, constants, attributes, and the names of
 * values. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_ONNX_GRAPH_H
#define CONVOY_TRAINER_ENGINE_FILES_ONNX_GRAPH_H
#include "base/str.h"
#include "trainer/engine/files/checkpoint_model.h"

enum { ONNX_GRAPH_NAME_BYTES = 160, ONNX_GRAPH_NODE_INPUTS = 5 };
/* of a tensor, as TensorProto.DataType */
enum { ONNX_GRAPH_F32 = 1, ONNX_GRAPH_U8 = 2, ONNX_GRAPH_I64 = 7 };

/* Zero-initialise but for what is borrowed and chosen; both buffers are freed by the caller, who
 * looks for their `failed` too. */
typedef struct OnnxGraph {
    const CheckpointModel *model;
    bool pixels;                /* the input is pictures as they are decoded: u8 N,H,W,C */
    StrBuf nodes, initializers; /* finished fields of the message */
    int extra;                  /* values between the nodes of one op so far */
} OnnxGraph;

/* Weights have their own names, others "images", "logits" or "t" and their number. */
void onnx_graph_name_tensor(const OnnxGraph *e, TensorId id, char out[ONNX_GRAPH_NAME_BYTES]);
void onnx_graph_name_extra(OnnxGraph *e, char out[ONNX_GRAPH_NAME_BYTES]); /* a new one */
/* An initializer. */
void onnx_graph_add_tensor(OnnxGraph *e, const char *name, int type, const int64_t *dims, int rank,
                           const void *data, size_t bytes);
/* A constant of whole numbers; its name goes to out. */
void onnx_graph_add_constant(OnnxGraph *e, const int64_t *values, int count,
                             char out[ONNX_GRAPH_NAME_BYTES]);
/* Attributes of a node to come. */
void onnx_graph_add_int(StrBuf *attributes, const char *name, int64_t value);
void onnx_graph_add_text(StrBuf *attributes, const char *name, const char *value);
void onnx_graph_add_float(StrBuf *attributes, const char *name, float value);
void onnx_graph_add_ints(StrBuf *attributes, const char *name, const int64_t *values, int count);
/* One node; inputs end with NULL. attributes: finished fields, freed; may be NULL. */
void onnx_graph_add_node(OnnxGraph *e, const char *type,
                         const char *const inputs[ONNX_GRAPH_NODE_INPUTS], const char *output,
                         StrBuf *attributes);
void onnx_graph_add_pair(OnnxGraph *e, const char *type, const char *a, const char *b,
                         const char *output); /* b: NULL if absent */
/* output = type(x, value) */
void onnx_graph_add_with(OnnxGraph *e, const char *type, const char *x, float value,
                         const char *output);
#endif
