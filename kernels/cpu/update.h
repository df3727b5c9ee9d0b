/* update.h - what the optimizer step and the trust ratios before it share on the CPU: one step's
 * numbers, and LAMB's direction, which both compute. */
#ifndef CONVOY_KERNELS_CPU_UPDATE_H
#define CONVOY_KERNELS_CPU_UPDATE_H
#include "kernels/cpu/lanes.h"
#include "kernels/ops/update.h"
#include <math.h>

typedef struct UpdateRates { /* rounded once */
    float unscale, momentum, beta2, one_minus_beta1, one_minus_beta2, eps;
    float root_correction2, correction1_f32;
    float lr, step, decay, keep; /* of a segment; step: lr / correction1, keep: 1 - lr decay */
    float ratio, lr_ratio;       /* likewise: its trust ratio */
    double base_lr, correction1; /* correction1: 1 where updates are not counted */
    bool nesterov, adapts;       /* adapts: of a segment */
} UpdateRates;
typedef struct UpdateRange {
    float *param, *state0, *state1;
    const float *grad;
    int64_t count;
} UpdateRange;

/* Of an OP_UPDATE, or an op with its slots. */
UpdateRates update_rates(const OpInstance *op);
UpdateRates update_rates_of_segment(const UpdateRates *rates, const UpdateSegment *s, float ratio);
/* count elements from first on of what op's slots hold. */
UpdateRange update_range(const OpInstance *op, int64_t first, int64_t count);
/* prepare() of such an op: all slots plain, states there. */
Status update_decide_plain(OpInstance *op);

/* LAMB of elements [i, i + lanes): its moments with the gradient taken up, and its direction u. The
 * root has a loop of its own: it may set errno, which keeps a compiler that is not told otherwise
 * from making vectors of the loop it is in. */
CPU_INLINE void update_lamb_lanes(const UpdateRange *range, int64_t i, const UpdateRates *r,
                                  float *m, float *v, float *u, int lanes)
{
    const float *p = range->param + i, *g = range->grad + i, *m0 = range->state0 + i,
                *v0 = range->state1 + i;
    for (int l = 0; l < lanes; l++) {
        float d = r->unscale * g[l];
        m[l] = m0[l] + r->one_minus_beta1 * (d - m0[l]);
        v[l] = r->beta2 * v0[l] + r->one_minus_beta2 * (d * d);
    }
    for (int l = 0; l < lanes; l++) u[l] = sqrtf(v[l]);
    for (int l = 0; l < lanes; l++)
        u[l] =
            (m[l] / r->correction1_f32) / (u[l] / r->root_correction2 + r->eps) + r->decay * p[l];
}
#endif
