/* dnnl.h - our words for oneDNN's things: its status as ours, interned memory descriptors
 * (struct Layout), and step lists.
 *
 * LAYOUTS. Every memory descriptor that this backend uses exists once and lives as long as the
 * backend, so layouts are compared by pointer. A plain one is interned too, but tensors carry NULL
 * for it.
 *
 * STEPS. What a oneDNN-backed op does at run time is a short list of steps: reorders, one
 * convolution, sums, calls of our own loops. Each operand of a step is a slot of the op or an
 * offset in its workspace. Steps are made in prepare(), get addresses in bind(), and run() walks
 * them. */
#ifndef CONVOY_KERNELS_CPU_DNNL_H
#define CONVOY_KERNELS_CPU_DNNL_H
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dnnl_compat.h"

struct CpuEngine {
    dnnl_engine_t engine;
    bool warned_slow; /* that a convolution had to take a reference implementation: said once */
};

struct Stream {
    dnnl_stream_t stream;
};

/* Conv weights with groups have one dim more here (G, K/G, C/G, R, S) than in their TensorDesc. */
#define LAYOUT_MAX_RANK 5
struct Layout {
    Layout *next;
    CompatDesc desc;
    size_t bytes;
    int rank;
    int64_t dims[LAYOUT_MAX_RANK];
    int64_t block; /* of an activation layout [N][C/b][H][W][b]; 0 where it is none */
};

/* Translates status; what names the call for the message. */
Status cpu_dnnl_status(dnnl_status_t status, const char *what);
#define TRY_DNNL(call) TRY(cpu_dnnl_status((call), #call))

/* Reorder from one layout to another; caller destroys *out. Scratchpad in user mode. */
Status cpu_dnnl_reorder_create(CpuBackend *b, dnnl_primitive_desc_t *out, const Layout *from,
                               const Layout *to);

void cpu_layout_destroy_all(CpuBackend *b); /* and the names */
/* A copy of name that lives as long as the backend: oneDNN's own may lie inside the primitive. */
Status cpu_layout_keep_name(CpuBackend *b, const char **out, const char *name);
/* Interned layout of an f32 tensor; tag may be dnnl_format_tag_any. */
Status cpu_layout_make(CpuBackend *b, const Layout **out, int rank, const int64_t *dims,
                       dnnl_format_tag_t tag);
Status cpu_layout_plain(CpuBackend *b, const Layout **out, int rank, const int64_t *dims);
Status cpu_layout_of_primitive(CpuBackend *b, const Layout **out, const_dnnl_primitive_desc_t pd,
                               dnnl_query_t what);
Status cpu_layout_submemory(CpuBackend *b, const Layout **out, const Layout *parent,
                            const int64_t *dims, const int64_t *offsets);
/* What t has: its own layout, or the interned plain one. */
Status cpu_layout_of_tensor(CpuBackend *b, const Layout **out, const OpTensor *t);
/* As an OpTensor carries it: NULL for plain. */
Status cpu_layout_for_tensor(CpuBackend *b, const Layout **out, const Layout *layout);

/* Copies between t and plain host memory; may allocate. */
Status cpu_transfer_export(Backend *backend, const OpTensor *t, void *host);
Status cpu_transfer_import(Backend *backend, const OpTensor *t, const void *host);

typedef enum CpuPlace { PLACE_INPUT, PLACE_OUTPUT, PLACE_WORKSPACE } CpuPlace;
typedef struct CpuOperand { /* where a step finds a tensor */
    CpuPlace place;
    int slot;      /* of the op's inputs or outputs */
    size_t offset; /* in the workspace */
    const Layout *layout;
} CpuOperand;

typedef enum CpuStepKind { STEP_PRIMITIVE, STEP_ZERO, STEP_ADD, STEP_COPY, STEP_CALL } CpuStepKind;
#define STEP_MAX_OPERANDS 8
typedef void (*CpuStepCall)(const void *cookie, void *const *address, int threads);
typedef struct CpuStep {
    CpuStepKind kind;
    int operand_count;
    CpuOperand operands[STEP_MAX_OPERANDS]; /* ZERO: [0] = 0; ADD: [0] += [1]; COPY: [0] = [1] */
    void *address[STEP_MAX_OPERANDS];       /* set by bind */
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[STEP_MAX_OPERANDS];
    CpuStepCall call;
    const void *cookie;
} CpuStep;

#define CPU_MAX_STEPS 8
typedef struct CpuSteps { /* zero-initialise */
    CpuStep items[CPU_MAX_STEPS];
    int count;
    size_t workspace_bytes;
} CpuSteps;

CpuOperand cpu_steps_operand_in(int slot, const Layout *layout);
CpuOperand cpu_steps_operand_out(int slot, const Layout *layout);
CpuOperand cpu_steps_operand_workspace(CpuSteps *s,
                                       const Layout *layout); /* a new piece of workspace */
/* Operands in the order of oneDNN's argument numbers arg_ids. Takes pd: it is destroyed whatever
 * the outcome. Adds its scratchpad. */
Status cpu_steps_add_primitive(CpuBackend *b, CpuSteps *s, dnnl_primitive_desc_t pd, int count,
                               const int *arg_ids, const CpuOperand *operands);
Status cpu_steps_add_reorder(CpuBackend *b, CpuSteps *s, CpuOperand from, CpuOperand to);
void cpu_steps_add_zero(CpuSteps *s, CpuOperand what);
void cpu_steps_add_sum(CpuSteps *s, CpuOperand into, CpuOperand what); /* same layout */
/* Same layout; nothing where both turn out to be one memory. */
void cpu_steps_add_copy(CpuSteps *s, CpuOperand into, CpuOperand what);
/* call(cookie, addresses of the operands, threads); cookie is borrowed as long as the steps
 * live. */
void cpu_steps_add_call(CpuSteps *s, CpuStepCall call, const void *cookie, int count,
                        const CpuOperand *operands);
Status cpu_steps_bind(CpuSteps *s, const OpInstance *op);
Status cpu_steps_run(const CpuSteps *s, int threads, Stream *stream);
void cpu_steps_release(CpuSteps *s);
#endif
