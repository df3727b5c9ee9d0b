/* batchnorm.c - batch norm and its gradient by our own kernels: which run, over which grid, with
 * which workspace.
 *
 * All kernels of an instance work in one type, that of x: the compute type, or f32 where x came
 * from a linear layer. What lies in another type is cast into the workspace first.
 *
 * OP_BN_POOL and OP_BN_POOL_BWD are the same but that y, and what reads dy, go through windows;
 * OP_BN_SIGNS writes the signs of y as well, and OP_BN_SIGNS_BWD reads them in place of y;
 * OP_BN_STATISTICS makes no y.
 *
 * Where statistics are of several ranks each pass is an op of its own: OP_BN_SUMS and
 * OP_BN_BWD_SUMS make sums, by the same kernels, and the rest starts from their totals. */
#include "kernels/cuda/batchnorm.h"
#include "base/mem.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/cuda.h"
#include <inttypes.h>

/* An activation as the kernels read it. */
typedef struct Operand {
    const OpTensor *tensor; /* NULL: absent */
    bool casts;
    size_t copy_at; /* in the workspace */
} Operand;

/* First in either state. */
typedef struct OwnState {
    BnState base;
    void *tickets;                 /* owned; from the first bind() on, where there are sums */
    size_t partials_at, slices_at; /* in the workspace */
} OwnState;

typedef struct ForwardState {
    OwnState own;
    BnForward kernel;
    BnPool pool;
    BatchNormMode mode;
    Operand residual;
    size_t guess_at, statistics_at;
} ForwardState;

typedef struct BackwardState {
    OwnState own;
    BnBackward kernel;
    Operand dy, dy2, y;
    size_t means_at;
} BackwardState;

/* ---- prepare ---- */

static void decide_rows(const OpInstance *op, OpTensor *t, DType dtype)
{
    cuda_decide(cuda_backend(op), t, t->desc.rank == 4 ? CUDA_NHWC : CUDA_ROWS, dtype);
}

/* t may be decided already, in any float type; rank 0 is absent. */
static Operand read_rows(OpInstance *op, OpTensor *t, DType dtype)
{
    if (t->desc.rank == 0) return (Operand){ 0 };
    if (!t->bytes) decide_rows(op, t, dtype);
    Operand o = { .tensor = t, .casts = t->layout->dtype != dtype };
    const CudaView v = cuda_view(cuda_backend(op), t);
    if (o.casts) o.copy_at = cuda_take_workspace(op, (size_t)(v.rows * v.cp) * dtype_bytes(dtype));
    return o;
}

static void decide_vectors(const OpInstance *op, OpTensor *t, int count)
{
    for (int i = 0; i < count; i++)
        if (t[i].desc.rank != 0) cuda_decide(cuda_backend(op), &t[i], CUDA_VECTOR, DTYPE_F32);
}

Status batchnorm_make_grid(const OpInstance *op, RowGrid *out, const CudaView *x, int blocks_per_sm)
{
    const int sm_count = cuda_backend(op)->sm_count;
    if (row_grid_make(out, x->rows, x->vectors, sm_count, blocks_per_sm)) return OK;
    return fail(ERR_USAGE,
                "batch norm over %" PRId64 " rows of %" PRId64
                " channels: too large, use a smaller batch",
                x->rows, x->c);
}

static void take_parts(OpInstance *op, const RowGrid *g, const CudaView *x)
{
    OwnState *s = op->state;
    const size_t row = 2 * (size_t)x->cp;
    s->partials_at = cuda_take_workspace(op, (size_t)row_grid_partials(g) * row * sizeof(float));
    s->slices_at = cuda_take_workspace(op, BN_SLICES * row * sizeof(double));
}

/* Values of a channel behind its sums: x's, and those of other ranks. */
static double count_values(const CudaView *x, const BatchNormAttr *attr)
{
    return (double)x->rows * (attr->ranks > 0 ? attr->ranks : 1);
}

static void take_sums_workspace(OpInstance *op, ForwardState *s, const CudaView *x)
{
    take_parts(op, &s->kernel.grid, x);
    s->guess_at = cuda_take_workspace(op, (size_t)x->cp * sizeof(float));
}

/* x (or dx) and y (or dy) are decided. */
static Status prepare_pool(OpInstance *op, const OpTensor *x, const OpTensor *y, OpTensor *index,
                           BnPool *out)
{
    const BnPoolAttr *attr = op->attr;
    cuda_decide(cuda_backend(op), index, CUDA_NHWC, DTYPE_U8);
    TRY(pool2d_make_shape(op, &attr->pool, x, y, &out->shape));
    out->by_h = fast_div_make((uint32_t)out->shape.h);
    return OK;
}

/* A byte holds a vector's. */
static Status decide_signs(OpTensor *t, const CudaView *x)
{
    cuda_decide_plain(t);
    return dtype_bytes(x->dtype) == 2 ? OK : fail(ERR_USAGE, "signs of norms in f32");
}

/* Of OP_BN_POOL, OP_BN_SIGNS and OP_BN_STATISTICS too; attributes begin with those of the norm. */
static Status forward_prepare(OpInstance *op)
{
    const BatchNormAttr *attr = op->attr;
    OpTensor *x = &op->in[BN_IN_X], *saved = &op->out[BN_OUT_SAVED];
    ForwardState *s = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    s->own.base.by = &batchnorm_own;
    if (!x->bytes) cuda_decide_activation(cuda_backend(op), x);
    const CudaView v = cuda_view(cuda_backend(op), x);
    decide_vectors(op, &op->in[BN_IN_GAMMA], BN_IN_RUNNING_VAR - BN_IN_GAMMA + 1);
    decide_vectors(op, saved, 1);
    if (op->kind != OP_BN_STATISTICS) decide_rows(op, &op->out[BN_OUT_Y], v.dtype);
    if (op->kind == OP_BN_SIGNS) decide_vectors(op, &op->in[BN_SIGNS_IN_RESIDUAL_GAMMA], 3);
    else if (op->in[BN_IN_SUMS].desc.rank != 0) cuda_decide_plain(&op->in[BN_IN_SUMS]);
    if (attr->mode == BN_TRAIN && count_values(&v, attr) < 2)
        return fail(
            ERR_USAGE,
            "batch norm cannot train on one value per channel: use a larger batch or image");
    BnForward *k = &s->kernel;
    *k = (BnForward){ .dtype = v.dtype,
                      .c = (int)v.c,
                      .cp = (int)v.cp,
                      .eps = attr->eps,
                      .momentum = attr->momentum,
                      .act = attr->act,
                      .count = count_values(&v, attr) };
    TRY(batchnorm_make_grid(op, &k->grid, &v, BN_FORWARD_BLOCKS));
    s->mode = attr->mode;
    op->workspace_bytes = 0;
    s->residual = read_rows(op, &op->in[BN_IN_RESIDUAL], v.dtype);
    if (saved->desc.rank == 0)
        s->statistics_at = cuda_take_workspace(op, 2 * (size_t)v.cp * sizeof(float));
    if (attr->mode == BN_TRAIN && attr->ranks == 0) take_sums_workspace(op, s, &v);
    op->implementation = "bn_rows";
    if (op->kind == OP_BN_SIGNS) return decide_signs(&op->out[BN_SIGNS_OUT_SIGNS], &v);
    if (op->kind == OP_BN_POOL)
        return prepare_pool(op, x, &op->out[BN_POOL_OUT_Y], &op->out[BN_POOL_OUT_INDEX], &s->pool);
    return OK;
}

static Status sums_prepare(OpInstance *op)
{
    ForwardState *s = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    if (!op->in[BN_SUMS_IN_X].bytes)
        cuda_decide_activation(cuda_backend(op), &op->in[BN_SUMS_IN_X]);
    cuda_decide_plain(&op->out[BN_SUMS_OUT_SUMS]);
    const CudaView v = cuda_view(cuda_backend(op), &op->in[BN_SUMS_IN_X]);
    s->kernel =
        (BnForward){ .dtype = v.dtype, .c = (int)v.c, .cp = (int)v.cp, .count = (double)v.rows };
    TRY(batchnorm_make_grid(op, &s->kernel.grid, &v, BN_FORWARD_BLOCKS));
    op->workspace_bytes = 0;
    take_sums_workspace(op, s, &v);
    op->implementation = "bn_rows";
    return OK;
}

static BnMask choose_mask(const OpInstance *op)
{
    const BatchNormAttr *attr = op->attr;
    switch (attr->act) {
    case ACT_NONE:
        return BN_MASK_NONE;
    case ACT_RELU:
        if (op->kind == OP_BN_POOL_BWD) return BN_MASK_FROM_X;
        if (op->kind == OP_BN_SIGNS_BWD) return BN_MASK_FROM_SIGNS;
        if (op->in[BN_BWD_IN_Y].desc.rank != 0) return BN_MASK_FROM_Y;
        ASSERT(op->out[BN_BWD_OUT_DRESIDUAL].desc.rank == 0); /* its shape inference demands y */
        return BN_MASK_FROM_X;
    case ACT_SILU:
        return BN_MASK_SILU; /* shape inference allows no residual, nor with the next two */
    case ACT_RELU6:
        return BN_MASK_RELU6;
    case ACT_HARD_SWISH:
        return BN_MASK_HARD_SWISH;
    case ACT_GELU:
    case ACT_GELU_TANH:
    case ACT_TANH:
    case ACT_COUNT:
        break;
    }
    ASSERT(!"shape inference lets no other activation through");
    return BN_MASK_NONE;
}

/* Of OP_BN_BWD_SUMS too, which has sums in the place of dx, of OP_BN_POOL_BWD and of
 * OP_BN_SIGNS_BWD. */
static Status backward_prepare(OpInstance *op)
{
    const bool sums = op->kind == OP_BN_BWD_SUMS;
    const BatchNormAttr *attr = op->attr;
    OpTensor *x = &op->in[BN_BWD_IN_X], *dresidual = &op->out[BN_BWD_OUT_DRESIDUAL];
    BackwardState *s = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    s->own.base.by = &batchnorm_own_bwd;
    if (!x->bytes) cuda_decide_activation(cuda_backend(op), x);
    const CudaView v = cuda_view(cuda_backend(op), x);
    decide_vectors(op, &op->in[BN_BWD_IN_GAMMA], BN_BWD_IN_SAVED - BN_BWD_IN_GAMMA + 1);
    decide_vectors(op, &op->out[BN_BWD_OUT_DGAMMA], BN_BWD_OUT_DBETA - BN_BWD_OUT_DGAMMA + 1);
    if (sums) cuda_decide_plain(&op->out[BN_BWD_SUMS_OUT_SUMS]);
    else decide_rows(op, &op->out[BN_BWD_OUT_DX], v.dtype);
    if (op->in[BN_BWD_IN_SUMS].desc.rank != 0) cuda_decide_plain(&op->in[BN_BWD_IN_SUMS]);
    if (dresidual->desc.rank != 0) decide_rows(op, dresidual, v.dtype);
    BnBackward *k = &s->kernel;
    *k = (BnBackward){ .dtype = v.dtype,
                       .c = (int)v.c,
                       .cp = (int)v.cp,
                       .mask = choose_mask(op),
                       .accumulate = op->accumulate,
                       .constant = attr->mode != BN_TRAIN,
                       .count = count_values(&v, attr) };
    TRY(batchnorm_make_grid(op, &k->grid, &v, BN_BACKWARD_BLOCKS));
    op->workspace_bytes = 0;
    s->dy = read_rows(op, &op->in[BN_BWD_IN_DY], v.dtype);
    s->dy2 = read_rows(op, &op->in[BN_BWD_IN_DY2], v.dtype);
    if (k->mask == BN_MASK_FROM_Y) s->y = read_rows(op, &op->in[BN_BWD_IN_Y], v.dtype);
    take_parts(op, &k->grid, &v);
    s->means_at = cuda_take_workspace(op, 2 * (size_t)v.cp * sizeof(float));
    op->implementation = "bn_rows";
    if (op->kind == OP_BN_SIGNS_BWD) return decide_signs(&op->in[BN_SIGNS_BWD_IN_SIGNS], &v);
    if (op->kind == OP_BN_POOL_BWD)
        return prepare_pool(op, &op->out[BN_BWD_OUT_DX], &op->in[BN_BWD_IN_DY],
                            &op->in[BN_POOL_BWD_IN_INDEX], &k->pool);
    return OK;
}

/* ---- bind ---- */

static const void *operand_data(const OpInstance *op, const Operand *o)
{
    if (!o->tensor) return NULL;
    return o->casts ? cuda_workspace(op, o->copy_at) : o->tensor->data;
}

/* Tickets are for the life of the instance. */
static Status bind_parts(const OpInstance *op, BnParts *parts, const RowGrid *g)
{
    OwnState *s = op->state;
    const size_t bytes = (size_t)g->tiles * (BN_SLICES + 1) * sizeof *parts->tickets;
    if (!s->tickets) TRY(op->backend->v->alloc(op->backend, bytes, &s->tickets));
    *parts = (BnParts){ .partials = cuda_workspace(op, s->partials_at),
                        .slices = cuda_workspace(op, s->slices_at),
                        .tickets = s->tickets };
    return OK;
}

static void release_norm(OpInstance *op)
{
    OwnState *s = op->state;
    if (s && s->tickets) op->backend->v->free(op->backend, s->tickets);
}

static void bind_signs(const OpInstance *op, BnForward *k)
{
    k->signs = op->out[BN_SIGNS_OUT_SIGNS].data;
    if (op->in[BN_SIGNS_IN_RESIDUAL_SAVED].desc.rank == 0) return;
    k->residual_gamma = op->in[BN_SIGNS_IN_RESIDUAL_GAMMA].data;
    k->residual_beta = op->in[BN_SIGNS_IN_RESIDUAL_BETA].data;
    k->residual_statistics = op->in[BN_SIGNS_IN_RESIDUAL_SAVED].data;
}

static Status forward_bind(OpInstance *op)
{
    ForwardState *s = op->state;
    BnForward *k = &s->kernel;
    k->x = op->in[BN_IN_X].data;
    k->residual = operand_data(op, &s->residual);
    k->y = op->out[BN_OUT_Y].data;
    k->gamma = op->in[BN_IN_GAMMA].data;
    k->beta = op->in[BN_IN_BETA].data;
    k->running_mean = op->in[BN_IN_RUNNING_MEAN].data;
    k->running_var = op->in[BN_IN_RUNNING_VAR].data;
    const OpTensor *saved = &op->out[BN_OUT_SAVED];
    k->statistics = saved->desc.rank != 0 ? saved->data : cuda_workspace(op, s->statistics_at);
    k->guess = cuda_workspace(op, s->guess_at);
    if (op->kind == OP_BN_SIGNS) bind_signs(op, k);
    else k->totals = op->in[BN_IN_SUMS].desc.rank != 0 ? op->in[BN_IN_SUMS].data : NULL;
    if (op->kind == OP_BN_POOL) s->pool.index = op->out[BN_POOL_OUT_INDEX].data;
    return s->mode == BN_TRAIN && !k->totals ? bind_parts(op, &k->parts, &k->grid) : OK;
}

static Status sums_bind(OpInstance *op)
{
    ForwardState *s = op->state;
    s->kernel.x = op->in[BN_SUMS_IN_X].data;
    s->kernel.sums = op->out[BN_SUMS_OUT_SUMS].data;
    s->kernel.guess = cuda_workspace(op, s->guess_at);
    return bind_parts(op, &s->kernel.parts, &s->kernel.grid);
}

static Status backward_bind(OpInstance *op)
{
    BackwardState *s = op->state;
    BnBackward *k = &s->kernel;
    k->dy = operand_data(op, &s->dy);
    k->dy2 = operand_data(op, &s->dy2);
    k->x = op->in[BN_BWD_IN_X].data;
    k->y = operand_data(op, &s->y);
    k->gamma = op->in[BN_BWD_IN_GAMMA].data;
    k->beta = op->in[BN_BWD_IN_BETA].data;
    k->statistics = op->in[BN_BWD_IN_SAVED].data;
    if (op->kind == OP_BN_BWD_SUMS) k->sums = op->out[BN_BWD_SUMS_OUT_SUMS].data;
    else k->dx = op->out[BN_BWD_OUT_DX].data;
    k->totals = op->in[BN_BWD_IN_SUMS].desc.rank != 0 ? op->in[BN_BWD_IN_SUMS].data : NULL;
    k->dgamma = op->out[BN_BWD_OUT_DGAMMA].data;
    k->dbeta = op->out[BN_BWD_OUT_DBETA].data;
    k->dresidual =
        op->out[BN_BWD_OUT_DRESIDUAL].desc.rank != 0 ? op->out[BN_BWD_OUT_DRESIDUAL].data : NULL;
    k->means = cuda_workspace(op, s->means_at);
    if (op->kind == OP_BN_POOL_BWD) k->pool.index = op->in[BN_POOL_BWD_IN_INDEX].data;
    if (op->kind == OP_BN_SIGNS_BWD) k->signs = op->in[BN_SIGNS_BWD_IN_SIGNS].data;
    return k->totals ? OK : bind_parts(op, &k->parts, &k->grid);
}

/* ---- run ---- */

static Status cast_operand(const OpInstance *op, const Operand *o, DType dtype, cudaStream_t stream)
{
    if (!o->casts) return OK;
    const CudaView v = cuda_view(cuda_backend(op), o->tensor);
    return CUDA_STATUS(cuda_launch_cast(o->tensor->data, v.dtype, cuda_workspace(op, o->copy_at),
                                        dtype, v.rows * v.cp, stream));
}

static Status forward_run(OpInstance *op, Stream *stream)
{
    const ForwardState *s = op->state;
    const BnForward *k = &s->kernel;
    TRY(cast_operand(op, &s->residual, k->dtype, stream->stream));
    if (k->totals) TRY_CUDA(cuda_launch_batchnorm_totals(k, stream->stream));
    else if (s->mode == BN_TRAIN) TRY_CUDA(cuda_launch_batchnorm_statistics(k, stream->stream));
    else TRY_CUDA(cuda_launch_batchnorm_constant(k, stream->stream));
    if (op->kind == OP_BN_STATISTICS) return OK;
    if (s->pool.index) return CUDA_STATUS(cuda_launch_batchnorm_pool(k, &s->pool, stream->stream));
    return CUDA_STATUS(cuda_launch_batchnorm_apply(k, stream->stream));
}

static Status backward_run(OpInstance *op, Stream *stream)
{
    const BackwardState *s = op->state;
    const BnBackward *k = &s->kernel;
    TRY(cast_operand(op, &s->dy, k->dtype, stream->stream));
    TRY(cast_operand(op, &s->dy2, k->dtype, stream->stream));
    TRY(cast_operand(op, &s->y, k->dtype, stream->stream));
    if (k->totals) TRY_CUDA(cuda_launch_batchnorm_bwd_totals(k, stream->stream));
    else TRY_CUDA(cuda_launch_batchnorm_bwd_sums(k, stream->stream));
    return k->sums ? OK : CUDA_STATUS(cuda_launch_batchnorm_bwd_apply(k, stream->stream));
}

static Status sums_run(OpInstance *op, Stream *stream)
{
    const ForwardState *s = op->state;
    return CUDA_STATUS(cuda_launch_batchnorm_statistics(&s->kernel, stream->stream));
}

/* ---- what run() moves ---- */

/* Kernels read an operand so often; where it is cast, of the workspace, which lies like x. */
static void read_operand(const Operand *o, double reads, const OpTensor *x, OpPasses *slot,
                         OpTraffic *t)
{
    slot->reads = o->casts ? 1 : reads;
    if (o->casts) t->other_bytes += (1 + reads) * (double)x->bytes;
}

/* Partial sums and those of slices are written, and read from the cache by the same kernel. */
static double partials_moved(const RowGrid *g, int cp)
{
    const int parts = row_grid_partials(g), slices = parts < BN_SLICES ? parts : BN_SLICES;
    return 2.0 * cp * ((double)parts * sizeof(float) + (double)slices * sizeof(double));
}

/* Statistics, then y: x twice. */
void batchnorm_traffic(const OpInstance *op, OpTraffic *t)
{
    const ForwardState *s = op->state;
    if (op->kind == OP_BN_SUMS) {
        t->other_bytes = partials_moved(&s->kernel.grid, s->kernel.cp);
        return;
    }
    const bool trains = ((const BatchNormAttr *)op->attr)->mode == BN_TRAIN,
               sums = trains && (op->kind == OP_BN_SIGNS || op->in[BN_IN_SUMS].desc.rank == 0);
    t->in[BN_IN_RUNNING_MEAN].writes = t->in[BN_IN_RUNNING_VAR].writes = trains;
    if (s->own.base.by != &batchnorm_own) return;
    t->in[BN_IN_X].reads = sums && op->kind != OP_BN_STATISTICS ? 2 : 1;
    if (sums) t->other_bytes = partials_moved(&s->kernel.grid, s->kernel.cp);
    read_operand(&s->residual, 1, &op->in[BN_IN_X], &t->in[BN_IN_RESIDUAL], t);
}

/* Sums, then dx: x twice, and what dz is made of, unless the first pass writes dz down. */
void batchnorm_bwd_traffic(const OpInstance *op, OpTraffic *t)
{
    const BackwardState *s = op->state;
    const OpTensor *x = &op->in[BN_BWD_IN_X];
    const bool sums = op->in[BN_BWD_IN_SUMS].desc.rank == 0, applies = op->kind != OP_BN_BWD_SUMS,
               writes_dz = op->out[BN_BWD_OUT_DRESIDUAL].desc.rank != 0;
    const double passes = sums + applies, of_dz = writes_dz ? 1 : passes;
    t->out[BN_BWD_OUT_DRESIDUAL].reads = applies;
    t->out[BN_BWD_OUT_DGAMMA].reads = t->out[BN_BWD_OUT_DBETA].reads = op->accumulate;
    if (s->own.base.by != &batchnorm_own_bwd) return;
    t->in[BN_BWD_IN_X].reads = passes;
    read_operand(&s->dy, of_dz, x, &t->in[BN_BWD_IN_DY], t);
    read_operand(&s->dy2, of_dz, x, &t->in[BN_BWD_IN_DY2], t);
    read_operand(&s->y, s->kernel.mask == BN_MASK_FROM_Y ? of_dz : 0, x, &t->in[BN_BWD_IN_Y], t);
    if (op->kind == OP_BN_POOL_BWD) t->in[BN_POOL_BWD_IN_INDEX].reads = of_dz;
    if (op->kind == OP_BN_SIGNS_BWD) t->in[BN_SIGNS_BWD_IN_SIGNS].reads = of_dz;
    if (sums) t->other_bytes += partials_moved(&s->kernel.grid, s->kernel.cp);
}

const OpImpl batchnorm_own = { forward_prepare, forward_bind, forward_run, release_norm };
const OpImpl batchnorm_own_bwd = { backward_prepare, backward_bind, backward_run, release_norm };
const OpImpl cuda_bn_pool = { forward_prepare, forward_bind, forward_run, release_norm };
const OpImpl cuda_bn_pool_bwd = { backward_prepare, backward_bind, backward_run, release_norm };
const OpImpl cuda_bn_statistics = { forward_prepare, forward_bind, forward_run, release_norm };
const OpImpl cuda_bn_signs = { forward_prepare, forward_bind, forward_run, release_norm };
const OpImpl cuda_bn_signs_bwd = { backward_prepare, backward_bind, backward_run, release_norm };
const OpImpl cuda_bn_sums = { sums_prepare, sums_bind, sums_run, release_norm };
const OpImpl cuda_bn_bwd_sums = { backward_prepare, backward_bind, backward_run, release_norm };
