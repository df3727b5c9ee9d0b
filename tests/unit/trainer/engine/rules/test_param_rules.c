/* test_param_rules.c - rates and decay by group: the small language of optimizer.groups, whose skip
 * lists and layers are whose, and steps against PyTorch's (tests/golden/groups.txt). */
#include "base/mem.h"
#include "base/str.h"
#include "tests/test.h"
#include "tests/tools/golden.h"
#include "tests/tools/network.h"
#include "tests/tools/steps.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/config/param_groups.h"
#include "trainer/engine/rules/optimizer.h"
#include "trainer/engine/rules/param_rules.h"
#include "trainer/engine/rules/penalty.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the language ---- */

TEST(groups_are_read)
{
    ParamGroups g;
    REQUIRE_OK(param_groups_parse(&g, " fc.*:lr=10;*.bias :  lr=64 decay=0 ; bn?.*: decay=2;"));
    REQUIRE(g.count == 3);
    CHECK_STR(g.list[0].pattern, "fc.*");
    CHECK_NEAR(g.list[0].lr, 10, 0);
    CHECK_NEAR(g.list[0].decay, PARAM_GROUPS_SAME, 0);
    CHECK_STR(g.list[1].pattern, "*.bias");
    CHECK_NEAR(g.list[1].lr, 64, 0);
    CHECK_NEAR(g.list[1].decay, 0, 0);
    CHECK_NEAR(g.list[2].lr, 1, 0);
    CHECK_NEAR(g.list[2].decay, 2, 0);
    REQUIRE_OK(param_groups_parse(&g, ""));
    CHECK_INT(g.count, 0);
}

#define TEN     "0123456789"
#define SEVENTY TEN TEN TEN TEN TEN TEN TEN

TEST(groups_that_cannot_be_name_the_key)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        { "fc.*", "optimizer.groups must be a list such as" },
        { ": lr=2", "optimizer.groups must be a list" },
        { "fc.* bn.*: lr=2", "optimizer.groups must be a list" },
        { "fc.*: lr=2;; *: lr=3", "optimizer.groups must be a list" },
        { "fc.*:", "optimizer.groups has no factor for \"fc.*\"" },
        { "fc.*: lr=0", "optimizer.groups has \"lr=0\" for \"fc.*\"; to freeze" },
        { "fc.*: lr=-1", "a factor must be a number from 0 to 1e+06" },
        { "fc.*: lr=nan", "a factor must be a number" },
        { "fc.*: decay=", "a factor must be a number" },
        { "fc.*: decay=1e7", "a factor must be a number" },
        { "fc.*: wd=2", "optimizer.groups has \"wd=2\" after \"fc.*:\"; expected lr=" },
        { SEVENTY SEVENTY "*: lr=2", "optimizer.groups has a pattern of more than 126 characters" },
        { "fc.*: lr=1." SEVENTY "e9",
          "a factor must be a number" }, /* behind what a buffer holds */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char set[256];
        const char *sets[] = { set };
        Config *c = NULL;
        snprintf(set, sizeof set, "optimizer.groups=%s", rows[i].text);
        CHECK_STATUS(config_load(&c, NULL, sets, 1), ERR_USAGE);
        CHECK_CONTAINS(status_message(), rows[i].part);
        config_destroy(c);
    }
}

/* ---- rules ---- */

static Status make_rules(const Network *n, const char *const *sets, int count, ParamRule **out)
{
    Config *c = NULL;
    *out = mem_calloc((size_t)executor_state_count(n->executor), sizeof **out);
    TRY(config_load(&c, NULL, sets, count));
    Status status = param_rules_make(*out, n->executor, c);
    config_destroy(c);
    return status;
}

static Status open_network(Network *n, const char *model, const char *freeze)
{
    ModelOptions o = network_narrow(2, 32);
    o.graph.freeze = freeze;
    /* at an eighth it lacks convolutions that widen nothing */
    if (str_starts_with(model, "mobilenet") && !str_starts_with(model, "mobilenet_v2"))
        o.width = 0.5;
    const int least = model_find(model)->least_size; /* patches divide images */
    if (least > 0 && o.graph.height % least) o.graph.height = o.graph.width = 2 * least;
    return network_open(n, NETWORK_REF, model, &o);
}

/* Norms of torchvision's networks are bnN, and the one behind a projection, downsample.1. */
TEST(whose_skip_list_is_whose)
{
    static const struct {
        const char *set;
        double conv, norm, shortcut, bias;
    } rows[] = {
        { "optimizer.decay_skip=timm", 1, 0, 0, 0 },
        { "optimizer.decay_skip=mlperf", 1, 0, 0, 0 },
        { "optimizer.decay_skip=torchvision", 1, 0, 0, 1 },
        { "optimizer.decay_skip=ffcv", 1, 0, 1, 1 },
        { "optimizer.decay_skip=none", 1, 1, 1, 1 },
        { "optimizer.lr=1", 1, 0, 0, 0 },
    };
    Network n;
    REQUIRE_OK(open_network(&n, "resnet18", NULL));
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        ParamRule *rules = NULL;
        int seen = 0;
        REQUIRE_OK(make_rules(&n, &rows[k].set, 1, &rules));
        for (int i = 0; i < executor_state_count(n.executor); i++) {
            const char *name = executor_state_name(n.executor, i);
            if (!executor_state_is_param(n.executor, i)) {
                CHECK(!rules[i].trains && rules[i].decay == 0 && rules[i].lr == 0);
                continue;
            }
            const bool shortcut = strstr(name, "downsample.1") != NULL;
            const double want = strstr(name, "bn")             ? rows[k].norm
                                : shortcut                     ? rows[k].shortcut
                                : strcmp(name, "fc.bias") == 0 ? rows[k].bias
                                                               : rows[k].conv;
            CHECK(rules[i].trains && rules[i].lr == 1);
            (void)test_check(rules[i].decay == want, __FILE__, __LINE__, name);
            seen++;
        }
        CHECK_INT(seen, 62);
        mem_free(rules);
    }
    network_close(&n);
}

static const ParamRule *rule_of(const Network *n, const ParamRule *rules, const char *name)
{
    for (int i = 0; i < executor_state_count(n->executor); i++)
        if (strcmp(executor_state_name(n->executor, i), name) == 0) return &rules[i];
    CHECK(!"such a parameter");
    return rules;
}

TEST(the_first_pattern_counts_and_the_rest_multiplies)
{
    static const char *const sets[] = {
        "optimizer.groups=layer?.0.conv1.weight: lr=3; *.weight: decay=0.5; *.bias: lr=2 decay=1",
        "optimizer.head_lr=10", "optimizer.layer_decay=0.5"
    };
    static const struct {
        const char *name;
        double lr, decay;
    } rows[] = { { "conv1.weight", 1.0 / 512, 0.5 },
                 { "bn1.bias", 2.0 / 512, 1 },
                 { "layer1.0.conv1.weight", 3.0 / 256, 1 },
                 { "layer4.0.conv1.weight", 0.75, 1 },
                 { "layer4.1.bn1.weight", 0.5, 0.5 },
                 { "fc.weight", 10, 0.5 },
                 { "fc.bias", 20, 1 } };
    Network n;
    ParamRule *rules = NULL;
    REQUIRE_OK(open_network(&n, "resnet18", NULL));
    REQUIRE_OK(make_rules(&n, sets, 3, &rules));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_NEAR(rule_of(&n, rules, rows[i].name)->lr, rows[i].lr, 0);
        CHECK_NEAR(rule_of(&n, rules, rows[i].name)->decay, rows[i].decay, 0);
    }
    mem_free(rules);
    network_close(&n);
}

enum { LAYERS_MAX = 128, ORDERS_MAX = 4096 };

/* Tensors of each group, and how many of them decay. */
typedef struct Layers {
    int tensors[LAYERS_MAX], decays[LAYERS_MAX];
} Layers;

/* false: a factor that is no layer's, or one that falls from the stem to the last layer. */
static bool count_layers(const Network *n, const ParamRule *rules, Layers *out)
{
    int below_at[ORDERS_MAX];
    *out = (Layers){ 0 };
    memset(below_at, -1, sizeof below_at);
    for (int i = 0; i < executor_state_count(n->executor); i++) {
        const int order = executor_state_order(n->executor, i);
        if (!rules[i].trains) continue;
        const int below = (int)lround(log(rules[i].lr) / log(0.75));
        if (below < 0 || below >= LAYERS_MAX || order >= ORDERS_MAX) return false;
        if (fabs(rules[i].lr / pow(0.75, below) - 1) > 1e-12) return false;
        below_at[order] = below;
        out->tensors[below]++;
        out->decays[below] += rules[i].decay != 0;
    }
    for (int i = 0, last = LAYERS_MAX; i < ORDERS_MAX; i++) {
        if (below_at[i] > last) return false;
        if (below_at[i] >= 0) last = below_at[i];
    }
    return true;
}

static bool same_as_timm(const char *model, const char *what, const int counts[LAYERS_MAX])
{
    char line[64];
    double want[GOLDEN_VALUES] = { 0 };
    snprintf(line, sizeof line, "%s.%s", model, what);
    const int layers = golden_read("groups", line, want);
    for (int i = 0; i < layers; i++)
        if (counts[layers - 1 - i] != (int)want[i]) return false;
    return layers > 2 && layers < LAYERS_MAX && counts[layers] == 0;
}

/* Every network that timm has: of those named otherwise there, the same tensors in each layer. */
TEST(layers_decay_as_timm_groups_them)
{
    /* of which timm has none */
    static const char lacks[] = " mlp airbench94 resnet20 resnet32 resnet44 resnet56 resnet110 ";
    char name[64];
    const char *sets[] = { "optimizer.layer_decay=0.75", name };
    for (int m = 0; m < model_count(); m++) {
        const ModelDef *def = model_at(m);
        Network n;
        Layers got;
        ParamRule *rules = NULL;
        snprintf(name, sizeof name, " %s ", def->name);
        if (strstr(lacks, name) || def->text) continue;
        snprintf(name, sizeof name, "model.name=%s", def->name);
        REQUIRE_OK(open_network(&n, def->name, NULL));
        REQUIRE_OK(make_rules(&n, sets, 2, &rules));
        (void)test_check(count_layers(&n, rules, &got) &&
                             same_as_timm(def->name, "layers", got.tensors) &&
                             same_as_timm(def->name, "decays", got.decays),
                         __FILE__, __LINE__, def->name);
        mem_free(rules);
        network_close(&n);
    }
}

/* Stem, blocks, last layer: of networks that timm lacks, each block of a ResNet of CIFAR's, and
 * each layer of airbench's. What is frozen still counts. */
TEST(layers_decay_by_blocks_where_timm_has_no_such_network)
{
    const char *sets[] = { "optimizer.layer_decay=0.5" };
    static const struct {
        const char *model, *name;
        int below;
        const char *freeze;
    } rows[] = { { "resnet20", "conv1.weight", 10, NULL },
                 { "resnet20", "layer1.0.conv1.weight", 9, NULL },
                 { "resnet20", "layer3.2.bn2.weight", 1, NULL },
                 { "resnet20", "fc.weight", 0, NULL },
                 { "airbench94", "whiten_bias.bias", 4, NULL },
                 { "airbench94", "layer1.conv1.weight", 3, NULL },
                 { "airbench94", "layer3.norm2.bias", 1, NULL },
                 { "airbench94", "fc.weight", 0, NULL },
                 { "resnet18", "layer2.0.conv1.weight", 6, "layer1" } };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        Network n;
        ParamRule *rules = NULL;
        REQUIRE_OK(open_network(&n, rows[k].model, rows[k].freeze));
        REQUIRE_OK(make_rules(&n, sets, 1, &rules));
        CHECK_NEAR(rule_of(&n, rules, rows[k].name)->lr, pow(0.5, rows[k].below), 0);
        mem_free(rules);
        network_close(&n);
    }
}

TEST(rules_that_cannot_be_name_the_key)
{
    static const struct {
        const char *model, *freeze, *sets[2], *part;
    } rows[] = {
        { "resnet18",
          NULL,
          { "optimizer.groups=head.*: lr=2" },
          "optimizer.groups: \"head.*\" matches no trained parameter" },
        { "resnet18",
          NULL,
          { "optimizer.groups=*: lr=2; fc.*: lr=3" },
          "optimizer.groups: \"fc.*\" matches no trained parameter that earlier patterns" },
        { "resnet18",
          "layer2",
          { "optimizer.groups=layer1.*: lr=2" },
          "optimizer.groups: \"layer1.*\" matches no trained parameter" },
        { "resnet18",
          "fc.*",
          { "optimizer.head_lr=2" },
          "optimizer.head_lr applies to fc, which model.freeze freezes" },
        { "mlp",
          NULL,
          { "optimizer.layer_decay=0.9", "model.name=mlp" },
          "optimizer.layer_decay: mlp has no blocks" },
        { "resnet18", NULL, { "optimizer.head_lr=0" }, "optimizer.head_lr is \"0\"" },
        { "resnet18", NULL, { "optimizer.layer_decay=1.1" }, "optimizer.layer_decay is \"1.1\"" },
        { "resnet18",
          NULL,
          { "optimizer.decay_skip=keras" },
          "it must be one of timm, mlperf, torchvision, ffcv, none" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Network n;
        ParamRule *rules = NULL;
        REQUIRE_OK(open_network(&n, rows[i].model, rows[i].freeze));
        CHECK_STATUS(make_rules(&n, rows[i].sets, rows[i].sets[1] ? 2 : 1, &rules), ERR_USAGE);
        CHECK_CONTAINS(status_message(), rows[i].part);
        mem_free(rules);
        network_close(&n);
    }
}

/* The decay of a parameter of a network under a setting. */
typedef struct Decay {
    const char *set, *name;
    double decay;
} Decay;

static void check_decays(const char *model, const Decay *rows, size_t count)
{
    Network n;
    REQUIRE_OK(open_network(&n, model, NULL));
    for (size_t k = 0; k < count; k++) {
        ParamRule *rules = NULL;
        int seen = 0;
        REQUIRE_OK(make_rules(&n, &rows[k].set, 1, &rules));
        for (int i = 0; i < executor_state_count(n.executor); i++) {
            if (strcmp(executor_state_name(n.executor, i), rows[k].name) != 0) continue;
            (void)test_check(rules[i].decay == rows[k].decay, __FILE__, __LINE__, rows[k].name);
            seen++;
        }
        CHECK_INT(seen, 1);
        mem_free(rules);
    }
    network_close(&n);
}

/* Biases of convolutions, layer norms, and factors of blocks, which timm keeps in one dimension. */
TEST(decay_leaves_out_layer_norms_and_scales)
{
    static const Decay rows[] = {
        { "optimizer.decay_skip=timm", "features.1.0.block.3.weight", 1 },
        { "optimizer.decay_skip=timm", "features.1.0.block.0.bias", 0 },
        { "optimizer.decay_skip=timm", "features.1.0.block.2.weight", 0 },
        { "optimizer.decay_skip=timm", "features.1.0.layer_scale", 0 },
        { "optimizer.decay_skip=torchvision", "features.1.0.block.0.bias", 1 },
        { "optimizer.decay_skip=torchvision", "features.1.0.block.2.weight", 0 },
        { "optimizer.decay_skip=torchvision", "classifier.0.bias", 0 },
        { "optimizer.decay_skip=torchvision", "features.1.0.layer_scale", 1 },
        { "optimizer.decay_skip=none", "features.1.0.block.2.weight", 1 },
    };
    check_decays("convnext_tiny", rows, sizeof rows / sizeof *rows);
}

/* The class token and positions have none of timm's, and torchvision's like all else. */
TEST(decay_leaves_out_the_class_token_and_positions)
{
    static const Decay rows[] = {
        { "optimizer.decay_skip=timm", "cls_token", 0 },
        { "optimizer.decay_skip=timm", "pos_embed", 0 },
        { "optimizer.decay_skip=timm", "patch_embed.proj.weight", 1 },
        { "optimizer.decay_skip=timm", "patch_embed.proj.bias", 0 },
        { "optimizer.decay_skip=timm", "blocks.11.norm2.weight", 0 },
        { "optimizer.decay_skip=timm", "blocks.11.attn.qkv.weight", 1 },
        { "optimizer.decay_skip=timm", "blocks.11.attn.qkv.bias", 0 },
        { "optimizer.decay_skip=torchvision", "cls_token", 1 },
        { "optimizer.decay_skip=torchvision", "pos_embed", 1 },
        { "optimizer.decay_skip=torchvision", "norm.bias", 0 },
        { "optimizer.decay_skip=torchvision", "blocks.0.mlp.fc1.bias", 1 },
    };
    check_decays("deit_tiny_patch16_224", rows, sizeof rows / sizeof *rows);
}

/* ---- steps ---- */

/* To 2e-6, fivefold with each step, or twice what float32 PyTorch is off where that is more: Adam's
 * first step follows the sign of a gradient, which is rounding where that is near zero. */
static void check_steps(const char *line, const char *optimizer)
{
    const char *sets[] = {
        optimizer, "optimizer.weight_decay=0.5", "optimizer.decay_skip=torchvision",
        "optimizer.groups=fc.*: lr=10; layer3.0.*: lr=0.5 decay=2; *.bias: lr=8 decay=0.25"
    };
    double rates[GOLDEN_VALUES], want[GOLDEN_VALUES], off[GOLDEN_VALUES];
    char name[32];
    Network n;
    Config *c = NULL;
    Optimizer *o = NULL;
    ModelOptions options = golden_options("resnet20", true, 1);
    options.graph.freeze = "layer1";
    REQUIRE_OK(network_open(&n, NETWORK_CPU, "resnet20", &options));
    REQUIRE_OK(network_fill(&n));
    REQUIRE_OK(config_load(&c, NULL, sets, 4));
    Bucket whole = { .bytes = executor_slab_bytes(n.executor, SLAB_GRAD) };
    REQUIRE_OK(optimizer_create(&o, n.executor, n.backend, c, &whole, 1));
    const int steps = golden_read("groups", "rates", rates);
    REQUIRE(steps == 5 && golden_read("groups", line, want) == steps);
    snprintf(name, sizeof name, "%s.float32", line);
    REQUIRE(golden_read("groups", name, off) == steps);
    for (int step = 0; step < steps; step++) {
        float scalars[SCALAR_COUNT] = { 0 };
        optimizer_scalars(o, rates[step], step + 1, scalars);
        scalars[SCALAR_GRAD_SCALE] = 0.125F;
        REQUIRE_OK(executor_set_record(n.executor, "scalars", scalars));
        REQUIRE_OK(executor_run(n.executor, n.program, NULL));
        CHECK_NEAR(program_stats(n.program)[STATS_LOSS_SUM] / 8, want[step],
                   fmax(2e-6 * pow(5, step) * (1 + want[step]), 2 * off[step]));
        REQUIRE_OK(steps_run(n.executor, TIMELINE_STEP, STEP_UPDATE, 0));
    }
    CHECK(fabs(want[steps - 1] - want[0]) > 0.1 * want[0]);
    optimizer_destroy(o);
    config_destroy(c);
    network_close(&n);
}

TEST(sgd_with_groups_trains_like_pytorch)
{
    check_steps("sgd", "optimizer.name=sgd");
}

TEST(adamw_with_groups_trains_like_pytorch)
{
    check_steps("adamw", "optimizer.name=adamw");
}

/* Parameters that are all 0.5: a quarter of the elements, by what each decays. */
TEST(the_penalty_follows_the_rules)
{
    const char *sets[] = { "optimizer.weight_decay=0.01", "optimizer.decay_skip=none",
                           "optimizer.groups=fc.*: decay=3; *.bias: decay=0" };
    Network n;
    Config *c = NULL;
    double got = -1, want = 0;
    REQUIRE_OK(open_network(&n, "resnet20", "layer1"));
    float *half = mem_alloc(1 << 20);
    REQUIRE(half);
    for (int i = 0; i < 1 << 18; i++) half[i] = 0.5F;
    for (int i = 0; i < executor_state_count(n.executor); i++) {
        const char *name = executor_state_name(n.executor, i);
        if (!executor_state_is_param(n.executor, i)) continue;
        REQUIRE_OK(executor_import_state(n.executor, i, half));
        const bool frozen = strncmp(name, "conv1.", 6) == 0 || strncmp(name, "bn1.", 4) == 0 ||
                            strncmp(name, "layer1.", 7) == 0;
        const double factor = frozen                         ? 0
                              : strncmp(name, "fc.", 3) == 0 ? 3
                              : strstr(name, ".bias")        ? 0
                                                             : 1;
        want += factor * 0.25 * (double)tensor_elements(&executor_state(n.executor, i)->desc);
    }
    REQUIRE_OK(config_load(&c, NULL, sets, 3));
    CHECK_OK(penalty_of_parameters(n.executor, c, &got));
    CHECK_NEAR(got, 0.005 * want, 1e-9 * want);
    mem_free(half);
    config_destroy(c);
    network_close(&n);
}
