/* make_ckptdiff.c - how far two checkpoints are from each other: make_ckptdiff A B [TOLERANCE]. For
 * tests/e2e.
 *
 * Prints one line for parameters, buffers (running statistics) and optimizer state each: the
 * relative difference of the group, |A - B| / |A| over all its values together, and the worst
 * tensor by the same measure. Exits 0 if every bit is equal, 1 if not; 2 if they cannot be
 * compared: not readable, or other names and shapes. Metadata is not looked at.
 *
 * TOLERANCE asks for weights (parameters and buffers) that agree to rounding instead: 0 if the
 * relative difference of each group is at most that, and of each tensor at most ONE_TENSOR times as
 * much. A single tensor gets more room because a ReLU input within rounding of zero passes its
 * gradient on one side and not on the other; that one term is as large as one of the few thousand
 * that a bias gradient sums up, and a bias starts at zero. */
#include "base/str.h"
#include "trainer/engine/files/safetensors.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GROUP_PARAMS, GROUP_BUFFERS, GROUP_OPTIMIZER, GROUP_COUNT };
static const char *const group_names[GROUP_COUNT] = { "params", "buffers", "optimizer" };

#define ONE_TENSOR 1000

typedef struct Difference {
    int tensors;
    bool equal;                    /* bit for bit */
    double squares_a, squares_gap; /* sums over the group */
    double worst;                  /* relative difference of one tensor */
    const char *worst_name;        /* borrowed; NULL: none differs */
} Difference;

static int group_of(const char *name)
{
    if (str_starts_with(name, "optimizer.")) return GROUP_OPTIMIZER;
    return strstr(name, "running_") ? GROUP_BUFFERS : GROUP_PARAMS;
}

/* A gap that is no number counts as infinite. */
static double relative(double squares_gap, double squares_a)
{
    if (squares_gap == 0) return 0;
    double ratio = sqrt(squares_gap) / sqrt(squares_a);
    return isfinite(ratio) ? ratio : (double)INFINITY;
}

static void compare(const SafeTensor *a, const SafeTensor *b, Difference *d)
{
    size_t bytes = tensor_plain_bytes(&a->desc);
    const float *x = a->data, *y = b->data;
    double squares_a = 0, squares_gap = 0;
    for (size_t i = 0; i < bytes / sizeof *x; i++) {
        double gap = (double)x[i] - (double)y[i];
        squares_a += (double)x[i] * (double)x[i];
        squares_gap += gap * gap;
    }
    d->tensors++;
    d->squares_a += squares_a;
    d->squares_gap += squares_gap;
    if (memcmp(x, y, bytes) == 0) return;
    d->equal = false;
    if (relative(squares_gap, squares_a) < d->worst) return;
    d->worst = relative(squares_gap, squares_a);
    d->worst_name = a->name;
}

static Status compare_files(const SafeFile *a, const SafeFile *b, Difference groups[GROUP_COUNT])
{
    if (safetensors_count(a) != safetensors_count(b))
        return fail(ERR_DATA, "%d tensors and %d tensors", safetensors_count(a),
                    safetensors_count(b));
    for (int i = 0; i < safetensors_count(a); i++) {
        const SafeTensor *x = safetensors_at(a, i), *y = safetensors_find(b, x->name);
        if (!y) return fail(ERR_DATA, "tensor %s is only in the first file", x->name);
        if (x->desc.dtype != DTYPE_F32 || y->desc.dtype != DTYPE_F32 ||
            !tensor_same_shape(&x->desc, &y->desc))
            return fail(ERR_DATA, "tensor %s: dtypes or shapes differ", x->name);
        compare(x, y, &groups[group_of(x->name)]);
    }
    return OK;
}

static bool agrees(const Difference *d, bool is_weights, double tolerance)
{
    if (tolerance <= 0) return d->equal;
    if (!is_weights) return true;
    return relative(d->squares_gap, d->squares_a) <= tolerance &&
           d->worst <= ONE_TENSOR * tolerance;
}

/* 0: all agree; 1: not. */
static int report(const Difference groups[GROUP_COUNT], double tolerance)
{
    int result = 0;
    for (int g = 0; g < GROUP_COUNT; g++) {
        const Difference *d = &groups[g];
        printf("%-9s %4d tensors, relative difference %.3g; of one tensor %.3g%s%s\n",
               group_names[g], d->tensors, relative(d->squares_gap, d->squares_a), d->worst,
               d->worst_name ? " in " : "", d->worst_name ? d->worst_name : "");
        if (!agrees(d, g != GROUP_OPTIMIZER, tolerance)) result = 1;
    }
    return result;
}

int main(int argc, char **argv)
{
    Difference groups[GROUP_COUNT] = { { .equal = true }, { .equal = true }, { .equal = true } };
    SafeFile *a = NULL, *b = NULL;
    double tolerance = 0;
    bool usable = argc == 3 || (argc == 4 && str_to_double(argv[3], &tolerance));
    Status status = usable ? OK : fail(ERR_USAGE, "usage: make_ckptdiff A B [TOLERANCE]");
    if (status == OK) status = safetensors_open(&a, argv[1]);
    if (status == OK) status = safetensors_open(&b, argv[2]);
    if (status == OK) status = compare_files(a, b, groups);
    int result = status == OK ? report(groups, tolerance) : 2;
    if (status != OK) fprintf(stderr, "make_ckptdiff: %s\n", status_message());
    safetensors_close(a);
    safetensors_close(b);
    return result;
}
