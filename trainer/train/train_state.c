/* train_state.c - see train_state.h. One order of tensors serves listing, staging and restoring:
 * entry i is a parameter or buffer of the executor, behind those the optimizer's states, parameter
 * by parameter, and the state of the loss scale where there is one. */
#include "trainer/train/train_state.h"
#include "base/mem.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES      TRAIN_STATE_NAME_BYTES
#define LOSS_SCALE_NAME "optimizer.loss_scale"

static int param_count(const Executor *x)
{
    int count = 0;
    for (int i = 0; i < executor_state_count(x); i++) count += executor_state_is_param(x, i);
    return count;
}

static bool has_loss_scale(const Optimizer *optim)
{
    return optim && optimizer_loss_scale(optim);
}

static int entry_count(const Executor *x, const Optimizer *optim)
{
    int states =
        executor_state_count(x) + (optim ? optimizer_state_count(optim) * param_count(x) : 0);
    return states + has_loss_scale(optim);
}

/* Tensor and name of entry i. Parameters come first in the executor's order, so optimizer entries
 * count from 0 again.
 */
static OpTensor entry(const Executor *x, const Optimizer *optim, int i, char name[NAME_BYTES])
{
    int states = executor_state_count(x);
    if (i < states) {
        snprintf(name, NAME_BYTES, "%s", executor_state_name(x, i));
        return *executor_state(x, i);
    }
    int params = param_count(x), s = (i - states) / params, p = (i - states) % params;
    if (s == optimizer_state_count(optim)) {
        snprintf(name, NAME_BYTES, "%s", LOSS_SCALE_NAME);
        return *optimizer_loss_scale(optim);
    }
    snprintf(name, NAME_BYTES, "optimizer.%s.%s", optimizer_state_name(optim, s),
             executor_state_name(x, p));
    return optimizer_state(optim, s, p);
}

Status train_state_list(const Executor *x, const Optimizer *optim, SafeTensor **out, int *count)
{
    int n = entry_count(x, optim);
    SafeTensor *list = *out = mem_calloc((size_t)n, sizeof *list + NAME_BYTES);
    if (!list) return ERR_MEMORY;
    char *names = (char *)(list + n);
    for (int i = 0; i < n; i++, names += NAME_BYTES) {
        OpTensor t = entry(x, optim, i, names);
        list[i] = (SafeTensor){ .name = names, .desc = t.desc };
    }
    *count = n;
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

static Status export_finite(Backend *backend, const OpTensor *t, const char *name, void *out,
                            char bad[NAME_BYTES])
{
    TRY(backend->v->export_tensor(backend, t, out));
    if (is_finite(&t->desc, out)) return OK;
    snprintf(bad, NAME_BYTES, "%s", name);
    return fail(ERR_DIVERGED, "%s is not finite", name);
}

Status train_state_find_bad(const Executor *x, const Optimizer *optim, Backend *backend,
                            char bad[NAME_BYTES])
{
    char name[NAME_BYTES];
    size_t most = 0;
    bad[0] = '\0';
    for (int i = 0; i < executor_state_count(x); i++) {
        size_t bytes = tensor_plain_bytes(&executor_state(x, i)->desc);
        if (bytes > most) most = bytes;
    }
    void *plain = mem_alloc(most + LOSS_SCALE_COUNT * sizeof(float));
    Status status = plain ? OK : ERR_MEMORY;
    for (int i = 0; i < entry_count(x, optim) && status == OK; i++) {
        OpTensor t = entry(x, optim, i, name);
        status = export_finite(backend, &t, name, plain, bad);
    }
    mem_free(plain);
    return status == ERR_DIVERGED ? OK : status;
}

Status train_state_stage(const Executor *x, const Optimizer *optim, Backend *backend,
                         CheckpointWriter *w, char bad[NAME_BYTES])
{
    char name[NAME_BYTES];
    TRY(checkpoint_stage(w));
    for (int i = 0; i < entry_count(x, optim); i++) {
        OpTensor t = entry(x, optim, i, name);
        TRY(export_finite(backend, &t, name, checkpoint_staging(w, i), bad));
    }
    return OK;
}

static Status check_tensor(const SafeFile *file, const char *path, const char *name,
                           const TensorDesc *want)
{
    char have_text[64], want_text[64];
    const SafeTensor *have = safetensors_find(file, name);
    if (!have)
        return fail(ERR_DATA, "%s: no tensor %s in it: a checkpoint of another model or optimizer",
                    path, name);
    if (have->desc.dtype == want->dtype && tensor_same_shape(&have->desc, want)) return OK;
    tensor_format(&have->desc, have_text, sizeof have_text);
    tensor_format(want, want_text, sizeof want_text);
    return fail(ERR_DATA, "%s: tensor %s is %s there but %s here: a checkpoint of another model",
                path, name, have_text, want_text);
}

Status train_state_restore(Executor *x, Optimizer *optim, Backend *backend, const SafeFile *file,
                           const char *path)
{
    char name[NAME_BYTES];
    int n = entry_count(x, optim);
    /* A run that goes on in fp16 but did not begin in it starts with the configured scale. */
    if (has_loss_scale(optim) && !safetensors_find(file, LOSS_SCALE_NAME)) n--;
    for (int i = 0; i < n; i++) {
        OpTensor t = entry(x, optim, i, name);
        TRY(check_tensor(file, path, name, &t.desc));
    }
    for (int i = 0; i < n; i++) {
        OpTensor t = entry(x, optim, i, name);
        TRY(backend->v->import_tensor(backend, &t, safetensors_find(file, name)->data));
    }
    return executor_params_changed(x);
}
