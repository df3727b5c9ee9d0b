/* bias.c - see bias.h: sums of a channel block of one image first, f32 over a run of SUM_STEPS and
 * double beyond it, then those of all images in order. */
#include "kernels/cpu/bias.h"
#include <string.h>

enum { SUM_STEPS = 128 };

Status cpu_bias_prepare(CpuBackend *b, CpuBias *out, const OpTensor *dy, bool adds,
                        const Layout **parts)
{
    *out = (CpuBias){ .y = cpu_view(dy), .adds = adds };
    const int64_t dims[] = { out->y.n, out->y.cb, CPU_LANES };
    return cpu_layout_plain(b, parts, 3, dims);
}

CPU_INLINE void sum_walk(const void *dy, const CpuWalk *walk, float *restrict out, DType type,
                         int lanes)
{
    const int64_t stride = type == DTYPE_F32 ? CPU_LANES : walk->stride;
    double total[CPU_LANES] = { 0 };
    int64_t at = 0;
    for (int64_t i = 0; i < walk->steps;) {
        const int64_t end = walk->steps - i < SUM_STEPS ? walk->steps : i + SUM_STEPS;
        float sum[CPU_LANES] = { 0 };
        for (; i < end; i++, at += stride)
#pragma omp simd
            for (int l = 0; l < lanes; l++) sum[l] += cpu_lanes_load(dy, at + l, type);
        for (int l = 0; l < lanes; l++) total[l] += (double)sum[l];
    }
    for (int l = 0; l < walk->rest; l++) total[l] += (double)cpu_lanes_load(dy, at + l, type);
    for (int l = 0; l < CPU_LANES; l++) out[l] = (float)total[l];
}

CPU_CLONES static void sum_plane(const void *dy, const CpuWalk *walk, DType type, float *out)
{
    CPU_WALK(sum_walk, type, walk->lanes, dy, walk, out);
}

Status cpu_bias_run(const void *cookie, void *const *address, int threads)
{
    const CpuBias *s = cookie;
    const CpuView *v = &s->y;
    float *db = address[BIAS_DB], *parts = address[BIAS_PARTS];
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t plane = 0; plane < v->n * v->cb; plane++) {
        const CpuWalk walk = cpu_view_walk(v, plane % v->cb);
        sum_plane(cpu_lanes_at(address[BIAS_DY], cpu_view_plane(v, plane), v->type), &walk, v->type,
                  parts + plane * CPU_LANES);
    }
    for (int64_t c = 0; c < v->c; c++) {
        double sum = s->adds ? (double)db[c] : 0;
        for (int64_t n = 0; n < v->n; n++)
            for (int64_t l = c % v->b; l < CPU_LANES; l += v->b)
                sum += (double)parts[(n * v->cb + c / v->b) * CPU_LANES + l];
        db[c] = (float)sum;
    }
    return OK;
}
