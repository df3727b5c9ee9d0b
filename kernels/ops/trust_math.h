/* trust_math.h - from a segment's sums of squares to its trust ratio; host and device compile it
 * alike. */
#ifndef CONVOY_KERNELS_OPS_TRUST_MATH_H
#define CONVOY_KERNELS_OPS_TRUST_MATH_H
#include "base/both.h"
#include "kernels/op_update.h"
#include <math.h>

/* What OP_TRUST_RATIO leaves of a segment that adapts. by_gradient: LARS, else LAMB. lr: the
 * segment's, for trust_clip. A norm that is not a number makes no ratio either. */
CUDA_BOTH static inline float trust_ratio(const UpdateAttr *a, bool by_gradient, float weight_decay,
                                          double lr, const double sums[TRUST_SUM_COUNT])
{
    const double param = sqrt(sums[TRUST_SUM_PARAM]), other = sqrt(sums[TRUST_SUM_OTHER]);
    double ratio = 1, most = by_gradient ? lr : 1;
    if (param > 0 && other > 0)
        ratio = by_gradient ? a->trust_coefficient * param /
                                  (other + (double)weight_decay * param + (double)a->eps)
                            : param / other;
    if (!a->trust_clip) return (float)ratio;
    return ratio < most ? (float)(ratio / most) : 1.0f;
}
#endif
