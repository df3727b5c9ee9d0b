/* linear.c - the fully connected layer and its gradients: cuBLASLt's products of padded matrices.
 *
 * Rows and columns of padding are part of the products: the padding of x, w and b is zero, so that
 * of y, dx, dw and db becomes zero by itself. Products read the compute type and write f32 (y, dw)
 * or the compute type (dx). What lies otherwise is brought into the workspace first:
 *   w    its compute copy, where the PARAM slab has one; else w itself is cast, found out when it
 *        is bound
 *   x    f32 rows (the output of another linear layer) are cast; an image of more than one pixel is
 *        flattened in op.h's order C,H,W, and dx on the way back
 *   dy   f32 rows are cast
 * y is f32 in every precision: logits need it. */
#include "kernels/cuda/linear.h"
#include "base/mem.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cudnn/lt_gemm.h"

/* A matrix as the product reads it. */
typedef struct Operand {
    const OpTensor *tensor;
    int64_t rows, columns; /* padded */
    bool flattens, casts;  /* how it gets into the workspace; neither: it is read where it lies */
    size_t offset;         /* in the workspace */
    const void *data;      /* once bound */
} Operand;

typedef struct LinearState {
    LtGemmPlan *plan;
    Operand a, b;
    LinearFlatten flatten; /* of x or dx */
    bool unflattens;       /* dx, from unflat in the workspace */
    size_t unflat;
    int64_t n, kp, cp; /* images; padded outputs and inputs */
} LinearState;

/* ---- prepare ---- */

/* Activations that somebody else decided may be f32 rows. */
static void decide_if_undecided(const CudaBackend *b, OpTensor *t)
{
    if (!t->bytes) cuda_decide_activation(b, t);
    ASSERT(t->layout && t->layout->format == (t->desc.rank == 4 ? CUDA_NHWC : CUDA_ROWS));
    ASSERT(t->layout->dtype == b->compute || (t->desc.rank == 2 && t->layout->dtype == DTYPE_F32));
}

static Operand read_activation(OpInstance *op, const LinearState *s, const OpTensor *t,
                               int64_t columns)
{
    const CudaBackend *b = cuda_backend(op);
    Operand o = { .tensor = t, .rows = s->n, .columns = columns };
    o.flattens = t->desc.rank == 4 && t->desc.dims[2] * t->desc.dims[3] > 1;
    o.casts = t->layout->dtype != b->compute;
    if (o.flattens || o.casts)
        o.offset = cuda_take_workspace(op, (size_t)(o.rows * o.columns) * dtype_bytes(b->compute));
    return o;
}

/* Whether the weights have a compute copy is known when they are bound: room for one of our own is
 * set aside. */
static Operand read_weights(OpInstance *op, const LinearState *s, const OpTensor *t)
{
    const CudaBackend *b = cuda_backend(op);
    Operand o = { .tensor = t, .rows = s->kp, .columns = s->cp };
    if (b->compute != DTYPE_F32)
        o.offset = cuda_take_workspace(op, (size_t)(o.rows * o.columns) * dtype_bytes(b->compute));
    return o;
}

/* w: K,C; x: the rank 4 or 2 tensor of the inputs. */
static Status start(OpInstance *op, LinearState **out, const TensorDesc *w, const OpTensor *x)
{
    const CudaBackend *b = cuda_backend(op);
    LinearState *s = *out = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    const int64_t *dims = x->desc.dims;
    s->n = dims[0];
    s->kp = cuda_padded(b, w->dims[0]);
    s->cp = cuda_padded(b, w->dims[1]);
    if (x->desc.rank == 4)
        s->flatten = (LinearFlatten){ .n = dims[0],
                                      .c = dims[1],
                                      .h = dims[2],
                                      .w = dims[3],
                                      .cp = cuda_padded(b, dims[1]),
                                      .flat_cp = s->cp,
                                      .element_bytes = (int)dtype_bytes(b->compute) };
    op->workspace_bytes = 0;
    return OK;
}

static Status plan_product(OpInstance *op, LinearState *s, LtGemm g)
{
    CudaBackend *b = cuda_backend(op);
    g.ab = b->compute;
    g.tf32 = b->precision == PRECISION_TF32;
    TRY(lt_gemm_plan_create(&s->plan, b, &g));
    op->implementation = lt_gemm_plan_name(s->plan);
    /* the first piece: multiply() hands the workspace on from its beginning */
    cuda_take_workspace(op, lt_gemm_plan_workspace(s->plan));
    return OK;
}

static Status prepare_forward(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    OpTensor *x = &op->in[LINEAR_IN_X], *w = &op->in[LINEAR_IN_W], *bias = &op->in[LINEAR_IN_B];
    LinearState *s;
    TRY(start(op, &s, &w->desc, x));
    decide_if_undecided(b, x);
    cuda_decide(b, w, CUDA_MATRIX, DTYPE_F32);
    if (bias->desc.rank) cuda_decide(b, bias, CUDA_VECTOR, DTYPE_F32);
    cuda_decide(b, &op->out[LINEAR_OUT_Y], CUDA_ROWS, DTYPE_F32);
    TRY(plan_product(op, s,
                     (LtGemm){ .m = s->n,
                               .n = s->kp,
                               .k = s->cp,
                               .transpose_b = true,
                               .lda = s->cp,
                               .ldb = s->cp,
                               .ldd = s->kp,
                               .d = DTYPE_F32,
                               .has_bias = bias->desc.rank != 0 }));
    s->a = read_activation(op, s, x, s->cp);
    s->b = read_weights(op, s, w);
    return OK;
}

static Status prepare_bwd_data(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    OpTensor *dy = &op->in[LINEAR_BWD_DATA_IN_DY], *w = &op->in[LINEAR_BWD_DATA_IN_W],
             *dx = &op->out[LINEAR_BWD_DATA_OUT_DX];
    LinearState *s;
    TRY(start(op, &s, &w->desc, dx));
    decide_if_undecided(b, dy);
    cuda_decide(b, w, CUDA_MATRIX, DTYPE_F32);
    decide_if_undecided(b, dx);
    TRY(plan_product(op, s,
                     (LtGemm){ .m = s->n,
                               .n = s->cp,
                               .k = s->kp,
                               .lda = s->kp,
                               .ldb = s->cp,
                               .ldd = s->cp,
                               .d = dx->layout->dtype }));
    s->a = read_activation(op, s, dy, s->kp);
    s->b = read_weights(op, s, w);
    s->unflattens = dx->desc.rank == 4 && dx->desc.dims[2] * dx->desc.dims[3] > 1;
    if (s->unflattens)
        s->unflat = cuda_take_workspace(op, (size_t)(s->n * s->cp) * dtype_bytes(b->compute));
    return OK;
}

static Status prepare_bwd_weights(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    OpTensor *x = &op->in[LINEAR_BWD_WEIGHTS_IN_X], *dy = &op->in[LINEAR_BWD_WEIGHTS_IN_DY],
             *dw = &op->out[LINEAR_BWD_WEIGHTS_OUT_DW], *db = &op->out[LINEAR_BWD_WEIGHTS_OUT_DB];
    LinearState *s;
    TRY(start(op, &s, &dw->desc, x));
    decide_if_undecided(b, x);
    decide_if_undecided(b, dy);
    cuda_decide(b, dw, CUDA_MATRIX, DTYPE_F32);
    if (db->desc.rank) cuda_decide(b, db, CUDA_VECTOR, DTYPE_F32);
    TRY(plan_product(op, s,
                     (LtGemm){ .m = s->kp,
                               .n = s->cp,
                               .k = s->n,
                               .transpose_a = true,
                               .accumulate = op->accumulate,
                               .lda = s->kp,
                               .ldb = s->cp,
                               .ldd = s->cp,
                               .d = DTYPE_F32 }));
    s->a = read_activation(op, s, dy, s->kp);
    s->b = read_activation(op, s, x, s->cp);
    return OK;
}

/* ---- bind ---- */

static void bind_operand(const OpInstance *op, Operand *o)
{
    const CudaBackend *b = cuda_backend(op);
    if (o->tensor->layout->format == CUDA_MATRIX) {
        o->data = cuda_compute_copy(b, o->tensor);
        o->casts = o->data == NULL;
        if (!o->casts) return;
    }
    const bool copied = o->casts || o->flattens;
    o->data = copied ? (const char *)op->workspace + o->offset : (const char *)o->tensor->data;
}

static Status bind(OpInstance *op)
{
    LinearState *s = op->state;
    bind_operand(op, &s->a);
    bind_operand(op, &s->b);
    return OK;
}

/* ---- run ---- */

static Status fetch(const OpInstance *op, const LinearState *s, const Operand *o,
                    cudaStream_t stream)
{
    const CudaBackend *b = cuda_backend(op);
    void *copy = (char *)op->workspace + o->offset;
    /* never both: images are flattened; weights, and rows of another linear layer, are cast */
    if (o->flattens)
        TRY_CUDA(cuda_launch_linear_flatten(&s->flatten, o->tensor->data, copy, stream));
    if (o->casts)
        TRY_CUDA(cuda_launch_cast(o->tensor->data, DTYPE_F32, copy, b->compute,
                                  o->rows * o->columns, stream));
    return OK;
}

static Status multiply(const OpInstance *op, const void *bias, void *d, cudaStream_t stream)
{
    const LinearState *s = op->state;
    TRY(fetch(op, s, &s->a, stream));
    TRY(fetch(op, s, &s->b, stream));
    return lt_gemm_plan_run(s->plan, stream, s->a.data, s->b.data, bias, d, op->workspace);
}

static Status run_forward(OpInstance *op, Stream *stream)
{
    const OpTensor *bias = &op->in[LINEAR_IN_B];
    return multiply(op, bias->desc.rank ? bias->data : NULL, op->out[LINEAR_OUT_Y].data,
                    stream->stream);
}

static Status run_bwd_data(OpInstance *op, Stream *stream)
{
    const LinearState *s = op->state;
    void *dx = op->out[LINEAR_BWD_DATA_OUT_DX].data, *unflat = (char *)op->workspace + s->unflat;
    TRY(multiply(op, NULL, s->unflattens ? unflat : dx, stream->stream));
    if (s->unflattens)
        TRY_CUDA(cuda_launch_linear_unflatten(&s->flatten, unflat, dx, stream->stream));
    return OK;
}

static Status run_bwd_weights(OpInstance *op, Stream *stream)
{
    const LinearState *s = op->state;
    const OpTensor *dy = &op->in[LINEAR_BWD_WEIGHTS_IN_DY],
                   *db = &op->out[LINEAR_BWD_WEIGHTS_OUT_DB];
    if (db->desc.rank)
        TRY_CUDA(cuda_launch_linear_bias_gradient(dy->data, dy->layout->dtype, db->data, s->n,
                                                  s->kp, op->accumulate, stream->stream));
    return multiply(op, NULL, op->out[LINEAR_BWD_WEIGHTS_OUT_DW].data, stream->stream);
}

static void release_linear(OpInstance *op)
{
    LinearState *s = op->state;
    if (s) lt_gemm_plan_destroy(s->plan);
    mem_free(s);
    op->state = NULL;
}

const OpImpl cuda_linear = { prepare_forward, bind, run_forward, release_linear };
const OpImpl cuda_linear_bwd_data = { prepare_bwd_data, bind, run_bwd_data, release_linear };
const OpImpl cuda_linear_bwd_weights = { prepare_bwd_weights, bind, run_bwd_weights,
                                         release_linear };
