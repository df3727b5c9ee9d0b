/* update.c - the optimizer step over flat ranges as one launch: the table of chunks, and what one
 * run is told.
 *
 * The table goes to the device when memory is first bound, and stays: segments are for the life of
 * the instance. Where the parameters lie inside the attached slab, their compute copies are written
 * in the same pass. */
#include "kernels/cuda/update.h"
#include "base/mem.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/transfer.h"
#include "kernels/ops/update.h"

int64_t update_chunks_make(const UpdateAttr *attr, UpdateChunk *chunks)
{
    int64_t made = 0;
    for (int k = 0; k < attr->segment_count; k++) {
        const UpdateSegment *s = &attr->segments[k];
        for (int64_t at = s->first, end = s->first + s->count, next; at < end; at = next, made++) {
            next = (at / UPDATE_CHUNK + 1) * UPDATE_CHUNK;
            if (next > end) next = end;
            if (chunks)
                chunks[made] =
                    (UpdateChunk){ at, (int32_t)(next - at), k, s->weight_decay, s->lr, s->adapts };
        }
    }
    return made;
}

void update_table_release(OpInstance *op)
{
    UpdateTable *state = op->state;
    if (!state) return;
    if (state->chunks) op->backend->v->free(op->backend, state->chunks);
    mem_free(state->host);
}

Status update_pass_decide(OpInstance *op)
{
    const UpdateAttr *attr = op->attr;
    for (int i = 0; i < update_states(attr->kind, (double)attr->momentum); i++)
        if (op->in[UPDATE_IN_STATE0 + i].desc.rank == 0)
            return fail(ERR_INTERNAL, "update: optimizer state is missing");
    for (int i = UPDATE_IN_PARAM; i <= UPDATE_IN_RATIO; i++)
        if (op->in[i].desc.rank != 0) cuda_decide_plain(&op->in[i]);
    return OK;
}

Status update_table_make(OpInstance *op, UpdateCut *cut)
{
    UpdateTable *state = op->state = mem_calloc(1, sizeof *state);
    if (!state) return ERR_MEMORY;
    state->chunk_count = cut(op->attr, NULL);
    if (state->chunk_count > INT32_MAX)
        return fail(ERR_INTERNAL, "%s: %lld chunks are more than a grid can have",
                    op_name(op->kind), (long long)state->chunk_count);
    state->host = mem_calloc((size_t)state->chunk_count + 1, sizeof *state->host);
    if (!state->host) return ERR_MEMORY;
    cut(op->attr, state->host);
    return OK;
}

static Status update_prepare(OpInstance *op)
{
    op->implementation = "update:flat";
    TRY(update_pass_decide(op));
    return update_table_make(op, update_chunks_make);
}

Status update_table_bind(OpInstance *op)
{
    UpdateTable *state = op->state;
    if (!state->host || state->chunk_count == 0) return OK;
    int64_t bytes = state->chunk_count * (int64_t)sizeof *state->host;
    if (!state->chunks) TRY(op->backend->v->alloc(op->backend, (size_t)bytes, &state->chunks));
    OpTensor device = { .desc = tensor_desc(DTYPE_U8, 1, &bytes),
                        .bytes = (size_t)bytes,
                        .data = state->chunks };
    TRY(cuda_transfer_import(op->backend, &device, state->host));
    mem_free(state->host);
    state->host = NULL;
    return OK;
}

UpdatePass update_pass(const OpInstance *op)
{
    const UpdateAttr *attr = op->attr;
    const UpdateTable *state = op->state;
    const UpdateTraits *traits = update_traits(attr->kind);
    return (UpdatePass){ .kind = attr->kind,
                         .counts_updates = traits->counts_updates,
                         .by_gradient = traits->trust == TRUST_BY_GRADIENT,
                         .momentum = attr->momentum,
                         .eps = attr->eps,
                         .beta1 = attr->beta1,
                         .beta2 = attr->beta2,
                         .nesterov = attr->nesterov,
                         .copy_type = cuda_backend(op)->compute,
                         .param = op->in[UPDATE_IN_PARAM].data,
                         .state0 = op->in[UPDATE_IN_STATE0].data,
                         .state1 = op->in[UPDATE_IN_STATE1].data,
                         .grad = op->in[UPDATE_IN_GRAD].data,
                         .scalars = op->in[UPDATE_IN_SCALARS].data,
                         .loss_scale = op->in[UPDATE_IN_LOSS_SCALE].data,
                         .clip = op->in[UPDATE_IN_CLIP].data,
                         .ratios = op->in[UPDATE_IN_RATIO].data,
                         .chunks = state->chunks,
                         .chunk_count = state->chunk_count };
}

static Status update_run(OpInstance *op, Stream *stream)
{
    UpdatePass pass = update_pass(op);
    pass.copies = cuda_param_copies(cuda_backend(op), &op->in[UPDATE_IN_PARAM]);
    return CUDA_STATUS(cuda_launch_update(&pass, stream->stream));
}

const OpImpl cuda_update = { .prepare = update_prepare,
                             .bind = update_table_bind,
                             .run = update_run,
                             .release = update_table_release };
