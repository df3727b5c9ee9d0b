/* conv_norm_plan_emu.c - stands for cuDNN behind conv_norm_plan.h: the plain loops of conv_loops.h
 * with what comes before and behind them, run by the test double of the device.
 *
 * Rounded as the library is thought to: what is convolved to the type of the tensors, since it
 * feeds a matrix unit; sums over the results before they are stored, in f32. No workspace but for
 * the sums of the convolution, which must lie in device memory as the operands must. */
#include "base/mem.h"
#include "kernels/cuda/cudnn/conv_norm_plan.h"
#include "kernels/float_math.h"
#include "tests/emu/conv_loops.h"
#include "tests/emu/emu.h"
#include <math.h>
#include <string.h>

typedef struct Work { /* what a run needs; copied when it is enqueued */
    ConvNormPass pass;
    ConvPrologue prologue;
    ConvShape shape;
    void *data[CONV_OPERAND_COUNT];
    float *sums; /* the workspace: as many f32 as the convolution's result has elements */
} Work;

struct ConvNormPlan {
    Work work;
    size_t workspace;
};

_Static_assert(sizeof(Work) <= EMU_MAX_COOKIE, "a run's description must fit");

static int64_t elements_of(const ConvShape *s, ConvOperand operand)
{
    int64_t dims[4];
    conv_norm_shape_dims(s, operand, dims);
    return dims[0] * dims[1] * dims[2] * dims[3];
}

/* mem_free; NULL for an operand that the pass does not have */
static float *read_operand(const Work *w, ConvOperand operand)
{
    const int64_t count = elements_of(&w->shape, operand);
    if (!w->data[operand]) return NULL;
    float *out = mem_alloc((size_t)count * sizeof *out);
    ASSERT(out);
    for (int64_t i = 0; i < count; i++)
        out[i] = conv_loops_read(conv_norm_shape_type(&w->shape, operand), w->data[operand], i);
    return out;
}

static void write_operand(const Work *w, ConvOperand operand, const float *from)
{
    for (int64_t i = 0, n = elements_of(&w->shape, operand); i < n; i++)
        conv_loops_write(conv_norm_shape_type(&w->shape, operand), w->data[operand], i, from[i]);
}

static float rounded(DType type, float v)
{
    uint32_t place[1];
    conv_loops_write(type, place, 0, v);
    return conv_loops_read(type, place, 0);
}

/* What is convolved, in place of x. mem_free. */
static float *make_z(const Work *w)
{
    const ConvShape *s = &w->shape;
    float *z = read_operand(w, CONV_OP_X), *scale = read_operand(w, CONV_OP_SCALE),
          *shift = read_operand(w, CONV_OP_SHIFT);
    float *residual = read_operand(w, CONV_OP_RESIDUAL),
          *residual_scale = read_operand(w, CONV_OP_RESIDUAL_SCALE),
          *residual_shift = read_operand(w, CONV_OP_RESIDUAL_SHIFT);
    for (int64_t i = 0; w->prologue != CONV_PLAIN && i < elements_of(s, CONV_OP_X); i++) {
        const int64_t c = i % s->c;
        float v = z[i] * scale[c] + shift[c];
        if (residual)
            v += residual_scale ? residual[i] * residual_scale[c] + residual_shift[c] : residual[i];
        z[i] = rounded(s->io, v <= 0 ? 0 : v);
    }
    mem_free(scale);
    mem_free(shift);
    mem_free(residual);
    mem_free(residual_scale);
    mem_free(residual_shift);
    return z;
}

static void run_stats(const Work *w)
{
    const ConvShape *s = &w->shape;
    const int64_t count = elements_of(s, CONV_OP_Y);
    float *z = make_z(w), *filter = read_operand(w, CONV_OP_W);
    float *sum = w->data[CONV_OP_SUM], *square = w->data[CONV_OP_SQUARE];
    memset(w->sums, 0, (size_t)count * sizeof *w->sums);
    conv_loops_sum(s, CONV_FORWARD, z, filter, w->sums);
    memset(sum, 0, (size_t)s->k * sizeof *sum);
    memset(square, 0, (size_t)s->k * sizeof *square);
    for (int64_t i = 0; i < count; i++) {
        sum[i % s->k] += w->sums[i];
        square[i % s->k] += w->sums[i] * w->sums[i];
    }
    write_operand(w, CONV_OP_Y, w->sums);
    if (w->data[CONV_OP_Z]) write_operand(w, CONV_OP_Z, z);
    mem_free(z);
    mem_free(filter);
}

/* From its mean on the vectors of a norm: x's, or the residual's own. */
static float *const *vectors_of(const Work *w, ConvOperand mean)
{
    return (float *const *)&w->data[mean - CONV_OP_MEAN];
}

static float normalised(float *const *f32, float x, int64_t c)
{
    return (x - f32[CONV_OP_MEAN][c]) * f32[CONV_OP_INV_STD][c] * f32[CONV_OP_GAMMA][c] +
           f32[CONV_OP_BETA][c];
}

static void finish_channel(const Work *w, float *const *f32, const float *x, int64_t c)
{
    const ConvShape *s = &w->shape;
    const double mean = (double)f32[CONV_OP_MEAN][c], inv_std = (double)f32[CONV_OP_INV_STD][c],
                 gamma = (double)f32[CONV_OP_GAMMA][c], n = (double)(s->n * s->h * s->w);
    double dgamma = 0, dbeta = 0;
    for (int64_t i = c; i < elements_of(s, CONV_OP_X); i += s->c) {
        dbeta += (double)w->sums[i];
        dgamma += (double)w->sums[i] * ((double)x[i] - mean) * inv_std;
    }
    const double by_dz = gamma * inv_std, by_x = -gamma * inv_std * inv_std * dgamma / n;
    f32[CONV_OP_DGAMMA][c] = (float)dgamma;
    f32[CONV_OP_DBETA][c] = (float)dbeta;
    f32[CONV_OP_BY_DZ][c] = (float)by_dz;
    f32[CONV_OP_BY_X][c] = (float)by_x;
    f32[CONV_OP_CONSTANT][c] = (float)(-by_dz * dbeta / n - by_x * mean);
}

static void run_bwd_data(const Work *w)
{
    const ConvShape *s = &w->shape;
    const bool dual = w->prologue == CONV_DUAL;
    float *const *norm = vectors_of(w, CONV_OP_MEAN), *const *other =
                                                          vectors_of(w, CONV_OP_RESIDUAL_MEAN);
    float *x = read_operand(w, CONV_OP_X), *filter = read_operand(w, CONV_OP_W),
          *dy = read_operand(w, CONV_OP_Y), *dy2 = read_operand(w, CONV_OP_DY2),
          *residual = read_operand(w, CONV_OP_RESIDUAL);
    const int64_t count = elements_of(s, CONV_OP_X);
    memset(w->sums, 0, (size_t)count * sizeof *w->sums);
    conv_loops_sum(s, CONV_BWD_DATA, w->sums, filter, dy);
    for (int64_t i = 0; i < count; i++) {
        const int64_t c = i % s->c;
        float g = rounded(s->io, w->sums[i]), v = normalised(norm, x[i], c);
        if (dy2) g = rounded(s->io, g + dy2[i]);
        if (residual) v += dual ? normalised(other, residual[i], c) : residual[i];
        w->sums[i] = v <= 0 ? 0 : g;
    }
    for (int64_t c = 0; c < s->c; c++) {
        finish_channel(w, norm, x, c);
        if (dual) finish_channel(w, other, residual, c);
    }
    write_operand(w, CONV_OP_Z, w->sums);
    mem_free(x);
    mem_free(filter);
    mem_free(dy);
    mem_free(dy2);
    mem_free(residual);
}

static void run_bwd_weights(const Work *w)
{
    float *z = make_z(w), *dy = read_operand(w, CONV_OP_Y);
    memset(w->sums, 0, (size_t)elements_of(&w->shape, CONV_OP_W) * sizeof *w->sums);
    conv_loops_sum(&w->shape, CONV_BWD_WEIGHTS, z, w->sums, dy);
    write_operand(w, CONV_OP_W, w->sums);
    mem_free(z);
    mem_free(dy);
}

static void run_work(const void *cookie)
{
    static void (*const runs[CONV_NORM_PASS_COUNT])(
        const Work *) = { [CONV_NORM_STATS] = run_stats,
                          [CONV_NORM_BWD_DATA] = run_bwd_data,
                          [CONV_NORM_BWD_WEIGHTS] = run_bwd_weights };
    const Work *w = cookie;
    runs[w->pass](w);
}

/* ---- plans ---- */

/* As the library on Hopper: fp16 alone, no groups, a residual only before a 1x1 convolution, or
 * behind a gradient without a stride. */
static bool has_engine(ConvNormPass pass, ConvPrologue prologue, const ConvShape *s)
{
    const bool no_stride = s->attr.stride_h == 1 && s->attr.stride_w == 1,
               one = s->r == 1 && s->s == 1;
    return s->io == DTYPE_F16 && s->attr.groups == 1 &&
           (prologue < CONV_RESIDUAL || (no_stride && (one || pass == CONV_NORM_BWD_DATA)));
}

Status conv_norm_plan_create(ConvNormPlan **out, CudaBackend *b, ConvNormPass pass,
                             ConvPrologue prologue, const ConvShape *shape)
{
    static const ConvOperand results[CONV_NORM_PASS_COUNT] = { [CONV_NORM_STATS] = CONV_OP_Y,
                                                               [CONV_NORM_BWD_DATA] = CONV_OP_X,
                                                               [CONV_NORM_BWD_WEIGHTS] =
                                                                   CONV_OP_W };
    *out = NULL;
    const size_t workspace = (size_t)elements_of(shape, results[pass]) * sizeof(float);
    if (!has_engine(pass, prologue, shape) || workspace > b->workspace_limit)
        return fail(ERR_ENV,
                    "conv %s: the plain loops take fp16 without groups, within the workspace limit",
                    conv_norm_shape_pass_name(pass, prologue));
    if (!(*out = mem_calloc(1, sizeof **out))) return ERR_MEMORY;
    (*out)->work = (Work){ .pass = pass, .prologue = prologue, .shape = *shape };
    (*out)->workspace = workspace;
    return OK;
}

void conv_norm_plan_destroy(ConvNormPlan *p)
{
    mem_free(p);
}

size_t conv_norm_plan_workspace(const ConvNormPlan *p)
{
    return p->workspace;
}

const char *conv_norm_plan_name(const ConvNormPlan *p)
{
    (void)p;
    return "plain loops";
}

static void check_operand(const void *p, size_t bytes)
{
    ASSERT((uintptr_t)p % 16 == 0);
    ASSERT(emu_is_device_memory(p, bytes));
}

Status conv_norm_plan_bind(ConvNormPlan *p, void *const operands[CONV_OPERAND_COUNT],
                           void *workspace)
{
    const ConvShape *s = &p->work.shape;
    const ConvOperand *list = conv_norm_shape_operands(p->work.pass, p->work.prologue);
    memset(p->work.data, 0, sizeof p->work.data);
    for (; *list != CONV_OPERAND_COUNT; list++) {
        check_operand(operands[*list],
                      (size_t)elements_of(s, *list) * dtype_bytes(conv_norm_shape_type(s, *list)));
        p->work.data[*list] = operands[*list];
    }
    check_operand(workspace, p->workspace);
    p->work.sums = workspace;
    return OK;
}

Status conv_norm_plan_run(ConvNormPlan *p, cudaStream_t stream)
{
    ASSERT(p->work.sums);
    TRY_CUDA(emu_enqueue(stream, "fused convolution", run_work, &p->work, sizeof p->work));
    return OK;
}
