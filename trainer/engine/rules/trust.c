/* trust.c - see trust.h. */
#include "trainer/engine/rules/trust.h"
#include "kernels/ops/update.h"

void trust_choose(const Config *c, UpdateSegment *segments, int count)
{
    const UpdateKind kind = (UpdateKind)c->optimizer.name;
    const bool by_decay = kind == UPDATE_LARS || kind == UPDATE_LAMB;
    for (int i = 0; i < count && by_decay; i++)
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

Status trust_add(Trust *t, Executor *x, const StepOp *update)
{
    if (!t->memory) return OK;
    StepOp s = *update;
    s.name = "trust ratios";
    s.op = &t->op;
    s.updates = 0;
    if (update_traits(((const UpdateAttr *)t->op.attr)->kind)->trust == TRUST_BY_GRADIENT)
        s.unread = 1u << UPDATE_IN_STATE0 | 1u << UPDATE_IN_STATE1;
    return executor_add_step(x, &s);
}

void trust_deinit(Trust *t)
{
    if (!t->op.backend) return;
    backend_release_op(&t->op);
    if (t->memory) t->op.backend->v->free(t->op.backend, t->memory);
    *t = (Trust){ .memory = NULL };
}
