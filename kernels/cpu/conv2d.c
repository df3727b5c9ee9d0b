/* conv2d.c - convolution and its two gradients on oneDNN.
 *
 * The three directions are one relation between x, w and y, of which two are inputs and one is the
 * output; a table says which is which and one prepare() serves all. What runs is a list of steps
 * around the primitive that conv2d_choose.c picked: reorders of inputs that it wants otherwise, the
 * primitive, and what takes its result to where and how the output must lie. Where nothing has to
 * be reordered, which is nearly every layer, the list is the primitive alone.
 *
 * WEIGHTS seen for the first time get the layout that the forward primitive of the full window
 * prefers, whichever direction asks, so that forward reads them as they lie. Their gradient lies
 * like them. In bf16 each direction that reads them rounds them into a copy as its primitive wants
 * it, so they may lie as is best for their gradient, which then goes where it belongs at once. */
#include "base/mem.h"
#include "kernels/cpu/bias.h"
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/view.h"
#include "kernels/cpu/winograd.h"

typedef struct State {
    CpuSteps steps;    /* first */
    ConvGeometry live; /* which a product's steps borrow */
    CpuDepthwise depthwise;
    CpuWinograd winograd;
    CpuBias bias;
} State;

/* with a bias forward has one role more, last */
enum { ROLE_X, ROLE_W, ROLE_Y, ROLE_COUNT, ROLE_BIAS = ROLE_COUNT };

static const struct DirectionRow {
    struct {
        CpuPlace place;
        int slot;
        int arg; /* oneDNN's number */
    } roles[ROLE_COUNT];
} directions[CONV_DIRECTION_COUNT] = {
    [CONV_FORWARD] = { { { PLACE_INPUT, CONV_IN_X, DNNL_ARG_SRC },
                         { PLACE_INPUT, CONV_IN_W, DNNL_ARG_WEIGHTS },
                         { PLACE_OUTPUT, CONV_OUT_Y, DNNL_ARG_DST } } },
    [CONV_BWD_DATA] = { { { PLACE_OUTPUT, CONV_BWD_DATA_OUT_DX, DNNL_ARG_DIFF_SRC },
                          { PLACE_INPUT, CONV_BWD_DATA_IN_W, DNNL_ARG_WEIGHTS },
                          { PLACE_INPUT, CONV_BWD_DATA_IN_DY, DNNL_ARG_DIFF_DST } } },
    [CONV_BWD_WEIGHTS] = { { { PLACE_INPUT, CONV_BWD_WEIGHTS_IN_X, DNNL_ARG_SRC },
                             { PLACE_OUTPUT, CONV_BWD_WEIGHTS_OUT_DW, DNNL_ARG_DIFF_WEIGHTS },
                             { PLACE_INPUT, CONV_BWD_WEIGHTS_IN_DY, DNNL_ARG_DIFF_DST } } },
};

Status conv2d_layout_of_weights(CpuBackend *b, const ConvGeometry *g, const Layout *x,
                                const Layout *y, const Layout **out)
{
    ConvProblem problem = { .direction = x->type == DTYPE_F32 ? CONV_FORWARD : CONV_BWD_WEIGHTS,
                            .geometry = g,
                            .x = x,
                            .y = y };
    ConvChoice choice;
    *out = NULL;
    TRY(conv2d_choose(b, &problem, &choice));
    dnnl_primitive_desc_destroy(choice.pd);
    *out = choice.w;
    return OK;
}

Status conv2d_decide_weights(CpuBackend *b, const ConvGeometry *g, const Layout *x, const Layout *y,
                             OpTensor *w)
{
    if (w->bytes) return OK;
    const Layout *layout;
    TRY(conv2d_layout_of_weights(b, g, x, y, &layout));
    w->bytes = layout->bytes;
    return cpu_layout_for_tensor(b, &w->layout, layout);
}

/* The live window of weights that lie as full. */
static Status window_of(CpuBackend *b, CpuOperand *out, CpuOperand full, const ConvGeometry *g)
{
    int64_t offsets[LAYOUT_MAX_RANK] = { 0 };
    offsets[g->w_rank - 2] = g->first_tap[0];
    offsets[g->w_rank - 1] = g->first_tap[1];
    *out = full;
    return cpu_layout_submemory(b, &out->layout, full.layout, g->w, offsets);
}

Status conv2d_fetch(CpuBackend *b, CpuSteps *s, CpuOperand have, const Layout *want,
                    CpuOperand *out)
{
    *out = have;
    if (have.layout == want) return OK;
    *out = cpu_steps_operand_workspace(s, want);
    return cpu_steps_add_reorder(b, s, have, *out);
}

Status conv2d_fetch_weights(CpuBackend *b, CpuSteps *s, const ConvGeometry *g, CpuOperand have,
                            const Layout *want, bool rounds, CpuOperand *out)
{
    CpuOperand live = have;
    if (g->cropped) TRY(window_of(b, &live, have, g));
    TRY(conv2d_fetch(b, s, live, want, &live));
    *out = live;
    if (!rounds) return OK;
    if (live.place != PLACE_WORKSPACE) *out = cpu_steps_operand_workspace(s, want);
    cpu_steps_add_round(s, *out, live);
    return OK;
}

/* Takes what the primitive made to the output: another layout, around the dead taps (which get
 * zero), or added to what is there. */
static Status deliver(CpuBackend *b, CpuSteps *s, CpuOperand made, CpuOperand output,
                      const ConvGeometry *crop, bool add)
{
    CpuOperand target = output, part;
    /* The sum is a plain loop over memory, so what is added has to lie like the output. */
    if (add && (crop || made.layout != output.layout))
        target = cpu_steps_operand_workspace(s, output.layout);
    if (crop) {
        cpu_steps_add_zero(s, target);
        TRY(window_of(b, &part, target, crop));
        TRY(cpu_steps_add_reorder(b, s, made, part));
    } else if (made.layout != output.layout) {
        TRY(cpu_steps_add_reorder(b, s, made, target));
    } else {
        target = made;
    }
    if (add) cpu_steps_add_sum(s, output, target);
    return OK;
}

static Status add_depthwise(CpuBackend *b, State *state, const ConvGeometry *g,
                            const CpuOperand *use)
{
    const ConvProblem problem = { .direction = CONV_BWD_WEIGHTS,
                                  .geometry = g,
                                  .x = use[ROLE_X].layout,
                                  .y = use[ROLE_Y].layout };
    const Layout *parts;
    TRY(cpu_depthwise_prepare(b, &state->depthwise, &problem, &parts));
    const CpuOperand operands[DEPTHWISE_COUNT] = { [DEPTHWISE_DW] = use[ROLE_W],
                                                   [DEPTHWISE_X] = use[ROLE_X],
                                                   [DEPTHWISE_DY] = use[ROLE_Y],
                                                   [DEPTHWISE_PARTS] = cpu_steps_operand_workspace(
                                                       &state->steps, parts) };
    cpu_steps_add_call(&state->steps, cpu_depthwise_run, &state->depthwise, DEPTHWISE_COUNT,
                       operands);
    return OK;
}

/* The steps around choice; takes choice->pd. bias: what forward adds; NULL: nothing. */
static Status make_steps(CpuBackend *b, State *state, ConvDirection direction,
                         const CpuOperand *have, const ConvChoice *choice, const Layout *bias,
                         bool add)
{
    CpuSteps *s = &state->steps;
    const ConvGeometry *g = &state->live;
    const struct DirectionRow *row = &directions[direction];
    const Layout *want[ROLE_COUNT] = { choice->x, choice->w, choice->y };
    CpuOperand use[ROLE_COUNT + 1] = { [ROLE_BIAS] = cpu_steps_operand_in(CONV_IN_B, bias) };
    int args[ROLE_COUNT + 1] = { [ROLE_BIAS] = DNNL_ARG_BIAS }, output = -1;
    bool direct = true;
    Status st = OK;
    for (int i = 0; i < ROLE_COUNT && st == OK; i++) {
        args[i] = row->roles[i].arg;
        if (have[i].place == PLACE_OUTPUT) {
            output = i;
            direct = !(i == ROLE_W && g->cropped) && !add && have[i].layout == want[i];
            use[i] = direct ? have[i] : cpu_steps_operand_workspace(s, want[i]);
        } else if (i == ROLE_W) {
            st = conv2d_fetch_weights(b, s, g, have[i], want[i], choice->emulated, &use[i]);
        } else {
            st = conv2d_fetch(b, s, have[i], want[i], &use[i]);
        }
    }
    if (st != OK) {
        dnnl_primitive_desc_destroy(choice->pd);
        return st;
    }
    const int count = bias ? ROLE_COUNT + 1 : ROLE_COUNT;
    if (choice->winograd)
        TRY(cpu_winograd_add(b, s, &state->winograd,
                             &(ConvProblem){ .direction = direction, .geometry = g },
                             (CpuOperand[]){ use[ROLE_X], use[ROLE_W], use[ROLE_Y] },
                             bias ? &use[ROLE_BIAS] : NULL));
    else if (choice->product)
        TRY(conv2d_add_product(b, s, direction, g, choice->pd, use[ROLE_X], use[ROLE_W],
                               use[ROLE_Y]));
    else if (choice->pd) TRY(cpu_steps_add_primitive(b, s, choice->pd, count, args, use));
    else TRY(add_depthwise(b, state, g, use));
    if (direct) return OK;
    return deliver(b, s, use[output], have[output], output == ROLE_W && g->cropped ? g : NULL, add);
}

/* The step that makes db of dy. */
static Status add_bias_gradient(OpInstance *op, CpuOperand dy)
{
    CpuBackend *b = (CpuBackend *)op->backend;
    State *s = op->state;
    OpTensor *db = &op->out[CONV_BWD_WEIGHTS_OUT_DB];
    const Layout *parts, *vector;
    if (db->desc.rank == 0) return OK;
    cpu_decide_plain(db);
    TRY(cpu_layout_plain(b, &vector, 1, db->desc.dims));
    TRY(cpu_bias_prepare(b, &s->bias, &op->in[CONV_BWD_WEIGHTS_IN_DY], op->accumulate, &parts));
    const CpuOperand operands[BIAS_COUNT] = {
        [BIAS_DB] = cpu_steps_operand_out(CONV_BWD_WEIGHTS_OUT_DB, vector),
        [BIAS_DY] = dy,
        [BIAS_PARTS] = cpu_steps_operand_workspace(&s->steps, parts)
    };
    cpu_steps_add_call(&s->steps, cpu_bias_run, &s->bias, BIAS_COUNT, operands);
    return OK;
}

static Status prepare_conv2d(OpInstance *op)
{
    static const ConvDirection by_kind[OP_COUNT] = { [OP_CONV2D] = CONV_FORWARD,
                                                     [OP_CONV2D_BWD_DATA] = CONV_BWD_DATA,
                                                     [OP_CONV2D_BWD_WEIGHTS] = CONV_BWD_WEIGHTS };
    const ConvDirection direction = by_kind[op->kind];
    CpuBackend *b = (CpuBackend *)op->backend;
    const struct DirectionRow *row = &directions[direction];
    OpTensor *t[ROLE_COUNT];
    CpuOperand have[ROLE_COUNT];
    State *s = op->state = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    for (int i = 0; i < ROLE_COUNT; i++) {
        const int slot = row->roles[i].slot;
        const bool input = row->roles[i].place == PLACE_INPUT;
        t[i] = input ? &op->in[slot] : &op->out[slot];
        have[i] = input ? cpu_steps_operand_in(slot, NULL) : cpu_steps_operand_out(slot, NULL);
    }
    const ConvGeometry full =
        conv2d_geometry(op->attr, &t[ROLE_X]->desc, &t[ROLE_W]->desc, &t[ROLE_Y]->desc);
    s->live = conv2d_crop(&full);
    cpu_view_decide(b, t[ROLE_X]);
    cpu_view_decide(b, t[ROLE_Y]);
    TRY(cpu_layout_of_tensor(b, &have[ROLE_X].layout, t[ROLE_X]));
    TRY(cpu_layout_of_tensor(b, &have[ROLE_Y].layout, t[ROLE_Y]));
    TRY(conv2d_decide_weights(b, &full, have[ROLE_X].layout, have[ROLE_Y].layout, t[ROLE_W]));
    have[ROLE_W].layout = t[ROLE_W]->layout;
    if (!have[ROLE_W].layout) TRY(cpu_layout_plain(b, &have[ROLE_W].layout, full.w_rank, full.w));

    ConvChoice choice;
    ConvEpilogue epilogue = { .bias = NULL };
    ConvProblem problem = { .direction = direction,
                            .geometry = &s->live,
                            .x = have[ROLE_X].layout,
                            .y = have[ROLE_Y].layout,
                            .evaluates = op->evaluates };
    if (direction == CONV_FORWARD && op->in[CONV_IN_B].desc.rank) {
        cpu_decide_plain(&op->in[CONV_IN_B]);
        TRY(cpu_layout_plain(b, &epilogue.bias, 1, op->in[CONV_IN_B].desc.dims));
        problem.epilogue = &epilogue;
    }
    /* A part of the window is copied in any case, so it may lie as the primitive likes it. */
    if (!s->live.cropped) problem.w = have[ROLE_W].layout;
    TRY(conv2d_choose(b, &problem, &choice));
    op->implementation = choice.implementation;
    /* Only parameter gradients accumulate. */
    const bool add = op->accumulate && direction == CONV_BWD_WEIGHTS;
    TRY(make_steps(b, s, direction, have, &choice, epilogue.bias, add));
    if (direction == CONV_BWD_WEIGHTS) TRY(add_bias_gradient(op, have[ROLE_Y]));
    op->workspace_bytes = s->steps.workspace_bytes;
    return OK;
}

const OpImpl cpu_conv2d = { CPU_STEPS(prepare_conv2d) };
const OpImpl cpu_conv2d_bwd_data = { CPU_STEPS(prepare_conv2d) };
const OpImpl cpu_conv2d_bwd_weights = { CPU_STEPS(prepare_conv2d) };
