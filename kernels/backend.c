/* backend.c - the few lines that every backend's callers share. */
#include "kernels/backend.h"
#include "base/mem.h"
#include "kernels/backend_cuda.h"
#include <string.h>

const char *const fuse_mode_names[FUSE_MODE_COUNT + 1] = {
    [FUSE_AUTO] = "auto", [FUSE_NONE] = "none", [FUSE_ALL] = "all"
};
const char *const precision_names[PRECISION_COUNT + 1] = { [PRECISION_FP32] = "fp32",
                                                           [PRECISION_TF32] = "tf32",
                                                           [PRECISION_BF16] = "bf16",
                                                           [PRECISION_FP16] = "fp16" };
const char *const cpu_bf16_names[CPU_BF16_COUNT + 1] = { [CPU_BF16_NONE] = "none",
                                                         [CPU_BF16_EMULATED] = "emulated",
                                                         [CPU_BF16_AVX512] = "AVX-512",
                                                         [CPU_BF16_AMD] = "AVX-512 of AMD",
                                                         [CPU_BF16_AMX] = "AMX" };
const char *const kernel_mode_names[KERNEL_MODE_COUNT + 1] = {
    [KERNELS_OWN] = "own", [KERNELS_CUDNN] = "cudnn", [KERNELS_AUTO] = "auto"
};

Status backend_prepare_op(OpInstance *op)
{
    const BackendVTable *v = op->backend->v;
    const OpImpl *impl = v->ops[op->kind];
    if (!impl) return fail(ERR_INTERNAL, "backend %s has no %s", v->name, op_name(op->kind));
    op->workspace_bytes = 0;
    Status st = impl->prepare(op);
    return st == OK ? OK : fail_note(st, "%s", op_name(op->kind));
}

Status backend_ready_op(OpInstance *op)
{
    TRY(backend_prepare_op(op));
    ASSERT(op->workspace_bytes == 0);
    const OpImpl *impl = op->backend->v->ops[op->kind];
    return impl->bind ? impl->bind(op) : OK;
}

/* Where there is no tensor there is nothing to move. */
static double pass_bytes(const OpTensor *t, OpPasses *p)
{
    if (t->desc.rank == 0) *p = (OpPasses){ 0, 0 };
    return (p->reads + p->writes) * (double)t->bytes;
}

double backend_traffic(const OpInstance *op, OpTraffic *out)
{
    *out = (OpTraffic){ .other_bytes = 0 };
    for (int i = 0; i < OP_MAX_INPUTS; i++) out->in[i].reads = 1;
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) out->out[i].writes = 1;
    if (op->backend->v->traffic) op->backend->v->traffic(op, out);
    double bytes = out->other_bytes;
    for (int i = 0; i < OP_MAX_INPUTS; i++) bytes += pass_bytes(&op->in[i], &out->in[i]);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) bytes += pass_bytes(&op->out[i], &out->out[i]);
    return bytes;
}

OpTensor backend_flat(void *data, size_t bytes)
{
    const int64_t n = (int64_t)(bytes / sizeof(float));
    return (OpTensor){ .desc = tensor_desc(DTYPE_F32, 1, &n), .bytes = bytes, .data = data };
}

Status backend_host_alloc(Backend *b, size_t bytes, void **out)
{
    (void)b;
    *out = mem_alloc_aligned(bytes, MEM_ALIGN);
    if (!*out) return ERR_MEMORY;
    memset(*out, 0, bytes);
    return OK;
}

void backend_host_free(Backend *b, void *p)
{
    (void)b;
    mem_free(p);
}

void backend_release_op(OpInstance *op)
{
    if (!op || !op->backend) return;
    const OpImpl *impl = op->backend->v->ops[op->kind];
    if (impl && impl->release) impl->release(op);
    mem_free(op->state);
    op->state = NULL;
}

void backend_destroy(Backend *b)
{
    if (b) b->v->destroy(b);
}
