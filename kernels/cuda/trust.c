/* trust.c - the trust ratios of LARS and LAMB on the device: nobody waits for them, the update
 * reads them there. The table of chunks goes to the device when memory is bound, as the update's
 * does. */
#include "kernels/cuda/trust.h"
#include "kernels/cuda/cuda.h"
#include "kernels/ops/update.h"

static int64_t cut_chunks(const UpdateAttr *attr, UpdateChunk *chunks)
{
    int64_t made = 0;
    for (int k = 0; k < attr->segment_count; k++) {
        const UpdateSegment *s = &attr->segments[k];
        for (int64_t c = 0; c < update_trust_chunks(s); c++, made++) {
            const int64_t at = c * TRUST_CHUNK, left = s->count - at;
            const int32_t count = (int32_t)(left < TRUST_CHUNK ? left : TRUST_CHUNK);
            if (chunks)
                chunks[made] =
                    (UpdateChunk){ s->first + at, count, k, s->weight_decay, s->lr, true };
        }
    }
    return made;
}

static Status trust_prepare(OpInstance *op)
{
    cuda_decide_plain(&op->out[TRUST_RATIO_OUT_SUMS]);
    cuda_decide_plain(&op->out[TRUST_RATIO_OUT_RATIOS]);
    op->implementation = "trust_ratio:chunks";
    TRY(update_pass_decide(op));
    return update_table_make(op, cut_chunks);
}

static Status trust_run(OpInstance *op, Stream *stream)
{
    const UpdatePass pass = update_pass(op);
    return CUDA_STATUS(cuda_launch_trust(&pass, op->attr, op->out[TRUST_RATIO_OUT_SUMS].data,
                                         op->out[TRUST_RATIO_OUT_RATIOS].data, stream->stream));
}

const OpImpl cuda_trust_ratio = { .prepare = trust_prepare,
                                  .bind = update_table_bind,
                                  .run = trust_run,
                                  .release = update_table_release };
