/* pool2d.c - pooling over windows and its gradient on the device. The index of a max is NHWC bytes,
 * padded like y. */
#include "kernels/cuda/pool2d.h"
#include "base/mem.h"
#include "kernels/blur.h"
#include "kernels/cuda/cuda.h"
#include <inttypes.h>

Status pool2d_make_shape(const OpInstance *op, const Pool2dAttr *a, const OpTensor *x,
                         const OpTensor *y, Pool2dShape *k)
{
    const CudaView vx = cuda_view(cuda_backend(op), x), vy = cuda_view(cuda_backend(op), y);
    const int64_t most = vx.h * vx.w > vy.h * vy.w ? vx.h * vx.w : vy.h * vy.w;
    if (most > INT32_MAX / 2 / vx.vectors || vx.n > INT32_MAX / 2)
        return fail(ERR_USAGE,
                    "pooling of %" PRId64 "x%" PRId64 " pixels of %" PRId64 " channels: too large",
                    vx.h, vx.w, vx.c);
    *k = (Pool2dShape){ .dtype = vx.dtype,
                        .kind = a->kind,
                        .n = (int)vx.n,
                        .c = (int)vx.c,
                        .vectors = (int)vx.vectors,
                        .h = (int)vx.h,
                        .w = (int)vx.w,
                        .p = (int)vy.h,
                        .q = (int)vy.w,
                        .kernel_h = a->kernel_h,
                        .kernel_w = a->kernel_w,
                        .stride_h = a->stride_h,
                        .stride_w = a->stride_w,
                        .pad_h = a->pad_h,
                        .pad_w = a->pad_w,
                        .share = blur_is(a->kind) ? 1.0f / 16
                                                  : 1.0f / (float)(a->kernel_h * a->kernel_w),
                        .by_vectors = fast_div_make((uint32_t)vx.vectors),
                        .by_w = fast_div_make((uint32_t)vx.w),
                        .by_q = fast_div_make((uint32_t)vy.w),
                        .by_stride_h = fast_div_make((uint32_t)a->stride_h),
                        .by_stride_w = fast_div_make((uint32_t)a->stride_w) };
    return OK;
}

static Status make_state(OpInstance *op, const OpTensor *x, const OpTensor *y)
{
    if (!(op->state = mem_calloc(1, sizeof(Pool2dShape)))) return ERR_MEMORY;
    return pool2d_make_shape(op, op->attr, x, y, op->state);
}

static Status prepare_pool2d(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    OpTensor *x = &op->in[POOL_IN_X], *y = &op->out[POOL_OUT_Y], *index = &op->out[POOL_OUT_INDEX];
    cuda_decide_activation(b, x);
    cuda_decide_activation(b, y);
    if (index->desc.rank != 0) cuda_decide(b, index, CUDA_NHWC, DTYPE_U8);
    return make_state(op, x, y);
}

static Status prepare_bwd(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    const Pool2dAttr *a = op->attr;
    OpTensor *dy = &op->in[POOL_BWD_IN_DY], *dx = &op->out[POOL_BWD_OUT_DX];
    cuda_decide_activation(b, dy);
    if (a->kind == POOL_MAX) cuda_decide(b, &op->in[POOL_BWD_IN_INDEX], CUDA_NHWC, DTYPE_U8);
    cuda_decide_activation(b, dx);
    return make_state(op, dx, dy);
}

static Status run_pool2d(OpInstance *op, Stream *stream)
{
    uint8_t *index = op->out[POOL_OUT_INDEX].desc.rank != 0 ? op->out[POOL_OUT_INDEX].data : NULL;
    return CUDA_STATUS(cuda_launch_pool2d(op->state, op->in[POOL_IN_X].data,
                                          op->out[POOL_OUT_Y].data, index, stream->stream));
}

static Status run_pool2d_bwd(OpInstance *op, Stream *stream)
{
    const Pool2dShape *k = op->state;
    const uint8_t *index = k->kind == POOL_MAX ? op->in[POOL_BWD_IN_INDEX].data : NULL;
    return CUDA_STATUS(cuda_launch_pool2d_bwd(k, op->in[POOL_BWD_IN_DY].data, index,
                                              op->out[POOL_BWD_OUT_DX].data, stream->stream));
}

CUDA_UNBOUND(cuda_pool2d, "pool_nhwc", prepare_pool2d, run_pool2d);
CUDA_UNBOUND(cuda_pool2d_bwd, "pool_nhwc", prepare_bwd, run_pool2d_bwd);
