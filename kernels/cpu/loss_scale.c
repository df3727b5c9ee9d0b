/* loss_scale.c - the dynamic loss scale: is a tensor finite, and torch.amp.GradScaler's rule (see
 * LossScaleAttr). */
#include "kernels/cpu/cpu.h"

/* An exponent of all ones, in a form that vectorises: x - x is 0 for finite x and NaN for all
 * others. */
CPU_CLONES static bool all_finite(const float *x, int64_t count)
{
    int wrong = 0;
#pragma omp simd reduction(| : wrong)
    for (int64_t i = 0; i < count; i++) wrong |= !(x[i] - x[i] == 0.0f);
    return wrong == 0;
}

static Status finite_check_prepare(OpInstance *op)
{
    return cpu_prepare_plain(op, "elementwise");
}

static Status finite_check_run(OpInstance *op, Stream *stream)
{
    const OpTensor *t = &op->in[FINITE_CHECK_IN_X];
    const float *x = t->data;
    float *state = op->in[FINITE_CHECK_IN_LOSS_SCALE].data;
    int64_t count = (int64_t)(t->bytes / sizeof(float));
    int parts = cpu_team(op, count), wrong = 0;
    (void)stream; /* CPU ops run when called */
#pragma omp parallel for num_threads(parts) reduction(+ : wrong)
    for (int part = 0; part < parts; part++) {
        int64_t first, last;
        cpu_share(count, part, parts, &first, &last);
        wrong += !all_finite(x + first, last - first);
    }
    if (wrong) state[LOSS_SCALE_FOUND_INF] = 1;
    return OK;
}

static Status loss_scale_prepare(OpInstance *op)
{
    return cpu_prepare_plain(op, "scalar");
}

static Status loss_scale_run(OpInstance *op, Stream *stream)
{
    const LossScaleAttr *a = op->attr;
    float *state = op->in[LOSS_SCALE_IN_STATE].data, grown = state[LOSS_SCALE_SCALE] * a->growth;
    (void)stream; /* CPU ops run when called */
    if (state[LOSS_SCALE_FOUND_INF] != 0) {
        state[LOSS_SCALE_SCALE] *= a->backoff;
        state[LOSS_SCALE_GOOD_STEPS] = 0;
        state[LOSS_SCALE_SKIPPED] += 1;
    } else if (state[LOSS_SCALE_GOOD_STEPS] + 1 >= (float)a->interval) {
        state[LOSS_SCALE_SCALE] = grown < a->max ? grown : a->max;
        state[LOSS_SCALE_GOOD_STEPS] = 0;
    } else {
        state[LOSS_SCALE_GOOD_STEPS] += 1;
    }
    state[LOSS_SCALE_FOUND_INF] = 0;
    return OK;
}

const OpImpl cpu_finite_check = { CPU_UNBOUND(finite_check_prepare, finite_check_run) };
const OpImpl cpu_loss_scale = { CPU_UNBOUND(loss_scale_prepare, loss_scale_run) };
