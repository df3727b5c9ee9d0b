/* steps.h - what a oneDNN-backed op does at run time, as a short list of steps: reorders, one
 * convolution, sums, conversions, calls of our own loops. Each operand of a step is a slot of the
 * op or an offset in its workspace. Steps are made in prepare(), get addresses in bind(), and run()
 * walks them. */
#ifndef CONVOY_KERNELS_CPU_STEPS_H
#define CONVOY_KERNELS_CPU_STEPS_H
#include "kernels/cpu/layout.h"

typedef enum CpuPlace { PLACE_INPUT, PLACE_OUTPUT, PLACE_WORKSPACE } CpuPlace;
typedef struct CpuOperand { /* where a step finds a tensor */
    CpuPlace place;
    int slot;      /* of the op's inputs or outputs */
    size_t offset; /* in the workspace */
    const Layout *layout;
} CpuOperand;

typedef enum CpuStepKind {
    STEP_PRIMITIVE,
    STEP_ZERO,    /* [0] = 0 */
    STEP_ADD,     /* [0] += [1] */
    STEP_COPY,    /* [0] = [1] */
    STEP_CONVERT, /* [0] = [1], from or to bf16 */
    STEP_ROUND,   /* [0] = [1] to the nearest bf16, both f32 */
    STEP_CALL
} CpuStepKind;
#define STEP_MAX_OPERANDS 8
typedef Status (*CpuStepCall)(const void *cookie, void *const *address, int threads);
typedef struct CpuStep {
    CpuStepKind kind;
    int operand_count;
    CpuOperand operands[STEP_MAX_OPERANDS];
    void *address[STEP_MAX_OPERANDS]; /* set by bind */
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[STEP_MAX_OPERANDS];
    CpuStepCall call;
    const void *cookie;
} CpuStep;

#define CPU_MAX_STEPS 12
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
/* Between rows of bf16 and any layout of f32 too, by loops of our own: exact, on every CPU, and
 * with another reorder where the elements' order differs. */
Status cpu_steps_add_reorder(CpuBackend *b, CpuSteps *s, CpuOperand from, CpuOperand to);
void cpu_steps_add_zero(CpuSteps *s, CpuOperand what);
void cpu_steps_add_sum(CpuSteps *s, CpuOperand into, CpuOperand what); /* same layout */
/* Same layout; nothing where both turn out to be one memory. */
void cpu_steps_add_copy(CpuSteps *s, CpuOperand into, CpuOperand what);
/* As bf16 would have it, though it stays f32. Same layout; may be one memory. */
void cpu_steps_add_round(CpuSteps *s, CpuOperand into, CpuOperand what);
/* call(cookie, addresses of the operands, threads); cookie is borrowed as long as the steps
 * live. */
void cpu_steps_add_call(CpuSteps *s, CpuStepCall call, const void *cookie, int count,
                        const CpuOperand *operands);
Status cpu_steps_bind(CpuSteps *s, const OpInstance *op);
Status cpu_steps_run(const CpuSteps *s, int threads, Stream *stream);
void cpu_steps_release(CpuSteps *s);
/* An op whose state begins with the steps that run it. */
#define CPU_STEPS(prepare) prepare, cpu_steps_bind_op, cpu_steps_run_op, cpu_steps_release_op
Status cpu_steps_bind_op(OpInstance *op);
Status cpu_steps_run_op(OpInstance *op, Stream *stream);
void cpu_steps_release_op(OpInstance *op);
#endif
