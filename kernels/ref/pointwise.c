/* pointwise.c - ops that look at one element at a time: activation and its gradient, add, scale.
 * All may run in place.
 *
 * ReLU lets NaN pass, as torch does: a broken step must show. Its gradient at y = 0 is 0. */
#include "kernels/ref/ref.h"

#include <math.h>

#define PI 3.14159265358979323846

/* Phi(z); by erfc, since 1 + erf loses the digits of what is small. */
static double normal_cdf(double z)
{
    return 0.5 * erfc(-z / sqrt(2));
}

static double gelu_inner(double z)
{
    return sqrt(2 / PI) * (z + 0.044715 * z * z * z);
}

static double gelu_inner_slope(double z)
{
    return sqrt(2 / PI) * (1 + 3 * 0.044715 * z * z);
}

double ref_activate(ActKind act, double z)
{
    switch (act) {
    case ACT_NONE:
        return z;
    case ACT_RELU:
        return z <= 0 ? 0 : z;
    case ACT_SILU:
        return z / (1 + exp(-z));
    case ACT_GELU:
        return z * normal_cdf(z);
    case ACT_GELU_TANH:
        return z * 0.5 * (1 + tanh(gelu_inner(z)));
    case ACT_RELU6:
        return z <= 0 ? 0 : z >= 6 ? 6 : z;
    case ACT_HARD_SWISH:
        return z <= -3 ? 0 : z >= 3 ? z : z * (z / 6 + 0.5);
    case ACT_TANH:
        return tanh(z);
    case ACT_COUNT:
        break;
    }
    return NAN;
}

double ref_activate_bwd(ActKind act, double dy, double z)
{
    const double s = 1 / (1 + exp(-z)), t = tanh(gelu_inner(z));
    switch (act) {
    case ACT_NONE:
        return dy;
    case ACT_RELU:
        return z <= 0 ? 0 : dy;
    case ACT_SILU:
        return dy * (s * (1 + z * (1 - s)));
    case ACT_GELU:
        return dy * (normal_cdf(z) + z * exp(-z * z / 2) / sqrt(2 * PI));
    case ACT_GELU_TANH:
        return dy * (0.5 * (1 + t) + z * 0.5 * (1 - t * t) * gelu_inner_slope(z));
    case ACT_RELU6:
        return z <= 0 || z >= 6 ? 0 : dy;
    case ACT_HARD_SWISH:
        return z <= -3 ? 0 : z >= 3 ? dy : dy * (z / 3 + 0.5);
    case ACT_TANH:
        return dy / (cosh(z) * cosh(z));
    case ACT_COUNT:
        break;
    }
    return NAN;
}

static void run_activation(OpInstance *op)
{
    const ActivationAttr *attr = op->attr;
    const double *x = ref_in(op, ACTIVATION_IN_X);
    double *y = ref_out(op, ACTIVATION_OUT_Y);
    for (int64_t i = 0, n = tensor_elements(&op->in[ACTIVATION_IN_X].desc); i < n; i++)
        y[i] = ref_activate(attr->act, x[i]);
}

static void run_activation_bwd(OpInstance *op)
{
    const ActivationAttr *attr = op->attr;
    const double *dy = ref_in(op, ACTIVATION_BWD_IN_DY), *y = ref_in(op, ACTIVATION_BWD_IN_Y);
    double *dx = ref_out(op, ACTIVATION_BWD_OUT_DX);
    for (int64_t i = 0, n = tensor_elements(&op->in[ACTIVATION_BWD_IN_DY].desc); i < n; i++)
        dx[i] = ref_activate_bwd(attr->act, dy[i], y[i]);
}

static void run_add(OpInstance *op)
{
    const double *a = ref_in(op, ADD_IN_A), *b = ref_in(op, ADD_IN_B);
    double *y = ref_out(op, ADD_OUT_Y);
    for (int64_t i = 0, n = tensor_elements(&op->in[ADD_IN_A].desc); i < n; i++) y[i] = a[i] + b[i];
}

static void run_scale(OpInstance *op)
{
    const ScaleAttr *attr = op->attr;
    const double *x = ref_in(op, SCALE_IN_X);
    double *y = ref_out(op, SCALE_OUT_Y);
    for (int64_t i = 0, n = tensor_elements(&op->in[SCALE_IN_X].desc); i < n; i++)
        y[i] = x[i] * (double)attr->factor;
}

REF_LOOPS(ref_activation, run_activation);
REF_LOOPS(ref_activation_bwd, run_activation_bwd);
REF_LOOPS(ref_add, run_add);
REF_LOOPS(ref_scale, run_scale);
