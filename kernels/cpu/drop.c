/* drop.c - y = x f + residual and dx = dy f, with f from kernels/drop.h: one factor an image, in
 * whatever layout that lies, or one for each element of a row. Images are shared out to the
 * team. */
#include "kernels/drop.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/layout.h"

CPU_CLONES static void multiply(float *y, const float *x, const float *none, int64_t count,
                                float factor)
{
    (void)none;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = x[i] * factor;
}

CPU_CLONES static void multiply_add(float *y, const float *x, const float *residual, int64_t count,
                                    float factor)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = x[i] * factor + residual[i];
}

/* Elements [first, last) are those of the image. */
static void drop_elements(const DropAddress *d, int64_t image, const OpTensor *y, const OpTensor *x,
                          const OpTensor *residual, int64_t first, int64_t last)
{
    const DType type = cpu_layout_type(x);
    float factors[4];
    for (int64_t i = first; i < last; i++) {
        const int64_t k = i - first;
        if (k % 4 == 0) drop_factors(d, image, (uint32_t)(k / 4), factors);
        float kept = cpu_lanes_load(x->data, i, type) * factors[k % 4];
        if (residual) kept += cpu_lanes_load(residual->data, i, cpu_layout_type(residual));
        cpu_lanes_store(y->data, i, kept, type);
    }
}

/* residual: of rank 0, or NULL, where there is none; y is of x's type. */
static void run_drop(const OpInstance *op, const OpTensor *x, const OpTensor *residual,
                     const float *scalars, const OpTensor *y)
{
    const DropAttr *attr = op->attr;
    const DropAddress d = drop_address(
        attr, drop_word((double)scalars[SCALAR_STEP_LOW], (double)scalars[SCALAR_STEP_HIGH]),
        drop_word((double)scalars[SCALAR_PLACE_LOW], (double)scalars[SCALAR_PLACE_HIGH]));
    const int64_t images = x->desc.dims[0],
                  each = (int64_t)(x->bytes / dtype_bytes(cpu_layout_type(x))) / images;
    int threads = cpu_team(op, images * each);
    if (residual && residual->desc.rank == 0) residual = NULL;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t n = 0; n < images; n++) {
        const int64_t first = n * each;
        if (!attr->per_image) {
            drop_elements(&d, n, y, x, residual, first, first + each);
            continue;
        }
        float factors[4];
        drop_factors(&d, n, 0, factors);
        cpu_pointwise_range(residual ? multiply_add : multiply, y, x, residual, first, first + each,
                            factors[0]);
    }
}

static Status drop_prepare(OpInstance *op)
{
    cpu_decide_plain(&op->in[DROP_IN_SCALARS]);
    if (op->in[DROP_IN_RESIDUAL].desc.rank != 0)
        TRY(cpu_decide_beside(&op->in[DROP_IN_RESIDUAL], &op->in[DROP_IN_X], op));
    return cpu_decide_like(&op->out[DROP_OUT_Y], &op->in[DROP_IN_X], op);
}

static void drop_run(OpInstance *op)
{
    run_drop(op, &op->in[DROP_IN_X], &op->in[DROP_IN_RESIDUAL], op->in[DROP_IN_SCALARS].data,
             &op->out[DROP_OUT_Y]);
}

static Status drop_bwd_prepare(OpInstance *op)
{
    cpu_decide_plain(&op->in[DROP_BWD_IN_SCALARS]);
    return cpu_decide_like(&op->out[DROP_BWD_OUT_DX], &op->in[DROP_BWD_IN_DY], op);
}

static void drop_bwd_run(OpInstance *op)
{
    run_drop(op, &op->in[DROP_BWD_IN_DY], NULL, op->in[DROP_BWD_IN_SCALARS].data,
             &op->out[DROP_BWD_OUT_DX]);
}

CPU_LOOPS(cpu_drop, "elementwise", drop_prepare, drop_run);
CPU_LOOPS(cpu_drop_bwd, "elementwise", drop_bwd_prepare, drop_bwd_run);
