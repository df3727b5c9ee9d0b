/* penalty.c - see penalty.h. */
#include "trainer/engine/rules/penalty.h"
#include "base/mem.h"
#include "kernels/ops/update.h"
#include "trainer/engine/rules/param_rules.h"

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

static Status add_up(Executor *x, const ParamRule *rules, double *sum)
{
    size_t largest = 0;
    for (int i = 0; i < executor_state_count(x); i++)
        if (rules[i].decay > 0 && plain_bytes(x, i) > largest) largest = plain_bytes(x, i);
    float *values = mem_alloc_aligned(largest, MEM_ALIGN);
    if (!values) return ERR_MEMORY;
    Status status = OK;
    for (int i = 0; i < executor_state_count(x) && status == OK; i++) {
        if (rules[i].decay <= 0) continue;
        status = executor_export_state(x, i, values);
        if (status == OK)
            *sum += rules[i].decay * sum_of_squares(values, plain_bytes(x, i) / sizeof *values);
    }
    mem_free(values);
    return status;
}

Status penalty_of_parameters(Executor *x, const Config *c, double *out)
{
    double sum = 0;
    *out = 0;
    if (update_traits((UpdateKind)c->optimizer.name)->decoupled_decay ||
        c->optimizer.weight_decay <= 0)
        return OK;
    ParamRule *rules = mem_calloc((size_t)executor_state_count(x), sizeof *rules);
    if (!rules) return ERR_MEMORY;
    Status status = param_rules_make(rules, x, c);
    if (status == OK) status = add_up(x, rules, &sum);
    mem_free(rules);
    *out = 0.5 * c->optimizer.weight_decay * sum;
    return status;
}
