/* muon.c - see muon.h. */
#include "trainer/engine/rules/muon.h"
#include "base/mem.h"
#include "kernels/ops/muon.h"
#include "kernels/ops/update.h"

static bool takes(const Executor *x, int state)
{
    return executor_state_trains(x, state) && muon_takes(&executor_state(x, state)->desc);
}

static OpTensor at(const Executor *x, int state, void *slab)
{
    OpTensor t = *executor_state(x, state);
    t.data = slab ? (char *)slab + executor_state_offset(x, state) : NULL;
    return t;
}

/* Prepares all. workspace: the most that any of them takes. */
static Status prepare(Muon *m, const Executor *x, const OpInstance *like, size_t *workspace)
{
    void *grad = executor_slab(x, SLAB_GRAD), *momentum = like->in[MUON_IN_MOMENTUM].data;
    m->count = executor_state_count(x);
    if (!(m->ops = mem_calloc((size_t)m->count + 1, sizeof *m->ops))) return ERR_MEMORY;
    for (int i = 0; i < m->count; i++) {
        OpInstance *op = &m->ops[i];
        if (!takes(x, i)) continue;
        *op = *like;
        op->in[MUON_IN_GRAD] = at(x, i, grad);
        op->in[MUON_IN_MOMENTUM] = at(x, i, momentum);
        TRY(backend_prepare_op(op));
        if (op->workspace_bytes > *workspace) *workspace = op->workspace_bytes;
    }
    return OK;
}

static Status start(Muon *m, const Executor *x, Backend *backend, const Config *c, OpInstance *like,
                    size_t *workspace)
{
    *workspace = 0;
    *m = (Muon){ .backend = backend,
                 .attr = { .momentum = c->optimizer.momentum,
                           .eps = (float)c->optimizer.eps,
                           .nesterov = c->optimizer.nesterov } };
    if (!update_traits((UpdateKind)c->optimizer.name)->orthogonal) return OK;
    like->backend = backend;
    like->attr = &m->attr;
    return prepare(m, x, like, workspace);
}

size_t muon_workspace_bytes(const Executor *x, Backend *backend, const Config *c)
{
    Muon m;
    OpInstance like = { .kind = OP_MUON };
    size_t bytes = 0;
    const Status status = start(&m, x, backend, c, &like, &bytes);
    muon_deinit(&m);
    return status == OK ? bytes : 0;
}

Status muon_init(Muon *m, const Executor *x, Backend *backend, const Config *c, void *momentum,
                 const OpTensor *clip, const OpTensor *loss_scale)
{
    OpInstance like = { .kind = OP_MUON };
    size_t bytes;
    like.in[MUON_IN_MOMENTUM].data = momentum;
    if (clip) like.in[MUON_IN_CLIP] = *clip;
    if (loss_scale) like.in[MUON_IN_LOSS_SCALE] = *loss_scale;
    TRY(start(m, x, backend, c, &like, &bytes));
    if (bytes > 0) TRY(backend->v->alloc(backend, bytes, &m->workspace));
    for (int i = 0; i < m->count; i++) {
        if (!muon_has(m, i)) continue;
        m->ops[i].workspace = m->workspace;
        TRY(backend->v->ops[OP_MUON]->bind(&m->ops[i]));
    }
    return OK;
}

bool muon_has(const Muon *m, int state)
{
    return state < m->count && m->ops[state].backend;
}

Status muon_add(Muon *m, Executor *x, const StepOp *update)
{
    for (int i = 0; i < m->count; i++) {
        const size_t offset = executor_state_offset(x, i);
        if (!muon_has(m, i) || offset < update->offset || offset >= update->offset + update->bytes)
            continue;
        StepOp s = *update;
        s.name = "direction";
        s.op = &m->ops[i];
        s.offset = offset;
        s.bytes = executor_state(x, i)->bytes;
        s.updates = 1u << MUON_IN_GRAD | 1u << MUON_IN_MOMENTUM;
        TRY(executor_add_step(x, &s));
    }
    return OK;
}

void muon_deinit(Muon *m)
{
    for (int i = 0; i < m->count; i++)
        if (muon_has(m, i)) backend_release_op(&m->ops[i]);
    mem_free(m->ops);
    if (m->workspace) m->backend->v->free(m->backend, m->workspace);
    *m = (Muon){ .count = 0 };
}
