/* transfer.c - tensors between the layout they have here and plain host memory: checkpoints,
 * initial values, tests.
 *
 * Synchronous and rare, so it makes its primitives on the spot. A tensor without a layout is copied
 * as bytes whatever its type. */
#include "base/mem.h"
#include "kernels/cpu/steps.h"
#include <string.h>

/* Through the same steps that ops use: operand 0 is the op's input 0, operand 1 its output 0. */
static Status reorder_now(CpuBackend *b, const Layout *from, void *from_data, const Layout *to,
                          void *to_data)
{
    CpuSteps steps = { 0 };
    OpInstance op = { .backend = &b->base, .in[0].data = from_data, .out[0].data = to_data };
    Stream *stream = NULL;
    Status st = b->base.v->stream_create(&b->base, LANE_COMPUTE, &stream);
    if (st == OK)
        st = cpu_steps_add_reorder(b, &steps, cpu_steps_operand_in(0, from),
                                   cpu_steps_operand_out(0, to));
    if (st == OK && steps.workspace_bytes &&
        !(op.workspace = mem_alloc_aligned(steps.workspace_bytes, MEM_ALIGN)))
        st = ERR_MEMORY;
    if (st == OK) st = cpu_steps_bind(&steps, &op);
    if (st == OK) st = cpu_steps_run(&steps, b->threads, stream);
    if (st == OK) st = b->base.v->stream_wait(&b->base, stream);
    cpu_steps_release(&steps);
    mem_free(op.workspace);
    if (stream) b->base.v->stream_destroy(&b->base, stream);
    return st;
}

Status cpu_transfer_export(Backend *backend, const OpTensor *t, void *host)
{
    CpuBackend *b = (CpuBackend *)backend;
    if (!t->layout) {
        memcpy(host, t->data, tensor_plain_bytes(&t->desc));
        return OK;
    }
    const Layout *plain;
    TRY(cpu_layout_of_host(b, &plain, t));
    return reorder_now(b, t->layout, t->data, plain, host);
}

Status cpu_transfer_import(Backend *backend, const OpTensor *t, const void *host)
{
    CpuBackend *b = (CpuBackend *)backend;
    if (!t->layout) {
        memcpy(t->data, host, tensor_plain_bytes(&t->desc));
        return OK;
    }
    const Layout *plain;
    TRY(cpu_layout_of_host(b, &plain, t));
    /* oneDNN's memory objects take no const pointers; a reorder only reads its source. */
    union {
        const void *given;
        void *taken;
    } source = { .given = host };
    return reorder_now(b, plain, source.taken, t->layout, t->data);
}
