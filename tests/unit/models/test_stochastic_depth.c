/* test_stochastic_depth.c - residual blocks that training drops: at which rates, where in a block,
 * and how many are left of a network. Draws are kernels/drop.h's; gradients are test_gradients.c's
 * and tests/ops's. */
#include "kernels/drop.h"
#include "tests/test.h"
#include "tests/tools/graph_look.h"
#include "tests/tools/network.h"
#include <math.h>
#include <string.h>

static Graph *build(const char *model, double depth, double dropout, bool training)
{
    ModelOptions o = network_narrow(2, 32);
    Graph *g = NULL;
    o.stochastic_depth = depth;
    o.dropout = dropout;
    o.graph.training = training;
    o.graph.seed = 11;
    CHECK_OK(model_build(&g, model_find(model), &o));
    return g;
}

/* timm's rule: 0.3 i / (blocks - 1); the first block stays whole and has no node. */
TEST(rates_grow_linearly_over_the_blocks)
{
    static const struct {
        const char *model;
        int blocks;
    } rows[] = { { "resnet18", 8 },
                 { "resnet50", 16 },
                 { "resnext50_32x4d", 16 },
                 { "wide_resnet50_2", 16 },
                 { "resnet20", 9 } };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        Graph *g = build(rows[r].model, 0.3, 0.25, true);
        int block = 1;
        for (int i = 0; i < graph_node_count(g); i++) {
            const DropAttr *a = graph_node(g, i)->attr;
            if (graph_node(g, i)->kind != OP_DROP) continue;
            CHECK_INT(a->layer, block - 1);
            CHECK(a->per_image == (block < rows[r].blocks));
            CHECK_NEAR((double)a->rate,
                       block < rows[r].blocks ? 0.3 * block / (rows[r].blocks - 1) : 0.25, 1e-7);
            block++;
        }
        CHECK_INT(block, rows[r].blocks + 1); /* the last one is dropout */
        graph_destroy(g);
    }
}

/* y = relu(drop(bn(x)) + shortcut), as timm's drop_path. */
TEST(branches_are_dropped_before_the_sum)
{
    Graph *g = build("resnet50", 0.3, -1, true);
    int seen = 0;
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *drop = graph_node(g, i);
        if (drop->kind != OP_DROP) continue;
        const GraphNode *bn = graph_node(g, graph_tensor(g, drop->in[DROP_IN_X])->producer),
                        *next = &drop[1];
        const BatchNormAttr *norm = bn->attr;
        CHECK(bn->kind == OP_BATCHNORM && norm->act == ACT_NONE);
        CHECK(bn->in[BN_IN_RESIDUAL] == TENSOR_NONE && strstr(bn->name, ".bn3") != NULL);
        CHECK(drop->in[DROP_IN_RESIDUAL] != TENSOR_NONE);
        CHECK(next->kind == OP_ACTIVATION && ((const ActivationAttr *)next->attr)->act == ACT_RELU);
        CHECK(next->in[ACTIVATION_IN_X] == drop->out[DROP_OUT_Y]);
        seen++;
    }
    CHECK_INT(seen, 15);
    graph_destroy(g);
}

static bool same_nodes(const Graph *a, const Graph *b)
{
    bool same = graph_node_count(a) == graph_node_count(b);
    for (int i = 0; same && i < graph_node_count(a); i++)
        same = graph_node(a, i)->kind == graph_node(b, i)->kind &&
               strcmp(graph_node(a, i)->name, graph_node(b, i)->name) == 0;
    return same;
}

TEST(evaluation_and_networks_without_the_keys_drop_nothing)
{
    Graph *plain[2], *other;
    for (int training = 0; training < 2; training++) {
        plain[training] = build("resnet18", 0, 0, training);
        CHECK_INT(graph_count_kind(plain[training], OP_DROP), 0);
        other = build("resnet18", -1, -1, training);
        CHECK(same_nodes(plain[training], other));
        graph_destroy(other);
    }
    other = build("resnet18", 0.3, 0.3, false);
    CHECK(same_nodes(plain[0], other));
    graph_destroy(other);
    graph_destroy(plain[0]);
    graph_destroy(plain[1]);
}

/* Of 16 blocks with 0.4 i / 15 are 12.8 left on average: the sum of what survives. Images differ,
 * and so do steps; the same address gives the same answer. */
TEST(expected_depth_is_the_sum_of_survivals)
{
    enum { STEPS = 40, IMAGES = 256 };
    Graph *g = build("resnet50", 0.4, -1, true);
    double depth = 0, expected = 1, variance = 0;
    for (int i = 0; i < graph_node_count(g); i++) {
        const DropAttr *a = graph_node(g, i)->attr;
        if (graph_node(g, i)->kind != OP_DROP) continue;
        expected += 1 - (double)a->rate;
        variance += (double)a->rate * (1 - (double)a->rate);
        for (uint32_t step = 0; step < STEPS; step++) {
            const DropAddress at = drop_address(a, step, 64), later = drop_address(a, step, 65);
            for (int64_t image = 0; image < IMAGES; image++) {
                float kept[4], moved[4];
                drop_factors(&at, image + 1, 0, kept);
                drop_factors(&later, image, 0, moved); /* another rank's part of the batch */
                CHECK(kept[0] == moved[0]);
                CHECK(kept[0] == 0 || fabsf(kept[0] - 1 / (1 - a->rate)) < 1e-6f);
                depth += kept[0] > 0;
            }
        }
    }
    CHECK_NEAR(expected, 16 - 16 * 0.4 / 2, 1e-6);
    CHECK_NEAR(1 + depth / (STEPS * IMAGES), expected, 4 * sqrt(variance / (STEPS * IMAGES)));
    graph_destroy(g);
}
