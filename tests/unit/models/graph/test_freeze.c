/* test_freeze.c - model.freeze: which parameters it names, that nothing is computed for them, and
 * that what is left is computed as before. */
#include "base/mem.h"
#include "models/graph/plan.h"
#include "tests/test.h"
#include "tests/tools/network.h"
#include "tests/tools/plan_check.h"
#include "tests/tools/steps.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/rules/optimizer.h"
#include <string.h>

static Graph *build(const char *model, const char *freeze)
{
    Graph *g = NULL;
    ModelOptions o = network_narrow(2, 32);
    o.graph.freeze = freeze;
    CHECK_OK(model_build(&g, model_find(model), &o));
    return g;
}

static bool is_frozen(const Graph *g, const char *name)
{
    const TensorId id = graph_find(g, name);
    CHECK(id != TENSOR_NONE);
    return id != TENSOR_NONE && graph_tensor(g, id)->frozen;
}

static int count_backward(const Graph *g, const char *prefix)
{
    int count = 0;
    for (int i = 0; i < graph_node_count(g); i++)
        count += graph_node(g, i)->phase == PHASE_BACKWARD &&
                 strncmp(graph_node(g, i)->name, prefix, strlen(prefix)) == 0;
    return count;
}

TEST(a_stage_is_frozen_with_all_before_it)
{
    Graph *g = build("resnet18", "layer2"), *whole = build("resnet18", NULL);
    static const char *const none[] = { "conv1", "bn1", "maxpool", "layer1", "layer2" };
    REQUIRE(g && whole);
    CHECK(is_frozen(g, "conv1.weight") && is_frozen(g, "layer1.1.bn2.bias") &&
          is_frozen(g, "layer2.0.downsample.1.weight") && is_frozen(g, "layer2.1.bn2.bias"));
    CHECK(!is_frozen(g, "layer3.0.conv1.weight") && !is_frozen(g, "fc.bias"));
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        CHECK_INT(count_backward(g, none[i]), 0);
        CHECK(count_backward(whole, none[i]) > 0);
    }
    CHECK_INT(count_backward(g, "layer3.0.conv1.bwd_weights"), 1);
    CHECK_INT(count_backward(g, "layer3.0.conv1.bwd_data"), 0);
    CHECK_INT(count_backward(g, "layer3.0.downsample.0.bwd_data"), 0);
    CHECK_INT(count_backward(g, "layer3.1"), count_backward(whole, "layer3.1"));
    CHECK(graph_node_count(g) < graph_node_count(whole));
    graph_destroy(g);
    graph_destroy(whole);
}

TEST(items_are_patterns_names_or_stages)
{
    Graph *g = build("resnet18", " *.bias,layer1.0.conv1.weight  fc.weigh? ");
    REQUIRE(g);
    CHECK(is_frozen(g, "bn1.bias") && is_frozen(g, "fc.bias") && is_frozen(g, "fc.weight"));
    CHECK(is_frozen(g, "layer1.0.conv1.weight") && !is_frozen(g, "conv1.weight"));
    /* what is made beside what is wanted */
    CHECK_INT(count_backward(g, "bn1.bwd"), 1);
    CHECK_INT(count_backward(g, "layer1.0.conv1.bwd_weights"), 0);
    CHECK_INT(count_backward(g, "layer1.0.conv1.bwd_data"), 1);
    CHECK_INT(count_backward(g, "fc.bwd_weights"), 0);
    graph_destroy(g);
    g = build("efficientnet_b0", "features.2");
    REQUIRE(g);
    CHECK(is_frozen(g, "features.0.0.weight") && is_frozen(g, "features.2.1.block.3.1.bias") &&
          !is_frozen(g, "features.3.0.block.0.0.weight"));
    graph_destroy(g);
}

TEST(lists_that_cannot_be_name_the_key)
{
    static const struct {
        const char *list, *part;
    } rows[] = {
        { " , ", "model.freeze: \" , \" names nothing" },
        { "layer9", "model.freeze: \"layer9\" matches no parameter or stage" },
        { "layer1, *.gamma", "model.freeze: \"*.gamma\" matches no parameter" },
        { "laye", "model.freeze: \"laye\" matches no" },
        { "*", "model.freeze: \"*\" leaves nothing to train" },
        { "layer4,fc", "model.freeze: \"layer4,fc\" leaves nothing to train" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Graph *g = NULL;
        ModelOptions o = network_narrow(2, 32);
        o.graph.freeze = rows[i].list;
        CHECK_STATUS(model_build(&g, model_find("resnet18"), &o), ERR_USAGE);
        CHECK_CONTAINS(status_message(), rows[i].part);
    }
}

/* Evaluation has no gradients to leave out. */
TEST(evaluation_does_not_read_the_list)
{
    Graph *g = NULL;
    ModelOptions o = network_narrow(2, 32);
    o.graph.training = false;
    o.graph.freeze = "*";
    CHECK_OK(model_build(&g, model_find("resnet18"), &o));
    graph_destroy(g);
}

/* ---- numbers ---- */

/* The gradients that are left have the bits that they have where nothing is frozen. */
static void compare(NetworkBackend backend, const char *model, const char *freeze)
{
    Network whole, part;
    ModelOptions o = network_narrow(8, 32);
    double loss[2];
    int same = 0;
    REQUIRE_OK(network_open(&whole, backend, model, &o));
    o.graph.freeze = freeze;
    REQUIRE_OK(network_open(&part, backend, model, &o));
    REQUIRE_OK(network_fill(&whole));
    REQUIRE_OK(network_fill(&part));
    REQUIRE_OK(network_run(&whole, 0.125F, &loss[0]));
    REQUIRE_OK(network_run(&part, 0.125F, &loss[1]));
    CHECK_NEAR(loss[0], loss[1], 0);
    const Graph *g = program_graph(part.program), *h = program_graph(whole.program);
    CHECK_OK(plan_check(program_plan(part.program), g));
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        const GraphTensor *t = graph_tensor(g, id);
        double *want = NULL, *got = NULL;
        int64_t count = 0;
        if (t->role != ROLE_PARAM) continue;
        CHECK((t->grad == TENSOR_NONE) == t->frozen);
        if (t->frozen) continue;
        REQUIRE_OK(network_read(&part, t->grad, &got, &count));
        REQUIRE_OK(
            network_read(&whole, graph_tensor(h, graph_find(h, t->name))->grad, &want, &count));
        if (!test_check(memcmp(got, want, (size_t)count * sizeof *got) == 0, __FILE__, __LINE__,
                        t->name))
            break;
        same++;
        mem_free(got);
        mem_free(want);
    }
    CHECK(same > 0);
    CHECK(executor_slab_bytes(part.executor, SLAB_GRAD) <
          executor_slab_bytes(whole.executor, SLAB_GRAD));
    CHECK(executor_slab_bytes(part.executor, SLAB_PARAM) ==
          executor_slab_bytes(whole.executor, SLAB_PARAM));
    network_close(&whole);
    network_close(&part);
}

TEST(gradients_that_are_left_keep_their_bits)
{
    compare(NETWORK_CPU, "resnet18", "layer2");
    compare(NETWORK_CPU, "resnet18", "*.weight");
    compare(NETWORK_REF, "resnet18", "layer1, *.bias");
    compare(NETWORK_CPU, "efficientnet_b0", "features.4");
}

/* What a side lane makes lives until the main lane has waited for it, also where nobody reads
 * it. */
TEST(gradients_that_nobody_wants_have_memory_of_their_own)
{
    Graph *g = build("mlp", "fc2.weight");
    REQUIRE(g);
    const int tensors = graph_tensor_count(g), nodes = graph_node_count(g);
    size_t *bytes = mem_calloc((size_t)tensors, sizeof *bytes),
           *workspace = mem_calloc((size_t)nodes, sizeof *workspace);
    Plan *p = NULL;
    int found = 0;
    REQUIRE(bytes && workspace);
    for (TensorId id = 0; id < tensors; id++)
        bytes[id] = tensor_plain_bytes(&graph_tensor(g, id)->desc);
    REQUIRE_OK(plan_create(&p, g,
                           &(PlanInputs){ .tensor_bytes = bytes,
                                          .node_workspace = workspace,
                                          .alignment = 64,
                                          .side_depth = 2 }));
    for (int i = 0; i < nodes; i++) {
        const GraphNode *n = graph_node(g, i);
        if (n->kind != OP_LINEAR_BWD_WEIGHTS || strcmp(n->name, "fc2.bwd_weights") != 0) continue;
        const PlanEntry *e = &p->entries[n->out[LINEAR_BWD_WEIGHTS_OUT_DW]];
        CHECK(p->nodes[i].lane == PLAN_SIDE && p->nodes[i].joined_at > i);
        CHECK(e->slab == SLAB_ACTIVATION && e->first_node == i);
        CHECK_INT(e->last_node, p->nodes[i].joined_at);
        found++;
    }
    CHECK_INT(found, 1);
    plan_destroy(p);
    mem_free(bytes);
    mem_free(workspace);
    graph_destroy(g);
}

/* Decay and momentum do not reach what is frozen either. */
TEST(an_update_leaves_what_is_frozen)
{
    const char *sets[] = { "optimizer.weight_decay=0.5", "optimizer.decay_skip=none",
                           "optimizer.clip_norm=1" };
    Network n;
    Config *c = NULL;
    Optimizer *optimizer = NULL;
    float scalars[SCALAR_COUNT];
    ModelOptions o = network_narrow(8, 16);
    o.graph.freeze = "layer1, layer3.*.bias";
    REQUIRE_OK(network_open(&n, NETWORK_CPU, "resnet20", &o));
    REQUIRE_OK(network_fill(&n));
    REQUIRE_OK(config_load(&c, NULL, sets, 3));
    Bucket whole = { .bytes = executor_slab_bytes(n.executor, SLAB_GRAD) };
    REQUIRE_OK(optimizer_create(&optimizer, n.executor, n.backend, c, &whole, 1));
    const size_t bytes = executor_slab_bytes(n.executor, SLAB_PARAM);
    float *before = mem_alloc(bytes);
    REQUIRE(before);
    memcpy(before, executor_slab(n.executor, SLAB_PARAM), bytes);
    REQUIRE_OK(network_run(&n, 0.125F, NULL));
    optimizer_scalars(optimizer, 0.1, 1, scalars);
    REQUIRE_OK(executor_set_record(n.executor, "scalars", scalars));
    REQUIRE_OK(steps_run(n.executor, TIMELINE_STEP, STEP_MEASURE, 0));
    REQUIRE_OK(steps_run(n.executor, TIMELINE_STEP, STEP_PREPARE, 0));
    REQUIRE_OK(steps_run(n.executor, TIMELINE_STEP, STEP_UPDATE, 0));
    int frozen = 0;
    for (int i = 0; i < executor_state_count(n.executor); i++) {
        if (!executor_state_is_param(n.executor, i)) continue;
        const bool changed = memcmp(executor_state(n.executor, i)->data,
                                    (char *)before + executor_state_offset(n.executor, i),
                                    executor_state(n.executor, i)->bytes) != 0;
        (void)test_check(changed == executor_state_trains(n.executor, i), __FILE__, __LINE__,
                         executor_state_name(n.executor, i));
        frozen += !executor_state_trains(n.executor, i);
    }
    CHECK(frozen > 10);
    mem_free(before);
    optimizer_destroy(optimizer);
    config_destroy(c);
    network_close(&n);
}
