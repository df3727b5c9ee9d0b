/* backend.c - the reference backend itself: memory, copies, the table of ops. See ref.h for what it
 * is.
 *
 * Host memory is float for f32 tensors, so export and import convert; a test that wants all 53 bits
 * reads t->data, which is plain. */
#include "kernels/ref/ref.h"

#include "base/mem.h"
#include <stdio.h>
#include <string.h>

struct Stream {
    int unused; /* work is done when run() returns; the stream only has to exist */
};

#define REF_IMPL(kind, name, fused) [kind] = &ref_##name,
static const OpImpl *const ref_ops[OP_COUNT] = { OP_LIST(REF_IMPL) };

size_t ref_tensor_bytes(const TensorDesc *d)
{
    size_t element = d->dtype == DTYPE_F32 ? sizeof(double) : dtype_bytes(d->dtype);
    return (size_t)tensor_elements(d) * element;
}

static Status prepare_slot(const OpInstance *op, OpTensor *t)
{
    if (t->desc.rank == 0) return OK;
    size_t bytes = ref_tensor_bytes(&t->desc);
    if (t->layout || (t->bytes != 0 && t->bytes != bytes))
        return fail(ERR_INTERNAL, "%s: ref supports only plain tensors", op_name(op->kind));
    t->bytes = bytes;
    return OK;
}

Status ref_prepare(OpInstance *op)
{
    for (int i = 0; i < OP_MAX_INPUTS; i++) TRY(prepare_slot(op, &op->in[i]));
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) TRY(prepare_slot(op, &op->out[i]));
    op->workspace_bytes = 0;
    op->implementation = "ref:loops";
    return OK;
}

Status ref_bind(OpInstance *op)
{
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        if (op->in[i].desc.rank != 0 && !op->in[i].data)
            return fail(ERR_INTERNAL, "%s: input %d is not bound", op_name(op->kind), i);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++)
        if (op->out[i].desc.rank != 0 && !op->out[i].data)
            return fail(ERR_INTERNAL, "%s: output %d is not bound", op_name(op->kind), i);
    return OK;
}

static Status ref_export(Backend *b, const OpTensor *t, void *host)
{
    (void)b;
    int64_t count = tensor_elements(&t->desc);
    if (t->desc.dtype == DTYPE_F32) {
        const double *from = t->data;
        float *to = host;
        for (int64_t i = 0; i < count; i++) to[i] = (float)from[i];
    } else {
        memcpy(host, t->data, tensor_plain_bytes(&t->desc));
    }
    return OK;
}

static Status ref_import(Backend *b, const OpTensor *t, const void *host)
{
    (void)b;
    int64_t count = tensor_elements(&t->desc);
    if (t->desc.dtype == DTYPE_F32) {
        const float *from = host;
        double *to = t->data;
        for (int64_t i = 0; i < count; i++) to[i] = (double)from[i];
    } else {
        memcpy(t->data, host, tensor_plain_bytes(&t->desc));
    }
    return OK;
}

static Status ref_stream_create(Backend *b, Lane lane, Stream **out)
{
    (void)b;
    (void)lane;
    *out = mem_calloc(1, sizeof **out);
    return *out ? OK : ERR_MEMORY;
}

static void ref_stream_destroy(Backend *b, Stream *s)
{
    (void)b;
    mem_free(s);
}

static Status ref_stream_wait(Backend *b, Stream *s)
{
    (void)b;
    (void)s;
    return OK;
}

static void ref_destroy(Backend *b)
{
    mem_free(b);
}

static void ref_describe(const Backend *b, char *out, size_t bytes)
{
    (void)b;
    snprintf(out, bytes, "float64 plain loops, 1 thread");
}

/* Whatever is asked for, so that tests can run a graph with all fusions or, without asking, with
 * none. */
static bool ref_takes_fusion(void *backend, const Fusion *fusion)
{
    (void)backend;
    (void)fusion;
    return true;
}

static const BackendVTable ref_vtable = {
    .name = "ref",
    .ops = ref_ops,
    .fusion = { .add_into_batchnorm_bwd = true, .takes = ref_takes_fusion },
    .alignment = MEM_ALIGN,
    .alloc = backend_host_alloc,
    .free = backend_host_free,
    .export_tensor = ref_export,
    .import_tensor = ref_import,
    .stream_create = ref_stream_create,
    .stream_destroy = ref_stream_destroy,
    .stream_wait = ref_stream_wait,
    .destroy = ref_destroy,
    .describe = ref_describe,
};

Status backend_ref_create(Backend **out)
{
    *out = NULL;
    Backend *b = mem_calloc(1, sizeof *b);
    if (!b) return ERR_MEMORY;
    b->v = &ref_vtable;
    *out = b;
    return OK;
}
