/* subsample.c - y[n,c,p,q] = x[n,c,p*stride,q*stride] with zero for the channels that y has more;
 * and its gradient.
 *
 * x and y may lie in different layouts (x plain because it has few channels, y in blocks). Where
 * they lie alike whole positions are moved; else one channel at a time. */
#include "kernels/cpu/view.h"
#include <string.h>

typedef struct Grid { /* where the kept positions are: small[p,q] <-> large[p*stride, q*stride] */
    CpuView large, small;
    int64_t stride, element; /* bytes of one */
} Grid;

/* Gathers (large to small) or scatters (small to large) the neighbouring channels of each
 * position. */
CPU_INLINE void move_positions(const Grid *g, char *small, char *large, int64_t bytes, bool gather)
{
    for (int64_t p = 0; p < g->small.h; p++)
        for (int64_t q = 0; q < g->small.w; q++) {
            char *s = small + (p * g->small.w + q) * g->small.step * g->element;
            char *l = large + (p * g->large.w + q) * g->stride * g->large.step * g->element;
            memcpy(gather ? s : l, gather ? l : s, (size_t)bytes);
        }
}

static void move_channels(const Grid *g, char *small, char *large, int64_t bytes, bool gather)
{
    switch (bytes) { /* one, eight and sixteen f32 */
    case 4:
        move_positions(g, small, large, 4, gather);
        break;
    case 32:
        move_positions(g, small, large, 32, gather);
        break;
    case 64:
        move_positions(g, small, large, 64, gather);
        break;
    default:
        move_positions(g, small, large, bytes, gather);
    }
}

/* The channels of image n that both tensors have, and no more: lanes past the last one are padding
 * in large but real in small. In rows all of them are neighbours. */
static void move_image(const Grid *g, char *small, char *large, int64_t n, bool gather)
{
    int64_t most = g->large.rows ? g->large.c : g->large.b == g->small.b ? g->large.b : 1;
    for (int64_t c = 0; c < g->large.c; c += most) {
        int64_t left = g->large.c - c, width = left < most ? left : most;
        move_channels(g, small + cpu_view_at(&g->small, n, c, 0) * g->element,
                      large + cpu_view_at(&g->large, n, c, 0) * g->element, width * g->element,
                      gather);
    }
}

static Status prepare_subsample(OpInstance *op)
{
    /* both kinds have one input and one output in slot 0 */
    TRY(cpu_require_decided(&op->in[0], op));
    cpu_view_decide(cpu_backend_of(op), &op->out[0]);
    return OK;
}

static void run_subsample(OpInstance *op, const OpTensor *small, const OpTensor *large, bool gather)
{
    const SubsampleAttr *attr = op->attr;
    Grid g = { .large = cpu_view(large), .small = cpu_view(small), .stride = attr->stride };
    char *out = op->out[0].data, *s = small->data, *l = large->data;
    size_t bytes = op->out[0].bytes / (size_t)g.large.n; /* of one image */
    g.element = (int64_t)dtype_bytes(g.large.type);
    int threads = cpu_team(op, (int64_t)op->out[0].bytes / g.element);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t n = 0; n < g.large.n; n++) {
        memset(out + (size_t)n * bytes, 0, bytes);
        move_image(&g, s, l, n, gather);
    }
}

static void subsample_run(OpInstance *op)
{
    run_subsample(op, &op->out[SUBSAMPLE_OUT_Y], &op->in[SUBSAMPLE_IN_X], true);
}

static void subsample_bwd_run(OpInstance *op)
{
    run_subsample(op, &op->in[SUBSAMPLE_BWD_IN_DY], &op->out[SUBSAMPLE_BWD_OUT_DX], false);
}

CPU_LOOPS(cpu_subsample, "copy", prepare_subsample, subsample_run);
CPU_LOOPS(cpu_subsample_bwd, "copy", prepare_subsample, subsample_bwd_run);
