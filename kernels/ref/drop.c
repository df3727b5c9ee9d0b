/* drop.c - y = x f + residual and dx = dy f, with f from kernels/drop.h. May run in place. */
#include "kernels/drop.h"
#include "kernels/ref/ref.h"

static void multiply(const OpInstance *op, int scalars_slot, int where_slot, const double *x,
                     const double *residual, double *y)
{
    const double *s = ref_in(op, scalars_slot);
    const DropAttr *attr = op->attr;
    const DropAddress address =
        drop_address(attr, drop_word(s[SCALAR_STEP_LOW], s[SCALAR_STEP_HIGH]),
                     drop_word(s[SCALAR_PLACE_LOW], s[SCALAR_PLACE_HIGH]));
    const TensorDesc *d = &op->in[0].desc;
    const int32_t *where = ref_has_in(op, where_slot) ? op->in[where_slot].data : NULL;
    const int64_t each = tensor_elements(d) / d->dims[0], channels = d->dims[1],
                  positions = each / channels;
    for (int64_t n = 0; n < d->dims[0]; n++)
        for (int64_t i = 0; i < each; i++) {
            const int64_t c = i / positions, p = i % positions, at = n * each + i,
                          place = where ? where[2 * p] : n,
                          element =
                              attr->per_image ? 0 : (where ? where[2 * p + 1] : p) * channels + c;
            float factors[4] = { 0, 0, 0, 0 };
            if (place >= 0) drop_factors(&address, place, (uint32_t)(element / 4), factors);
            y[at] = x[at] * (double)factors[element % 4] + (residual ? residual[at] : 0);
        }
}

static void run_forward(OpInstance *op)
{
    multiply(op, DROP_IN_SCALARS, DROP_IN_WHERE, ref_in(op, DROP_IN_X),
             ref_has_in(op, DROP_IN_RESIDUAL) ? ref_in(op, DROP_IN_RESIDUAL) : NULL,
             ref_out(op, DROP_OUT_Y));
}

static void run_backward(OpInstance *op)
{
    multiply(op, DROP_BWD_IN_SCALARS, DROP_BWD_IN_WHERE, ref_in(op, DROP_BWD_IN_DY), NULL,
             ref_out(op, DROP_BWD_OUT_DX));
}

REF_LOOPS(ref_drop, run_forward);
REF_LOOPS(ref_drop_bwd, run_backward);
