/* grad_norm.c - the norm of all gradients and the factor that clips by it. Squares of float32 are
 * exact in double, and chunks are added up in a fixed order: the result depends neither on threads
 * nor on the instruction set. */
#include "kernels/cpu/lanes.h"
#include "kernels/ops/grad_norm_math.h"

CPU_CLONES static double sum_of_squares(const float *x, int64_t count)
{
    double lanes[CPU_LANES] = { 0 }, sum = 0;
    int64_t i = 0;
    for (; i + CPU_LANES <= count; i += CPU_LANES) {
#pragma omp simd
        for (int l = 0; l < CPU_LANES; l++) lanes[l] += (double)x[i + l] * (double)x[i + l];
    }
    for (int l = 0; i + l < count; l++) lanes[l] += (double)x[i + l] * (double)x[i + l];
    for (int l = 0; l < CPU_LANES; l++) sum += lanes[l];
    return sum;
}

static void squares_run(OpInstance *op)
{
    const float *x = op->in[GRAD_SQUARES_IN_X].data;
    double *sums = op->out[GRAD_SQUARES_OUT_SUMS].data;
    int64_t count = op->in[GRAD_SQUARES_IN_X].desc.dims[0],
            chunks = op->out[GRAD_SQUARES_OUT_SUMS].desc.dims[0];
    int parts = cpu_team(op, count);
#pragma omp parallel for num_threads(parts)
    for (int part = 0; part < parts; part++) {
        int64_t first, last;
        cpu_share(chunks, part, parts, &first, &last);
        for (int64_t k = first; k < last; k++) {
            int64_t at = k * GRAD_SQUARES_CHUNK, left = count - at;
            sums[k] = sum_of_squares(x + at, left < GRAD_SQUARES_CHUNK ? left : GRAD_SQUARES_CHUNK);
        }
    }
}

static void norm_run(OpInstance *op)
{
    const double *sums = op->in[GRAD_NORM_IN_SUMS].data;
    double sum = 0;
    for (int64_t k = 0; k < op->in[GRAD_NORM_IN_SUMS].desc.dims[0]; k++) sum += sums[k];
    grad_norm_finish(op->attr, sum, op->in[GRAD_NORM_IN_LOSS_SCALE].data,
                     op->out[GRAD_NORM_OUT_CLIP].data);
}

CPU_LOOPS(cpu_grad_squares, "chunks", cpu_prepare_plain, squares_run);
CPU_LOOPS(cpu_grad_norm, "scalar", cpu_prepare_plain, norm_run);
