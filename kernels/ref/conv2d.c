/* conv2d.c - cross-correlation and its two gradients.
 *
 *   y[n,k,p,q] = sum over c,r,s of
 *                x[n, g*C/G + c, p*stride_h - pad_top + r, q*stride_w - pad_left + s] * w[k,c,r,s]
 *                + b[k],
 *   g = k / (K/G)
 *
 * All three kinds walk the same triples (x element, w element, y element): forward sums into y, the
 * gradients into x and into w. The walk is written once; pad_bottom and pad_right act only through
 * the size of y. */
#include "kernels/ref/ref.h"

#include <string.h>

typedef struct Geometry {
    const Conv2dAttr *attr;
    const int64_t *x, *w, *y; /* dims */
} Geometry;

/* Which of three buffers is summed into; the other two are multiplied. */
typedef enum Target { INTO_Y, INTO_X, INTO_W } Target;

static void accumulate_pixel(const Geometry *g, Target target, double *x, double *w, double *y,
                             const int64_t at[4])
{
    const Conv2dAttr *a = g->attr;
    int64_t n = at[0], k = at[1], p = at[2], q = at[3];
    int64_t first_c = k / (g->w[0] / a->groups) * g->w[1];
    double *y_at = &y[ref_at(g->y, n, k, p, q)];
    for (int64_t c = 0; c < g->w[1]; c++)
        for (int64_t r = 0; r < g->w[2]; r++) {
            int64_t h = p * a->stride_h - a->pad_top + r;
            if (h < 0 || h >= g->x[2]) continue;
            for (int64_t s = 0; s < g->w[3]; s++) {
                int64_t v = q * a->stride_w - a->pad_left + s;
                if (v < 0 || v >= g->x[3]) continue;
                double *x_at = &x[ref_at(g->x, n, first_c + c, h, v)],
                       *w_at = &w[ref_at(g->w, k, c, r, s)];
                if (target == INTO_Y) *y_at += *x_at * *w_at;
                else if (target == INTO_X) *x_at += *y_at * *w_at;
                else *w_at += *y_at * *x_at;
            }
        }
}

static void accumulate_all(const Geometry *g, Target target, double *x, double *w, double *y)
{
    for (int64_t n = 0; n < g->y[0]; n++)
        for (int64_t k = 0; k < g->y[1]; k++)
            for (int64_t p = 0; p < g->y[2]; p++)
                for (int64_t q = 0; q < g->y[3]; q++)
                    accumulate_pixel(g, target, x, w, y, (const int64_t[4]){ n, k, p, q });
}

static void run_forward(OpInstance *op)
{
    Geometry g = { op->attr, ref_in_dims(op, CONV_IN_X), ref_in_dims(op, CONV_IN_W),
                   ref_out_dims(op, CONV_OUT_Y) };
    const int64_t plane = g.y[2] * g.y[3];
    for (int64_t i = 0; i < g.y[0] * g.y[1] * plane; i++)
        ref_out(op, CONV_OUT_Y)[i] =
            ref_has_in(op, CONV_IN_B) ? ref_in(op, CONV_IN_B)[i / plane % g.y[1]] : 0;
    accumulate_all(&g, INTO_Y, op->in[CONV_IN_X].data, op->in[CONV_IN_W].data,
                   op->out[CONV_OUT_Y].data);
}

static void run_bwd_data(OpInstance *op)
{
    Geometry g = { op->attr, ref_out_dims(op, CONV_BWD_DATA_OUT_DX),
                   ref_in_dims(op, CONV_BWD_DATA_IN_W), ref_in_dims(op, CONV_BWD_DATA_IN_DY) };
    memset(op->out[CONV_BWD_DATA_OUT_DX].data, 0, op->out[CONV_BWD_DATA_OUT_DX].bytes);
    accumulate_all(&g, INTO_X, op->out[CONV_BWD_DATA_OUT_DX].data, op->in[CONV_BWD_DATA_IN_W].data,
                   op->in[CONV_BWD_DATA_IN_DY].data);
}

static void run_bwd_weights(OpInstance *op)
{
    Geometry g = { op->attr, ref_in_dims(op, CONV_BWD_WEIGHTS_IN_X),
                   ref_out_dims(op, CONV_BWD_WEIGHTS_OUT_DW),
                   ref_in_dims(op, CONV_BWD_WEIGHTS_IN_DY) };
    OpTensor *dw = &op->out[CONV_BWD_WEIGHTS_OUT_DW];
    if (!op->accumulate) memset(dw->data, 0, dw->bytes);
    accumulate_all(&g, INTO_W, op->in[CONV_BWD_WEIGHTS_IN_X].data, dw->data,
                   op->in[CONV_BWD_WEIGHTS_IN_DY].data);
    if (!ref_has_out(op, CONV_BWD_WEIGHTS_OUT_DB)) return;
    const int64_t plane = g.y[2] * g.y[3];
    for (int64_t k = 0; k < g.y[1]; k++) {
        double sum = 0;
        for (int64_t n = 0; n < g.y[0]; n++)
            for (int64_t i = 0; i < plane; i++)
                sum += ref_in(op, CONV_BWD_WEIGHTS_IN_DY)[(n * g.y[1] + k) * plane + i];
        ref_store_gradient(op, &ref_out(op, CONV_BWD_WEIGHTS_OUT_DB)[k], sum);
    }
}

REF_LOOPS(ref_conv2d, run_forward);
REF_LOOPS(ref_conv2d_bwd_data, run_bwd_data);
REF_LOOPS(ref_conv2d_bwd_weights, run_bwd_weights);
