/* subsample.c - y[n,c,p,q] = x[n,c,p*stride,q*stride] with zero for the channels that y has more;
 * and its gradient.
 *
 * x and y may lie in different layouts (x plain because it has few channels, y in blocks). Where
 * they lie alike whole positions are moved; else one channel at a time. */
#include "kernels/cpu/view.h"
#include <string.h>

typedef struct Grid { /* where the kept positions are: small[p,q] <-> large[p*stride, q*stride] */
    CpuView large, small;
    int64_t stride;
} Grid;

/* First float of channel c (blocked: of its block, plus its lane) of image n. */
static int64_t channel_at(const CpuView *v, int64_t n, int64_t c)
{
    return (n * v->cb + c / v->b) * v->hw * v->b + c % v->b;
}

/* Gathers (large to small) or scatters (small to large) `width` neighbouring floats per
 * position. */
CPU_INLINE void move_positions(const Grid *g, float *small, float *large, int64_t width,
                               bool gather)
{
    for (int64_t p = 0; p < g->small.h; p++)
        for (int64_t q = 0; q < g->small.w; q++) {
            float *s = small + (p * g->small.w + q) * g->small.b;
            float *l = large + (p * g->large.w + q) * g->stride * g->large.b;
            for (int64_t i = 0; i < width; i++)
                *(gather ? s + i : l + i) = *(gather ? l + i : s + i);
        }
}

static void move_channels(const Grid *g, float *small, float *large, int64_t width, bool gather)
{
    if (width == 8) move_positions(g, small, large, 8, gather);
    else if (width == 16) move_positions(g, small, large, 16, gather);
    else move_positions(g, small, large, width, gather);
}

/* The channels of image n that both tensors have, and no more: lanes past the last one are padding
 * in large but real in small. */
static void move_image(const Grid *g, float *small, float *large, int64_t n, bool gather)
{
    int64_t most = g->large.b == g->small.b ? g->large.b : 1;
    for (int64_t c = 0; c < g->large.c; c += most) {
        int64_t left = g->large.c - c, width = left < most ? left : most;
        move_channels(g, small + channel_at(&g->small, n, c), large + channel_at(&g->large, n, c),
                      width, gather);
    }
}

static Status prepare(OpInstance *op)
{
    /* both kinds have one input and one output in slot 0 */
    TRY(cpu_require_decided(&op->in[0], op));
    cpu_view_decide(cpu_backend_of(op), &op->out[0]);
    op->implementation = "copy";
    return OK;
}

static void run(OpInstance *op, const OpTensor *small, const OpTensor *large, bool gather)
{
    const SubsampleAttr *attr = op->attr;
    Grid g = { .large = cpu_view(large), .small = cpu_view(small), .stride = attr->stride };
    float *out = op->out[0].data, *s = small->data, *l = large->data;
    int64_t floats = (int64_t)(op->out[0].bytes / sizeof *out) / g.large.n; /* of one image */
    int threads = cpu_team(op, floats * g.large.n);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t n = 0; n < g.large.n; n++) {
        memset(out + n * floats, 0, (size_t)floats * sizeof *out);
        move_image(&g, s, l, n, gather);
    }
}

static Status subsample_run(OpInstance *op, Stream *stream)
{
    (void)stream; /* CPU ops run when called */
    run(op, &op->out[SUBSAMPLE_OUT_Y], &op->in[SUBSAMPLE_IN_X], true);
    return OK;
}

static Status subsample_bwd_run(OpInstance *op, Stream *stream)
{
    (void)stream; /* CPU ops run when called */
    run(op, &op->in[SUBSAMPLE_BWD_IN_DY], &op->out[SUBSAMPLE_BWD_OUT_DX], false);
    return OK;
}

const OpImpl cpu_subsample = { .prepare = prepare, .bind = cpu_bind_nothing, .run = subsample_run };
const OpImpl cpu_subsample_bwd = { .prepare = prepare,
                                   .bind = cpu_bind_nothing,
                                   .run = subsample_bwd_run };
