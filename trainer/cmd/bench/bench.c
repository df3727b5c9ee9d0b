/* bench.c - what the benchmarks share. */
#include "trainer/cmd/bench/bench.h"
#include "data/data.h"
#include "trainer/cmd/command_run.h"
#include <stdlib.h>

Config bench_config(const Config *c)
{
    Config local = *c;
    if (!c->data.train || c->data.train[0] == '\0') command_run_generate_images(&local);
    local.data.val = NULL;
    local.data.val_split = 0;
    return local;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, int64_t count)
{
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}
