/* param_rules.c - see param_rules.h. */
#include "trainer/engine/rules/param_rules.h"
#include "base/mem.h"
#include "trainer/engine/config/param_groups.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 256, BLOCKS_MAX = 1000 };
#define NO_BLOCK (-1L)
#define HEAD     (-2L)
#define TAIL     (-3L)

/* ---- names ---- */

/* Length of the layer's name in a parameter's: "fc" of "fc.weight". */
static size_t layer_length(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

static bool same_layer(const char *a, const char *b)
{
    return layer_length(a) == layer_length(b) && strncmp(a, b, layer_length(a)) == 0;
}

static long number_at(const char *digits)
{
    long number = 0;
    for (; isdigit((unsigned char)*digits); digits++) number = 10 * number + (*digits - '0');
    return number;
}

/* Number of the block that a parameter is of, by the names of the networks that have any: of its
 * stage, and behind mark within that, where names have it. Stem and head of torchvision's
 * EfficientNet and MobileNets are "features" too. */
static long block_of(const char *name)
{
    static const struct {
        const char *begin, *within, *mark;
    } words[] = { { "layer", "", "." },
                  { "blocks.", "", "." },
                  { "stages.", "", ".blocks." },
                  { "encoder.layers.encoder_layer_", "", "." },
                  { "roberta.encoder.layer.", "", "." },
                  { "bert.encoder.layer.", "", "." },
                  { "features.", ".block.", "." },
                  { "features.", ".layer_scale", "." },
                  { "features.", ".conv.", "." },
                  { "trunk_output.block", "", "-" } };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *stage = name + strlen(words[i].begin), *block;
        if (str_starts_with(name, words[i].begin) && isdigit((unsigned char)*stage) &&
            strstr(name, words[i].within) && (block = strstr(stage, words[i].mark)))
            return BLOCKS_MAX * number_at(stage) + number_at(block + strlen(words[i].mark));
    }
    return NO_BLOCK;
}

/* Only of norms, of batches or of layers, the weight has one dimension. */
static bool is_norm(const Executor *x, int index)
{
    char weight[NAME_BYTES];
    const char *name = executor_state_name(x, index);
    snprintf(weight, sizeof weight, "%.*s.weight", (int)layer_length(name), name);
    for (int i = 0; i < executor_state_count(x); i++)
        if (strcmp(executor_state_name(x, i), weight) == 0)
            return executor_state(x, i)->desc.rank == 1;
    return false;
}

/* ---- decay ---- */

static bool decays(const Executor *x, const Config *c, int i)
{
    switch (c->optimizer.decay_skip) {
    case DECAY_SKIP_TIMM:
    case DECAY_SKIP_MLPERF: /* of ResNets, which it is for, the same */
        return executor_state_tensor(x, i)->decay;
    case DECAY_SKIP_TORCHVISION:
        return !is_norm(x, i);
    case DECAY_SKIP_FFCV:
        return !strstr(executor_state_name(x, i), "bn");
    case DECAY_SKIP_NONE:
    case DECAY_SKIP_COUNT:
        break;
    }
    return true;
}

/* ---- rates ---- */

/* order: of the parameters as the network declares them. */
typedef struct Rules {
    ParamRule *rules;
    const Executor *x;
    const Config *c;
    int *order, count;
} Rules;

static const char *name_at(const Rules *r, int place)
{
    return executor_state_name(r->x, r->order[place]);
}

static void sort_by_declaration(Rules *r)
{
    for (int i = 0; i < executor_state_count(r->x); i++) {
        int at = r->count;
        if (!executor_state_is_param(r->x, i)) continue;
        for (;
             at > 0 && executor_state_order(r->x, r->order[at - 1]) > executor_state_order(r->x, i);
             at--)
            r->order[at] = r->order[at - 1];
        r->order[at] = i;
        r->count++;
    }
}

static Status apply_groups(const Rules *r)
{
    ParamGroups groups;
    bool used[PARAM_GROUPS_MAX] = { false };
    TRY(param_groups_parse(&groups, r->c->optimizer.groups));
    for (int i = 0; i < r->count; i++) {
        ParamRule *rule = &r->rules[r->order[i]];
        int k = 0;
        while (k < groups.count && !str_matches(groups.list[k].pattern, name_at(r, i))) k++;
        if (!rule->trains || k == groups.count) continue;
        used[k] = true;
        rule->lr *= groups.list[k].lr;
        if (groups.list[k].decay != PARAM_GROUPS_SAME) rule->decay = groups.list[k].decay;
    }
    for (int k = 0; k < groups.count; k++)
        if (!used[k])
            return fail(
                ERR_USAGE,
                "optimizer.groups: \"%s\" matches no trained parameter that earlier patterns have "
                "not matched (convoy inspect model NAME --parameters lists them)",
                groups.list[k].pattern);
    return OK;
}

static Status apply_head(const Rules *r)
{
    const char *last = name_at(r, r->count - 1);
    bool any = false;
    if (r->c->optimizer.head_lr == 1) return OK;
    for (int i = 0; i < r->count; i++) {
        ParamRule *rule = &r->rules[r->order[i]];
        if (!rule->trains || !same_layer(name_at(r, i), last)) continue;
        rule->lr *= r->c->optimizer.head_lr;
        any = true;
    }
    return any ? OK
               : fail(ERR_USAGE, "optimizer.head_lr applies to %.*s, which model.freeze freezes",
                      (int)layer_length(last), last);
}

/* Of the layer, or the part of the network, that the last parameter is of: "classifier", "head"; of
 * timm's MobileNetV3 the layer before too. */
static bool is_head(const Rules *r, const char *name, const char *last)
{
    const size_t part = strcspn(last, ".");
    if (str_starts_with(r->c->model.name, "mobilenetv3") && str_starts_with(name, "conv_head"))
        return true;
    return same_layer(name, last) ||
           (strncmp(name, last, part + 1) == 0 &&
            (str_starts_with(last, "classifier.") || str_starts_with(last, "head.")));
}

/* The block that begins behind place i, or what follows the last one: that is part of it, but of a
 * MobileNetV3, whose last convolution timm counts as a block. */
static long next_block(const Rules *r, int i)
{
    long block = NO_BLOCK;
    while (++i < r->count && block == NO_BLOCK) block = block_of(name_at(r, i));
    return block == NO_BLOCK && str_starts_with(r->c->model.name, "mobilenet_v3") ? TAIL : block;
}

/* Fills group [count] and returns how many groups there are. What lies between two blocks goes with
 * the second. */
static int group_by_block(const Rules *r, int *group)
{
    const char *last = name_at(r, r->count - 1);
    long block = NO_BLOCK;
    int groups = 0;
    for (int i = 0; i < r->count; i++) {
        const char *name = name_at(r, i);
        const bool head = is_head(r, name, last);
        long of = head ? HEAD : block_of(name);
        if (of == NO_BLOCK && block != NO_BLOCK) of = next_block(r, i);
        if (i == 0 || (of != NO_BLOCK && of != block)) {
            block = of;
            groups++;
        }
        group[i] = groups - 1;
    }
    return groups;
}

static Status apply_layer_decay(const Rules *r)
{
    if (r->c->optimizer.layer_decay == 1) return OK;
    int *group = mem_calloc((size_t)r->count, sizeof *group);
    if (!group) return ERR_MEMORY;
    const int groups = group_by_block(r, group);
    for (int i = 0; i < r->count; i++)
        r->rules[r->order[i]].lr *= pow(r->c->optimizer.layer_decay, groups - 1 - group[i]);
    mem_free(group);
    return groups > 2
               ? OK
               : fail(ERR_USAGE, "optimizer.layer_decay: %s has no blocks; use optimizer.groups",
                      r->c->model.name);
}

Status param_rules_make(ParamRule *out, const Executor *x, const Config *c)
{
    Rules r = { .rules = out, .x = x, .c = c };
    const int states = executor_state_count(x);
    for (int i = 0; i < states; i++) {
        const bool trains = executor_state_trains(x, i);
        out[i] = (ParamRule){ .trains = trains, .lr = trains, .decay = trains && decays(x, c, i) };
    }
    if (!(r.order = mem_calloc((size_t)states + 1, sizeof *r.order))) return ERR_MEMORY;
    sort_by_declaration(&r);
    ASSERT(r.count > 0);
    Status status = apply_groups(&r);
    if (status == OK) status = apply_head(&r);
    if (status == OK) status = apply_layer_decay(&r);
    mem_free(r.order);
    return status;
}
