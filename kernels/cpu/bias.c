/* bias.c - see bias.h: sums of each image first, then those of all images in order. */
#include "kernels/cpu/bias.h"
#include "kernels/cpu/sums.h"

Status cpu_bias_prepare(CpuBackend *b, CpuBias *out, const OpTensor *dy, bool adds,
                        const Layout **parts)
{
    *out = (CpuBias){ .y = cpu_view(dy), .adds = adds };
    const int64_t dims[] = { out->y.n, out->y.c };
    return cpu_layout_plain(b, parts, 2, dims);
}

Status cpu_bias_run(const void *cookie, void *const *address, int threads)
{
    const CpuBias *s = cookie;
    const CpuView *v = &s->y;
    const int64_t strips = cpu_view_strips(v, threads);
    float *db = address[BIAS_DB], *parts = address[BIAS_PARTS];
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < v->n * strips; i++) {
        const CpuStrip strip = cpu_view_strip(v, strips, i);
        double sums[CPU_STRIP];
        cpu_sums_of_strip(v, &strip, address[BIAS_DY], sums);
        for (int64_t c = 0; c < strip.channels; c++)
            parts[strip.n * v->c + strip.first + c] = (float)sums[c];
    }
    for (int64_t c = 0; c < v->c; c++) {
        double sum = s->adds ? (double)db[c] : 0;
        for (int64_t n = 0; n < v->n; n++) sum += (double)parts[n * v->c + c];
        db[c] = (float)sum;
    }
    return OK;
}
