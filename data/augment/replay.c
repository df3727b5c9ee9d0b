/* replay.c - see replay.h. A line is read word by word; each keyword takes a fixed number of
 * words. */
#include "data/augment/replay.h"
#include <stdio.h>
#include <string.h>

enum { WORD_BYTES = 48 };

typedef struct Line {
    const char *at;
    char word[WORD_BYTES];
} Line;

static void print_ops(const PolicyPlan *r, int first, int count, StrBuf *out)
{
    for (int i = first; i < first + count; i++)
        str_printf(out, " op %s %.17g", image_op_name(r->ops[i].kind), r->ops[i].value);
}

void replay_print(const Replay *v, StrBuf *out)
{
    const AugmentPlan *p = &v->plan;
    const PolicyPlan *r = &v->policy_plan;
    str_printf(out, "box %d %d %d %d resize %d %d window %d %d size %d flip %d", p->box_x, p->box_y,
               p->box_width, p->box_height, p->width, p->height, p->window_x, p->window_y, p->size,
               p->flip);
    print_ops(r, 0, r->op_count, out);
    if (r->chain_count > 0) str_printf(out, " own %.9g", (double)r->own_weight);
    for (int i = 0; i < r->chain_count; i++) {
        str_printf(out, " chain %.9g", (double)r->chains[i].weight);
        print_ops(r, r->chains[i].first, r->chains[i].count, out);
    }
    if (v->erase.height > 0)
        str_printf(out, " erase %d %d %d %d", v->erase.top, v->erase.left, v->erase.height,
                   v->erase.width);
}

/* false: the line is over. */
static bool next_word(Line *line)
{
    size_t n = 0;
    while (*line->at == ' ') line->at++;
    while (*line->at && *line->at != ' ' && *line->at != '\n') {
        if (n + 1 < WORD_BYTES) line->word[n++] = *line->at;
        line->at++;
    }
    line->word[n] = '\0';
    return n > 0;
}

static Status take_ints(Line *line, const char *key, int count, int *const *out)
{
    for (int i = 0; i < count; i++) {
        int64_t v = 0;
        if (!next_word(line) || !str_to_i64(line->word, &v) || v < INT32_MIN || v > INT32_MAX)
            return fail(ERR_DATA, "replay: %s takes %d whole number%s", key, count,
                        count == 1 ? "" : "s");
        *out[i] = (int)v;
    }
    return OK;
}

static Status take_double(Line *line, const char *key, double *out)
{
    if (next_word(line) && str_to_double(line->word, out)) return OK;
    return fail(ERR_DATA, "replay: %s needs a number", key);
}

static int total_ops(const PolicyPlan *r)
{
    const PolicyChain *last = r->chain_count > 0 ? &r->chains[r->chain_count - 1] : NULL;
    return last ? last->first + last->count : r->op_count;
}

static Status take_op(Line *line, PolicyPlan *r)
{
    int n = total_ops(r);
    ImageOp op = { 0 };
    if (n == POLICY_PLAN_MAX_OPS)
        return fail(ERR_DATA, "replay: more than %d ops", POLICY_PLAN_MAX_OPS);
    if (!next_word(line) || !image_op_find(line->word, &op.kind))
        return fail(ERR_DATA, "replay: unknown operation \"%s\"", line->word);
    TRY(take_double(line, "op", &op.value));
    if (op.kind == IMAGE_POSTERIZE && !(op.value >= 0 && op.value <= 8))
        return fail(ERR_DATA, "replay: posterize keeps 0 to 8 bits");
    if (op.kind == IMAGE_SOLARIZE_ADD && !(op.value >= 0 && op.value <= 128))
        return fail(ERR_DATA, "replay: solarize_add adds 0 to 128");
    r->ops[n] = op;
    if (r->chain_count > 0) r->chains[r->chain_count - 1].count++;
    else r->op_count++;
    return OK;
}

static Status take_chain(Line *line, PolicyPlan *r)
{
    double weight = 0;
    int first = total_ops(r);
    if (r->chain_count == POLICY_PLAN_MAX_CHAINS)
        return fail(ERR_DATA, "replay: more than %d chains", POLICY_PLAN_MAX_CHAINS);
    TRY(take_double(line, "chain", &weight));
    r->chains[r->chain_count++] = (PolicyChain){ .first = first, .weight = (float)weight };
    return OK;
}

static Status take_key(Line *line, Replay *v)
{
    AugmentPlan *p = &v->plan;
    int flip = 0;
    double own = 0;
    if (!strcmp(line->word, "box"))
        return take_ints(line, "box", 4,
                         (int *[]){ &p->box_x, &p->box_y, &p->box_width, &p->box_height });
    if (!strcmp(line->word, "resize"))
        return take_ints(line, "resize", 2, (int *[]){ &p->width, &p->height });
    if (!strcmp(line->word, "window"))
        return take_ints(line, "window", 2, (int *[]){ &p->window_x, &p->window_y });
    if (!strcmp(line->word, "size")) return take_ints(line, "size", 1, (int *[]){ &p->size });
    if (!strcmp(line->word, "op")) return take_op(line, &v->policy_plan);
    if (!strcmp(line->word, "chain")) return take_chain(line, &v->policy_plan);
    if (!strcmp(line->word, "erase"))
        return take_ints(
            line, "erase", 4,
            (int *[]){ &v->erase.top, &v->erase.left, &v->erase.height, &v->erase.width });
    if (!strcmp(line->word, "flip")) {
        TRY(take_ints(line, "flip", 1, (int *[]){ &flip }));
        p->flip = flip != 0;
        return OK;
    }
    if (strcmp(line->word, "own") != 0)
        return fail(ERR_DATA, "replay: unknown key \"%s\"", line->word);
    TRY(take_double(line, "own", &own));
    v->policy_plan.own_weight = (float)own;
    return OK;
}

Status replay_parse(const char *text, Replay *out)
{
    Line line = { .at = text };
    *out = (Replay){ 0 };
    while (next_word(&line)) TRY(take_key(&line, out));
    const AugmentPlan *p = &out->plan;
    if (p->box_width < 1 || p->box_height < 1 || p->width < 1 || p->height < 1 || p->size < 1)
        return fail(ERR_DATA, "replay: box, resize and size are required");
    return OK;
}
