/* muon.c - Muon's direction: the momentum, then five steps of Newton and Schulz towards the matrix
 * whose singular values are all 1, by timm's coefficients. */
#include "kernels/ops/muon.h"
#include "base/mem.h"
#include "kernels/ref/ref.h"
#include <math.h>
#include <string.h>

typedef struct Matrix {
    double *at;
    int64_t rows, columns;
} Matrix;

/* Element of x, or of its transpose where that has fewer rows. */
static double *at(const Matrix *x, int64_t row, int64_t column)
{
    return x->rows <= x->columns ? &x->at[row * x->columns + column]
                                 : &x->at[column * x->columns + row];
}

/* gram = x x^T, then factor = a I + b gram + c gram gram. */
static void make_factor(const Matrix *x, const MuonStep *s, double *gram, double *factor)
{
    const int64_t side = x->rows < x->columns ? x->rows : x->columns,
                  length = x->rows + x->columns - side;
    for (int64_t i = 0; i < side; i++)
        for (int64_t j = 0; j < side; j++) {
            gram[i * side + j] = 0;
            for (int64_t k = 0; k < length; k++) gram[i * side + j] += *at(x, i, k) * *at(x, j, k);
        }
    for (int64_t i = 0; i < side; i++)
        for (int64_t j = 0; j < side; j++) {
            double square = 0;
            for (int64_t k = 0; k < side; k++) square += gram[i * side + k] * gram[k * side + j];
            factor[i * side + j] = (i == j ? (double)s->a : 0) + (double)s->b * gram[i * side + j] +
                                   (double)s->c * square;
        }
}

static void multiply(const Matrix *x, const double *factor, Matrix *y)
{
    const int64_t side = x->rows < x->columns ? x->rows : x->columns,
                  length = x->rows + x->columns - side;
    for (int64_t i = 0; i < side; i++)
        for (int64_t j = 0; j < length; j++) {
            double sum = 0;
            for (int64_t k = 0; k < side; k++) sum += factor[i * side + k] * *at(x, k, j);
            *at(y, i, j) = sum;
        }
}

/* memory: as much as x, behind it two squares of its shorter side. */
static void orthogonalize(Matrix *x, double eps, const MuonStep *steps, double *memory)
{
    const int64_t count = x->rows * x->columns, side = x->rows < x->columns ? x->rows : x->columns;
    Matrix y = { memory, x->rows, x->columns };
    double *gram = memory + count, *factor = gram + side * side, norm = 0;
    for (int64_t i = 0; i < count; i++) norm += x->at[i] * x->at[i];
    norm = sqrt(norm);
    for (int64_t i = 0; i < count; i++) x->at[i] /= norm < eps ? eps : norm;
    for (int i = 0; i < MUON_STEPS; i++) {
        make_factor(x, &steps[i], gram, factor);
        multiply(x, factor, &y);
        memcpy(x->at, y.at, (size_t)count * sizeof *x->at);
    }
}

static void move_momentum(const OpInstance *op, double *u, double *m, int64_t count)
{
    const MuonAttr *a = op->attr;
    double by = 1;
    if (ref_has_in(op, MUON_IN_LOSS_SCALE)) by /= ref_in(op, MUON_IN_LOSS_SCALE)[LOSS_SCALE_SCALE];
    if (ref_has_in(op, MUON_IN_CLIP)) by *= ref_in(op, MUON_IN_CLIP)[CLIP_FACTOR];
    for (int64_t i = 0; i < count; i++) {
        const double g = by * u[i];
        m[i] += (1 - a->momentum) * (g - m[i]);
        u[i] = a->nesterov ? m[i] + (1 - a->momentum) * (g - m[i]) : m[i];
    }
}

static Status run_muon(OpInstance *op, Stream *stream)
{
    const MuonAttr *a = op->attr;
    const TensorDesc *d = &op->in[MUON_IN_GRAD].desc;
    const int64_t count = tensor_elements(d);
    Matrix x = { op->in[MUON_IN_GRAD].data, d->dims[0], count / d->dims[0] };
    const int64_t side = x.rows < x.columns ? x.rows : x.columns;
    MuonStep steps[MUON_STEPS];
    (void)stream;
    if (ref_has_in(op, MUON_IN_LOSS_SCALE) &&
        ref_in(op, MUON_IN_LOSS_SCALE)[LOSS_SCALE_FOUND_INF] != 0) {
        memset(x.at, 0, (size_t)count * sizeof *x.at);
        return OK;
    }
    double *memory = mem_alloc((size_t)(count + 2 * side * side) * sizeof *memory);
    if (!memory) return ERR_MEMORY;
    move_momentum(op, x.at, op->in[MUON_IN_MOMENTUM].data, count);
    muon_steps(d, steps);
    orthogonalize(&x, (double)a->eps, steps, memory);
    mem_free(memory);
    return OK;
}

const OpImpl ref_muon = { ref_prepare, ref_bind, run_muon, NULL };
