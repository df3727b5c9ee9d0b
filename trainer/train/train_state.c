/* train_state.c - see train_state.h. One order of tensors serves listing, staging and restoring:
 * entry i is a parameter or buffer of the executor, behind those the optimizer's states, parameter
 * by parameter, the state of the loss scale where there is one, and the averaged copies. */
#include "trainer/train/train_state.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
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

static int entry_count(const Executor *x, const Optimizer *optim, const Averages *averages)
{
    int states =
        executor_state_count(x) + (optim ? optimizer_state_count(optim) * param_count(x) : 0);
    return states + has_loss_scale(optim) + (averages ? averages_count(averages) : 0);
}

static OpTensor average_entry(const Averages *averages, int i, char name[NAME_BYTES])
{
    AverageKind kind;
    const char *state;
    const OpTensor t = averages_entry(averages, i, &kind, &state);
    snprintf(name, NAME_BYTES, "%s%s", averages_prefix(averages, kind), state);
    return t;
}

/* Tensor and name of entry i. Parameters come first in the executor's order, so optimizer entries
 * count from 0 again.
 */
static OpTensor entry(const Executor *x, const Optimizer *optim, const Averages *averages, int i,
                      char name[NAME_BYTES])
{
    int states = executor_state_count(x), before = entry_count(x, optim, NULL);
    if (i >= before) return average_entry(averages, i - before, name);
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

Status train_state_list(const Executor *x, const Optimizer *optim, const Averages *averages,
                        SafeTensor **out, int *count)
{
    int n = entry_count(x, optim, averages);
    SafeTensor *list = *out = mem_calloc((size_t)n, sizeof *list + NAME_BYTES);
    if (!list) return ERR_MEMORY;
    char *names = (char *)(list + n);
    for (int i = 0; i < n; i++, names += NAME_BYTES) {
        OpTensor t = entry(x, optim, averages, i, names);
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

Status train_state_find_bad(const Executor *x, const Optimizer *optim, const Averages *averages,
                            Backend *backend, char bad[NAME_BYTES])
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
    for (int i = 0; i < entry_count(x, optim, averages) && status == OK; i++) {
        OpTensor t = entry(x, optim, averages, i, name);
        status = export_finite(backend, &t, name, plain, bad);
    }
    mem_free(plain);
    return status == ERR_DIVERGED ? OK : status;
}

Status train_state_stage(const Executor *x, const Optimizer *optim, const Averages *averages,
                         Backend *backend, CheckpointWriter *w, char bad[NAME_BYTES])
{
    char name[NAME_BYTES];
    TRY(checkpoint_stage(w));
    for (int i = 0; i < entry_count(x, optim, averages); i++) {
        OpTensor t = entry(x, optim, averages, i, name);
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
        return fail(ERR_DATA, "%s: no tensor %s in it, which the settings of this run need", path,
                    name);
    if (have->desc.dtype == want->dtype && tensor_same_shape(&have->desc, want)) return OK;
    tensor_format(&have->desc, have_text, sizeof have_text);
    tensor_format(want, want_text, sizeof want_text);
    return fail(ERR_DATA,
                "%s: tensor %s is %s there but %s here: model.name, data.image_size or another key "
                "of the network is not what it was",
                path, name, have_text, want_text);
}

/* The copies that no tensor of the file is of. */
static void find_absent(const Averages *averages, const SafeFile *file,
                        bool absent[AVERAGE_KIND_COUNT])
{
    for (int k = 0; k < AVERAGE_KIND_COUNT; k++)
        absent[k] = !averages || !safetensors_has(file, averages_prefix(averages, (AverageKind)k));
}

/* A run that goes on in fp16 but did not begin in it starts with the configured scale, and a copy
 * that it begins to keep with the weights. */
static bool may_lack(const char *name, const Averages *averages,
                     const bool absent[AVERAGE_KIND_COUNT])
{
    for (int k = 0; averages && k < AVERAGE_KIND_COUNT; k++)
        if (absent[k] && str_starts_with(name, averages_prefix(averages, (AverageKind)k)))
            return true;
    return strcmp(name, LOSS_SCALE_NAME) == 0;
}

Status train_state_restore(Executor *x, Optimizer *optim, Averages *averages, Backend *backend,
                           const SafeFile *file, const char *path)
{
    char name[NAME_BYTES];
    bool absent[AVERAGE_KIND_COUNT];
    const int n = entry_count(x, optim, averages);
    find_absent(averages, file, absent);
    for (int i = 0; i < n; i++) {
        OpTensor t = entry(x, optim, averages, i, name);
        if (safetensors_find(file, name) || !may_lack(name, averages, absent))
            TRY(check_tensor(file, path, name, &t.desc));
    }
    for (int i = 0; i < n; i++) {
        OpTensor t = entry(x, optim, averages, i, name);
        const SafeTensor *have = safetensors_find(file, name);
        if (have) TRY(backend->v->import_tensor(backend, &t, have->data));
    }
    TRY(executor_params_changed(x));
    for (int k = 0; averages && k < AVERAGE_KIND_COUNT; k++)
        if (absent[k] && averages_slab(averages, (AverageKind)k, SLAB_PARAM))
            log_info("%s: no %s* in it: that average starts at its weights", path,
                     averages_prefix(averages, (AverageKind)k));
    return averages ? averages_start(averages, absent) : OK;
}
