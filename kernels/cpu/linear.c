/* linear.c - the fully connected layer and its gradients by oneDNN's matrix multiplication on plain
 * row-major f32.
 *
 * Weights stay plain: dnnl_sgemm packs what it needs, and beta = 1 adds a bias that was written
 * first, or accumulates a gradient, for nothing. What lies otherwise passes through a plain copy in
 * the workspace: an x of channel blocks or of bf16, or its gradient. In bf16 factors are rounded
 * to it and kept as f32: their products are exact then and sums f32, as the instructions for bf16
 * would have them. (Which would gain nothing: of the work of a ResNet-50 its linear layer is 0.05
 * %.) y is f32: logits need it. */
#include "base/mem.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/steps.h"
#include "kernels/cpu/view.h"
#include <string.h>

typedef struct LinearState {
    CpuSteps steps;    /* first */
    int64_t n, k, c;   /* images, outputs, inputs */
    bool adds, biased; /* to gradients; that there is a bias, or its gradient */
} LinearState;

/* What a product finds at address[]: as in conv2d.c two of the first three are its factors, one is
 * its result. SUMMED is dy before it was rounded. */
enum { ROLE_X, ROLE_W, ROLE_Y, ROLE_BIAS, ROLE_SUMMED, ROLE_COUNT };

/* ---- products ---- */

static Status multiply_forward(const void *cookie, void *const *address, int threads)
{
    const LinearState *s = cookie;
    float *y = address[ROLE_Y];
    (void)threads; /* oneDNN's are OpenMP's */
    if (s->biased)
        for (int64_t i = 0; i < s->n; i++)
            memcpy(y + i * s->k, address[ROLE_BIAS], (size_t)s->k * sizeof *y);
    TRY_DNNL(dnnl_sgemm('N', 'T', s->n, s->k, s->c, 1.0F, address[ROLE_X], s->c, address[ROLE_W],
                        s->c, s->biased ? 1.0F : 0.0F, y, s->k));
    return OK;
}

static Status multiply_bwd_data(const void *cookie, void *const *address, int threads)
{
    const LinearState *s = cookie;
    (void)threads;
    TRY_DNNL(dnnl_sgemm('N', 'N', s->n, s->c, s->k, 1.0F, address[ROLE_Y], s->k, address[ROLE_W],
                        s->c, 0.0F, address[ROLE_X], s->c));
    return OK;
}

/* db[k] (+)= sum over n of dy[n][k], in the order of n whatever the team. */
CPU_CLONES static void sum_rows(float *restrict db, const float *restrict dy, int64_t n, int64_t k,
                                bool add)
{
    if (!add) memset(db, 0, (size_t)k * sizeof *db);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++) db[j] += dy[i * k + j];
}

static Status multiply_bwd_weights(const void *cookie, void *const *address, int threads)
{
    const LinearState *s = cookie;
    (void)threads;
    if (s->biased) sum_rows(address[ROLE_BIAS], address[ROLE_SUMMED], s->n, s->k, s->adds);
    TRY_DNNL(dnnl_sgemm('T', 'N', s->k, s->c, s->n, 1.0F, address[ROLE_Y], s->k, address[ROLE_X],
                        s->c, s->adds ? 1.0F : 0.0F, address[ROLE_W], s->c));
    return OK;
}

/* ---- the three ops ---- */

typedef struct DirectionRow {
    CpuStepCall multiply;
    struct {
        CpuPlace place;
        int slot;
    } roles[ROLE_SUMMED];
} DirectionRow;

static const DirectionRow forward = { multiply_forward,
                                      { { PLACE_INPUT, LINEAR_IN_X },
                                        { PLACE_INPUT, LINEAR_IN_W },
                                        { PLACE_OUTPUT, LINEAR_OUT_Y },
                                        { PLACE_INPUT, LINEAR_IN_B } } };
static const DirectionRow bwd_data = { multiply_bwd_data,
                                       { { PLACE_OUTPUT, LINEAR_BWD_DATA_OUT_DX },
                                         { PLACE_INPUT, LINEAR_BWD_DATA_IN_W },
                                         { PLACE_INPUT, LINEAR_BWD_DATA_IN_DY } } };
static const DirectionRow bwd_weights = { multiply_bwd_weights,
                                          { { PLACE_INPUT, LINEAR_BWD_WEIGHTS_IN_X },
                                            { PLACE_OUTPUT, LINEAR_BWD_WEIGHTS_OUT_DW },
                                            { PLACE_INPUT, LINEAR_BWD_WEIGHTS_IN_DY },
                                            { PLACE_OUTPUT, LINEAR_BWD_WEIGHTS_OUT_DB } } };

/* What a product reads of t, which lies at have: plain, in bf16 rounded; wide: before it was. */
static Status fetch(const OpInstance *op, const OpTensor *t, CpuOperand have, CpuOperand *wide,
                    CpuOperand *factor)
{
    CpuBackend *b = cpu_backend_of(op);
    LinearState *s = op->state;
    const Layout *plain;
    TRY(cpu_layout_plain(b, &plain, t->desc.rank, t->desc.dims));
    *wide = have;
    if (have.layout != plain) {
        *wide = cpu_steps_operand_workspace(&s->steps, plain);
        TRY(cpu_steps_add_reorder(b, &s->steps, have, *wide));
    }
    *factor = *wide;
    if (have.layout->type == b->compute) return OK;
    *factor = cpu_steps_operand_workspace(&s->steps, plain);
    cpu_steps_add_round(&s->steps, *factor, *wide);
    return OK;
}

/* Decides t: activations as they are anywhere, the rest plain. */
static Status decide_linear(OpInstance *op, const DirectionRow *row, int role, OpTensor **t,
                            CpuOperand *have)
{
    CpuBackend *b = cpu_backend_of(op);
    const int slot = row->roles[role].slot;
    const bool input = row->roles[role].place == PLACE_INPUT;
    *t = input ? &op->in[slot] : &op->out[slot];
    *have = input ? cpu_steps_operand_in(slot, NULL) : cpu_steps_operand_out(slot, NULL);
    if (!(*t)->desc.rank) return OK;
    if (role == ROLE_X || (role == ROLE_Y && input)) cpu_view_decide(b, *t);
    else cpu_decide_plain(*t);
    return cpu_layout_of_tensor(b, &have->layout, *t);
}

static Status add_bias(OpInstance *op, const DirectionRow *row, CpuOperand at[ROLE_COUNT])
{
    OpTensor *bias;
    if (op->kind == OP_LINEAR) at[ROLE_SUMMED] = at[ROLE_Y]; /* not read */
    if (op->kind == OP_LINEAR_BWD_DATA) return OK;
    TRY(decide_linear(op, row, ROLE_BIAS, &bias, &at[ROLE_BIAS]));
    ((LinearState *)op->state)->biased = bias->desc.rank != 0;
    return OK;
}

static Status prepare_linear(OpInstance *op)
{
    static const DirectionRow *const by_kind[OP_COUNT] = { [OP_LINEAR] = &forward,
                                                           [OP_LINEAR_BWD_DATA] = &bwd_data,
                                                           [OP_LINEAR_BWD_WEIGHTS] = &bwd_weights };
    const DirectionRow *row = by_kind[op->kind];
    CpuBackend *b = cpu_backend_of(op);
    OpTensor *t[ROLE_SUMMED];
    CpuOperand have[ROLE_SUMMED], at[ROLE_COUNT], wide, made;
    const Layout *plain;
    int output = -1;
    LinearState *s = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    for (int i = 0; i < ROLE_BIAS; i++) {
        TRY(decide_linear(op, row, i, &t[i], &have[i]));
        if (row->roles[i].place == PLACE_OUTPUT) output = i;
        else TRY(fetch(op, t[i], have[i], i == ROLE_Y ? &at[ROLE_SUMMED] : &wide, &at[i]));
    }
    op->implementation = b->compute == DTYPE_F32 ? "sgemm" : "sgemm of bf16";
    s->n = t[ROLE_Y]->desc.dims[0];
    s->k = t[ROLE_W]->desc.dims[0];
    s->c = t[ROLE_W]->desc.dims[1];
    s->adds = op->accumulate;

    TRY(cpu_layout_plain(b, &plain, t[output]->desc.rank, t[output]->desc.dims));
    made = have[output];
    if (made.layout != plain) made = cpu_steps_operand_workspace(&s->steps, plain);
    at[output] = made;
    TRY(add_bias(op, row, at));
    cpu_steps_add_call(&s->steps, row->multiply, s, s->biased ? ROLE_COUNT : ROLE_BIAS, at);
    if (made.layout != have[output].layout)
        TRY(cpu_steps_add_reorder(b, &s->steps, made, have[output]));
    op->workspace_bytes = s->steps.workspace_bytes;
    return OK;
}

const OpImpl cpu_linear = { CPU_STEPS(prepare_linear) };
const OpImpl cpu_linear_bwd_data = { CPU_STEPS(prepare_linear) };
const OpImpl cpu_linear_bwd_weights = { CPU_STEPS(prepare_linear) };
