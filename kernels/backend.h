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
    /* of an evaluation: how it is computed does not depend on the batch, so that results have the
     * same bits however many ranks share the images */
    bool evaluates;
    OpTensor in[OP_MAX_INPUTS], out[OP_MAX_OUTPUTS];
    size_t workspace_bytes; /* set by prepare(); scratch that lives only while run() runs */
    /* set by prepare(); bit i: output i must not lie over OpDef.in_place_of[i] after all */
    unsigned no_alias;
    void *workspace; /* set before bind(); 64-byte (CPU) or 256-byte (device) aligned */
    /* the implementation's own, made by prepare(): one piece of mem.h's, which the caller frees
     * behind release(), or NULL */
    void *state;
    const char *implementation; /* for dumps: "jit:avx2", "bn_blocked"; static or backend-owned */
};

/* What run() moves between the device's memory and its chip, as prepared: how often each tensor is
 * read and written, whole; a part where kernels need no more of it, or have it as a copy in another
 * type. What a kernel keeps on the chip it moves once; what two kernels read is moved twice. */
typedef struct OpPasses {
    double reads, writes;
} OpPasses;
typedef struct OpTraffic {
    OpPasses in[OP_MAX_INPUTS], out[OP_MAX_OUTPUTS];
    double other_bytes; /* beside the tensors: of the workspace, of copies */
    /* a library's product: a library's kernels move what they move; at best each operand once */
    bool product;
} OpTraffic;

typedef struct OpImpl {
    Status (*prepare)(OpInstance *op);
    /* all data pointers and workspace are set; may be called again with other addresses */
    Status (*bind)(OpInstance *op);
    Status (*run)(OpInstance *op, Stream *stream);
    /* of what the state holds; safe on half-prepared instances; NULL if that is nothing */
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

#define DEVICE_STAGE_MAX 64

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
     * work before (libraries load lazily). check: an error once something spoiled the capture,
     * whether or not it said so. Where enqueueing fails in between, end must still be called, to
     * end the capture; the streams are ordinary ones again then. */
    Status (*capture_begin)(Backend *b, Stream *s);
    Status (*capture_check)(Backend *b, Stream *s);
    Status (*capture_end)(Backend *b, Stream *s, Replay **out);
    Status (*replay)(Backend *b, Replay *r, Stream *s);
    void (*replay_destroy)(Backend *b, Replay *r);
    /* Parameters are f32 in the PARAM slab. A backend that computes in another type keeps compute
     * copies: attach makes them (param_copy_bytes of device memory), OP_UPDATE and OP_LERP write
     * them, and params_changed writes them all after anything else touched the slab (an import, a
     * broadcast). Before attach, and where their parameters lie outside the slab, ops convert for
     * themselves. */
    size_t (*param_copy_bytes)(const Backend *b, size_t slab_bytes);
    Status (*params_attach)(Backend *b, void *slab, size_t slab_bytes);
    Status (*params_changed)(Backend *b, Stream *s);
    /* Names for profilers what this thread enqueues until range(NULL). */
    void (*range)(const char *name);
    /* Parameter gradients that are made in another type than they are kept in may be converted
     * together. stage: of bound ops that run in this order on one lane, at most DEVICE_STAGE_MAX,
     * all but the last leave what they make in memory, and the last converts all of it. memory
     * holds the sum of their staging_bytes, which are 0 for an op that cannot. What was said of an
     * op before no longer holds. */
    size_t (*staging_bytes)(const OpInstance *op);
    Status (*stage)(OpInstance *const *ops, int count, void *memory);
    size_t (*memory_bytes)(const Backend *b); /* of the device, 0 if unknown */
    void *(*stream_handle)(const Stream *s);  /* cudaStream_t, for the communication library */
    int (*device_index)(const Backend *b);
    /* What its driver calls the device, "GPU-" and hexadecimal digits; "" if it cannot be told. */
    void (*device_uuid)(const Backend *b, char *out, size_t bytes);
} DeviceVTable;

/* Fusions that a backend's kernels offer, which models/graph/fuse.c may then use. */
typedef struct FusionVTable {
    bool add_into_batchnorm_bwd; /* OP_BATCHNORM_BWD sums two gradients of y by itself */
    /* Whether fusion's ops `after` are to run in the place of those `before`: FuseMode says so, or
     * they are faster, which may be measured now. void, so that models/ can call it (FuseOptions).
     * NULL: the backend has none of the ops that op_fused() marks. */
    bool (*takes)(void *backend, const Fusion *fusion);
    /* What takes() has answered: "statistics 23 of 24 shapes, 1 without an engine; ..."; "" if it
     * was not called. NULL: it says nothing. */
    void (*describe)(const Backend *b, char *out, size_t bytes);
} FusionVTable;

typedef struct BackendVTable {
    const char *name;         /* "cpu", "cuda", "ref" */
    const OpImpl *const *ops; /* [OP_COUNT]; NULL where unsupported */
    FusionVTable fusion;
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

    /* "oneDNN 2.6.3, AVX2, blocks of 8, 2 threads" */
    void (*describe)(const Backend *b, char *out, size_t bytes);
    /* The same number on another rank: libraries of the same version compute there, on a device of
     * the same kind, in the same precision. NULL: not told. */
    uint32_t (*fingerprint)(const Backend *b);
    /* The same number on another machine: tensors of one shape lie there as here. NULL: they do
     * where fingerprint() says the same. */
    uint32_t (*layout_key)(const Layout *layout);
    /* How often a library's kernels were chosen over the backend's own, in the form of
     * FusionVTable.describe; NULL: there is no choice. */
    void (*describe_kernels)(const Backend *b, char *out, size_t bytes);
    /* Corrects what backend_traffic() assumes of a prepared op; NULL: that is how it is. */
    void (*traffic)(const OpInstance *op, OpTraffic *t);
    void (*destroy)(Backend *b);
} BackendVTable;

struct Backend { /* first member of every backend's own struct */
    const BackendVTable *v;
};

/* Which fusions a backend takes: those that are faster, none, or all that its libraries have
 * something for. */
typedef enum FuseMode { FUSE_AUTO, FUSE_NONE, FUSE_ALL, FUSE_MODE_COUNT } FuseMode;
extern const char *const fuse_mode_names[FUSE_MODE_COUNT + 1]; /* NULL at the end, as all */
/* How a backend computes. Parameters, their gradients, statistics and the loss are f32 in all of
 * them; in bf16 and fp16 the other tensors are kept in that type. */
typedef enum Precision {
    PRECISION_FP32,
    PRECISION_TF32,
    PRECISION_BF16,
    PRECISION_FP16,
    PRECISION_COUNT
} Precision;
extern const char *const precision_names[PRECISION_COUNT + 1]; /* NULL at the end */
/* Where one of two ways to compute the same is taken. */
typedef enum CpuUse {
    CPU_USE_FAST,  /* where it is the faster one */
    CPU_USE_EVERY, /* tests: wherever there is that way */
    CPU_USE_NONE
} CpuUse;
typedef struct CpuOptions {
    int threads; /* size of the compute team; 0 = all CPUs this process may run on */
    FuseMode fuse;
    Precision precision; /* fp32 or bf16 */
    CpuUse products;     /* of matrices, in bf16: gradients of convolutions, attention */
    CpuUse winograd;     /* of 3x3 convolutions in fp32 */
} CpuOptions;
/* One CPU backend per process. */
Status backend_cpu_create(Backend **out, const CpuOptions *o);
/* What computes products of bf16 here, by what oneDNN sees of the CPU (ONEDNN_MAX_CPU_ISA, and
 * whether the kernel grants AMX its registers, included). */
typedef enum CpuBf16 {
    CPU_BF16_NONE,     /* nothing: the backend itself widens operands to f32; for tests */
    CPU_BF16_EMULATED, /* AVX-512 without bf16: oneDNN's kernels widen them */
    CPU_BF16_AVX512,   /* vectors: slower than f32 is */
    CPU_BF16_AMD,      /* the same of AMD, which are faster: measured on Zen 5 */
    CPU_BF16_AMX,
    CPU_BF16_COUNT
} CpuBf16;
extern const char *const cpu_bf16_names[CPU_BF16_COUNT + 1]; /* NULL at the end */
CpuBf16 backend_cpu_bf16(void);
/* Measures, in a second or so: FLOP/s of a convolution that suits the CPU in the backend's
 * precision, and bytes/s of a sum of arrays in memory, by all its threads. */
Status backend_cpu_peaks(Backend *b, double *flops, double *bytes);
/* float64 plain loops behind the same interface: all f32 slots hold double, layouts are plain.
 * Linked by tests only. */
Status backend_ref_create(Backend **out);
void backend_destroy(Backend *b); /* NULL ok */

/* prepare() through the table with a clear error where the op is missing; release() likewise. */
Status backend_prepare_op(OpInstance *op);
/* prepare() and bind() of an op that is no node: tensors have memory, it takes no workspace. */
Status backend_ready_op(OpInstance *op);
/* Of a prepared op; inputs read once and outputs written once unless the backend knows better.
 * Returns the bytes in all. */
double backend_traffic(const OpInstance *op, OpTraffic *out);
void backend_release_op(OpInstance *op); /* also of one that was never prepared */
/* f32 memory, flat. */
OpTensor backend_flat(void *data, size_t bytes);
/* BackendVTable.alloc and free of backends whose memory is the host's. */
Status backend_host_alloc(Backend *b, size_t bytes, void **out);
void backend_host_free(Backend *b, void *p);
#endif
