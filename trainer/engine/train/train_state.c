/* train_state.c - see train_state.h. What there is, and in which order, is the executor's table of
 * states; here it is walked. */
#include "trainer/engine/train/train_state.h"
#include "base/log.h"
#include "base/mem.h"
#include <math.h>
#include <stdio.h>

Status train_state_list(const Executor *x, SafeTensor **out, int *count)
{
    const int n = *count = state_tensor_count(x);
    SafeTensor *list = *out = mem_calloc((size_t)n, sizeof *list + STATE_NAME_BYTES);
    if (!list) return ERR_MEMORY;
    char *names = (char *)(list + n);
    for (int i = 0; i < n; i++, names += STATE_NAME_BYTES) {
        const OpTensor t = state_tensor(x, i, names, NULL);
        list[i] = (SafeTensor){ .name = names, .desc = t.desc };
    }
    return OK;
}

/* Parameters, statistics and what hangs on them are all f32. */
static bool is_finite(const TensorDesc *d, const float *values)
{
    ASSERT(d->dtype == DTYPE_F32);
    for (int64_t i = 0, n = tensor_elements(d); i < n; i++)
        if (!isfinite(values[i])) return false;
    return true;
}

static Status export_finite(const Executor *x, int i, void *out, char bad[STATE_NAME_BYTES])
{
    char name[STATE_NAME_BYTES];
    const Backend *b = executor_backend(x);
    const OpTensor t = state_tensor(x, i, name, NULL);
    TRY(b->v->export_tensor(executor_backend(x), &t, out));
    if (is_finite(&t.desc, out)) return OK;
    snprintf(bad, STATE_NAME_BYTES, "%s", name);
    return fail(ERR_DIVERGED, "%s is not finite", name);
}

Status train_state_find_bad(const Executor *x, char bad[STATE_NAME_BYTES])
{
    const int n = state_tensor_count(x);
    size_t most = 0;
    bad[0] = '\0';
    for (int i = 0; i < n; i++) {
        const OpTensor t = state_tensor(x, i, NULL, NULL);
        const size_t bytes = tensor_plain_bytes(&t.desc);
        if (bytes > most) most = bytes;
    }
    void *plain = mem_alloc(most);
    Status status = plain ? OK : ERR_MEMORY;
    for (int i = 0; i < n && status == OK; i++) status = export_finite(x, i, plain, bad);
    mem_free(plain);
    return status == ERR_DIVERGED ? OK : status;
}

Status train_state_stage(const Executor *x, CheckpointWriter *w, char bad[STATE_NAME_BYTES])
{
    TRY(checkpoint_wait(w));
    for (int i = 0; i < state_tensor_count(x); i++)
        TRY(export_finite(x, i, checkpoint_staging(w, i), bad));
    return OK;
}

static Status check_tensor(const SafeFile *file, const char *path, const char *name,
                           const TensorDesc *want)
{
    char have_text[64], want_text[64];
    const SafeTensor *have = safetensors_find(file, name);
    if (!have)
        return fail(ERR_DATA, "%s: tensor %s is missing, which the settings of this run require",
                    path, name);
    if (have->desc.dtype == want->dtype && tensor_same_shape(&have->desc, want)) return OK;
    tensor_format(&have->desc, have_text, sizeof have_text);
    tensor_format(want, want_text, sizeof want_text);
    return fail(ERR_DATA,
                "%s: tensor %s is %s in the checkpoint but %s in this run: model.name, "
                "data.image_size or another key of the network has changed",
                path, name, have_text, want_text);
}

/* Nothing of the state is in the file, and it does without. */
static bool lacks(const SafeFile *file, const State *s)
{
    return s->def.lack != STATE_NEEDED && !safetensors_has(file, s->def.prefix);
}

static Status begin_at_weights(Executor *x, const State *s, const char *path)
{
    if (s->def.shape == STATE_PARAMS)
        log_info("%s: has no %s*; that average starts at its weights", path, s->def.prefix);
    return state_follow(x, s);
}

Status train_state_restore(Executor *x, const SafeFile *file, const char *path)
{
    char name[STATE_NAME_BYTES];
    const State *whose;
    const int n = state_tensor_count(x);
    Backend *b = executor_backend(x);
    for (int i = 0; i < n; i++) {
        const OpTensor t = state_tensor(x, i, name, &whose);
        if (!lacks(file, whose)) TRY(check_tensor(file, path, name, &t.desc));
    }
    for (int i = 0; i < n; i++) {
        const OpTensor t = state_tensor(x, i, name, &whose);
        if (!lacks(file, whose))
            TRY(b->v->import_tensor(b, &t, safetensors_find(file, name)->data));
    }
    TRY(executor_params_changed(x));
    for (int k = 0; k < state_count(x); k++) {
        const State *s = state_at(x, k);
        if (s->def.lack == STATE_FOLLOWS && lacks(file, s)) TRY(begin_at_weights(x, s, path));
    }
    return OK;
}

Status train_state_begin(Executor *x)
{
    for (int k = 0; k < state_count(x); k++)
        if (state_at(x, k)->def.lack == STATE_FOLLOWS) TRY(state_follow(x, state_at(x, k)));
    return OK;
}
