/* backend.h - what computes: memory, a stream of work, and one implementation per op.
 *
 * An op acts in three acts. prepare() chooses algorithms, negotiates layouts, builds descriptors
 * and says its sizes; then the memory plan gives addresses and bind() fixes them; run() may not
 * allocate, wait for anything but its own work, log or look at shapes.
 *
 * LAYOUTS. A backend owns the meaning of struct Layout; NULL is plain row-major. In prepare() every
 * tensor slot either has its layout decided (bytes != 0: activations made by an earlier node,
 * parameters that another program already placed, gradients that must lie like their parameter) or
 * not (bytes == 0: outputs, and parameters seen for the first time). prepare() must honour what is
 * decided - by an internal reorder through workspace if its primitive prefers another - and decide
 * what is not, by setting layout and bytes. Layouts live as long as the backend.
 *
 * ACCUMULATE. An instance with accumulate set adds into those of its outputs that are parameter
 * gradients (dw, db, dgamma, dbeta) instead of overwriting them. */
#ifndef CONVOY_KERNELS_BACKEND_H
#define CONVOY_KERNELS_BACKEND_H
#include "base/status.h"
#include "kernels/op.h"

typedef struct Layout Layout;
typedef struct Backend Backend;
typedef struct Stream Stream; /* an ordered line of work */
typedef struct Event Event;   /* a point in a stream that others can wait for */
typedef struct Replay Replay; /* a captured piece of work, enqueued again as a whole */
typedef struct OpInstance OpInstance;

typedef struct OpTensor {
    TensorDesc desc;      /* rank 0: absent optional slot */
    const Layout *layout; /* NULL: plain row-major; borrowed from the backend */
    size_t bytes;         /* physical size; 0: not decided yet */
    void *data;           /* NULL until bound */
} OpTensor;

struct OpInstance {
    OpKind kind;
    Backend *backend;
    const void *attr; /* borrowed; outlives the instance */
    bool accumulate;
    OpTensor in[OP_MAX_INPUTS], out[OP_MAX_OUTPUTS];
    size_t workspace_bytes; /* set by prepare(); scratch that lives only while run() runs */
    /* set by prepare(); bit i: output i must not lie over OpDef.in_place_of[i] after all */
    unsigned no_alias;
    void *workspace; /* set before bind(); 64-byte (CPU) or 256-byte (device) aligned */
    /* the implementation's own; made by prepare(), freed by release() */
    void *state;
    const char *implementation; /* for dumps: "jit:avx2", "bn_blocked"; static or backend-owned */
};

typedef struct OpImpl {
    Status (*prepare)(OpInstance *op);
    /* all data pointers and workspace are set; may be called again with other addresses */
    Status (*bind)(OpInstance *op);
    Status (*run)(OpInstance *op, Stream *stream);
    /* safe on half-prepared instances; NULL if there is nothing to free */
    void (*release)(OpInstance *op);
} OpImpl;

/* Streams that a program may use at the same time. Kernels of one lane run in order; the executor
 * orders lanes by events. */
typedef enum Lane {
    LANE_COMPUTE,
    LANE_WEIGHTS /*weight gradients*/,
    LANE_COPY,
    LANE_COMM,
    LANE_COUNT
} Lane;

/* What a backend offers whose memory is not the host's and whose streams run behind the host's
 * back. All calls that take a stream enqueue and return; host memory given to them is pinned and
 * untouched until the stream got there. */
typedef struct DeviceVTable {
    Status (*alloc_pinned)(Backend *b, size_t bytes, void **out); /* zero-filled */
    void (*free_pinned)(Backend *b, void *p);
    Status (*copy_in)(Backend *b, void *device, const void *host, size_t bytes, Stream *s);
    Status (*copy_out)(Backend *b, void *host, const void *device, size_t bytes, Stream *s);
    /* Device memory, count elements, between f32, bf16 and f16; rounds to nearest even. */
    Status (*cast)(Backend *b, const void *in, DType from, void *out, DType to, int64_t count,
                   Stream *s);
    Status (*event_create)(Backend *b, Event **out);
    void (*event_destroy)(Backend *b, Event *e);
    Status (*event_record)(Backend *b, Event *e, Stream *s);
    Status (*event_wait)(Backend *b, Event *e, Stream *s); /* s goes on when e has been reached */
    Status (*event_done)(Backend *b, Event *e, bool *done);
    /* An event that also takes the time, and the seconds from one to another, both reached. For
     * figures. */
    Status (*timer_create)(Backend *b, Event **out);
    Status (*timer_seconds)(Backend *b, Event *from, Event *to, double *seconds);
    /* Between begin and end nothing runs: what is enqueued on s, and on streams that waited for
     * events of s and were joined again by events, is recorded. Needs one ordinary run of the same
     * work before (libraries load lazily). Where enqueueing fails in between, end must still be
     * called, to end the capture. */
    Status (*capture_begin)(Backend *b, Stream *s);
    Status (*capture_end)(Backend *b, Stream *s, Replay **out);
    Status (*replay)(Backend *b, Replay *r, Stream *s);
    void (*replay_destroy)(Backend *b, Replay *r);
    /* Parameters are f32 in the PARAM slab. A backend that computes in another type keeps compute
     * copies: attach makes them (param_copy_bytes of device memory), OP_UPDATE writes them, and
     * params_changed writes them all after anything else touched the slab (an import, a broadcast).
     * Before attach, and where their parameters lie outside the slab, ops convert for
     * themselves. */
    size_t (*param_copy_bytes)(const Backend *b, size_t slab_bytes);
    Status (*params_attach)(Backend *b, void *slab, size_t slab_bytes);
    Status (*params_changed)(Backend *b, Stream *s);
    size_t (*memory_bytes)(const Backend *b); /* of the device, 0 if unknown */
    void *(*stream_handle)(const Stream *s);  /* cudaStream_t, for the communication library */
    int (*device_index)(const Backend *b);
} DeviceVTable;

typedef struct BackendVTable {
    const char *name;         /* "cpu", "cuda", "ref" */
    const OpImpl *const *ops; /* [OP_COUNT]; NULL where unsupported */
    /* Fusions that this backend's kernels offer, which models/graph/fuse.c may then use. */
    bool fuses_add_into_batchnorm_bwd;
    /* Whether this backend would rather run fusion's ops after than those before; may time both.
     * void, so that models/ can call it (FuseOptions). NULL: it has none of the ops that
     * OpDef.fused marks. */
    bool (*takes_fusion)(void *backend, const Fusion *fusion);
    /* What it has answered: "statistics 23 of 24 shapes, 1 without an engine; ..."; "" if it was
     * not asked. NULL: it says nothing. */
    void (*describe_fusions)(const Backend *b, char *out, size_t bytes);
    /* What a library does rather than this backend's own kernels, likewise; NULL: there is no
     * choice. */
    void (*describe_kernels)(const Backend *b, char *out, size_t bytes);
    /* NULL: host memory, and work is done when run() returns */
    const DeviceVTable *device;
    size_t alignment;                                      /* of every tensor and workspace */
    Status (*alloc)(Backend *b, size_t bytes, void **out); /* zero-filled memory that ops can use */
    void (*free)(Backend *b, void *p);
    /* Copies between a tensor as the backend keeps it and plain row-major host memory
     * (tensor_plain_bytes), converting where it keeps another type than desc says. Synchronous.
     * Bit-preserving: import(export(x)) == x, padding included (it is zero). */
    Status (*export_tensor)(Backend *b, const OpTensor *t, void *host);
    Status (*import_tensor)(Backend *b, const OpTensor *t, const void *host);
    Status (*stream_create)(Backend *b, Lane lane, Stream **out);
    void (*stream_destroy)(Backend *b, Stream *s);
    /* returns when all work enqueued so far has finished */
    Status (*stream_wait)(Backend *b, Stream *s);
    void (*destroy)(Backend *b);
    /* "oneDNN 2.6.3, AVX2, blocks of 8, 2 threads" */
    void (*describe)(const Backend *b, char *out, size_t bytes);
} BackendVTable;

struct Backend { /* first member of every backend's own struct */
    const BackendVTable *v;
};

/* Which fusions a backend takes: those that are faster, none, or all that its libraries have
 * something for. */
typedef enum FuseMode { FUSE_AUTO, FUSE_NONE, FUSE_ALL, FUSE_MODE_COUNT } FuseMode;
/* threads: size of the compute team; 0 = all CPUs this process may run on. One CPU backend per
 * process. */
Status backend_cpu_create(Backend **out, int threads, FuseMode fuse);
/* How the CUDA backend computes. Parameters, their gradients, statistics and the loss are f32 in
 * all of them. */
typedef enum Precision {
    PRECISION_FP32,
    PRECISION_TF32,
    PRECISION_BF16,
    PRECISION_FP16,
    PRECISION_COUNT
} Precision;
/* Who computes what both can: the backend's own kernels, cuDNN, or whichever was measured to be
 * faster. */
typedef enum KernelMode { KERNELS_OWN, KERNELS_CUDNN, KERNELS_AUTO, KERNEL_MODE_COUNT } KernelMode;
typedef struct CudaOptions {
    int device;    /* index among the visible ones */
    FuseMode fuse; /* all fusions are of f16 */
    /* norms in training; convolutions with one filter for each channel */
    KernelMode batchnorm, depthwise;
    Precision precision;
    /* bytes per op; 0: 256 MB where the computation is 16-bit, 2048 MB in fp32 and tf32 */
    size_t workspace_limit;
    const char *plan_cache; /* folder for chosen cuDNN plans; NULL: none. Borrowed during create. */
    /* deviceless: a JSON text of device properties; prepare() works, nothing can be allocated or
     * run. NULL: the device itself. Borrowed during create. */
    const char *properties;
} CudaOptions;
/* Number of usable devices; 0 with a sentence in why (no driver, no cuDNN, built without CUDA,
 * ...). */
int backend_cuda_devices(char *why, size_t why_bytes);
/* Compute capability of the device that o names or describes, before a backend is made for it: 90
 * is sm_90. */
Status backend_cuda_capability(const CudaOptions *o, int *out);
/* Bytes of device that are free before a backend is made for it. Makes this process' context there,
 * if it has none. */
Status backend_cuda_free_memory(int device, size_t *out);
/* "compiled with CUDA 13.0, cuDNN 9.19.0, cuBLASLt 13.1.0; found driver 13.0, cuDNN 9.19.0,
 * cuBLASLt 13.1.0", with what is missing in its place, or "not built". */
void backend_cuda_versions(char *out, size_t bytes);
/* The backend's table without a device, for tests of it; NULL in a build without CUDA. */
const BackendVTable *backend_cuda_table(void);
/* ERR_ENV naming what is missing: built without CUDA, library, device, precision that the device
 * lacks. */
Status backend_cuda_create(Backend **out, const CudaOptions *o);
/* float64 plain loops behind the same interface: all f32 slots hold double, layouts are plain.
 * Linked by tests only. */
Status backend_ref_create(Backend **out);
void backend_destroy(Backend *b); /* NULL ok */

/* prepare() through the table with a clear error where the op is missing; release() likewise. */
Status backend_prepare_op(OpInstance *op);
void backend_release_op(OpInstance *op);
#endif
