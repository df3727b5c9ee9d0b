/* cpu.h - what the files of the CPU backend share: the backend struct, the activation layout, the
 * thread team.
 *
 * ACTIVATIONS of rank 4 lie in channel blocks: [N][ceil(C/b)][H][W][b] with b = 8 (AVX2, SSE) or 16
 * (AVX-512), channels past C zero. That is oneDNN's nChw8c / nChw16c, in which its convolutions are
 * fastest here (measured: blocked beats NHWC on nearly every ResNet shape, most of all in weight
 * gradients and strided 3x3), and it lets our batch norm do both of its passes over one channel
 * block while that is in cache. Tensors with fewer than b channels (images) and of other ranks are
 * plain; plain N,C,H,W is the same picture with b = 1, so one kernel serves both.
 *
 * IN BF16 activations of rank 4 and 2 are ROWS: [N][H][W][C] without padding, which oneDNN's
 * convolutions for AMX take and are fastest in. Logits, what other linear layers make, and
 * everything that is no activation stay f32. Kernels widen what they read, compute in f32 as ever
 * and round what they write to nearest even. Most loops walk blocks, plain and rows alike (view.h,
 * lanes.h).
 *
 * WEIGHTS are f32 and lie however oneDNN's forward convolution wants them, in bf16 however it makes
 * their gradient; only conv2d.c and linear.c look inside. Vendor types stay behind dnnl_compat.h;
 * this header shows none. */
#ifndef CONVOY_KERNELS_CPU_CPU_H
#define CONVOY_KERNELS_CPU_CPU_H
#include "kernels/backend.h"

typedef struct CpuBackend {
    Backend base;
    int threads;   /* size of the OpenMP team */
    int block;     /* b above */
    DType compute; /* what activations are kept in: DTYPE_F32 or DTYPE_BF16 */
    FuseMode fuse;
    bool fast_bf16; /* products of bf16 are faster than of f32 */
    CpuUse products;
    CpuUse winograd;            /* winograd.h */
    struct CpuLayouts *layouts; /* all layouts made so far; owned */
    struct CpuEngine *engine;   /* oneDNN engine and stream; owned */
} CpuBackend;
CpuBackend *cpu_backend_of(const OpInstance *op);

void cpu_decide_plain(OpTensor *t); /* if it is undecided (bytes == 0) */
/* 0-based share of [0,total) for part of parts: *first and *last. */
void cpu_share(int64_t total, int part, int parts, int64_t *first, int64_t *last);

/* Decides t like model (same shape, same memory) or checks that it is so already. */
Status cpu_decide_like(OpTensor *t, const OpTensor *model, const OpInstance *op);
/* The same for a further input: of rank 2, one may be f32 and the other of the compute type. */
Status cpu_decide_beside(OpTensor *t, const OpTensor *model, const OpInstance *op);
/* Error unless t was decided with at least one byte: inputs that some earlier node had to make. */
Status cpu_require_decided(const OpTensor *t, const OpInstance *op);
/* prepare() of an op all of whose tensors lie plain. */
Status cpu_prepare_plain(OpInstance *op);
Status cpu_bind_nothing(OpInstance *op);
/* An op by loops, void compute(OpInstance *op), that cannot fail, read the slots when they run and
 * whose state holds nothing. prepare() may choose another name than this. */
#define CPU_LOOPS(impl, name, prepare, compute)                                                    \
    static Status impl##_prepare(OpInstance *op)                                                   \
    {                                                                                              \
        op->implementation = name;                                                                 \
        return prepare(op);                                                                        \
    }                                                                                              \
    static Status impl##_run(OpInstance *op, Stream *stream)                                       \
    {                                                                                              \
        (void)stream; /* CPU ops run when called */                                                \
        compute(op);                                                                               \
        return OK;                                                                                 \
    }                                                                                              \
    const OpImpl impl = { impl##_prepare, cpu_bind_nothing, impl##_run, NULL }
/* Threads worth waking for that many elements: the team, or 1 where starting it costs more than the
 * work. */
int cpu_team(const OpInstance *op, int64_t elements);
/* All bytes of t are zero, by the team. */
void cpu_clear(const OpInstance *op, const OpTensor *t);
/* y[i] = f(a[i], b[i]) over count floats; b NULL where f reads none. y may lie over a or b. */
typedef void (*CpuPointwise)(float *y, const float *a, const float *b, int64_t count, float factor);
/* f over tensors that lie alike, shared out to the team. What is bf16 is widened and narrowed in
 * pieces on the stack. */
void cpu_pointwise(const OpInstance *op, CpuPointwise f, const OpTensor *y, const OpTensor *a,
                   const OpTensor *b, float factor);
/* Of elements [first, last), by the calling thread. */
void cpu_pointwise_range(CpuPointwise f, const OpTensor *y, const OpTensor *a, const OpTensor *b,
                         int64_t first, int64_t last, float factor);

/* fusion.c: FusionVTable.takes */
bool cpu_fusion_takes(void *backend, const Fusion *fusion);
/* transfer.c: copies between t and plain host memory; may allocate. */
Status cpu_transfer_export(Backend *backend, const OpTensor *t, void *host);
Status cpu_transfer_import(Backend *backend, const OpTensor *t, const void *host);

#define CPU_OP(kind, name, fused) extern const OpImpl cpu_##name;
OP_LIST(CPU_OP)
#undef CPU_OP

/* Inner loops are compiled once per instruction set and chosen at load time; the outer loops
 * (OpenMP) call them. Bodies shared by several such functions are CPU_INLINE, so that each clone
 * compiles them for its own instruction set. gcc before 12 has no x86-64 levels here; choosing at
 * load time needs glibc's loader. */
#if defined(__x86_64__) && defined(__GNUC__) && defined(__GLIBC__) && !defined(__clang__) &&       \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if __GNUC__ >= 12
#define CPU_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CPU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#else
#define CPU_CLONES
#endif
#if defined(__GNUC__)
#define CPU_INLINE static inline __attribute__((always_inline))
#else
#define CPU_INLINE static inline
#endif
#endif
