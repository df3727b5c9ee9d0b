/* state.c - see state.h. */
#include "trainer/engine/exec/state.h"
#include "base/mem.h"
#include "trainer/engine/exec/executor_internal.h"
#include <stdio.h>
#include <string.h>

static Slab slab_of(StateShape shape)
{
    return shape == STATE_PARAMS ? SLAB_PARAM : SLAB_BUFFER;
}

const char *state_kind_name(StateKind kind)
{
    static const char *const names[STATE_KIND_COUNT] = { [STATE_WEIGHTS] = "weights",
                                                         [STATE_OPTIMIZER] = "optimizer state",
                                                         [STATE_LOSS_SCALE] = "loss scale",
                                                         [STATE_AVERAGES] = "averages",
                                                         [STATE_KEPT] = "kept weights" };
    return names[kind];
}

static Status add(Executor *x, const State *s)
{
    if (x->kept_count == EXECUTOR_KEPT_MAX)
        return fail(ERR_INTERNAL, "more than %d states", EXECUTOR_KEPT_MAX);
    x->kept[x->kept_count++] = *s;
    return OK;
}

/* Padding begins alike: without gradients nothing moves there. */
static Status fill_state(Executor *x, const State *s)
{
    if (s->def.start == 0.0f) return OK; /* as it was allocated */
    float *values = mem_alloc(s->bytes);
    if (!values) return ERR_MEMORY;
    for (size_t i = 0; i < s->bytes / sizeof *values; i++) values[i] = s->def.start;
    const OpTensor flat = backend_flat(s->data, s->bytes);
    const Status status = x->backend->v->import_tensor(x->backend, &flat, values);
    mem_free(values);
    return status;
}

Status state_add(Executor *x, const StateDef *def, void **data)
{
    State s = { .def = *def, .bytes = executor_slab_bytes(x, slab_of(def->shape)), .owned = true };
    *data = NULL;
    if (s.bytes == 0) return OK;
    TRY(x->backend->v->alloc(x->backend, s.bytes, &s.data));
    Status status = add(x, &s);
    if (status != OK) x->backend->v->free(x->backend, s.data);
    else status = fill_state(x, &s);
    if (status == OK) *data = s.data;
    return status;
}

Status state_add_record(Executor *x, const StateDef *def, const OpTensor *record)
{
    return add(
        x,
        &(State){ .def = *def, .data = record->data, .bytes = record->bytes, .record = *record });
}

void state_remove(Executor *x, const void *data)
{
    for (int k = 0; data && k < x->kept_count; k++) {
        State *s = &x->kept[k];
        if (s->data != data) continue;
        if (s->owned) x->backend->v->free(x->backend, s->data);
        x->kept_count--;
        memmove(s, s + 1, (size_t)(x->kept_count - k) * sizeof *s);
        return;
    }
}

int state_count(const Executor *x)
{
    return x->kept_count;
}
const State *state_at(const Executor *x, int index)
{
    return &x->kept[index];
}

/* ---- tensors ---- */

/* Of a state; parameters come first among the executor's. */
static int tensors_of(const Executor *x, const State *s)
{
    const int by_shape[] = { [STATE_PARAMS] = x->param_count,
                             [STATE_BUFFERS] = x->state_count - x->param_count,
                             [STATE_RECORD] = 1 };
    return s->def.saved ? by_shape[s->def.shape] : 0;
}

int state_tensor_count(const Executor *x)
{
    int count = 0;
    for (int k = 0; k < x->kept_count; k++) count += tensors_of(x, &x->kept[k]);
    return count;
}

OpTensor state_tensor(const Executor *x, int i, char name[STATE_NAME_BYTES], const State **whose)
{
    const State *s = x->kept;
    for (; i >= tensors_of(x, s); s++) i -= tensors_of(x, s);
    if (whose) *whose = s;
    if (s->def.shape == STATE_RECORD) {
        if (name) snprintf(name, STATE_NAME_BYTES, "%s", s->def.prefix);
        return s->record;
    }
    if (s->def.shape == STATE_BUFFERS) i += x->param_count;
    if (name) snprintf(name, STATE_NAME_BYTES, "%s%s", s->def.prefix, executor_state_name(x, i));
    OpTensor t = *executor_state(x, i);
    t.data = (char *)s->data + executor_state_offset(x, i);
    return t;
}

Status state_follow(Executor *x, const State *s)
{
    TRY(executor_copy(x, s->data, executor_slab(x, slab_of(s->def.shape)), s->bytes,
                      executor_stream(x)));
    return executor_wait(x);
}
