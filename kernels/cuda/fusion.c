/* fusion.c - which fusions the CUDA backend takes.
 *
 * A fusion is asked for by shapes (kernels/op.h). What decides is CudaOptions.fuse:
 *   FUSE_NONE  none is taken
 *   FUSE_ALL   those whose ops can all be prepared: cuDNN has an engine for each, or our kernels
 *              do
 *   FUSE_AUTO  of these, those that were measured to be faster than what they replace, on this
 *              device and for this shape; the answer is kept in the plan cache. Where nothing can
 *              be measured and kept - a device that is only described, no cache - none is taken,
 *              since a run that is resumed must find what it began with.
 * CudaOptions.fuse_only leaves some of these. In other types than f16 there are no engines, and
 * nobody is asked; our own kernels know theirs in every type, but leave norms to cuDNN that
 * CudaOptions.batchnorm may want by it. Each shape is decided once. */
#include "kernels/cuda/fusion.h"
#include "kernels/cuda/decision.h"
#include "kernels/cuda/time_ops.h"
#include "kernels/fuse_choice.h"

/* ---- deciding ---- */

static Status try_fusion(CudaBackend *b, const void *cookie)
{
    const Fusion *f = cookie;
    const CudaTimedRow after = { .name = f->name, .ops = f->after, .count = f->after_count };
    return cuda_time_ops_try(b, &after);
}

static Status time_fusion(CudaBackend *b, const void *cookie, const char *what, double ms[2])
{
    const Fusion *f = cookie;
    const CudaTimedRow rows[2] = {
        { .name = "what it replaces", .ops = f->before, .count = f->before_count },
        { .name = f->name, .ops = f->after, .count = f->after_count }
    };
    return cuda_time_ops(b, what, rows, ms);
}

/* Of CudaBackend.compute, by what it would be made of. */
static bool is_offered(const CudaBackend *b, OpKind made)
{
    const bool norms = b->options.batchnorm == KERNELS_OWN;
    if (made == OP_BN_SIGNS || made == OP_BN_STATISTICS) return norms && b->compute != DTYPE_F32;
    return made == OP_BN_POOL || made == OP_BN_POOL_BWD ? norms : b->compute == DTYPE_F16;
}

bool cuda_fusion_takes(void *backend, const Fusion *fusion)
{
    CudaBackend *b = backend;
    const DecisionQuestion q = { .name = fusion->name,
                                 .by = "fused",
                                 .ops = fusion->after,
                                 .op_count = fusion->after_count,
                                 .attempt = try_fusion,
                                 .time = time_fusion,
                                 .cookie = fusion,
                                 .timed = b->options.fuse == FUSE_AUTO };
    if (op_fused(fusion->after[0].kind) != FUSED_TRAINING) return false;
    if (b->options.fuse == FUSE_NONE || !is_offered(b, fusion->after[0].kind)) return false;
    if (b->options.fuse_only && !(b->options.fuse_only & fuse_choice_bit(fusion->name)))
        return false;
    return cuda_decision_make(b, &b->fusions, &q);
}

void cuda_fusion_describe(const Backend *backend, char *out, size_t bytes)
{
    cuda_decision_describe(((const CudaBackend *)backend)->fusions, out, bytes);
}
