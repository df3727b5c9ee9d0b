/* conv_graph.h - what conv_plan.c and conv_norm_plan.c share in describing convolutions to
 * cuDNN. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_CONV_GRAPH_H
#define CONVOY_KERNELS_CUDA_CUDNN_CONV_GRAPH_H
#include "kernels/cuda/cudnn/conv_shape.h"
#include "kernels/cuda/cudnn/cudnn_api.h"

enum { CONV_GRAPH_X, CONV_GRAPH_W, CONV_GRAPH_Y, CONV_GRAPH_TENSORS };

/* What cuDNN calls an operation and its attributes. */
typedef struct ConvGraphPass {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t tensors[CONV_GRAPH_TENSORS], convolution, alpha, beta;
} ConvGraphPass;
extern const ConvGraphPass conv_graph_passes[CONV_PASS_COUNT];

void conv_graph_dims(const ConvShape *s, int which, int64_t dims[4]);
Status conv_graph_descriptor(const CudnnApi *api, const Conv2dAttr *a,
                             cudnnBackendDescriptor_t *out);
/* The operation in words: all that decides which plan fits. */
void conv_graph_key(const char *pass, const ConvShape *s, size_t limit, char *out, size_t bytes);
/* Numerical notes of engines, bit 1 << CUDNN_NUMERICAL_NOTE_... */
unsigned conv_graph_notes_to_avoid(const ConvShape *s);
unsigned conv_graph_notes_to_prefer(const ConvShape *s);
#endif
