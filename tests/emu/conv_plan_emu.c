/* conv_plan_emu.c - stands for cuDNN behind conv_plan.h: convolution passes as plain loops over
 * N,H,W,C and K,R,S,C, with inputs and outputs of f32, bf16 or f16, sums in f32, run by the test
 * double of the device.
 *
 * As strict as the library: operands must be whole device buffers, aligned to 16 bytes, and the
 * workspace that a plan asks for is really used (it holds the sums), so that one that is too small
 * or shared with another stream shows. */
#include "base/mem.h"
#include "kernels/cuda/cudnn/conv_plan.h"
#include "kernels/float_math.h"
#include "tests/emu/conv_loops.h"
#include "tests/emu/emu.h"
#include <string.h>

typedef struct Work { /* what a run needs; copied when it is enqueued */
    ConvPass pass;
    ConvShape shape;
    bool accumulate;
    const void *a, *b;
    void *out;
    float *sums; /* the workspace: as many f32 as out has elements */
} Work;

struct ConvPlan {
    Work work;
    size_t workspace;
};

_Static_assert(sizeof(Work) <= EMU_MAX_COOKIE, "a run's description must fit");

/* ---- sizes ---- */

static int64_t elements_of_x(const ConvShape *s)
{
    return s->n * s->h * s->w * s->c;
}
static int64_t elements_of_w(const ConvShape *s)
{
    return s->k * s->r * s->s * (s->c / s->attr.groups);
}
static int64_t elements_of_y(const ConvShape *s)
{
    return s->n * s->p * s->q * s->k;
}

typedef struct Counts {
    int64_t a, b, out;
} Counts;

static Counts counts_of(const Work *w)
{
    const int64_t x = elements_of_x(&w->shape), f = elements_of_w(&w->shape),
                  y = elements_of_y(&w->shape);
    if (w->pass == CONV_FORWARD) return (Counts){ x, f, y };
    if (w->pass == CONV_BWD_DATA) return (Counts){ y, f, x };
    return (Counts){ x, y, f };
}

/* ---- types ---- */

float conv_loops_read(DType type, const void *data, int64_t i)
{
    if (type == DTYPE_F32) return ((const float *)data)[i];
    const uint16_t bits = ((const uint16_t *)data)[i];
    return type == DTYPE_BF16 ? float_from_bf16(bits) : float_from_f16(bits);
}

void conv_loops_write(DType type, void *data, int64_t i, float v)
{
    if (type == DTYPE_F32) ((float *)data)[i] = v;
    else ((uint16_t *)data)[i] = type == DTYPE_BF16 ? float_to_bf16(v) : float_to_f16(v);
}

/* Ten bits of fraction, to nearest, ties away from zero, as the matrix units take f32. */
static float to_tf32(float v)
{
    uint32_t bits = float_to_bits(v);
    if ((bits & 0x7f800000u) == 0x7f800000u) return v;
    return float_from_bits((bits + 0x1000u) & ~0x1fffu);
}

/* mem_free */
static float *read_all(const ConvShape *s, const void *data, int64_t count)
{
    float *out = mem_alloc((size_t)count * sizeof *out);
    ASSERT(out);
    for (int64_t i = 0; i < count; i++) out[i] = conv_loops_read(s->io, data, i);
    for (int64_t i = 0; s->tf32 && i < count; i++) out[i] = to_tf32(out[i]);
    return out;
}

/* ---- the sums ---- */

static float dot(const float *a, const float *b, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void add_scaled(float *to, const float *from, float factor, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] += from[i] * factor;
}

/* The products of one y pixel (n,p,q) and one tap (r,s), which meet the x pixel at x_row: over all
 * filters and their group's channels. x, w and y are rows of that pixel, tap and pixel; one of them
 * is summed into. */
static void tap(const ConvShape *s, ConvPass pass, float *x_row, float *w_tap, float *y_row)
{
    const int64_t c = s->c / s->attr.groups, k = s->k / s->attr.groups, filter = s->r * s->s * c;
    for (int64_t i = 0; i < s->k; i++) {
        float *x = x_row + i / k * c, *w = w_tap + i * filter;
        if (pass == CONV_FORWARD) y_row[i] += dot(x, w, c);
        else if (pass == CONV_BWD_DATA) add_scaled(x, w, y_row[i], c);
        else add_scaled(w, x, y_row[i], c);
    }
}

void conv_loops_sum(const ConvShape *s, ConvPass pass, float *x, float *w, float *y)
{
    const Conv2dAttr *a = &s->attr;
    const int64_t c = s->c / a->groups;
    for (int64_t pixel = 0; pixel < s->n * s->p * s->q; pixel++) {
        const int64_t n = pixel / (s->p * s->q), p = pixel / s->q % s->p, q = pixel % s->q;
        for (int64_t r = 0; r < s->r; r++) {
            const int64_t h = p * a->stride_h - a->pad_top + r;
            if (h < 0 || h >= s->h) continue;
            for (int64_t t = 0; t < s->s; t++) {
                const int64_t v = q * a->stride_w - a->pad_left + t;
                if (v < 0 || v >= s->w) continue;
                tap(s, pass, x + ((n * s->h + h) * s->w + v) * s->c, w + (r * s->s + t) * c,
                    y + pixel * s->k);
            }
        }
    }
}

static void run_work(const void *cookie)
{
    const Work *w = cookie;
    const ConvShape *s = &w->shape;
    const Counts count = counts_of(w);
    float *a = read_all(s, w->a, count.a), *b = read_all(s, w->b, count.b);
    memset(w->sums, 0, (size_t)count.out * sizeof *w->sums);
    if (w->pass == CONV_FORWARD) conv_loops_sum(s, w->pass, a, b, w->sums);
    else if (w->pass == CONV_BWD_DATA) conv_loops_sum(s, w->pass, w->sums, b, a);
    else conv_loops_sum(s, w->pass, a, w->sums, b);
    for (int64_t i = 0; i < count.out; i++) {
        const float before = w->accumulate ? conv_loops_read(s->io, w->out, i) : 0;
        conv_loops_write(s->io, w->out, i, before + w->sums[i]);
    }
    mem_free(a);
    mem_free(b);
}

/* ---- plans ---- */

Status conv_plan_create(ConvPlan **out, CudaBackend *b, ConvPass pass, const ConvShape *shape,
                        bool accumulate)
{
    static const char *const names[CONV_PASS_COUNT] = { "forward", "bwd_data", "bwd_weights" };
    ASSERT(shape->attr.groups > 0 && shape->c % shape->attr.groups == 0 &&
           shape->k % shape->attr.groups == 0);
    if (!(*out = mem_calloc(1, sizeof **out))) return ERR_MEMORY;
    (*out)->work = (Work){ .pass = pass, .shape = *shape, .accumulate = accumulate };
    (*out)->workspace = (size_t)counts_of(&(*out)->work).out * sizeof(float);
    if ((*out)->workspace <= b->workspace_limit) return OK;
    Status st = fail(ERR_ENV, "conv %s: the plain loops need %zu bytes of workspace", names[pass],
                     (*out)->workspace);
    mem_free(*out);
    *out = NULL;
    return st;
}

void conv_plan_destroy(ConvPlan *p)
{
    mem_free(p);
}

size_t conv_plan_workspace(const ConvPlan *p)
{
    return p->workspace;
}

const char *conv_plan_name(const ConvPlan *p)
{
    (void)p;
    return "plain loops";
}

static void check_operand(const void *p, size_t bytes)
{
    ASSERT((uintptr_t)p % 16 == 0);
    ASSERT(emu_is_device_memory(p, bytes));
}

Status conv_plan_bind(ConvPlan *p, const void *a, const void *b, void *out, void *workspace)
{
    const Counts count = counts_of(&p->work);
    const size_t element = dtype_bytes(p->work.shape.io);
    check_operand(a, (size_t)count.a * element);
    check_operand(b, (size_t)count.b * element);
    check_operand(out, (size_t)count.out * element);
    check_operand(workspace, p->workspace);
    p->work.a = a;
    p->work.b = b;
    p->work.out = out;
    p->work.sums = workspace;
    return OK;
}

Status conv_plan_run(ConvPlan *p, cudaStream_t stream)
{
    ASSERT(p->work.out);
    TRY_CUDA(emu_enqueue(stream, "convolution", run_work, &p->work, sizeof p->work));
    return OK;
}
