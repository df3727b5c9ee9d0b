/* gradient.c - the reference is trusted first: each backward op of kernels/ref against central
 * differences of its forward op, in float64.
 *
 * L = sum dy*y for a random cotangent dy (the loss itself for softmax_xent). For every input that
 * has a gradient, one random direction and some single elements: (L(x + h u) - L(x - h u)) / 2h =
 * <gradient, u>. Inputs are the families' own, which keep away from the kinks of ReLU and maximum
 * by much more than h. A row runs on all fixed problems of its forward family. */
#include "tests/ops/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define STEP      1e-5
#define TOLERANCE 1e-6
#define ELEMENTS  6

typedef enum Source {
    END,
    FORWARD_IN,
    FORWARD_OUT,
    COTANGENT,
    FILLED /* as the backward op's family has it, of these parameters */
} Source;
typedef struct Feed {
    int slot;
    Source source;
    int from;
} Feed; /* backward input <- forward tensor; from: cotangent number 0 or 1 */
typedef struct Pair {
    bool used;
    int in, out;
} Pair; /* forward input, backward output that is its gradient */
typedef struct GradientRow {
    OpKind forward, backward;
    Feed feeds[8];
    Pair pairs[4];
} GradientRow;

static const GradientRow rows[] = {
    { OP_CONV2D,
      OP_CONV2D_BWD_DATA,
      { { CONV_BWD_DATA_IN_DY, COTANGENT, 0 }, { CONV_BWD_DATA_IN_W, FORWARD_IN, CONV_IN_W } },
      { { true, CONV_IN_X, CONV_BWD_DATA_OUT_DX } } },
    { OP_CONV2D,
      OP_CONV2D_BWD_WEIGHTS,
      { { CONV_BWD_WEIGHTS_IN_DY, COTANGENT, 0 },
        { CONV_BWD_WEIGHTS_IN_X, FORWARD_IN, CONV_IN_X } },
      { { true, CONV_IN_W, CONV_BWD_WEIGHTS_OUT_DW },
        { true, CONV_IN_B, CONV_BWD_WEIGHTS_OUT_DB } } },
    { OP_BATCHNORM,
      OP_BATCHNORM_BWD,
      { { BN_BWD_IN_DY, COTANGENT, 0 },
        { BN_BWD_IN_DY2, COTANGENT, 1 },
        { BN_BWD_IN_X, FORWARD_IN, BN_IN_X },
        { BN_BWD_IN_Y, FORWARD_OUT, BN_OUT_Y },
        { BN_BWD_IN_GAMMA, FORWARD_IN, BN_IN_GAMMA },
        { BN_BWD_IN_BETA, FORWARD_IN, BN_IN_BETA },
        { BN_BWD_IN_SAVED, FORWARD_OUT, BN_OUT_SAVED } },
      { { true, BN_IN_X, BN_BWD_OUT_DX },
        { true, BN_IN_GAMMA, BN_BWD_OUT_DGAMMA },
        { true, BN_IN_BETA, BN_BWD_OUT_DBETA },
        { true, BN_IN_RESIDUAL, BN_BWD_OUT_DRESIDUAL } } },
    { OP_ACTIVATION,
      OP_ACTIVATION_BWD,
      { { ACTIVATION_BWD_IN_DY, COTANGENT, 0 },
        { ACTIVATION_BWD_IN_Y, FORWARD_OUT, ACTIVATION_OUT_Y } },
      { { true, ACTIVATION_IN_X, ACTIVATION_BWD_OUT_DX } } },
    { OP_POOL2D,
      OP_POOL2D_BWD,
      { { POOL_BWD_IN_DY, COTANGENT, 0 }, { POOL_BWD_IN_INDEX, FORWARD_OUT, POOL_OUT_INDEX } },
      { { true, POOL_IN_X, POOL_BWD_OUT_DX } } },
    { OP_GLOBAL_AVGPOOL,
      OP_GLOBAL_AVGPOOL_BWD,
      { { GLOBAL_AVGPOOL_BWD_IN_DY, COTANGENT, 0 } },
      { { true, GLOBAL_AVGPOOL_IN_X, GLOBAL_AVGPOOL_BWD_OUT_DX } } },
    { OP_SUBSAMPLE,
      OP_SUBSAMPLE_BWD,
      { { SUBSAMPLE_BWD_IN_DY, COTANGENT, 0 } },
      { { true, SUBSAMPLE_IN_X, SUBSAMPLE_BWD_OUT_DX } } },
    { OP_LINEAR,
      OP_LINEAR_BWD_DATA,
      { { LINEAR_BWD_DATA_IN_DY, COTANGENT, 0 },
        { LINEAR_BWD_DATA_IN_W, FORWARD_IN, LINEAR_IN_W } },
      { { true, LINEAR_IN_X, LINEAR_BWD_DATA_OUT_DX } } },
    { OP_LINEAR,
      OP_LINEAR_BWD_WEIGHTS,
      { { LINEAR_BWD_WEIGHTS_IN_DY, COTANGENT, 0 },
        { LINEAR_BWD_WEIGHTS_IN_X, FORWARD_IN, LINEAR_IN_X } },
      { { true, LINEAR_IN_W, LINEAR_BWD_WEIGHTS_OUT_DW },
        { true, LINEAR_IN_B, LINEAR_BWD_WEIGHTS_OUT_DB } } },
    { OP_GATE,
      OP_GATE_BWD,
      { { GATE_BWD_IN_DY, COTANGENT, 0 },
        { GATE_BWD_IN_X, FORWARD_IN, GATE_IN_X },
        { GATE_BWD_IN_G, FORWARD_IN, GATE_IN_G } },
      { { true, GATE_IN_X, GATE_BWD_OUT_DX }, { true, GATE_IN_G, GATE_BWD_OUT_DG } } },
    { OP_DROP,
      OP_DROP_BWD,
      { { DROP_BWD_IN_DY, COTANGENT, 0 },
        { DROP_BWD_IN_SCALARS, FORWARD_IN, DROP_IN_SCALARS },
        { DROP_BWD_IN_WHERE, FORWARD_IN, DROP_IN_WHERE } },
      { { true, DROP_IN_X, DROP_BWD_OUT_DX } } },
    { OP_LAYERNORM,
      OP_LAYERNORM_BWD,
      { { LAYERNORM_BWD_IN_DY, COTANGENT, 0 },
        { LAYERNORM_BWD_IN_X, FORWARD_IN, LAYERNORM_IN_X },
        { LAYERNORM_BWD_IN_GAMMA, FORWARD_IN, LAYERNORM_IN_GAMMA } },
      { { true, LAYERNORM_IN_X, LAYERNORM_BWD_OUT_DX },
        { true, LAYERNORM_IN_GAMMA, LAYERNORM_BWD_OUT_DGAMMA },
        { true, LAYERNORM_IN_BETA, LAYERNORM_BWD_OUT_DBETA } } },
    { OP_GRN,
      OP_GRN_BWD,
      { { LAYERNORM_BWD_IN_DY, COTANGENT, 0 },
        { LAYERNORM_BWD_IN_X, FORWARD_IN, LAYERNORM_IN_X },
        { LAYERNORM_BWD_IN_GAMMA, FORWARD_IN, LAYERNORM_IN_GAMMA } },
      { { true, LAYERNORM_IN_X, LAYERNORM_BWD_OUT_DX },
        { true, LAYERNORM_IN_GAMMA, LAYERNORM_BWD_OUT_DGAMMA },
        { true, LAYERNORM_IN_BETA, LAYERNORM_BWD_OUT_DBETA } } },
    { OP_ATTENTION,
      OP_ATTENTION_BWD,
      { { ATTENTION_BWD_IN_DY, COTANGENT, 0 },
        { ATTENTION_BWD_IN_QKV, FORWARD_IN, ATTENTION_IN_QKV },
        { ATTENTION_BWD_IN_Y, FORWARD_OUT, ATTENTION_OUT_Y },
        { ATTENTION_BWD_IN_LSE, FORWARD_OUT, ATTENTION_OUT_LSE },
        { ATTENTION_BWD_IN_SCALARS, FORWARD_IN, ATTENTION_IN_SCALARS },
        { ATTENTION_BWD_IN_STARTS, FORWARD_IN, ATTENTION_IN_STARTS } },
      { { true, ATTENTION_IN_QKV, ATTENTION_BWD_OUT_DQKV } } },
    { OP_TOKENS,
      OP_TOKENS_BWD,
      { { TOKENS_BWD_IN_DY, COTANGENT, 0 } },
      { { true, TOKENS_IN_X, TOKENS_BWD_OUT_DX },
        { true, TOKENS_IN_POSITIONS, TOKENS_BWD_OUT_DPOSITIONS },
        { true, TOKENS_IN_CLASS, TOKENS_BWD_OUT_DCLASS } } },
    { OP_EMBED,
      OP_EMBED_BWD,
      { { EMBED_BWD_IN_DY, COTANGENT, 0 },
        { EMBED_BWD_IN_IDS, FORWARD_IN, EMBED_IN_IDS },
        { EMBED_BWD_IN_ORDER, FILLED, 0 },
        { EMBED_BWD_IN_STARTS, FILLED, 0 },
        { EMBED_BWD_IN_SEGMENT_IDS, FORWARD_IN, EMBED_IN_SEGMENT_IDS },
        { EMBED_BWD_IN_SO_FAR, FILLED, 0 } },
      { { true, EMBED_IN_WORDS, EMBED_BWD_OUT_DWORDS },
        { true, EMBED_IN_POSITIONS, EMBED_BWD_OUT_DPOSITIONS },
        { true, EMBED_IN_SEGMENTS, EMBED_BWD_OUT_DSEGMENTS } } },
    { OP_PICK,
      OP_PICK_BWD,
      { { PICK_BWD_IN_DY, COTANGENT, 0 }, { PICK_BWD_IN_ROWS, FORWARD_IN, PICK_IN_ROWS } },
      { { true, PICK_IN_X, PICK_BWD_OUT_DX } } },
    { OP_SOFTMAX_XENT,
      OP_SOFTMAX_XENT,
      { { XENT_IN_LOGITS, FORWARD_IN, XENT_IN_LOGITS },
        { XENT_IN_LABELS, FORWARD_IN, XENT_IN_LABELS },
        { XENT_IN_SCALARS, FORWARD_IN, XENT_IN_SCALARS },
        { XENT_IN_LOSS_SCALE, FORWARD_IN, XENT_IN_LOSS_SCALE },
        { XENT_IN_MIX, FORWARD_IN, XENT_IN_MIX },
        { XENT_IN_CLASS_WEIGHTS, FORWARD_IN, XENT_IN_CLASS_WEIGHTS },
        { XENT_IN_TARGETS, FORWARD_IN, XENT_IN_TARGETS },
        { XENT_IN_TEACHER, FORWARD_IN, XENT_IN_TEACHER } },
      { { true, XENT_IN_LOGITS, XENT_OUT_DLOGITS } } },
};

int gradient_count(void)
{
    return (int)(sizeof rows / sizeof rows[0]);
}

void gradient_name(int row, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s", op_name(rows[row].backward));
}

typedef struct Work {
    const GradientRow *row;
    Backend *ref;
    Arena *arena;
    Rng rng;
    Problem forward, backward;
    Host in[OP_MAX_INPUTS], cotangent[2];
    Result y, gradient;
    double size; /* sum of |terms of L| */
} Work;

static Status evaluate(Work *w, const Problem *p, Arena *arena, const Host *in, Result *out)
{
    static const Host none[OP_MAX_OUTPUTS];
    const Variant plain = { .mode = MODE_FLOAT, .plain = true };
    Rig rig;
    Status st = rig_create(&rig, w->ref, p, &plain);
    if (st == OK) st = rig_run(&rig, arena, in, none, out);
    rig_destroy(&rig);
    return st;
}

/* L from the forward results; *size gets the sum of absolute terms. */
static double loss_of(const Work *w, const Result *r, double *size)
{
    if (w->row->forward == OP_SOFTMAX_XENT) {
        double loss =
            r->out[XENT_OUT_STATS].v[STATS_LOSS_SUM] * w->in[XENT_IN_SCALARS].v[SCALAR_GRAD_SCALE];
        if (w->in[XENT_IN_LOSS_SCALE].v) loss *= w->in[XENT_IN_LOSS_SCALE].v[LOSS_SCALE_SCALE];
        *size = fabs(loss);
        return loss;
    }
    double sum = 0;
    *size = 0;
    for (int64_t i = 0, n = tensor_elements(&r->out[0].desc); i < n; i++) {
        double dy = w->cotangent[0].v[i] + (w->cotangent[1].v ? w->cotangent[1].v[i] : 0);
        sum += dy * r->out[0].v[i];
        *size += fabs(dy * r->out[0].v[i]);
    }
    return sum;
}

static Status loss_at(Work *w, int slot, const double *direction, double step, double *loss)
{
    Arena *arena;
    Result r;
    double size;
    Host in[OP_MAX_INPUTS];
    TRY(arena_create(&arena, (size_t)1 << 18));
    memcpy(in, w->in, sizeof in);
    Status st = host_make(arena, &in[slot], &w->in[slot].desc);
    for (int64_t i = 0, n = tensor_elements(&in[slot].desc); st == OK && i < n; i++)
        in[slot].v[i] = w->in[slot].v[i] + step * direction[i];
    if (st == OK) st = evaluate(w, &w->forward, arena, in, &r);
    if (st == OK) *loss = loss_of(w, &r, &size);
    arena_destroy(arena);
    return st;
}

static Status check_direction(Work *w, const Pair *pair, const double *direction, const char *what,
                              Verdict *verdict)
{
    const Host *g = &w->gradient.out[pair->out];
    double above, below, inner = 0, size = 0;
    TRY(loss_at(w, pair->in, direction, STEP, &above));
    TRY(loss_at(w, pair->in, direction, -STEP, &below));
    for (int64_t i = 0, n = tensor_elements(&g->desc); i < n; i++) {
        inner += g->v[i] * direction[i];
        size += fabs(g->v[i] * direction[i]);
    }
    double difference = (above - below) / (2 * STEP), limit = TOLERANCE * (size + 0.01 * w->size),
           error = fabs(difference - inner);
    if (error / limit > verdict->worst) verdict->worst = error / limit;
    if (error <= limit) return OK;
    return fail(ERR_HEALTH, "%s along %s: gradient %.12g, central difference %.12g",
                op_def(w->row->backward)->out_names[pair->out], what, inner, difference);
}

static Status check_pair(Work *w, const Pair *pair, Verdict *verdict)
{
    int64_t n = tensor_elements(&w->in[pair->in].desc);
    double *direction = arena_alloc(w->arena, (size_t)n * sizeof *direction);
    if (!direction) return ERR_MEMORY;
    for (int64_t i = 0; i < n; i++) direction[i] = rng_normal(&w->rng);
    TRY(check_direction(w, pair, direction, "a random direction", verdict));
    for (int k = 0; k < ELEMENTS; k++) {
        int64_t at = (int64_t)rng_below(&w->rng, (uint64_t)n);
        memset(direction, 0, (size_t)n * sizeof *direction);
        direction[at] = 1;
        TRY(check_direction(w, pair, direction, "one element", verdict));
    }
    return OK;
}

static Status make_cotangents(Work *w)
{
    for (const Feed *f = w->row->feeds; f->source != END; f++) {
        if (f->source != COTANGENT || w->backward.in[f->slot].rank == 0) continue;
        TRY(host_make(w->arena, &w->cotangent[f->from], &w->backward.in[f->slot]));
        fill_normal(&w->cotangent[f->from], &w->rng, 0.1, 1);
    }
    return OK;
}

static Status feed_backward(Work *w, const int64_t *p, Host *in)
{
    const Family *family = family_of(w->backward.kind);
    Host filled[OP_MAX_INPUTS];
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        TRY(host_make(w->arena, &filled[i], &w->backward.in[i]));
    if (family->fill) family->fill(p, &w->backward, MODE_FLOAT, &w->rng, filled);
    for (const Feed *f = w->row->feeds; f->source != END; f++) {
        if (w->backward.in[f->slot].rank == 0) continue;
        if (f->source == FORWARD_IN) in[f->slot] = w->in[f->from];
        if (f->source == FORWARD_OUT) in[f->slot] = w->y.out[f->from];
        if (f->source == COTANGENT) in[f->slot] = w->cotangent[f->from];
        if (f->source == FILLED) in[f->slot] = filled[f->slot];
        if (w->backward.kind == OP_ACTIVATION_BWD && f->slot == ACTIVATION_BWD_IN_Y &&
            !op_act(w->backward.attr.activation.act)->by_sign)
            in[f->slot] = w->in[ACTIVATION_IN_X];
    }
    return OK;
}

/* Forward outputs that backward needs are asked for, whatever the problem says. */
static Status make_problems(Work *w, const Case *c)
{
    Case backward = *c;
    backward.family = family_of(w->row->backward);
    TRY(problem_make(&backward, &w->backward));
    TRY(problem_make(c, &w->forward));
    for (const Feed *f = w->row->feeds; f->source != END; f++)
        if (f->source == FORWARD_OUT && w->backward.in[f->slot].rank)
            w->forward.wanted[f->from] = true;
    const TensorDesc *in[OP_MAX_INPUTS];
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        in[i] = w->forward.in[i].rank ? &w->forward.in[i] : NULL;
    return op_infer(w->forward.kind, &w->forward.attr, in, w->forward.wanted, w->forward.out);
}

static Status check_problem(Work *w, const Case *c, Verdict *verdict)
{
    Host in[OP_MAX_INPUTS] = { { { 0 }, NULL } };
    TRY(make_problems(w, c));
    /* whose statistics are not x's alone: tests/unit/models/test_norm_sums.c */
    if (w->forward.kind == OP_BATCHNORM && w->forward.attr.bn.ranks) return OK;
    for (int i = 0; i < OP_MAX_INPUTS; i++) TRY(host_make(w->arena, &w->in[i], &w->forward.in[i]));
    if (c->family->fill) c->family->fill(c->p, &w->forward, MODE_FLOAT, &w->rng, w->in);
    else fill_default(&w->forward, MODE_FLOAT, &w->rng, w->in);
    TRY(make_cotangents(w));
    TRY(evaluate(w, &w->forward, w->arena, w->in, &w->y));
    loss_of(w, &w->y, &w->size);
    TRY(feed_backward(w, c->p, in));
    TRY(evaluate(w, &w->backward, w->arena, in, &w->gradient));
    for (int i = 0; i < 4 && w->row->pairs[i].used; i++) {
        const Pair *pair = &w->row->pairs[i];
        if (w->forward.in[pair->in].rank && w->backward.out[pair->out].rank)
            TRY(check_pair(w, pair, verdict));
    }
    return OK;
}

static Status check_case(const GradientRow *row, const Case *c, Backend *ref, uint64_t seed,
                         Verdict *verdict)
{
    Work *w = mem_calloc(1, sizeof *w);
    if (!w) return ERR_MEMORY;
    *w = (Work){ .row = row, .ref = ref, .rng = case_rng(c, seed) };
    Status st = arena_create(&w->arena, (size_t)1 << 18);
    if (st == OK) st = check_problem(w, c, verdict);
    arena_destroy(w->arena);
    mem_free(w);
    if (st == OK) return OK;
    StrBuf text = { 0 };
    case_format(c, &text);
    st = fail_note(st, "%s", text.text);
    str_free(&text);
    return st;
}

Status gradient_check(int row, Backend *ref, uint64_t seed, Verdict *verdict)
{
    CaseList list = { 0 };
    verdict->worst = 0;
    Status st = case_list_fixed(&list, family_of(rows[row].forward));
    for (int i = 0; st == OK && i < list.count; i++)
        st = check_case(&rows[row], &list.cases[i], ref, seed, verdict);
    mem_free(list.cases);
    return st;
}
