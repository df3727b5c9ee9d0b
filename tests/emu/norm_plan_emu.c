/* norm_plan_emu.c - stands for cuDNN behind norm_plan.h: batch norms as plain loops, run by the
 * test double of the device.
 *
 * Rounded as the library is thought to: z and what follows in f32, dz to the type of the tensors;
 * sums in double, since how the library keeps theirs from losing digits is not known. As strict as
 * the library: operands must be whole device buffers, dx must not be dy, and the workspace that a
 * plan asks for is really used (it holds the sums). */
#include "base/mem.h"
#include "kernels/cuda/cudnn/norm_plan.h"
#include "kernels/cuda/pointwise_math.h"
#include "tests/emu/conv_loops.h"
#include "tests/emu/emu.h"
#include <math.h>
#include <string.h>

typedef struct Work { /* what a run needs; copied when it is enqueued */
    NormPass pass;
    NormShape shape;
    void *data[NORM_OPERAND_COUNT];
    double *sums; /* the workspace: [2][c] */
} Work;

struct NormPlan {
    Work work;
};

_Static_assert(sizeof(Work) <= EMU_MAX_COOKIE, "a run's description must fit");

static float value(const Work *w, NormOperand operand, int64_t i)
{
    return conv_loops_read(norm_shape_type(&w->shape, operand), w->data[operand], i);
}

static void store(const Work *w, NormOperand operand, int64_t i, float v)
{
    conv_loops_write(norm_shape_type(&w->shape, operand), w->data[operand], i, v);
}

static float rounded(DType type, float v)
{
    uint32_t place[1];
    conv_loops_write(type, place, 0, v);
    return conv_loops_read(type, place, 0);
}

/* bn(x) of element i, before a residual and the activation */
static float normalised(const Work *w, int64_t i)
{
    const int64_t c = i % w->shape.c;
    const float xhat =
        (value(w, NORM_OP_X, i) - value(w, NORM_OP_MEAN, c)) * value(w, NORM_OP_INV_STD, c);
    return xhat * value(w, NORM_OP_GAMMA, c) + value(w, NORM_OP_BETA, c);
}

static void run_forward(const Work *w)
{
    const NormShape *s = &w->shape;
    const int64_t count = norm_shape_elements(s, NORM_OP_X), rows = count / s->c;
    double *sum = w->sums, *square = w->sums + s->c;
    memset(w->sums, 0, 2 * (size_t)s->c * sizeof *w->sums);
    for (int64_t i = 0; i < count; i++) sum[i % s->c] += (double)value(w, NORM_OP_X, i);
    for (int64_t i = 0; i < count; i++) {
        const double d = (double)value(w, NORM_OP_X, i) - sum[i % s->c] / (double)rows;
        square[i % s->c] += d * d;
    }
    for (int64_t c = 0; c < s->c; c++) {
        store(w, NORM_OP_MEAN, c, (float)(sum[c] / (double)rows));
        store(w, NORM_OP_INV_STD, c, (float)(1 / sqrt(square[c] / (double)rows + (double)s->eps)));
    }
    for (int64_t i = 0; i < count; i++) {
        float z = normalised(w, i);
        if (s->residual) z += value(w, NORM_OP_RESIDUAL, i);
        store(w, NORM_OP_Y, i, pointwise_act(s->act, z));
    }
}

static float gradient_of_z(const Work *w, int64_t i)
{
    const float dy = value(w, NORM_OP_DY, i);
    if (w->shape.act == ACT_NONE) return dy;
    const float z = normalised(w, i);
    return rounded(w->shape.io, pointwise_act_bwd(w->shape.act, dy, z));
}

static void run_bwd(const Work *w)
{
    const NormShape *s = &w->shape;
    const int64_t count = norm_shape_elements(s, NORM_OP_X), rows = count / s->c;
    double *sum = w->sums, *product = w->sums + s->c;
    memset(w->sums, 0, 2 * (size_t)s->c * sizeof *w->sums);
    for (int64_t i = 0; i < count; i++) {
        const int64_t c = i % s->c;
        const double dz = (double)gradient_of_z(w, i);
        sum[c] += dz;
        product[c] += dz * ((double)value(w, NORM_OP_X, i) - (double)value(w, NORM_OP_MEAN, c));
    }
    for (int64_t c = 0; c < s->c; c++) {
        product[c] *= (double)value(w, NORM_OP_INV_STD, c);
        store(w, NORM_OP_DBETA, c, (float)sum[c]);
        store(w, NORM_OP_DGAMMA, c, (float)product[c]);
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t c = i % s->c;
        const float inv_std = value(w, NORM_OP_INV_STD, c),
                    xhat = (value(w, NORM_OP_X, i) - value(w, NORM_OP_MEAN, c)) * inv_std,
                    mean_dz = (float)(sum[c] / (double)rows),
                    slope = (float)(product[c] / (double)rows);
        store(w, NORM_OP_DX, i,
              value(w, NORM_OP_GAMMA, c) * inv_std *
                  (gradient_of_z(w, i) - mean_dz - xhat * slope));
    }
}

static void run_work(const void *cookie)
{
    const Work *w = cookie;
    if (w->pass == NORM_FORWARD) run_forward(w);
    else run_bwd(w);
}

/* ---- plans ---- */

/* As the library: whole vectors of channels, and no addition without an activation behind it. */
static bool has_engine(const NormShape *s)
{
    return s->c % (s->io == DTYPE_F32 ? 4 : 8) == 0 && !(s->residual && s->act == ACT_NONE);
}

Status norm_plan_create(NormPlan **out, CudaBackend *b, NormPass pass, const NormShape *shape)
{
    char name[160];
    *out = NULL;
    ASSERT(pass == NORM_FORWARD || !shape->residual);
    norm_shape_format(pass, shape, name, sizeof name);
    if (!has_engine(shape) || 2 * (size_t)shape->c * sizeof(double) > b->workspace_limit)
        return fail(ERR_ENV, "%s: the plain loops take it no more than cuDNN does", name);
    if (!(*out = mem_calloc(1, sizeof **out))) return ERR_MEMORY;
    (*out)->work = (Work){ .pass = pass, .shape = *shape };
    return OK;
}

void norm_plan_destroy(NormPlan *p)
{
    mem_free(p);
}

size_t norm_plan_workspace(const NormPlan *p)
{
    return 2 * (size_t)p->work.shape.c * sizeof(double);
}

const char *norm_plan_name(const NormPlan *p)
{
    (void)p;
    return "plain loops";
}

static void check_operand(const void *p, size_t bytes)
{
    ASSERT((uintptr_t)p % 16 == 0);
    ASSERT(emu_is_device_memory(p, bytes));
}

Status norm_plan_bind(NormPlan *p, void *const operands[NORM_OPERAND_COUNT], void *workspace)
{
    const NormShape *s = &p->work.shape;
    NormOperand list[NORM_OPERAND_COUNT];
    const int count = norm_shape_operands(p->work.pass, s, list);
    memset(p->work.data, 0, sizeof p->work.data);
    for (int i = 0; i < count; i++) {
        check_operand(operands[list[i]], (size_t)norm_shape_elements(s, list[i]) *
                                             dtype_bytes(norm_shape_type(s, list[i])));
        p->work.data[list[i]] = operands[list[i]];
    }
    ASSERT(p->work.pass == NORM_FORWARD || operands[NORM_OP_DX] != operands[NORM_OP_DY]);
    check_operand(workspace, norm_plan_workspace(p));
    p->work.sums = workspace;
    return OK;
}

Status norm_plan_run(NormPlan *p, cudaStream_t stream)
{
    ASSERT(p->work.sums);
    TRY_CUDA(emu_enqueue(stream, "batch norm", run_work, &p->work, sizeof p->work));
    return OK;
}
