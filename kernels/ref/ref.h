/* ref.h - what the files of the reference backend share.
 *
 * The reference computes every op by plain loops straight from its definition in kernels/op.h, in
 * float64 and without any cleverness, so that it can be checked by reading and by finite
 * differences. Every f32 and f64 slot holds double (8 bytes an element); u8 and i32 are as they
 * are. Layouts are always plain row-major, nothing needs workspace or state, and one thread does
 * everything. Tests only. */
#ifndef CONVOY_KERNELS_REF_REF_H
#define CONVOY_KERNELS_REF_REF_H
#include "kernels/backend.h"

/* Physical bytes of a tensor in this backend. */
size_t ref_tensor_bytes(const TensorDesc *d);

/* prepare and bind are the same for every op: all slots plain; all present slots must have data
 * when bound. */
Status ref_prepare(OpInstance *op);
Status ref_bind(OpInstance *op);

static inline const double *ref_in(const OpInstance *op, int slot)
{
    return op->in[slot].data;
}
static inline double *ref_out(const OpInstance *op, int slot)
{
    return op->out[slot].data;
}
static inline const int64_t *ref_in_dims(const OpInstance *op, int slot)
{
    return op->in[slot].desc.dims;
}
static inline const int64_t *ref_out_dims(const OpInstance *op, int slot)
{
    return op->out[slot].desc.dims;
}
static inline bool ref_has_in(const OpInstance *op, int slot)
{
    return op->in[slot].desc.rank != 0;
}
static inline bool ref_has_out(const OpInstance *op, int slot)
{
    return op->out[slot].desc.rank != 0;
}

/* act(z), and dy act'(z), for which an activation by sign takes y for z (pointwise.c). NaN
 * passes. */
double ref_activate(ActKind act, double z);
double ref_activate_bwd(ActKind act, double dy, double z);

/* Row-major index into dims of rank 4. */
static inline int64_t ref_at(const int64_t *dims, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return ((a * dims[1] + b) * dims[2] + c) * dims[3] + d;
}

/* A gradient of a parameter is overwritten, or added to when the instance accumulates. */
static inline void ref_store_gradient(const OpInstance *op, double *at, double value)
{
    *at = op->accumulate ? *at + value : value;
}

#define REF_OP(kind, name, fused) extern const OpImpl ref_##name;
OP_LIST(REF_OP)
#undef REF_OP
/* Most ops cannot fail: void compute(OpInstance *op). */
#define REF_LOOPS(impl, compute)                                                                   \
    static Status impl##_run(OpInstance *op, Stream *stream)                                       \
    {                                                                                              \
        (void)stream;                                                                              \
        compute(op);                                                                               \
        return OK;                                                                                 \
    }                                                                                              \
    const OpImpl impl = { ref_prepare, ref_bind, impl##_run, NULL }
#endif
