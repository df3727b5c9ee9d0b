/* conv2d_bn.c - a convolution of an evaluation with batch norm, residual and activation in one
 * pass.
 *
 * The norm is multiplied into a copy of the weights (fold.c) at each run, since parameters change
 * between evaluations; its shift is the convolution's bias, the residual is what y holds before,
 * and activation comes last: bias, sum and eltwise are what nearly all of oneDNN's implementations
 * take without becoming slower. (Multiplying and adding vectors behind the sum, its binary
 * post-ops, made 1x1 convolutions of few channels three to six times slower.)
 *
 * In bf16 the product of weights and scale is rounded, not the weights, and y once, behind the
 * activation: fewer roundings than the ops one by one have. */
#include "base/mem.h"
#include "kernels/cpu/conv2d.h"
#include "kernels/cpu/fold.h"
#include "kernels/cpu/view.h"
#include "kernels/cpu/winograd.h"

typedef struct State {
    CpuSteps steps; /* first */
    CpuFold fold;
    CpuWinograd winograd;
} State;

typedef struct Operands {
    CpuOperand x, w, y, residual; /* residual.layout NULL: none */
} Operands;

/* How weights lie while they are multiplied: as the primitive wants them, or in f32 before they are
 * rounded to that. */
static Status layout_of_fold(CpuBackend *b, const ConvGeometry *g, const Layout *have,
                             const Layout *want, const Layout **out)
{
    *out = want->type == DTYPE_F32 ? want : have;
    return *out == want || !g->cropped ? OK : cpu_layout_plain(b, out, g->w_rank, g->w);
}

/* The weights that the primitive reads, and its bias. */
static Status add_fold(CpuBackend *b, State *s, const ConvGeometry *g, CpuOperand have,
                       const ConvChoice *choice, const Layout *bias, float eps, CpuOperand *weights,
                       CpuOperand *shift)
{
    CpuSteps *steps = &s->steps;
    const Layout *as;
    CpuOperand live;
    TRY(layout_of_fold(b, g, have.layout, choice->w, &as));
    TRY(cpu_fold_prepare(&s->fold, as, eps));
    TRY(conv2d_fetch_weights(b, steps, g, have, as, false, &live));
    const CpuOperand folded =
        live.place == PLACE_WORKSPACE ? live : cpu_steps_operand_workspace(steps, as);
    *shift = cpu_steps_operand_workspace(steps, bias);
    const CpuOperand operands[FOLD_COUNT] = {
        [FOLD_FOLDED] = folded,
        [FOLD_WEIGHTS] = live,
        [FOLD_GAMMA] = cpu_steps_operand_in(CONV_BN_IN_GAMMA, bias),
        [FOLD_BETA] = cpu_steps_operand_in(CONV_BN_IN_BETA, bias),
        [FOLD_MEAN] = cpu_steps_operand_in(CONV_BN_IN_RUNNING_MEAN, bias),
        [FOLD_VAR] = cpu_steps_operand_in(CONV_BN_IN_RUNNING_VAR, bias),
        [FOLD_SCALE] = cpu_steps_operand_workspace(steps, bias),
        [FOLD_SHIFT] = *shift
    };
    cpu_steps_add_call(steps, cpu_fold_run, &s->fold, FOLD_COUNT, operands);
    if (choice->emulated) cpu_steps_add_round(steps, folded, folded);
    return conv2d_fetch(b, steps, folded, choice->w, weights);
}

/* The steps around choice, but for what becomes of choice->pd if they fail before it is used. */
static Status fetch_all(CpuBackend *b, State *s, const ConvGeometry *g, const Operands *have,
                        const ConvChoice *choice, const Layout *bias, float eps, CpuOperand use[4])
{
    CpuSteps *steps = &s->steps;
    TRY(conv2d_fetch(b, steps, have->x, choice->x, &use[0]));
    TRY(add_fold(b, s, g, have->w, choice, bias, eps, &use[1], &use[2]));
    use[3] = have->y.layout == choice->y ? have->y : cpu_steps_operand_workspace(steps, choice->y);
    if (!have->residual.layout) return OK;
    if (have->residual.layout != choice->y)
        return cpu_steps_add_reorder(b, steps, have->residual, use[3]);
    cpu_steps_add_copy(steps, use[3], have->residual);
    return OK;
}

static Status make_steps(CpuBackend *b, State *s, const ConvProblem *p, const Operands *have,
                         const ConvChoice *choice, float eps)
{
    static const int args[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST };
    CpuOperand use[4];
    const Status st = fetch_all(b, s, p->geometry, have, choice, p->epilogue->bias, eps, use);
    if (st != OK) {
        dnnl_primitive_desc_destroy(choice->pd);
        return st;
    }
    if (choice->winograd)
        TRY(cpu_winograd_add(b, &s->steps, &s->winograd, p,
                             (CpuOperand[]){ use[0], use[1], use[3] }, &use[2]));
    else TRY(cpu_steps_add_primitive(b, &s->steps, choice->pd, 4, args, use));
    return use[3].place == PLACE_WORKSPACE ? cpu_steps_add_reorder(b, &s->steps, use[3], have->y)
                                           : OK;
}

/* Decides all tensors; their layouts as operands. */
static Status decide_conv2d_bn(CpuBackend *b, OpInstance *op, const ConvGeometry *full,
                               Operands *have)
{
    OpTensor *x = &op->in[CONV_BN_IN_X], *w = &op->in[CONV_BN_IN_W],
             *residual = &op->in[CONV_BN_IN_RESIDUAL], *y = &op->out[CONV_BN_OUT_Y];
    *have = (Operands){ .x = cpu_steps_operand_in(CONV_BN_IN_X, NULL),
                        .w = cpu_steps_operand_in(CONV_BN_IN_W, NULL),
                        .y = cpu_steps_operand_out(CONV_BN_OUT_Y, NULL),
                        .residual = cpu_steps_operand_in(CONV_BN_IN_RESIDUAL, NULL) };
    for (int i = CONV_BN_IN_GAMMA; i <= CONV_BN_IN_RUNNING_VAR; i++) cpu_decide_plain(&op->in[i]);
    cpu_view_decide(b, x);
    cpu_view_decide(b, y);
    TRY(cpu_layout_of_tensor(b, &have->x.layout, x));
    TRY(cpu_layout_of_tensor(b, &have->y.layout, y));
    TRY(conv2d_decide_weights(b, full, have->x.layout, have->y.layout, w));
    have->w.layout = w->layout;
    if (!w->layout) TRY(cpu_layout_plain(b, &have->w.layout, full->w_rank, full->w));
    if (residual->desc.rank == 0) return OK;
    cpu_view_decide(b, residual);
    return cpu_layout_of_tensor(b, &have->residual.layout, residual);
}

static Status prepare_conv2d_bn(OpInstance *op)
{
    CpuBackend *b = (CpuBackend *)op->backend;
    const Conv2dBnAttr *a = op->attr;
    State *s = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    const ConvGeometry full =
        conv2d_geometry(&a->conv, &op->in[CONV_BN_IN_X].desc, &op->in[CONV_BN_IN_W].desc,
                        &op->out[CONV_BN_OUT_Y].desc);
    const ConvGeometry live = conv2d_crop(&full);
    Operands have;
    TRY(decide_conv2d_bn(b, op, &full, &have));
    ConvEpilogue epilogue = { .add = have.residual.layout != NULL, .act = a->act };
    TRY(cpu_layout_plain(b, &epilogue.bias, 1, &op->in[CONV_BN_IN_W].desc.dims[0]));
    ConvProblem problem = { .direction = CONV_FORWARD,
                            .geometry = &live,
                            .x = have.x.layout,
                            .y = have.y.layout,
                            .epilogue = &epilogue,
                            .evaluates = true };
    if (!live.cropped) problem.w = have.w.layout;
    ConvChoice choice;
    TRY(conv2d_choose(b, &problem, &choice));
    op->implementation = choice.implementation;
    /* A residual that lies otherwise is reordered into y, over which it may then not lie itself. */
    if (have.residual.layout && have.residual.layout != have.y.layout)
        op->no_alias |= 1u << CONV_BN_OUT_Y;
    TRY(make_steps(b, s, &problem, &have, &choice, a->eps));
    op->workspace_bytes = s->steps.workspace_bytes;
    return OK;
}

const OpImpl cpu_conv2d_bn = { CPU_STEPS(prepare_conv2d_bn) };
