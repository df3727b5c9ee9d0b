/* penalty.c - see penalty.h. */
#include "trainer/train/penalty.h"
#include "base/mem.h"
#include "kernels/ops/update.h"

static bool decays(const Executor *x, const Config *c, int i)
{
    return executor_state_is_param(x, i) && (c->optimizer.decay_all || executor_state_decays(x, i));
}

static size_t plain_bytes(const Executor *x, int i)
{
    return tensor_plain_bytes(&executor_state(x, i)->desc);
}

static double sum_of_squares(const float *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)values[i] * (double)values[i];
    return sum;
}

Status penalty_of_parameters(Executor *x, const Config *c, double *out)
{
    size_t largest = 0;
    double sum = 0;
    *out = 0;
    if (update_traits((UpdateKind)c->optimizer.name)->decoupled_decay ||
        c->optimizer.weight_decay <= 0)
        return OK;
    for (int i = 0; i < executor_state_count(x); i++)
        if (decays(x, c, i) && plain_bytes(x, i) > largest) largest = plain_bytes(x, i);
    float *values = mem_alloc_aligned(largest, MEM_ALIGN);
    if (!values) return ERR_MEMORY;
    Status status = OK;
    for (int i = 0; i < executor_state_count(x) && status == OK; i++) {
        if (!decays(x, c, i)) continue;
        status = executor_export_state(x, i, values);
        if (status == OK) sum += sum_of_squares(values, plain_bytes(x, i) / sizeof *values);
    }
    mem_free(values);
    *out = 0.5 * c->optimizer.weight_decay * sum;
    return status;
}
