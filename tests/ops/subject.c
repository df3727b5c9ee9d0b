/* subject.c - what the check must know of the backend under test.
 *
 * A backend may keep activations in a type of its own and read weights in it. The reference then
 * has to start from what the backend sees: inputs are rounded beforehand, by sending them through
 * the backend's own import and export, and factors of products that it rounds itself (weights from
 * their f32 master, f32 to tf32) by the formulas of float_math.h, which have a test of their
 * own. */
#include "kernels/float_math.h"

#include "tests/ops/rig.h"
#include <math.h>
#include <string.h>

#define TF32_LOST_BITS 13

/* oneDNN multiplies bf16 in pairs of channels, the last of an odd number with the first of the next
 * group or pixel: times zero, but for a NaN. */
static bool pairs_reach_beyond(const Case *c)
{
    Problem p;
    const int weights = layouts_weight_input(c->family->kind);
    if (weights < 0 || problem_make(c, &p) != OK) return false;
    const int64_t groups = p.attr.conv.groups, channels = p.in[weights].dims[1],
                  filters = groups ? p.in[weights].dims[0] / groups : 0;
    return groups > 0 && channels * filters > 1 && (channels % 2 || filters % 2);
}

/* 3x3, stride 1, channels a multiple of 8; with fewer than 16, x or y may lie without blocks. */
static bool is_winograd(const Case *c)
{
    Problem p;
    const OpKind kind = c->family->kind;
    if ((kind != OP_CONV2D && kind != OP_CONV2D_BWD_DATA && kind != OP_CONV2D_BWD_WEIGHTS &&
         kind != OP_CONV2D_BN) ||
        problem_make(c, &p) != OK)
        return false;
    const Conv2dAttr *a = kind == OP_CONV2D_BN ? &p.attr.conv_bn.conv : &p.attr.conv;
    const int64_t *w = kind == OP_CONV2D_BWD_WEIGHTS ? p.out[CONV_BWD_WEIGHTS_OUT_DW].dims
                                                     : p.in[layouts_weight_input(kind)].dims;
    const int64_t *y = kind == OP_CONV2D_BWD_WEIGHTS ? p.in[CONV_BWD_WEIGHTS_IN_DY].dims
                       : kind == OP_CONV2D_BWD_DATA  ? p.in[CONV_BWD_DATA_IN_DY].dims
                                                     : p.out[CONV_OUT_Y].dims;
    /* of one row, or column, the window is cropped */
    return y[2] > 1 && y[3] > 1 && w[0] >= 16 && w[1] >= 16 && w[0] % 8 == 0 && w[1] % 8 == 0 &&
           w[2] == 3 && w[3] == 3 && a->groups == 1 && a->stride_h == 1 && a->stride_w == 1 &&
           a->pad_top == 1 && a->pad_bottom == 1 && a->pad_left == 1 && a->pad_right == 1;
}

bool subject_takes(const Subject *s, const Case *c)
{
    const Variant *v = &c->variant;
    const FusedFor fused = op_fused(c->family->kind);
    const bool pooled = c->family->kind == OP_BN_POOL || c->family->kind == OP_BN_POOL_BWD;
    const bool signs = c->family->kind == OP_BN_SIGNS || c->family->kind == OP_BN_SIGNS_BWD ||
                       c->family->kind == OP_BN_STATISTICS;
    if (fused && !s->fuses[fused] && !(pooled && s->pools_norms) && !(signs && s->signs_norms))
        return false;
    if (s->products_only && c->family->kind != OP_CONV2D_BWD_DATA &&
        c->family->kind != OP_CONV2D_BWD_WEIGHTS && c->family->kind != OP_ATTENTION &&
        c->family->kind != OP_ATTENTION_BWD)
        return false;
    if (s->winograd && (v->mode == MODE_EXACT || v->plain || !is_winograd(c))) return false;
    if (v->mode == MODE_NAN && s->pairs && c->family->flags & FAMILY_WEIGHTS &&
        pairs_reach_beyond(c))
        return false;
    if (v->wide && s->compute == DTYPE_F32) return false; /* the same as without */
    return !s->own_layouts || !(v->plain || v->weights == WEIGHTS_PLAIN);
}

bool subject_refuses(const Subject *s, const Problem *p)
{
    bool conv =
        p->kind == OP_CONV2D || p->kind == OP_CONV2D_BWD_DATA || p->kind == OP_CONV2D_BWD_WEIGHTS;
    if (!conv || p->attr.conv.groups == 1) return false;
    const TensorDesc *x =
        p->kind == OP_CONV2D_BWD_DATA ? &p->out[CONV_BWD_DATA_OUT_DX] : &p->in[CONV_IN_X];
    const TensorDesc *y = p->kind == OP_CONV2D            ? &p->out[CONV_OUT_Y]
                          : p->kind == OP_CONV2D_BWD_DATA ? &p->in[CONV_BWD_DATA_IN_DY]
                                                          : &p->in[CONV_BWD_WEIGHTS_IN_DY];
    return x->dims[1] % s->pad != 0 || y->dims[1] % s->pad != 0;
}

double subject_nearest(DType type, double v)
{
    float f = (float)v;
    if (type == DTYPE_F32) return (double)f;
    if (type == DTYPE_BF16) return (double)float_from_bf16(float_to_bf16(f));
    if (type == DTYPE_F16) return (double)float_from_f16(float_to_f16(f));
    return v;
}

static double nearest_tf32(double v)
{
    if (!isfinite(v)) return v;
    uint32_t bits = float_to_bits((float)v);
    return (double)float_from_bits(float_shift_to_nearest_even(bits, TF32_LOST_BITS)
                                   << TF32_LOST_BITS);
}

/* What t holds once v was written to it. */
static Status send_through(Backend *b, Arena *arena, const OpTensor *t, const Host *v, Host *back)
{
    Guarded memory;
    uint8_t *zeros = arena_alloc(arena, t->bytes);
    if (!zeros) return ERR_MEMORY;
    OpTensor copy = *t;
    Status st = guarded_alloc(b, arena, t->bytes, &memory);
    copy.data = memory.data;
    if (st == OK) st = rig_write(b, copy.data, t->bytes, zeros);
    if (st == OK) st = rig_import(b, arena, &copy, v);
    if (st == OK) st = rig_export(b, arena, &copy, back);
    guarded_free(b, &memory);
    return st;
}

/* Kernels of the backend's own: no product of matrices that tf32 would speed up, and sums that stay
 * f32. */
static bool is_depthwise(const OpInstance *op)
{
    return op->implementation && strncmp(op->implementation, "depthwise", strlen("depthwise")) == 0;
}

DType subject_product_type(const Subject *s, const OpInstance *op)
{
    return s->wide_sums || is_depthwise(op) ? DTYPE_F32 : s->compute;
}

Status subject_round_inputs(const Subject *s, Arena *arena, const OpInstance *op, Host *in)
{
    /* A folded convolution rounds products of weights and scale; the bound knows. */
    bool product = layouts_is_product(op->kind) && op->kind != OP_CONV2D_BN,
         tf32 = s->tf32 && !is_depthwise(op);
    int weights = product ? layouts_weight_input(op->kind) : -1;
    for (int i = 0; i < OP_MAX_INPUTS; i++) {
        if (op->in[i].desc.dtype != DTYPE_F32 || !in[i].v) continue;
        bool bias = (op->kind == OP_LINEAR && i == LINEAR_IN_B) ||
                    (op->kind == OP_CONV2D && i == CONV_IN_B);
        int64_t count = tensor_elements(&in[i].desc);
        if (s->compute != DTYPE_F32) {
            Host back;
            TRY(send_through(s->backend, arena, &op->in[i], &in[i], &back));
            memcpy(in[i].v, back.v, (size_t)count * sizeof *back.v);
        }
        for (int64_t k = 0; k < count; k++) {
            if (product && !bias && (i == weights || s->compute != DTYPE_F32))
                in[i].v[k] = subject_nearest(s->compute, in[i].v[k]);
            if (product && !bias && tf32) in[i].v[k] = nearest_tf32(in[i].v[k]);
        }
    }
    return OK;
}

Status subject_type_of(const Subject *s, Arena *arena, const OpTensor *t, DType *out)
{
    *out = t->desc.dtype;
    if (s->compute == DTYPE_F32 || t->desc.dtype != DTYPE_F32) return OK;
    Host probe, back;
    TRY(host_make(arena, &probe, &t->desc));
    probe.v[0] = 1 + ldexp(1, -20); /* no 16-bit type has it */
    TRY(send_through(s->backend, arena, t, &probe, &back));
    if (back.v[0] != probe.v[0]) *out = s->compute;
    return OK;
}
