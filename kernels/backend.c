/* backend.c - the few lines that every backend's callers share. */
#include "kernels/backend.h"

Status backend_prepare_op(OpInstance *op)
{
    const BackendVTable *v = op->backend->v;
    const OpImpl *impl = v->ops[op->kind];
    if (!impl) return fail(ERR_INTERNAL, "backend %s has no %s", v->name, op_name(op->kind));
    op->workspace_bytes = 0;
    Status st = impl->prepare(op);
    return st == OK ? OK : fail_note(st, "%s", op_name(op->kind));
}

void backend_release_op(OpInstance *op)
{
    if (!op || !op->backend) return;
    const OpImpl *impl = op->backend->v->ops[op->kind];
    if (impl && impl->release) impl->release(op);
    op->state = NULL;
}

void backend_destroy(Backend *b)
{
    if (b) b->v->destroy(b);
}
