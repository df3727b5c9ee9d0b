/* blur.c - first the weighted sum of up to three rows, in f32, then for each position of that row
 * the weighted sum of up to three neighbours: six products instead of nine, and the first three run
 * along memory. */
#include "kernels/cpu/blur.h"
#include "kernels/blur.h"
#include <omp.h>

/* What a position of an axis of the result is the sum of. */
typedef struct Taps {
    int64_t first;
    int count;
    float weight[3];
} Taps;

typedef struct Blur {
    CpuView in, out;
    int64_t stride[2], size[2]; /* of the image: x, or dx */
    bool backward, reflect;
    const Taps *columns; /* of each position of a row of out */
} Blur;

static Taps taps_of(const Blur *k, int axis, int64_t at)
{
    const int64_t stride = k->stride[axis], size = k->size[axis],
                  outputs = axis == 0 ? k->in.h : k->in.w;
    int64_t first = at * stride - 1, last = at * stride + 1, end = size;
    if (k->backward) { /* the windows that at is in */
        first = at <= 1 ? 0 : (at - 1 + stride - 1) / stride;
        last = (at + 1) / stride;
        end = outputs;
    }
    Taps t = { .first = first < 0 ? 0 : first };
    for (int64_t i = t.first; i <= last && i < end; i++)
        t.weight[t.count++] = 0.25f * (k->backward ? blur_weight(at, i * stride, size, k->reflect)
                                                   : blur_weight(i, at * stride, size, k->reflect));
    return t;
}

/* to[i] = the sum over the taps of weight from[i + tap * step]; no taps: 0. */
CPU_INLINE void combine(const Taps *t, const void *from, int64_t step, DType in, void *to,
                        DType out, int64_t count)
{
    const float a = t->weight[0], b = t->weight[1], c = t->weight[2];
    if (t->count == 3) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            cpu_lanes_store(to, i,
                            a * cpu_lanes_load(from, i, in) +
                                b * cpu_lanes_load(from, i + step, in) +
                                c * cpu_lanes_load(from, i + 2 * step, in),
                            out);
    } else if (t->count == 2) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            cpu_lanes_store(
                to, i, a * cpu_lanes_load(from, i, in) + b * cpu_lanes_load(from, i + step, in),
                out);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            cpu_lanes_store(to, i, t->count == 1 ? a * cpu_lanes_load(from, i, in) : 0, out);
    }
}

/* row: `lanes` floats for each position of a row of in. */
CPU_INLINE void blur_lanes(const Blur *k, const void *in, void *out, float *row, DType type,
                           int lanes)
{
    const int64_t step = type == DTYPE_F32 ? lanes : k->in.step, width = k->in.w;
    for (int64_t i = 0; i < k->out.h; i++) {
        const Taps rows = taps_of(k, 0, i);
        const void *from = cpu_lanes_at(in, rows.first * width * step, type);
        if (type == DTYPE_F32) combine(&rows, from, width * step, type, row, type, width * step);
        else
            for (int64_t j = 0; j < width; j++)
                combine(&rows, cpu_lanes_at(from, j * step, type), width * step, type,
                        row + j * lanes, DTYPE_F32, lanes);
        for (int64_t j = 0; j < k->out.w; j++) {
            const Taps *columns = &k->columns[j];
            combine(columns, row + columns->first * lanes, lanes, DTYPE_F32,
                    cpu_lanes_at_out(out, (i * k->out.w + j) * step, type), type, lanes);
        }
    }
}

CPU_CLONES static void blur_plane(const Blur *k, const void *in, void *out, float *row,
                                  int channels)
{
    const DType type = k->in.type;
    if (type == DTYPE_F32 && k->in.b == 1) blur_lanes(k, in, out, row, DTYPE_F32, 1);
    else if (type == DTYPE_F32 && k->in.b == 8) blur_lanes(k, in, out, row, DTYPE_F32, 8);
    else CPU_WALK(blur_lanes, type, channels, k, in, out, row);
}

bool cpu_blur_takes(const OpInstance *op)
{
    return blur_is(((const Pool2dAttr *)op->attr)->kind);
}

/* Floats that a thread works in. Behind those of all threads are the taps of columns. */
static size_t row_floats(const OpTensor *in)
{
    return (size_t)in->desc.dims[3] * CPU_LANES;
}

static size_t rows_bytes(const OpInstance *op, const OpTensor *in)
{
    return (size_t)cpu_backend_of(op)->threads * row_floats(in) * sizeof(float);
}

Status cpu_blur_prepare(OpInstance *op, const OpTensor *in, const OpTensor *out)
{
    op->implementation = "rows";
    op->workspace_bytes = rows_bytes(op, in) + (size_t)out->desc.dims[3] * sizeof(Taps);
    return OK;
}

void cpu_blur_run(OpInstance *op, const OpTensor *in, const OpTensor *out)
{
    const Pool2dAttr *a = op->attr;
    Blur k = { .in = cpu_view(in),
               .out = cpu_view(out),
               .stride = { a->stride_h, a->stride_w },
               .backward = op->kind == OP_POOL2D_BWD,
               .reflect = a->kind == POOL_BLUR_REFLECT };
    const CpuView *image = k.backward ? &k.out : &k.in;
    k.size[0] = image->h;
    k.size[1] = image->w;
    Taps *columns = (Taps *)((char *)op->workspace + rows_bytes(op, in));
    for (int64_t j = 0; j < k.out.w; j++) columns[j] = taps_of(&k, 1, j);
    k.columns = columns;
    const int threads = cpu_team(op, image->n * image->cb * image->hw * image->b);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < k.in.n * k.in.cb; plane++) {
        float *row = (float *)op->workspace + (size_t)omp_get_thread_num() * row_floats(in);
        blur_plane(&k, cpu_lanes_at(in->data, cpu_view_plane(&k.in, plane), k.in.type),
                   cpu_lanes_at_out(out->data, cpu_view_plane(&k.out, plane), k.in.type), row,
                   (int)cpu_view_channels(&k.in, plane % k.in.cb));
    }
}
