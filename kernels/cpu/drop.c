/* drop.c - y = x f + residual and dx = dy f, with f from kernels/drop.h: one factor an image, in
 * whatever layout that lies, or one for each element of a row. Images are shared out to the
 * team. */
#include "kernels/drop.h"
#include "kernels/cpu/cpu.h"

CPU_CLONES static void multiply(float *y, const float *x, int64_t count, float factor)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = x[i] * factor;
}

CPU_CLONES static void multiply_add(float *y, const float *x, const float *residual, int64_t count,
                                    float factor)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = x[i] * factor + residual[i];
}

static void drop_elements(const DropAddress *d, int64_t image, float *y, const float *x,
                          const float *residual, int64_t count)
{
    float factors[4];
    for (int64_t i = 0; i < count; i++) {
        if (i % 4 == 0) drop_factors(d, image, (uint32_t)(i / 4), factors);
        float kept = x[i] * factors[i % 4];
        y[i] = residual ? kept + residual[i] : kept;
    }
}

static void drop_image(const DropAddress *d, int64_t image, float *y, const float *x,
                       const float *residual, int64_t count)
{
    float factors[4];
    drop_factors(d, image, 0, factors);
    if (residual) multiply_add(y, x, residual, count, factors[0]);
    else multiply(y, x, count, factors[0]);
}

static void run(const OpInstance *op, const OpTensor *x, const float *residual,
                const float *scalars, float *y)
{
    const DropAttr *attr = op->attr;
    const DropAddress d = drop_address(
        attr, drop_word((double)scalars[SCALAR_STEP_LOW], (double)scalars[SCALAR_STEP_HIGH]),
        drop_word((double)scalars[SCALAR_PLACE_LOW], (double)scalars[SCALAR_PLACE_HIGH]));
    const int64_t images = x->desc.dims[0], each = (int64_t)(x->bytes / sizeof(float)) / images;
    const float *data = x->data;
    int threads = cpu_team(op, images * each);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t n = 0; n < images; n++) {
        const float *r = residual ? residual + n * each : NULL;
        if (attr->per_image) drop_image(&d, n, y + n * each, data + n * each, r, each);
        else drop_elements(&d, n, y + n * each, data + n * each, r, each);
    }
}

static Status drop_prepare(OpInstance *op)
{
    op->implementation = "elementwise";
    cpu_decide_plain(&op->in[DROP_IN_SCALARS]);
    if (op->in[DROP_IN_RESIDUAL].desc.rank != 0)
        TRY(cpu_decide_like(&op->in[DROP_IN_RESIDUAL], &op->in[DROP_IN_X], op));
    return cpu_decide_like(&op->out[DROP_OUT_Y], &op->in[DROP_IN_X], op);
}

static Status drop_run(OpInstance *op, Stream *stream)
{
    (void)stream; /* CPU ops run when called */
    run(op, &op->in[DROP_IN_X], op->in[DROP_IN_RESIDUAL].data, op->in[DROP_IN_SCALARS].data,
        op->out[DROP_OUT_Y].data);
    return OK;
}

static Status drop_bwd_prepare(OpInstance *op)
{
    op->implementation = "elementwise";
    cpu_decide_plain(&op->in[DROP_BWD_IN_SCALARS]);
    return cpu_decide_like(&op->out[DROP_BWD_OUT_DX], &op->in[DROP_BWD_IN_DY], op);
}

static Status drop_bwd_run(OpInstance *op, Stream *stream)
{
    (void)stream; /* CPU ops run when called */
    run(op, &op->in[DROP_BWD_IN_DY], NULL, op->in[DROP_BWD_IN_SCALARS].data,
        op->out[DROP_BWD_OUT_DX].data);
    return OK;
}

const OpImpl cpu_drop = { .prepare = drop_prepare, .bind = cpu_bind_nothing, .run = drop_run };
const OpImpl cpu_drop_bwd = { .prepare = drop_bwd_prepare,
                              .bind = cpu_bind_nothing,
                              .run = drop_bwd_run };
