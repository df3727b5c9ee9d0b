/* trust.c - see trust.h. */
#include "trainer/rules/trust.h"
#include "kernels/ops/update.h"
#include <string.h>

void trust_choose(const Config *c, UpdateSegment *segments, int count)
{
    for (int i = 0; i < count && c->optimizer.name != UPDATE_LARS_MLPERF; i++)
        segments[i].adapts = c->optimizer.always_adapt || segments[i].weight_decay != 0.0f;
}

static OpTensor piece(DType type, int rank, const int64_t *dims)
{
    OpTensor t = { .desc = tensor_desc(type, rank, dims) };
    t.bytes = tensor_plain_bytes(&t.desc);
    return t;
}

Status trust_init(Trust *t, OpInstance *update)
{
    const BackendVTable *v = update->backend->v;
    const UpdateAttr *a = update->attr;
    const int64_t chunks = update_all_trust_chunks(a), segments = a->segment_count;
    if (update_traits(a->kind)->trust == TRUST_NONE || chunks == 0) return OK;
    t->op = *update;
    t->op.kind = OP_TRUST_RATIO;
    OpTensor *sums = &t->op.out[TRUST_RATIO_OUT_SUMS], *ratios = &t->op.out[TRUST_RATIO_OUT_RATIOS];
    *sums = piece(DTYPE_F64, 2, (int64_t[]){ chunks, TRUST_SUM_COUNT });
    *ratios = piece(DTYPE_F32, 1, &segments);
    TRY(v->alloc(update->backend, sums->bytes + ratios->bytes, &t->memory));
    sums->data = t->memory;
    ratios->data = (char *)t->memory + sums->bytes;
    update->in[UPDATE_IN_RATIO] = *ratios;
    return backend_ready_op(&t->op);
}

Status trust_add(Trust *t, Executor *x, StepOp *update)
{
    const UpdateAttr *a = t->op.attr;
    if (!t->memory) return OK;
    StepOp s = *update;
    const size_t place = s.use[0].offset, bytes = t->op.out[TRUST_RATIO_OUT_RATIOS].bytes;
    s.name = "trust ratios";
    s.op = &t->op;
    memset(s.use, 0, sizeof s.use);
    for (int k = 0; k < step_use_count(update); k++) {
        StepUse use = update->use[k];
        const bool state = use.memory && use.mode == STEP_UPDATES;
        use.mode = STEP_READS;
        if (!state || update_traits(a->kind)->trust == TRUST_BY_UPDATE) step_use(&s, use);
    }
    step_use_memory(&s, STEP_WRITES, s.name, place, bytes);
    step_use_memory(update, STEP_READS, s.name, place, bytes);
    return executor_add_step(x, &s);
}

void trust_deinit(Trust *t)
{
    if (!t->op.backend) return;
    backend_release_op(&t->op);
    if (t->memory) t->op.backend->v->free(t->op.backend, t->memory);
    *t = (Trust){ .memory = NULL };
}
