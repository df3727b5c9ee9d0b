/* pool2d.c - max and average pooling and blurs: shapes and printing. The index of a max pool is one
 * byte per output, so windows have at most 256 taps. */
#include "kernels/blur.h"
#include "kernels/ops/infer.h"
#include <stdio.h>

static bool can_tile(const Pool2dAttr *a)
{
    return a->kind != POOL_AVG_TILES || (a->stride_h == a->kernel_h && a->stride_w == a->kernel_w &&
                                         a->pad_h == 0 && a->pad_w == 0);
}

/* What a blur needs besides; true of other kinds. */
static bool can_blur(const Pool2dAttr *a, const TensorDesc *x)
{
    const int64_t least = a->kind == POOL_BLUR_REFLECT ? 2 : 1;
    if (!blur_is(a->kind)) return true;
    return a->kernel_h == 3 && a->kernel_w == 3 && a->pad_h == 1 && a->pad_w == 1 &&
           x->dims[2] >= least && x->dims[3] >= least;
}

/* Of an axis, both sides: of tiles what the last one may lack. */
static int64_t padding(const Pool2dAttr *a, int pad, int kernel_size)
{
    return a->kind == POOL_AVG_TILES ? kernel_size - 1 : 2 * (int64_t)pad;
}

static Status output_dims(OpKind kind, const Pool2dAttr *a, const TensorDesc *x, int64_t y[4])
{
    if ((unsigned)a->kind >= POOL_KIND_COUNT || a->kernel_h < 1 || a->kernel_w < 1 ||
        a->stride_h < 1 || a->stride_w < 1 || a->pad_h < 0 || a->pad_w < 0 ||
        a->pad_h >= a->kernel_h || a->pad_w >= a->kernel_w || a->kernel_h * a->kernel_w > 256 ||
        !can_blur(a, x) || !can_tile(a))
        return fail(ERR_INTERNAL, "%s: window %dx%d, stride %dx%d, pad %dx%d: invalid",
                    op_name(kind), a->kernel_h, a->kernel_w, a->stride_h, a->stride_w, a->pad_h,
                    a->pad_w);
    y[0] = x->dims[0];
    y[1] = x->dims[1];
    y[2] =
        infer_output_size(x->dims[2], padding(a, a->pad_h, a->kernel_h), a->kernel_h, a->stride_h);
    y[3] =
        infer_output_size(x->dims[3], padding(a, a->pad_w, a->kernel_w), a->kernel_w, a->stride_w);
    if (y[2] >= 1 && y[3] >= 1) return OK;
    char text[96];
    tensor_format(x, text, sizeof text);
    return fail(ERR_INTERNAL, "%s: window %dx%d does not fit into padded x %s", op_name(kind),
                a->kernel_h, a->kernel_w, text);
}

static Status infer_forward(const OpSlots *s)
{
    const Pool2dAttr *a = s->attr;
    int64_t y[4];
    TRY(infer_need(s, POOL_IN_X, DTYPE_F32, 4));
    TRY(output_dims(s->kind, a, s->in[POOL_IN_X], y));
    TRY(infer_output(s, POOL_OUT_Y, DTYPE_F32, 4, y));
    bool index = s->wanted[POOL_OUT_INDEX] || s->out[POOL_OUT_INDEX].rank;
    if (index && a->kind != POOL_MAX)
        return fail(ERR_INTERNAL, "%s: only max pooling has an index", op_name(s->kind));
    return infer_output(s, POOL_OUT_INDEX, DTYPE_U8, 4, y);
}

static Status infer_backward(const OpSlots *s)
{
    const Pool2dAttr *a = s->attr;
    int64_t y[4];
    TRY(infer_preset(s, POOL_BWD_OUT_DX, 4));
    TRY(output_dims(s->kind, a, &s->out[POOL_BWD_OUT_DX], y));
    TRY(infer_need_dims(s, POOL_BWD_IN_DY, 4, y));
    if (a->kind != POOL_MAX) return OK;
    TensorDesc index = tensor_desc(DTYPE_U8, 4, y);
    return infer_need_like(s, POOL_BWD_IN_INDEX, &index);
}

static double flops_of(const Pool2dAttr *a, const TensorDesc *y)
{
    return (double)tensor_elements(y) * (double)a->kernel_h * (double)a->kernel_w;
}

static double flops_forward(const void *attr, const TensorDesc *const *in, const TensorDesc *out)
{
    (void)in;
    return flops_of(attr, &out[POOL_OUT_Y]);
}

static double flops_backward(const void *attr, const TensorDesc *const *in, const TensorDesc *out)
{
    (void)out;
    return flops_of(attr, in[POOL_BWD_IN_DY]);
}

static void print_pool2d(const void *attr, char *out, size_t bytes)
{
    static const char *const kinds[POOL_KIND_COUNT] = { [POOL_MAX] = "max",
                                                        [POOL_AVG] = "avg",
                                                        [POOL_BLUR] = "blur",
                                                        [POOL_BLUR_REFLECT] = "blur, reflected,",
                                                        [POOL_AVG_TILES] = "avg of tiles" };
    const Pool2dAttr *a = attr;
    snprintf(out, bytes, "%s %dx%d/%dx%d pad %dx%d", kinds[a->kind], a->kernel_h, a->kernel_w,
             a->stride_h, a->stride_w, a->pad_h, a->pad_w);
}

const OpDef op_row_pool2d = {
    .attr_bytes = sizeof(Pool2dAttr),
    .in_names = { "x" },
    .out_names = { "y", "index?" },
    .infer = infer_forward,
    .flops = flops_forward,
    .print = print_pool2d,
};

const OpDef op_row_pool2d_bwd = {
    .attr_bytes = sizeof(Pool2dAttr),
    .in_names = { "dy", "index?" },
    .out_names = { "dx" },
    .infer = infer_backward,
    .flops = flops_backward,
    .print = print_pool2d,
};
