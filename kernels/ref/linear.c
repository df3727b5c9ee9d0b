/* linear.c - y[n,k] = sum over c of x[n,c] w[k,c] + b[k], and its gradients. x of rank 4 is read as
 * N, C*H*W. */
#include "kernels/ref/ref.h"

typedef struct Sizes {
    int64_t n, c, k;
} Sizes;

/* w is K,C; y is N,K: together they hold all three sizes. */
static Sizes sizes_of(const TensorDesc *w, const TensorDesc *y)
{
    return (Sizes){ y->dims[0], w->dims[1], w->dims[0] };
}

static void run_forward(OpInstance *op)
{
    Sizes z = sizes_of(&op->in[LINEAR_IN_W].desc, &op->out[LINEAR_OUT_Y].desc);
    const double *x = ref_in(op, LINEAR_IN_X), *w = ref_in(op, LINEAR_IN_W);
    for (int64_t n = 0; n < z.n; n++)
        for (int64_t k = 0; k < z.k; k++) {
            double sum = ref_has_in(op, LINEAR_IN_B) ? ref_in(op, LINEAR_IN_B)[k] : 0;
            for (int64_t c = 0; c < z.c; c++) sum += x[n * z.c + c] * w[k * z.c + c];
            ref_out(op, LINEAR_OUT_Y)[n * z.k + k] = sum;
        }
}

static void run_bwd_data(OpInstance *op)
{
    Sizes z = sizes_of(&op->in[LINEAR_BWD_DATA_IN_W].desc, &op->in[LINEAR_BWD_DATA_IN_DY].desc);
    const double *dy = ref_in(op, LINEAR_BWD_DATA_IN_DY), *w = ref_in(op, LINEAR_BWD_DATA_IN_W);
    for (int64_t n = 0; n < z.n; n++)
        for (int64_t c = 0; c < z.c; c++) {
            double sum = 0;
            for (int64_t k = 0; k < z.k; k++) sum += dy[n * z.k + k] * w[k * z.c + c];
            ref_out(op, LINEAR_BWD_DATA_OUT_DX)[n * z.c + c] = sum;
        }
}

static void run_bwd_weights(OpInstance *op)
{
    Sizes z =
        sizes_of(&op->out[LINEAR_BWD_WEIGHTS_OUT_DW].desc, &op->in[LINEAR_BWD_WEIGHTS_IN_DY].desc);
    const double *x = ref_in(op, LINEAR_BWD_WEIGHTS_IN_X),
                 *dy = ref_in(op, LINEAR_BWD_WEIGHTS_IN_DY);
    for (int64_t k = 0; k < z.k; k++) {
        for (int64_t c = 0; c < z.c; c++) {
            double sum = 0;
            for (int64_t n = 0; n < z.n; n++) sum += dy[n * z.k + k] * x[n * z.c + c];
            ref_store_gradient(op, &ref_out(op, LINEAR_BWD_WEIGHTS_OUT_DW)[k * z.c + c], sum);
        }
        if (!ref_has_out(op, LINEAR_BWD_WEIGHTS_OUT_DB)) continue;
        double sum = 0;
        for (int64_t n = 0; n < z.n; n++) sum += dy[n * z.k + k];
        ref_store_gradient(op, &ref_out(op, LINEAR_BWD_WEIGHTS_OUT_DB)[k], sum);
    }
}

REF_LOOPS(ref_linear, run_forward);
REF_LOOPS(ref_linear_bwd_data, run_bwd_data);
REF_LOOPS(ref_linear_bwd_weights, run_bwd_weights);
