/* whiten.c - see whiten.h. Eigenvectors by cyclic Jacobi rotations: slow for large matrices, exact
 * for small ones. */
#include "models/whiten.h"
#include "base/mem.h"
#include <math.h>

#define WHITEN_EPS 5e-4
#define SWEEPS_MAX 64 /* ten are many */

struct Whiten {
    int channels, rows, columns, n;
    int64_t patches;
    double *moments; /* [n, n]; sums. Owned, with what follows in the same memory */
    double *vectors; /* [n, n]: an eigenvector is a column */
    double *patch;   /* [n] */
};

Status whiten_create(Whiten **out, int channels, int rows, int columns)
{
    const int n = channels * rows * columns;
    Whiten *w = *out = mem_calloc(1, sizeof *w);
    double *memory = mem_calloc((size_t)(2 * n * n + n), sizeof *memory);
    if (w && memory) {
        *w = (Whiten){ channels, rows, columns, n, 0, memory, memory + n * n, memory + 2 * n * n };
        return OK;
    }
    mem_free(w);
    mem_free(memory);
    *out = NULL;
    return ERR_MEMORY;
}

void whiten_destroy(Whiten *w)
{
    if (w) mem_free(w->moments);
    mem_free(w);
}

void whiten_add(Whiten *w, const uint8_t *image, int height, int width, const float *mean,
                const float *std)
{
    for (int y = 0; y + w->rows <= height; y++)
        for (int x = 0; x + w->columns <= width; x++) {
            double *p = w->patch;
            for (int c = 0; c < w->channels; c++)
                for (int r = 0; r < w->rows; r++)
                    for (int s = 0; s < w->columns; s++) {
                        const int at = ((y + r) * width + x + s) * w->channels + c;
                        *p++ = (double)(((float)image[at] / 255.0f - mean[c]) / std[c]);
                    }
            p = w->patch;
            for (int i = 0; i < w->n; i++)
                for (int j = 0; j < w->n; j++) w->moments[i * w->n + j] += p[i] * p[j];
            w->patches++;
        }
}

/* Columns, or rows, p and q of an n x n matrix become c p - s q and s p + c q. */
static void rotate(double *m, int n, int p, int q, int step, int line, double c, double s)
{
    for (int i = 0; i < n; i++) {
        double *a = &m[i * line + p * step], *b = &m[i * line + q * step];
        const double first = *a, second = *b;
        *a = c * first - s * second;
        *b = s * first + c * second;
    }
}

/* One rotation of the symmetric moments, after which element (p, q) is 0. */
static void annihilate(Whiten *w, int p, int q)
{
    double *m = w->moments;
    const int n = w->n;
    if (m[p * n + q] == 0) return;
    const double theta = (m[q * n + q] - m[p * n + p]) / (2 * m[p * n + q]);
    const double t = copysign(1, theta) / (fabs(theta) + sqrt(theta * theta + 1));
    const double c = 1 / sqrt(t * t + 1);
    rotate(m, n, p, q, 1, n, c, t * c);
    rotate(m, n, p, q, n, 1, c, t * c);
    m[p * n + q] = m[q * n + p] = 0;
    rotate(w->vectors, n, p, q, 1, n, c, t * c);
}

static double off_diagonal(const Whiten *w)
{
    double sum = 0;
    for (int i = 0; i < w->n; i++)
        for (int j = 0; j < w->n; j++) sum += i == j ? 0 : fabs(w->moments[i * w->n + j]);
    return sum;
}

/* Leaves the eigenvalues on the diagonal of the moments. */
static void find_vectors(Whiten *w)
{
    const int n = w->n;
    for (int i = 0; i < n; i++) w->vectors[i * n + i] = 1;
    for (int sweep = 0; sweep < SWEEPS_MAX && off_diagonal(w) > 0; sweep++)
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) annihilate(w, p, q);
}

Status whiten_filters(Whiten *w, float *out)
{
    const int n = w->n;
    if (w->patches == 0)
        return fail(ERR_DATA, "no image has a patch of %d x %d pixels", w->columns, w->rows);
    find_vectors(w);
    for (int k = 0; k < n; k++) {
        int best = 0, largest = 0;
        for (int i = 1; i < n; i++)
            if (w->moments[i * n + i] > w->moments[best * n + best]) best = i;
        for (int i = 1; i < n; i++)
            if (fabs(w->vectors[i * n + best]) > fabs(w->vectors[largest * n + best])) largest = i;
        const double value = fmax(w->moments[best * n + best], 0) / (double)w->patches;
        const double scale = copysign(1 / sqrt(value + WHITEN_EPS), w->vectors[largest * n + best]);
        for (int i = 0; i < n; i++) {
            out[k * n + i] = (float)(scale * w->vectors[i * n + best]);
            out[(n + k) * n + i] = -out[k * n + i];
        }
        w->moments[best * n + best] = -INFINITY; /* taken */
    }
    return OK;
}
