/* staging.c - see staging.h. dw is the first output of every op that has a Staged. */
#include "kernels/cuda/staging.h"
#include "base/mem.h"

_Static_assert(DEVICE_STAGE_MAX <= CAST_LIST_MAX, "a row fits one launch");
_Static_assert((int)CONV_BWD_WEIGHTS_OUT_DW == 0 && (int)CONV_BWD_WEIGHTS_NORM_OUT_DW == 0, "dw");

static Staged *staged_of(const OpInstance *op)
{
    const bool makes = op->kind == OP_CONV2D_BWD_WEIGHTS || op->kind == OP_CONV2D_BWD_WEIGHTS_NORM;
    return makes ? op->state : NULL;
}

size_t staging_bytes(const OpInstance *op)
{
    const Staged *s = staged_of(op);
    return s && s->count > 0 && s->count % CAST_LIST_GROUP == 0 ? s->bytes : 0;
}

Status staging_stage(OpInstance *const *ops, int count, void *memory)
{
    Staged *last = staged_of(ops[count - 1]);
    ASSERT(count > 0 && count <= DEVICE_STAGE_MAX);
    for (int i = 0; i < count; i++) staging_release(staged_of(ops[i]));
    last->list = mem_calloc(1, sizeof *last->list);
    if (!last->list) return ERR_MEMORY;
    char *at = memory;
    for (int i = 0; i < count; i++) {
        Staged *s = staged_of(ops[i]);
        ASSERT(s && ops[i]->accumulate == ops[0]->accumulate);
        s->in_row = true;
        s->at = at;
        at += s->bytes;
        cast_list_add(last->list, s->at, ops[i]->out[0].data, s->count);
        TRY(ops[i]->backend->v->ops[ops[i]->kind]->bind(ops[i]));
    }
    return OK;
}

void *staging_address(const OpInstance *op, const Staged *s)
{
    if (s->count == 0) return op->out[0].data;
    return s->in_row ? s->at : op->workspace;
}

Status staging_run(const OpInstance *op, const Staged *s, cudaStream_t stream)
{
    const DType compute = cuda_backend(op)->compute;
    float *dw = op->out[0].data;
    if (s->count == 0 || (s->in_row && !s->list)) return OK;
    if (s->list)
        return CUDA_STATUS(cuda_launch_cast_list(s->list, compute, op->accumulate, stream));
    return op->accumulate
               ? CUDA_STATUS(cuda_launch_cast_add(op->workspace, compute, dw, s->count, stream))
               : CUDA_STATUS(
                     cuda_launch_cast(op->workspace, compute, dw, DTYPE_F32, s->count, stream));
}

void staging_release(Staged *s)
{
    if (!s) return;
    mem_free(s->list);
    s->list = NULL;
    s->in_row = false;
}
