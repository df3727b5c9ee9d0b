/* muon.c - Muon's direction on the device: products by cuBLASLt, in true f32 whatever the run's
 * precision.
 *
 * No copy is made: with channels innermost and padded a weight is a matrix [Kp, R S Cp] where it
 * lies. Another order of columns gives the same direction in that order, and zeros stay zeros. All
 * ranks run the same algorithms (lt_gemm.h): their directions are the same bits. */
#include "kernels/cuda/muon.h"
#include "base/mem.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cudnn/lt_gemm.h"
#include "kernels/ops/muon.h"

typedef struct MuonState {
    int64_t rows, columns, side; /* padded; side: the smaller */
    LtGemmPlan *gram, *square, *apply;
    size_t scratch, x, squares[3], sums; /* in the workspace; scratch: cuBLASLt's */
    MuonStep steps[MUON_STEPS];
} MuonState;

enum { GRAM, INNER, OUTER };

/* gram = x x^T, or x^T x if there are more rows than columns; outer += gram inner; y = outer x, or
 * x outer. */
static Status plan_products(OpInstance *op, MuonState *s)
{
    const bool wide = s->rows <= s->columns;
    const int64_t n = s->columns, side = s->side;
    LtGemm gram = { .m = side, .n = side, .k = wide ? n : s->rows },
           square = { .m = side, .n = side, .k = side, .accumulate = true },
           apply = { .m = s->rows, .n = n, .k = side };
    gram.transpose_a = !wide;
    gram.transpose_b = wide;
    gram.lda = gram.ldb = apply.ldd = n;
    gram.ldd = square.lda = square.ldb = square.ldd = side;
    apply.lda = wide ? side : n;
    apply.ldb = n;
    if (!wide) apply.ldb = side;
    gram.ab = gram.d = square.ab = square.d = apply.ab = apply.d = DTYPE_F32;
    TRY(lt_gemm_plan_create(&s->gram, cuda_backend(op), &gram));
    TRY(lt_gemm_plan_create(&s->square, cuda_backend(op), &square));
    TRY(lt_gemm_plan_create(&s->apply, cuda_backend(op), &apply));
    s->scratch = cuda_take_workspace(op, lt_gemm_plan_workspace(s->gram));
    return OK;
}

static void decide(const CudaBackend *b, OpTensor *t)
{
    if (!t->bytes) cuda_decide(b, t, t->desc.rank == 2 ? CUDA_MATRIX : CUDA_KRSC, DTYPE_F32);
}

static Status muon_prepare(OpInstance *op)
{
    const CudaBackend *b = cuda_backend(op);
    OpTensor *grad = &op->in[MUON_IN_GRAD];
    MuonState *s = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    op->implementation = "muon:cublaslt";
    decide(b, grad);
    decide(b, &op->in[MUON_IN_MOMENTUM]);
    for (int i = MUON_IN_LOSS_SCALE; i <= MUON_IN_CLIP; i++)
        if (op->in[i].desc.rank) cuda_decide_plain(&op->in[i]);
    s->columns = tensor_elements(&grad->desc) / grad->desc.dims[0];
    if (grad->layout) s->columns = cuda_strides(b, &grad->desc, grad->layout->format).strides[0];
    s->rows = (int64_t)(grad->bytes / sizeof(float)) / s->columns;
    s->side = s->rows < s->columns ? s->rows : s->columns;
    muon_steps(&grad->desc, s->steps);
    TRY(plan_products(op, s));
    s->x = cuda_take_workspace(op, grad->bytes);
    for (int i = GRAM; i <= OUTER; i++)
        s->squares[i] = cuda_take_workspace(op, (size_t)(s->side * s->side) * sizeof(float));
    s->sums =
        cuda_take_workspace(op, (grad->bytes / sizeof(float) / MUON_CHUNK + 1) * sizeof(double));
    return OK;
}

/* One step from x to y. */
static Status step(const OpInstance *op, const MuonStep *of, const float *x, float *y,
                   cudaStream_t stream)
{
    const MuonState *s = op->state;
    const bool wide = s->rows <= s->columns;
    void *scratch = cuda_workspace(op, s->scratch);
    float *gram = cuda_workspace(op, s->squares[GRAM]),
          *inner = cuda_workspace(op, s->squares[INNER]),
          *outer = cuda_workspace(op, s->squares[OUTER]);
    TRY(lt_gemm_plan_run(s->gram, stream, x, x, NULL, gram, scratch));
    TRY_CUDA(cuda_launch_muon_factors(gram, s->side, of->a, of->b, of->c, inner, outer, stream));
    TRY(lt_gemm_plan_run(s->square, stream, gram, inner, NULL, outer, scratch));
    return lt_gemm_plan_run(s->apply, stream, wide ? outer : x, wide ? x : outer, NULL, y, scratch);
}

static Status muon_run(OpInstance *op, Stream *stream)
{
    const MuonState *s = op->state;
    const MuonAttr *a = op->attr;
    float *x = cuda_workspace(op, s->x), *grad = op->in[MUON_IN_GRAD].data;
    const MuonPass pass = { .grad = grad,
                            .momentum = op->in[MUON_IN_MOMENTUM].data,
                            .loss_scale = op->in[MUON_IN_LOSS_SCALE].data,
                            .clip = op->in[MUON_IN_CLIP].data,
                            .sums = cuda_workspace(op, s->sums),
                            .count = s->rows * s->columns,
                            .gain = (float)(1 - a->momentum),
                            .eps = a->eps,
                            .nesterov = a->nesterov };
    TRY_CUDA(cuda_launch_muon_momentum(&pass, stream->stream));
    TRY_CUDA(cuda_launch_muon_divide(&pass, x, stream->stream));
    for (int i = 0; i < MUON_STEPS; i++) /* an odd number: it ends in grad */
        TRY(step(op, &s->steps[i], i % 2 ? grad : x, i % 2 ? x : grad, stream->stream));
    return OK;
}

static void muon_release(OpInstance *op)
{
    MuonState *s = op->state;
    if (!s) return;
    lt_gemm_plan_destroy(s->gram);
    lt_gemm_plan_destroy(s->square);
    lt_gemm_plan_destroy(s->apply);
}

const OpImpl cuda_muon = { muon_prepare, cuda_bind_nothing, muon_run, muon_release };
