/* embed.c - y[c,t] = words[ids[t],c] + positions[position of t,c] (+ segments), its gradients, and
 * single places. */
#include "kernels/ref/ref.h"

static const int32_t *indices(const OpInstance *op, int slot)
{
    return op->in[slot].data;
}

static void run_embed(OpInstance *op)
{
    const int64_t *d = ref_out_dims(op, EMBED_OUT_Y), c = d[1], t = d[2];
    const int offset = ((const EmbedAttr *)op->attr)->offset;
    const int32_t *ids = indices(op, EMBED_IN_IDS), *where = indices(op, EMBED_IN_WHERE),
                  *segment = indices(op, EMBED_IN_SEGMENT_IDS);
    for (int64_t i = 0; i < c * t; i++) {
        const int64_t at = i % t, k = i / t;
        double *y = &ref_out(op, EMBED_OUT_Y)[i];
        *y = 0;
        if (ids[at] < 0) continue;
        *y = ref_in(op, EMBED_IN_WORDS)[ids[at] * c + k] +
             ref_in(op, EMBED_IN_POSITIONS)[(where[2 * at + 1] + offset) * c + k];
        if (ref_has_in(op, EMBED_IN_SEGMENTS))
            *y += ref_in(op, EMBED_IN_SEGMENTS)[segment[at] * c + k];
    }
}

static void clear_gradient(OpInstance *op, int slot)
{
    for (int64_t i = 0; !op->accumulate && i < tensor_elements(&op->out[slot].desc); i++)
        ref_out(op, slot)[i] = 0;
}

/* What one place gives the rows that it was made of. */
static void add_place(OpInstance *op, double *dwords, int64_t at, int64_t position)
{
    const int64_t *d = ref_in_dims(op, EMBED_BWD_IN_DY), c = d[1], t = d[2];
    const int32_t *segment = indices(op, EMBED_BWD_IN_SEGMENT_IDS);
    for (int64_t k = 0; k < c; k++) {
        const double dy = ref_in(op, EMBED_BWD_IN_DY)[k * t + at];
        if (dwords) dwords[indices(op, EMBED_BWD_IN_IDS)[at] * c + k] += dy;
        ref_out(op, EMBED_BWD_OUT_DPOSITIONS)[position * c + k] += dy;
        if (segment) ref_out(op, EMBED_BWD_OUT_DSEGMENTS)[segment[at] * c + k] += dy;
    }
}

static void run_embed_bwd(OpInstance *op)
{
    const int32_t *starts = indices(op, EMBED_BWD_IN_STARTS);
    const bool adds = ref_has_in(op, EMBED_BWD_IN_SO_FAR);
    double *dwords = adds ? op->in[EMBED_BWD_IN_SO_FAR].data : ref_out(op, EMBED_BWD_OUT_DWORDS);
    for (int slot = 0; slot <= EMBED_BWD_OUT_DSEGMENTS; slot++)
        if (ref_has_out(op, slot)) clear_gradient(op, slot);
    for (int64_t n = 0; n + 1 < ref_in_dims(op, EMBED_BWD_IN_STARTS)[0]; n++)
        for (int64_t at = starts[n]; at < starts[n + 1]; at++)
            add_place(op, dwords, at, at - starts[n] + ((const EmbedAttr *)op->attr)->offset);
}

static void run_pick(OpInstance *op)
{
    const int64_t *x = ref_in_dims(op, PICK_IN_X), *y = ref_out_dims(op, PICK_OUT_Y);
    for (int64_t i = 0; i < y[0] * y[1]; i++) {
        const int64_t row = indices(op, PICK_IN_ROWS)[i / y[1]], c = i % y[1];
        const bool there = row >= 0 && row < x[2];
        ref_out(op, PICK_OUT_Y)[i] = there ? ref_in(op, PICK_IN_X)[c * x[2] + row] : 0;
    }
}

static void run_pick_bwd(OpInstance *op)
{
    const int64_t *dy = ref_in_dims(op, PICK_BWD_IN_DY), *dx = ref_out_dims(op, PICK_BWD_OUT_DX);
    for (int64_t i = 0; i < dx[1] * dx[2]; i++) ref_out(op, PICK_BWD_OUT_DX)[i] = 0;
    for (int64_t m = dy[0] - 1; m >= 0; m--) { /* the first of equal ones is written last */
        const int64_t row = indices(op, PICK_BWD_IN_ROWS)[m];
        for (int64_t c = 0; row >= 0 && row < dx[2] && c < dx[1]; c++)
            ref_out(op, PICK_BWD_OUT_DX)[c * dx[2] + row] =
                ref_in(op, PICK_BWD_IN_DY)[m * dx[1] + c];
    }
}

REF_LOOPS(ref_embed, run_embed);
REF_LOOPS(ref_embed_bwd, run_embed_bwd);
REF_LOOPS(ref_pick, run_pick);
REF_LOOPS(ref_pick_bwd, run_pick_bwd);
