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

static void finite_check_run(OpInstance *op)
{
    const OpTensor *t = &op->in[FINITE_CHECK_IN_X];
    const float *x = t->data;
    float *state = op->in[FINITE_CHECK_IN_LOSS_SCALE].data;
    int64_t count = (int64_t)(t->bytes / sizeof(float));
    int parts = cpu_team(op, count), wrong = 0;
#pragma omp parallel for num_threads(parts) reduction(+ : wrong)
    for (int part = 0; part < parts; part++) {
        int64_t first, last;
        cpu_share(count, part, parts, &first, &last);
        wrong += !all_finite(x + first, last - first);
    }
    if (wrong) state[LOSS_SCALE_FOUND_INF] = 1;
}

static void loss_scale_run(OpInstance *op)
{
    const LossScaleAttr *a = op->attr;
    float *state = op->in[LOSS_SCALE_IN_STATE].data, grown = state[LOSS_SCALE_SCALE] * a->growth;
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
}

CPU_LOOPS(cpu_finite_check, "elementwise", cpu_prepare_plain, finite_check_run);
CPU_LOOPS(cpu_loss_scale, "scalar", cpu_prepare_plain, loss_scale_run);
