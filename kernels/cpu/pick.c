/* pick.c - single places of a canvas as rows of channels, and back. */
#include "kernels/cpu/view.h"
#include <string.h>

typedef struct Pick {
    const OpTensor *canvas, *flat; /* [1,C,T,1], [count,C] */
    const int32_t *rows;
} Pick;

static bool is_place(const Pick *p, int64_t m)
{
    return p->rows[m] >= 0 && p->rows[m] < p->canvas->desc.dims[2];
}

/* Neighbours in both. */
static void move_lanes(void *to, DType to_type, const void *from, DType from_type, int64_t channels)
{
    if (to_type == from_type) {
        memcpy(to, from, (size_t)channels * dtype_bytes(to_type));
        return;
    }
    for (int64_t c = 0; c < channels; c++)
        cpu_lanes_store(to, c, cpu_lanes_load(from, c, from_type), to_type);
}

/* All channels of the place that row m names: into that row, or from it. */
static void move_place(const Pick *p, int64_t m, bool picks)
{
    const CpuView canvas = cpu_view(p->canvas), flat = cpu_view(p->flat);
    const int64_t width = canvas.rows ? canvas.c : canvas.b;
    for (int64_t c = 0; c < canvas.c; c += width) {
        const int64_t channels = canvas.c - c < width ? canvas.c - c : width;
        void *at = cpu_lanes_at_out(p->canvas->data, cpu_view_at(&canvas, 0, c, p->rows[m]),
                                    canvas.type),
             *row = cpu_lanes_at_out(p->flat->data, cpu_view_at(&flat, m, c, 0), flat.type);
        if (picks) move_lanes(row, flat.type, at, canvas.type, channels);
        else move_lanes(at, canvas.type, row, flat.type, channels);
    }
}

static void clear(const OpInstance *op, const OpTensor *t)
{
    const int threads = cpu_team(op, tensor_elements(&t->desc));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int part = 0; part < threads; part++) {
        int64_t first, last;
        cpu_share((int64_t)t->bytes, part, threads, &first, &last);
        memset((char *)t->data + first, 0, (size_t)(last - first));
    }
}

static Status prepare_pick(OpInstance *op)
{
    /* both kinds have one input and one output in slot 0, and the rows in slot 1 */
    TRY(cpu_require_decided(&op->in[0], op));
    cpu_decide_plain(&op->in[PICK_IN_ROWS]);
    cpu_view_decide(cpu_backend_of(op), &op->out[0]);
    return OK;
}

static void run_pick(OpInstance *op)
{
    const OpTensor *y = &op->out[PICK_OUT_Y];
    const Pick p = { &op->in[PICK_IN_X], y, op->in[PICK_IN_ROWS].data };
    const int64_t count = y->desc.dims[0];
    const size_t row = y->bytes / (size_t)count;
    const int threads = cpu_team(op, tensor_elements(&y->desc));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t m = 0; m < count; m++) {
        if (is_place(&p, m)) move_place(&p, m, true);
        else memset((char *)y->data + (size_t)m * row, 0, row);
    }
}

static void run_pick_bwd(OpInstance *op)
{
    const OpTensor *dx = &op->out[PICK_BWD_OUT_DX], *dy = &op->in[PICK_BWD_IN_DY];
    const Pick p = { dx, dy, op->in[PICK_BWD_IN_ROWS].data };
    const int64_t count = dy->desc.dims[0];
    const int threads = cpu_team(op, tensor_elements(&dy->desc));
    clear(op, dx);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t m = 0; m < count; m++)
        if (is_place(&p, m) && (m == 0 || p.rows[m] != p.rows[m - 1])) move_place(&p, m, false);
}

CPU_LOOPS(cpu_pick, "copy", prepare_pick, run_pick);
CPU_LOOPS(cpu_pick_bwd, "copy", prepare_pick, run_pick_bwd);
