/* tokens.c - images to sequences and back, a channel block at a time: the sequence of a block is
 * the block's pixels, behind one more position. Gradients of positions are summed over images in
 * their order, whatever the team. */
#include "kernels/cpu/layout.h"
#include "kernels/cpu/view.h"
#include <string.h>

/* A block's position: y = x + position, and zero in channels past C. */
CPU_INLINE void add_position(void *y, const void *x, const float *positions, int64_t channels,
                             int64_t width, DType type, DType x_type)
{
    for (int64_t c = 0; c < channels; c++)
        cpu_lanes_store(y, c, cpu_lanes_load(x, c, x_type) + positions[c], type);
    for (int64_t c = channels; c < width; c++) cpu_lanes_store(y, c, 0, type);
}

CPU_CLONES static void add_positions(const OpTensor *y, const OpTensor *x, const float *positions,
                                     const float *first, int64_t plane)
{
    const CpuView to = cpu_view(y), from = cpu_view(x);
    const int64_t block = plane % to.cb, channels = cpu_view_channels(&to, block),
                  width = to.rows ? channels : to.b, extra = to.hw - from.hw;
    char *out = cpu_lanes_at_out(y->data, cpu_view_plane(&to, plane), to.type);
    const char *in = cpu_lanes_at(x->data, cpu_view_plane(&from, plane), to.type);
    const int64_t step = to.step * (int64_t)dtype_bytes(to.type);
    positions += block * to.b;
    if (extra)
        add_position(out, first + block * to.b, positions, channels, width, to.type, DTYPE_F32);
    for (int64_t l = extra; l < to.hw; l++) {
        const float *position = positions + l * to.c;
        const char *pixel = in + (l - extra) * step;
        if (to.type == DTYPE_F32)
            add_position(out + l * step, pixel, position, channels, width, DTYPE_F32, DTYPE_F32);
        else add_position(out + l * step, pixel, position, channels, width, DTYPE_BF16, DTYPE_BF16);
    }
}

CPU_INLINE void add_row(float *sum, const void *dy, int64_t channels, DType type)
{
    for (int64_t c = 0; c < channels; c++) sum[c] += cpu_lanes_load(dy, c, type);
}

/* sum [L,C] of a channel block over all images. */
CPU_CLONES static void add_images(float *sum, const OpTensor *dy, int64_t block)
{
    const CpuView v = cpu_view(dy);
    const int64_t channels = cpu_view_channels(&v, block);
    for (int64_t n = 0; n < v.n; n++)
        for (int64_t l = 0; l < v.hw; l++) {
            const int64_t at = cpu_view_at(&v, n, block * v.b, l);
            const void *row = cpu_lanes_at(dy->data, at, v.type);
            float *to = sum + l * v.c + block * v.b;
            if (v.type == DTYPE_F32) add_row(to, row, channels, DTYPE_F32);
            else add_row(to, row, channels, DTYPE_BF16);
        }
}

/* Its pixels of a plane. */
static void copy_pixels(const OpTensor *dx, const OpTensor *dy, int64_t plane)
{
    const CpuView to = cpu_view(dx), from = cpu_view(dy);
    const int64_t width = to.rows ? cpu_view_channels(&to, plane % to.cb) : to.b,
                  step = to.step * (int64_t)dtype_bytes(to.type), extra = from.hw - to.hw;
    char *out = cpu_lanes_at_out(dx->data, cpu_view_plane(&to, plane), to.type);
    const char *in = cpu_lanes_at(dy->data, cpu_view_plane(&from, plane), to.type);
    for (int64_t i = 0; i < to.hw; i++)
        memcpy(out + i * step, in + (i + extra) * step, (size_t)width * dtype_bytes(to.type));
}

static Status prepare_tokens(OpInstance *op)
{
    cpu_decide_plain(&op->in[TOKENS_IN_POSITIONS]);
    if (op->in[TOKENS_IN_CLASS].desc.rank) cpu_decide_plain(&op->in[TOKENS_IN_CLASS]);
    return cpu_view_decide_like(&op->out[TOKENS_OUT_Y], &op->in[TOKENS_IN_X], op);
}

static void run_tokens(OpInstance *op)
{
    const OpTensor *x = &op->in[TOKENS_IN_X], *y = &op->out[TOKENS_OUT_Y];
    const CpuView v = cpu_view(y);
    const int threads = cpu_team(op, tensor_elements(&y->desc));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < v.n * v.cb; plane++)
        add_positions(y, x, op->in[TOKENS_IN_POSITIONS].data, op->in[TOKENS_IN_CLASS].data, plane);
}

static Status prepare_bwd(OpInstance *op)
{
    cpu_decide_plain(&op->out[TOKENS_BWD_OUT_DPOSITIONS]);
    if (op->out[TOKENS_BWD_OUT_DCLASS].desc.rank) cpu_decide_plain(&op->out[TOKENS_BWD_OUT_DCLASS]);
    op->workspace_bytes = tensor_plain_bytes(&op->out[TOKENS_BWD_OUT_DPOSITIONS].desc);
    return cpu_view_decide_like(&op->out[TOKENS_BWD_OUT_DX], &op->in[TOKENS_BWD_IN_DY], op);
}

static void store_sums(const OpInstance *op, const OpTensor *to, const float *sums)
{
    float *at = to->data;
    for (int64_t i = 0; i < tensor_elements(&to->desc); i++)
        at[i] = op->accumulate ? at[i] + sums[i] : sums[i];
}

static void run_tokens_bwd(OpInstance *op)
{
    const OpTensor *dy = &op->in[TOKENS_BWD_IN_DY], *dx = &op->out[TOKENS_BWD_OUT_DX],
                   *first = &op->out[TOKENS_BWD_OUT_DCLASS];
    const CpuView v = cpu_view(dy);
    const int threads = cpu_team(op, tensor_elements(&dy->desc));
    float *sums = op->workspace;
    memset(sums, 0, op->workspace_bytes);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t block = 0; block < v.cb; block++) add_images(sums, dy, block);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < v.n * v.cb; plane++) copy_pixels(dx, dy, plane);
    store_sums(op, &op->out[TOKENS_BWD_OUT_DPOSITIONS], sums);
    if (first->desc.rank) store_sums(op, first, sums);
}

CPU_LOOPS(cpu_tokens, "lanes", prepare_tokens, run_tokens);
CPU_LOOPS(cpu_tokens_bwd, "lanes", prepare_bwd, run_tokens_bwd);
