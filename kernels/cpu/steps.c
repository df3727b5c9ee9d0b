/* steps.c - lists of oneDNN primitives and small loops that an op instance walks at run time. See
 * steps.h.
 *
 * A primitive's memory objects are made once, in prepare(), without an address; bind() points them
 * at theirs. oneDNN 2 zeroes the padding of a blocked memory object when it is pointed somewhere:
 * bind() happens between steps, when padding is the only thing there that must be defined, so that
 * is welcome. */
#include "kernels/cpu/steps.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/lanes.h"
#include <string.h>

#define WORKSPACE_ALIGN ((size_t)64)

CpuOperand cpu_steps_operand_in(int slot, const Layout *layout)
{
    return (CpuOperand){ .place = PLACE_INPUT, .slot = slot, .layout = layout };
}

CpuOperand cpu_steps_operand_out(int slot, const Layout *layout)
{
    return (CpuOperand){ .place = PLACE_OUTPUT, .slot = slot, .layout = layout };
}

CpuOperand cpu_steps_operand_workspace(CpuSteps *s, const Layout *layout)
{
    const size_t at = s->workspace_bytes;
    s->workspace_bytes += (layout->bytes + WORKSPACE_ALIGN - 1) / WORKSPACE_ALIGN * WORKSPACE_ALIGN;
    return (CpuOperand){ .place = PLACE_WORKSPACE, .offset = at, .layout = layout };
}

static CpuStep *new_step(CpuSteps *s, CpuStepKind kind, int count, const CpuOperand *operands)
{
    ASSERT(s->count < CPU_MAX_STEPS && count <= STEP_MAX_OPERANDS);
    CpuStep *step = &s->items[s->count++];
    *step = (CpuStep){ .kind = kind, .operand_count = count };
    memcpy(step->operands, operands, (size_t)count * sizeof *operands);
    return step;
}

static Status make_memories(CpuBackend *b, CpuStep *step, const int *arg_ids)
{
    for (int i = 0; i < step->operand_count; i++) {
        step->args[i].arg = arg_ids[i];
        TRY_DNNL(dnnl_memory_create(&step->args[i].memory,
                                    dnnl_compat_desc_ref(&step->operands[i].layout->desc),
                                    b->engine->engine, DNNL_MEMORY_NONE));
    }
    return OK;
}

static Status add_primitive(CpuBackend *b, CpuSteps *s, const_dnnl_primitive_desc_t pd, int count,
                            const int *arg_ids, const CpuOperand *operands)
{
    CpuOperand with_scratch[STEP_MAX_OPERANDS];
    int ids[STEP_MAX_OPERANDS];
    const Layout *scratch;
    ASSERT(count < STEP_MAX_OPERANDS);
    memcpy(with_scratch, operands, (size_t)count * sizeof *operands);
    memcpy(ids, arg_ids, (size_t)count * sizeof *ids);
    /* In the workspace the scratchpad is part of the memory plan, and run() allocates nothing. */
    TRY(cpu_layout_of_primitive(b, &scratch, pd, dnnl_query_scratchpad_md));
    if (scratch->bytes) {
        with_scratch[count] = cpu_steps_operand_workspace(s, scratch);
        ids[count++] = DNNL_ARG_SCRATCHPAD;
    }
    CpuStep *step = new_step(s, STEP_PRIMITIVE, count, with_scratch);
    TRY_DNNL(dnnl_primitive_create(&step->primitive, pd));
    return make_memories(b, step, ids);
}

Status cpu_steps_add_primitive(CpuBackend *b, CpuSteps *s, dnnl_primitive_desc_t pd, int count,
                               const int *arg_ids, const CpuOperand *operands)
{
    Status st = add_primitive(b, s, pd, count, arg_ids, operands);
    dnnl_primitive_desc_destroy(pd);
    return st;
}

/* Caller destroys *out. Scratchpad in user mode. */
static Status create_reorder(CpuBackend *b, dnnl_primitive_desc_t *out, const Layout *from,
                             const Layout *to)
{
    dnnl_primitive_attr_t attr = NULL;
    *out = NULL;
    TRY_DNNL(dnnl_primitive_attr_create(&attr));
    dnnl_status_t st = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (st == dnnl_success)
        st = dnnl_reorder_primitive_desc_create(out, dnnl_compat_desc_ref(&from->desc),
                                                b->engine->engine, dnnl_compat_desc_ref(&to->desc),
                                                b->engine->engine, attr);
    dnnl_primitive_attr_destroy(attr);
    return cpu_dnnl_status(st, "reorder");
}

static Status add_reorder(CpuBackend *b, CpuSteps *s, CpuOperand from, CpuOperand to)
{
    static const int arg_ids[] = { DNNL_ARG_FROM, DNNL_ARG_TO };
    const CpuOperand operands[] = { from, to };
    dnnl_primitive_desc_t pd = NULL;
    TRY(create_reorder(b, &pd, from.layout, to.layout));
    return cpu_steps_add_primitive(b, s, pd, 2, arg_ids, operands);
}

static void add_convert(CpuSteps *s, CpuOperand into, CpuOperand what)
{
    new_step(s, STEP_CONVERT, 2, (const CpuOperand[]){ into, what });
}

Status cpu_steps_add_reorder(CpuBackend *b, CpuSteps *s, CpuOperand from, CpuOperand to)
{
    const bool narrows = to.layout->rows, widens = from.layout->rows;
    if (from.layout->type == to.layout->type || !(narrows || widens))
        return add_reorder(b, s, from, to);
    const Layout *wide;
    TRY(cpu_layout_widened(b, &wide, narrows ? to.layout : from.layout));
    CpuOperand other = narrows ? from : to;
    const bool alike = other.layout == wide;
    if (!alike) other = cpu_steps_operand_workspace(s, wide);
    if (widens) add_convert(s, other, from);
    if (!alike) TRY(add_reorder(b, s, narrows ? from : other, narrows ? other : to));
    if (narrows) add_convert(s, to, other);
    return OK;
}

void cpu_steps_add_zero(CpuSteps *s, CpuOperand what)
{
    new_step(s, STEP_ZERO, 1, &what);
}

void cpu_steps_add_sum(CpuSteps *s, CpuOperand into, CpuOperand what)
{
    ASSERT(into.layout == what.layout);
    new_step(s, STEP_ADD, 2, (const CpuOperand[]){ into, what });
}

void cpu_steps_add_copy(CpuSteps *s, CpuOperand into, CpuOperand what)
{
    ASSERT(into.layout == what.layout);
    new_step(s, STEP_COPY, 2, (const CpuOperand[]){ into, what });
}

void cpu_steps_add_round(CpuSteps *s, CpuOperand into, CpuOperand what)
{
    ASSERT(into.layout == what.layout && into.layout->type == DTYPE_F32);
    new_step(s, STEP_ROUND, 2, (const CpuOperand[]){ into, what });
}

void cpu_steps_add_call(CpuSteps *s, CpuStepCall call, const void *cookie, int count,
                        const CpuOperand *operands)
{
    CpuStep *step = new_step(s, STEP_CALL, count, operands);
    step->call = call;
    step->cookie = cookie;
}

static void *address_of(const CpuOperand *o, const OpInstance *op)
{
    switch (o->place) {
    case PLACE_INPUT:
        return op->in[o->slot].data;
    case PLACE_OUTPUT:
        return op->out[o->slot].data;
    case PLACE_WORKSPACE:
        return (char *)op->workspace + o->offset;
    }
    return NULL;
}

Status cpu_steps_bind(CpuSteps *s, const OpInstance *op)
{
    for (int i = 0; i < s->count; i++) {
        CpuStep *step = &s->items[i];
        for (int k = 0; k < step->operand_count; k++) {
            step->address[k] = address_of(&step->operands[k], op);
            ASSERT(step->address[k]);
            if (step->args[k].memory)
                TRY_DNNL(dnnl_memory_set_data_handle(step->args[k].memory, step->address[k]));
        }
    }
    return OK;
}

CPU_CLONES static void add_range(float *restrict into, const float *restrict what, int64_t count)
{
    for (int64_t i = 0; i < count; i++) into[i] += what[i];
}

CPU_CLONES static void round_range(float *into, const float *what, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) into[i] = float_from_bf16(float_to_bf16(what[i]));
}

static void compute_range(const CpuStep *step, int64_t first, int64_t last)
{
    const DType to = step->operands[0].layout->type;
    void *into = step->address[0];
    const void *what = step->address[1];
    const int64_t count = last - first;
    if (step->kind == STEP_ADD)
        add_range((float *)into + first, (const float *)what + first, count);
    else if (step->kind == STEP_ROUND)
        round_range((float *)into + first, (const float *)what + first, count);
    else if (to == DTYPE_BF16)
        cpu_lanes_narrow((uint16_t *)into + first, (const float *)what + first, count);
    else cpu_lanes_widen((float *)into + first, (const uint16_t *)what + first, count);
}

/* By parts: the inner functions are CPU_CLONES, which have no parallel region of their own
 * (lanes.h). */
static void compute_all(const CpuStep *step, int64_t count, int threads)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; part++) {
        int64_t first, last;
        cpu_share(count, part, threads, &first, &last);
        compute_range(step, first, last);
    }
}

static void zero_all(char *what, int64_t bytes, int threads)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; part++) {
        int64_t first, last;
        cpu_share(bytes, part, threads, &first, &last);
        memset(what + first, 0, (size_t)(last - first));
    }
}

static void copy_all(char *into, const char *what, int64_t bytes, int threads)
{
    if (into == what) return;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; part++) {
        int64_t first, last;
        cpu_share(bytes, part, threads, &first, &last);
        memcpy(into + first, what + first, (size_t)(last - first));
    }
}

Status cpu_steps_run(const CpuSteps *s, int threads, Stream *stream)
{
    for (int i = 0; i < s->count; i++) {
        const CpuStep *step = &s->items[i];
        const int64_t bytes = (int64_t)step->operands[0].layout->bytes;
        switch (step->kind) {
        case STEP_PRIMITIVE:
            TRY_DNNL(dnnl_primitive_execute(step->primitive, stream->stream, step->operand_count,
                                            step->args));
            break;
        case STEP_ZERO:
            zero_all(step->address[0], bytes, threads);
            break;
        case STEP_ADD:
        case STEP_CONVERT:
        case STEP_ROUND:
            compute_all(step, bytes / (int64_t)dtype_bytes(step->operands[0].layout->type),
                        threads);
            break;
        case STEP_COPY:
            copy_all(step->address[0], step->address[1], bytes, threads);
            break;
        case STEP_CALL:
            TRY(step->call(step->cookie, step->address, threads));
            break;
        }
    }
    return OK;
}

void cpu_steps_release(CpuSteps *s)
{
    for (int i = 0; i < s->count; i++) {
        CpuStep *step = &s->items[i];
        for (int k = 0; k < step->operand_count; k++)
            if (step->args[k].memory) dnnl_memory_destroy(step->args[k].memory);
        if (step->primitive) dnnl_primitive_destroy(step->primitive);
    }
    *s = (CpuSteps){ 0 };
}

Status cpu_steps_bind_op(OpInstance *op)
{
    return cpu_steps_bind(op->state, op);
}

Status cpu_steps_run_op(OpInstance *op, Stream *stream)
{
    return cpu_steps_run(op->state, cpu_backend_of(op)->threads, stream);
}

void cpu_steps_release_op(OpInstance *op)
{
    if (op->state) cpu_steps_release(op->state);
}
