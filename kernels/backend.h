/* backend.h - what computes: memory, a stream of work, and one implementation per op.
 *
 * An op acts in three acts. prepare() chooses algorithms, negotiates layouts, builds descriptors and says its sizes;
 * then the memory plan gives addresses and bind() fixes them; run() may not allocate, wait for anything but its own
 * work, log or look at shapes.
 *
 * LAYOUTS. A backend owns the meaning of struct Layout; NULL is plain row-major. In prepare() every tensor slot either
 * has its layout decided (bytes != 0: activations made by an earlier node, parameters that another program already
 * placed, gradients that must lie like their parameter) or not (bytes == 0: outputs, and parameters seen for the first
 * time). prepare() must honour what is decided - by an internal reorder through workspace if its primitive prefers
 * another - and decide what is not, by setting layout and bytes. Layouts live as long as the backend.
 *
 * ACCUMULATE. An instance with accumulate set adds into those of its outputs that are parameter gradients (dw, db,
 * dgamma, dbeta) instead of overwriting them. */
#ifndef CONVOY_KERNELS_BACKEND_H
#define CONVOY_KERNELS_BACKEND_H
#include "base/status.h"
#include "kernels/op.h"

typedef struct Layout Layout;
typedef struct Backend Backend;
typedef struct Stream Stream;
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
    size_t workspace_bytes;     /* set by prepare(); scratch that lives only while run() runs */
    void *workspace;            /* set before bind(); 64-byte (CPU) or 256-byte (device) aligned */
    void *state;                /* the implementation's own; made by prepare(), freed by release() */
    const char *implementation; /* for dumps: "jit:avx2", "bn_blocked"; static or backend-owned */
};

typedef struct OpImpl {
    Status (*prepare)(OpInstance *op);
    /* all data pointers and workspace are set; may be called again with other addresses */
    Status (*bind)(OpInstance *op);
    Status (*run)(OpInstance *op, Stream *stream);
    void (*release)(OpInstance *op); /* safe on half-prepared instances; NULL if there is nothing to free */
} OpImpl;

typedef struct BackendVTable {
    const char *name;         /* "cpu", "cuda", "ref" */
    const OpImpl *const *ops; /* [OP_COUNT]; NULL where unsupported */
    /* Fusions that this backend's kernels offer, which models/graph/fuse.c may then use. */
    bool fuses_add_into_batchnorm_bwd;
    size_t alignment;                                      /* of every tensor and workspace */
    Status (*alloc)(Backend *b, size_t bytes, void **out); /* zero-filled memory that ops can use */
    void (*free)(Backend *b, void *p);
    /* Copies between a tensor as the backend keeps it and plain row-major host memory (tensor_plain_bytes).
     * Synchronous. Bit-preserving: import(export(x)) == x, padding included (it is zero). */
    Status (*export_tensor)(Backend *b, const OpTensor *t, void *host);
    Status (*import_tensor)(Backend *b, const OpTensor *t, const void *host);
    Status (*stream_create)(Backend *b, Stream **out);
    void (*stream_destroy)(Backend *b, Stream *s);
    Status (*stream_wait)(Backend *b, Stream *s); /* returns when all work enqueued so far has finished */
    void (*destroy)(Backend *b);
    void (*describe)(const Backend *b, char *out, size_t bytes); /* "oneDNN 2.6.3, AVX2, blocks of 8, 2 threads" */
} BackendVTable;

struct Backend { /* first member of every backend's own struct */
    const BackendVTable *v;
};

/* threads: size of the compute team; 0 = all CPUs this process may run on. One CPU backend per process. */
Status backend_cpu_create(Backend **out, int threads);
/* float64 plain loops behind the same interface: all f32 slots hold double, layouts are plain. Linked by tests only. */
Status backend_ref_create(Backend **out);
void backend_destroy(Backend *b); /* NULL ok */

/* prepare() through the table with a clear error where the op is missing; release() likewise. */
Status op_prepare(OpInstance *op);
void op_release(OpInstance *op);
#endif
