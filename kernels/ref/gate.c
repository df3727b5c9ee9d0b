/* gate.c - y = x s with s = sigmoid(g), or hard_sigmoid(g), of the image and channel; dx = dy s,
 * dg = s' sum over pixels of dy x. dx may lie over dy: an element is read before it is written. */
#include "kernels/ref/ref.h"

#include <math.h>

static double gate(const OpInstance *op, double g)
{
    const GateAttr *a = op->attr;
    if (a->hard) return g <= -3 ? 0 : g >= 3 ? 1 : g / 6 + 0.5;
    return 1 / (1 + exp(-g));
}

static double slope(const OpInstance *op, double g)
{
    const GateAttr *a = op->attr;
    const double s = gate(op, g);
    if (a->hard) return g <= -3 || g >= 3 ? 0 : 1.0 / 6;
    return s * (1 - s);
}

static void run_forward(OpInstance *op)
{
    const int64_t *d = ref_in_dims(op, GATE_IN_X), hw = d[2] * d[3];
    const double *x = ref_in(op, GATE_IN_X), *g = ref_in(op, GATE_IN_G);
    for (int64_t i = 0; i < d[0] * d[1] * hw; i++)
        ref_out(op, GATE_OUT_Y)[i] = x[i] * gate(op, g[i / hw]);
}

static void run_backward(OpInstance *op)
{
    const int64_t *d = ref_in_dims(op, GATE_BWD_IN_X), hw = d[2] * d[3];
    const double *dy = ref_in(op, GATE_BWD_IN_DY), *x = ref_in(op, GATE_BWD_IN_X);
    for (int64_t plane = 0; plane < d[0] * d[1]; plane++) {
        const double g = ref_in(op, GATE_BWD_IN_G)[plane], s = gate(op, g);
        double sum = 0;
        for (int64_t i = plane * hw; i < (plane + 1) * hw; i++) {
            sum += dy[i] * x[i];
            ref_out(op, GATE_BWD_OUT_DX)[i] = dy[i] * s;
        }
        ref_out(op, GATE_BWD_OUT_DG)[plane] = slope(op, g) * sum;
    }
}

REF_LOOPS(ref_gate, run_forward);
REF_LOOPS(ref_gate_bwd, run_backward);
