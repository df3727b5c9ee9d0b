/* cuda.h - what the files of the CUDA backend share: the backend struct, how tensors lie, streams,
 * error checks.
 *
 * TYPES. The graph says f32; this backend keeps activations and their gradients in the COMPUTE TYPE
 * of its precision (f32 for fp32 and tf32, bf16, f16), as part of their Layout. Parameters,
 * parameter gradients, optimizer states, running statistics, saved statistics and logits are f32.
 * Convolution and linear weights in a 16-bit precision have compute copies beside the PARAM slab
 * (DeviceVTable.params_attach); cuda_compute_copy() finds them.
 *
 * LAYOUTS. Channels lie innermost and are padded to a multiple of CudaBackend.pad (8 for 16-bit
 * types, 4 for f32: 16 bytes), so that every row of channels is aligned for 16-byte loads and for
 * cuDNN's tensor core engines. All padding is zero and every kernel keeps it zero.
 *   CUDA_NHWC     activations of rank 4                        [N][H][W][Cp]         compute type
 *   CUDA_ROWS     activations of rank 2 [N][Cp] compute type; y of linear f32
 *   CUDA_KRSC     convolution weights [K,C,R,S], one group     [Kp][R][S][Cp]        f32
 *   CUDA_KRSC_GROUPED  the same of several groups [K,C/G,R,S]  [Kp][R][S][C/G]       f32
 *                 (of 1x1 also as [K,C], and [K,1,1] for C/G = 1)
 *   CUDA_MATRIX   linear weights [K,C] or [K,C,1,1]            [Kp][Cp]              f32
 *   CUDA_VECTOR   per-channel vectors [C] and saved [2,C]      [Cp], [2][Cp]         f32
 *   plain (NULL) images u8 N,H,W,C, labels, scalars, stats, flat ranges of slabs; POOL_OUT_INDEX is
 *   CUDA_NHWC of u8
 * Depthwise and grouped convolutions keep C/G as it is (padding would change the groups):
 * CUDA_KRSC_GROUPED; their C and K must be multiples of pad. A linear layer whose input has several
 * pixels flattens it in op.h's order C,H,W on its way through the workspace. What OP_LINEAR writes
 * is f32 in every precision; everything else that reads activations of rank 2 therefore takes both
 * types.
 *
 * RUNNING. run() only enqueues on its stream; TRY_CUDA checks every launch.
 * Deviceless backends (CudaOptions.properties) go as far as prepare().
 *
 * TEST DOUBLE. tests/emu provides the same cuda_runtime_api.h functions on the CPU and runs the .cu
 * files' kernels with one fiber per thread, so op checks and whole training steps run where there
 * is no GPU (make EMU=1). Kernels therefore launch through CUDA_LAUNCH (launch.cuh) and use static
 * shared memory only. */
#ifndef CONVOY_KERNELS_CUDA_CUDA_H
#define CONVOY_KERNELS_CUDA_CUDA_H
#include "kernels/backend_cuda.h"
#include <cuda_runtime_api.h>

typedef enum CudaFormat {
    CUDA_NHWC,
    CUDA_ROWS,
    CUDA_KRSC,
    CUDA_KRSC_GROUPED,
    CUDA_MATRIX,
    CUDA_VECTOR,
    CUDA_FORMAT_COUNT
} CudaFormat;

struct Layout {
    CudaFormat format;
    DType dtype;
};

struct Stream {
    cudaStream_t stream;
    Lane lane;
};

typedef enum KernelTrial { TRIAL_NONE, TRIAL_OWN, TRIAL_CUDNN } KernelTrial;

typedef struct CudaBackend {
    Backend base;
    CudaOptions options; /* pointers inside are not valid after create */
    bool deviceless;
    Precision precision;
    DType compute;                    /* DTYPE_F32, DTYPE_BF16, DTYPE_F16 */
    int pad;                          /* channels are padded to a multiple of this */
    int sm_count, compute_capability; /* 90 = sm_90 */
    size_t memory_bytes;
    char device_name[128];
    size_t workspace_limit;
    struct CudnnContext *cudnn;      /* cudnn_context.h; owned */
    struct LtGemmContext *lt;        /* lt_gemm.h; owned */
    struct CudaDecision *fusions;    /* decision.h; owned; by fusion.c */
    struct CudaDecision *kernels;    /* likewise, by norm_choice.c and conv2d.c */
    KernelTrial on_trial;            /* which of two ways they are trying out */
    double busy_s;                   /* clock_s() when they last timed one (contest.h) */
    char *param_slab, *param_copies; /* params_attach; copies owned, NULL for f32 */
    size_t param_bytes;
} CudaBackend;

static inline CudaBackend *cuda_backend(const OpInstance *op)
{
    return (CudaBackend *)op->backend;
}

/* ---- layout.c ---- */
const Layout *cuda_layout(CudaFormat format, DType dtype); /* static table; never NULL */
int64_t cuda_padded(const CudaBackend *b, int64_t channels);
/* Physical bytes of desc in a layout (NULL: plain). */
size_t cuda_layout_bytes(const CudaBackend *b, const TensorDesc *desc, const Layout *layout);
/* Where element (i0,i1,i2,i3) of a tensor lies: at the sum of index * stride, in elements. Dims
 * past the rank are 1. */
typedef struct CudaStrides {
    int64_t dims[TENSOR_MAX_RANK], strides[TENSOR_MAX_RANK];
    int64_t elements; /* physical, padding included */
} CudaStrides;
CudaStrides cuda_strides(const CudaBackend *b, const TensorDesc *desc, CudaFormat format);
/* Decide an undecided tensor (bytes == 0); ASSERT that a decided one is what would have been
 * decided. */
/* NHWC or ROWS in the compute type */
void cuda_decide_activation(const CudaBackend *b, OpTensor *t);
void cuda_decide(const CudaBackend *b, OpTensor *t, CudaFormat format, DType dtype);
void cuda_decide_plain(OpTensor *t);
/* prepare() of an op all of whose tensors lie plain. */
Status cuda_prepare_plain(OpInstance *op);
/* How a kernel sees an activation of rank 4 or 2: rows of cp channels. */
typedef struct CudaView {
    int64_t n, h, w, c, cp; /* rank 2: h = w = 1 */
    int64_t rows, vectors;  /* n*h*w; of 16 bytes in a row */
    DType dtype;
} CudaView;
CudaView cuda_view(const CudaBackend *b, const OpTensor *t);
/* The weights that a kernel of the compute type reads: t->data itself for f32, else its compute
 * copy; NULL where t lies outside the attached slab. Valid once bound. */
const void *cuda_compute_copy(const CudaBackend *b, const OpTensor *t);
/* That of parameters, for who changes them; NULL where there is none to write. */
void *cuda_param_copies(const CudaBackend *b, const OpTensor *t);

/* ---- cuda.c ---- */
Status cuda_bind_nothing(OpInstance *op);
/* An op that reads addresses when it runs, and whose state holds nothing. */
#define CUDA_UNBOUND(impl, name, prepare, run)                                                     \
    static Status impl##_prepare(OpInstance *op)                                                   \
    {                                                                                              \
        op->implementation = name;                                                                 \
        return prepare(op);                                                                        \
    }                                                                                              \
    const OpImpl impl = { impl##_prepare, cuda_bind_nothing, run, NULL }
/* prepare(): asks for so much more, 256-byte aligned, and gives its offset. run(): what lies there;
 * NULL without a workspace. */
size_t cuda_take_workspace(OpInstance *op, size_t bytes);
void *cuda_workspace(const OpInstance *op, size_t at);
/* OK for cudaSuccess. Else the operation (what, up to its first parenthesis) with CUDA's sentence:
 * ERR_MEMORY for out of memory, ERR_ENV where driver, device or build do not fit each other,
 * ERR_INTERNAL for the rest. Forgets the error, so that it is not reported again by an innocent
 * call; errors after which the device is lost stay with CUDA. */
Status cuda_status(cudaError_t e, const char *what);
/* DeviceVTable.range, by NVTX: a range inside one called "convoy", which a profiler can be told to
 * look at alone. */
void cuda_range(const char *name);
#define CUDA_STATUS(call) cuda_status((call), #call)
#define TRY_CUDA(call)                                                                             \
    do {                                                                                           \
        cudaError_t cuda_error_ = (call);                                                          \
        if (cuda_error_ != cudaSuccess) return cuda_status(cuda_error_, #call);                    \
    } while (0)

#define CUDA_OP(kind, name, fused) extern const OpImpl cuda_##name;
OP_LIST(CUDA_OP)
#undef CUDA_OP
#endif
