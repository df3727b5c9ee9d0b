/* subsample.c - y[n,c,p,q] = x[n,c,p*stride,q*stride]; channels past those of x are zero. The
 * parameter-free shortcut of He et al. 2015. */
#include "kernels/ref/ref.h"

#include <string.h>

static void run_forward(OpInstance *op)
{
    const SubsampleAttr *attr = op->attr;
    const int64_t *from = ref_in_dims(op, SUBSAMPLE_IN_X), *to = ref_out_dims(op, SUBSAMPLE_OUT_Y);
    const double *x = ref_in(op, SUBSAMPLE_IN_X);
    double *y = ref_out(op, SUBSAMPLE_OUT_Y);
    for (int64_t n = 0; n < to[0]; n++)
        for (int64_t c = 0; c < to[1]; c++)
            for (int64_t p = 0; p < to[2]; p++)
                for (int64_t q = 0; q < to[3]; q++)
                    y[ref_at(to, n, c, p, q)] =
                        c < from[1] ? x[ref_at(from, n, c, p * attr->stride, q * attr->stride)] : 0;
}

static void run_backward(OpInstance *op)
{
    const SubsampleAttr *attr = op->attr;
    const int64_t *from = ref_in_dims(op, SUBSAMPLE_BWD_IN_DY),
                  *to = ref_out_dims(op, SUBSAMPLE_BWD_OUT_DX);
    const double *dy = ref_in(op, SUBSAMPLE_BWD_IN_DY);
    double *dx = ref_out(op, SUBSAMPLE_BWD_OUT_DX);
    memset(dx, 0, op->out[SUBSAMPLE_BWD_OUT_DX].bytes);
    for (int64_t n = 0; n < to[0]; n++)
        for (int64_t c = 0; c < to[1]; c++)
            for (int64_t p = 0; p < from[2]; p++)
                for (int64_t q = 0; q < from[3]; q++)
                    dx[ref_at(to, n, c, p * attr->stride, q * attr->stride)] =
                        dy[ref_at(from, n, c, p, q)];
}

REF_LOOPS(ref_subsample, run_forward);
REF_LOOPS(ref_subsample_bwd, run_backward);
