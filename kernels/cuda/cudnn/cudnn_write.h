/* cudnn_write.h - operation graphs of several operations, written as formulas are: a step takes
 * tensors and gives one.
 *
 * A writer is sticky: after an error every call gives NULL and does nothing, and
 * cudnn_write_graph() returns the error. It owns all parts that it made until then. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_CUDNN_WRITE_H
#define CONVOY_KERNELS_CUDA_CUDNN_CUDNN_WRITE_H
#include "kernels/cuda/cudnn/cudnn_api.h"
#include "kernels/dtype.h"
#include <stdbool.h>

typedef struct CudnnTensor {
    int64_t id; /* unique in the graph */
    DType type;
    int64_t dims[4];                  /* N,C,H,W; packed as N,H,W,C */
    int64_t strides[4];               /* of tensors that lie otherwise; all 0 for that packing */
    cudnnBackendDescriptor_t offsets; /* NULL, or of i32 [N+1,1,1,1]: where each of N begins, in
                                         elements; cuDNN's ragged offset */
    bool between;                     /* never in memory: between two operations */
    bool by_value; /* one number in the host's memory, read when the plan is executed */
} CudnnTensor;

Status cudnn_write_make_tensor(const CudnnApi *api, const CudnnTensor *t,
                               cudnnBackendDescriptor_t *out);

/* An attribute that is another descriptor; part: an lvalue. */
#define CUDNN_DESCRIPTOR(name, part)                                                               \
    {                                                                                              \
        name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &(part)                                            \
    }

typedef cudnnBackendDescriptor_t CudnnPart;

#define CUDNN_WRITER_PARTS 128
#define CUDNN_WRITER_STEPS 32
typedef struct CudnnWriter {
    const CudnnApi *api;
    int64_t between_dims[4]; /* of the tensors between two steps */
    Status status;
    CudnnPart parts[CUDNN_WRITER_PARTS]; /* all that was made; owned */
    CudnnPart steps[CUDNN_WRITER_STEPS]; /* the operations among them */
    int part_count, step_count, between;
} CudnnWriter;

/* Takes over a part that another function made with status st. Returns it. */
CudnnPart cudnn_write_keep(CudnnWriter *w, Status st, CudnnPart part);
CudnnPart cudnn_write_part(CudnnWriter *w, cudnnBackendDescriptorType_t type,
                           const CudnnAttribute *attributes, int count, const char *what);
void cudnn_write_step(CudnnWriter *w, cudnnBackendDescriptorType_t type,
                      const CudnnAttribute *attributes, int count, const char *what);
CudnnPart cudnn_write_tensor(CudnnWriter *w, const CudnnTensor *t); /* ids below 100 */
CudnnPart cudnn_write_between(CudnnWriter *w, DType type);          /* a tensor between two steps */
/* y = mode(a, b); b: NULL for modes of one operand; y: NULL for one between two steps, in f32.
 * Returns y. */
CudnnPart cudnn_write_pointwise(CudnnWriter *w, cudnnPointwiseMode_t mode, CudnnPart a, CudnnPart b,
                                CudnnPart y);
/* As before, of modes whose arithmetic is not f32 or that need more: bool is a DTYPE_U8. axis: -1
 * for none; choice: NULL, or where a is taken, b elsewhere. */
typedef struct CudnnPointwise {
    cudnnPointwiseMode_t mode;
    DType math;
    int64_t axis;
    CudnnPart a, b, choice, y;
} CudnnPointwise;
CudnnPart cudnn_write_pointwise_as(CudnnWriter *w, const CudnnPointwise *p);
/* dx = mode's gradient at its input x, given dy. Returns dx. */
CudnnPart cudnn_write_pointwise_bwd(CudnnWriter *w, cudnnPointwiseMode_t mode, CudnnPart dy,
                                    CudnnPart x, CudnnPart dx);
/* The graph of all steps, unless there was an error; frees the parts. */
Status cudnn_write_graph(CudnnWriter *w, cudnnBackendDescriptor_t *graph);
#endif
