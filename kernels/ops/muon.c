/* muon.c - see muon.h. */
#include "kernels/ops/muon.h"
#include "kernels/ops/infer.h"
#include <math.h>
#include <stdio.h>

enum { LEAST_SIDE = 4, MOST_ASPECT = 128 };

static int64_t columns_of(const TensorDesc *d)
{
    return tensor_elements(d) / d->dims[0];
}

bool muon_takes(const TensorDesc *d)
{
    if (d->rank < 2 || d->dims[0] == 1 || d->dims[1] == 1) return false;
    const int64_t rows = d->dims[0], columns = columns_of(d);
    const int64_t least = rows < columns ? rows : columns, most = rows + columns - least;
    return least >= LEAST_SIDE && most <= MOST_ASPECT * least;
}

void muon_steps(const TensorDesc *d, MuonStep out[MUON_STEPS])
{
    static const double quintic[MUON_STEPS][3] = { { 4.0848, -6.8946, 2.9270 },
                                                   { 3.9505, -6.3029, 2.6377 },
                                                   { 3.7418, -5.5913, 2.3037 },
                                                   { 2.8769, -3.1427, 1.2046 },
                                                   { 2.8366, -3.0525, 1.2012 } };
    const double scale = 0.2 * sqrt(fmax((double)d->dims[0], (double)columns_of(d)));
    for (int i = 0; i < MUON_STEPS; i++) {
        const double by = i == MUON_STEPS - 1 ? scale : 1;
        out[i] = (MuonStep){ (float)(by * quintic[i][0]), (float)(by * quintic[i][1]),
                             (float)(by * quintic[i][2]) };
    }
}

static Status infer_muon(const OpSlots *s)
{
    const TensorDesc *grad = s->in[MUON_IN_GRAD];
    char text[64];
    TRY(infer_need(s, MUON_IN_GRAD, DTYPE_F32, 0));
    tensor_format(grad, text, sizeof text);
    if (!muon_takes(grad))
        return fail(ERR_INTERNAL, "%s: %s is not for it", op_name(s->kind), text);
    TRY(infer_need_like(s, MUON_IN_MOMENTUM, grad));
    if (s->in[MUON_IN_LOSS_SCALE])
        TRY(infer_need_dims(s, MUON_IN_LOSS_SCALE, 1, (int64_t[]){ LOSS_SCALE_COUNT }));
    return s->in[MUON_IN_CLIP] ? infer_need_dims(s, MUON_IN_CLIP, 1, (int64_t[]){ CLIP_COUNT })
                               : OK;
}

/* Of the three products, each as whole. */
static double flops_muon(const void *attr, const TensorDesc *const *in, const TensorDesc *out)
{
    (void)attr;
    (void)out;
    const TensorDesc *d = in[MUON_IN_GRAD];
    const double rows = (double)d->dims[0], columns = (double)columns_of(d),
                 side = fmin(rows, columns);
    return 2.0 * MUON_STEPS * side * side * (2 * fmax(rows, columns) + side);
}

static void print_muon(const void *attr, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s", ((const MuonAttr *)attr)->nesterov ? "nesterov" : "");
}

const OpDef op_row_muon = {
    .attr_bytes = sizeof(MuonAttr),
    .in_names = { "grad", "momentum", "loss_scale?", "clip?" },
    .infer = infer_muon,
    .flops = flops_muon,
    .print = print_muon,
};
