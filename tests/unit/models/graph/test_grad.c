/* test_grad.c - what backward must look like. That its numbers are right is tested on whole
 * networks by the float64 reference. */
#include "base/mem.h"
#include "models/models.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

static ModelOptions tiny_options(void)
{
    ModelOptions o = { .width = 0.125, .stem = STEM_CIFAR };
    o.graph = (GraphOptions){
        .batch = 2, .channels = 3, .height = 8, .width = 8, .classes = 10, .training = true
    };
    for (int i = 0; i < OP_MAX_IMAGE_CHANNELS; i++) o.graph.std[i] = 1;
    return o;
}

static Graph *tiny(const char *name)
{
    Graph *g = NULL;
    ModelOptions o = tiny_options();
    const int least = model_find(name)->least_size;
    if (!model_find(name)->stems) o.stem = STEM_IMAGENET;
    if (model_find(name)->text) {
        o.graph.tokens = 8;
        o.graph.masked = 3;
    }
    if (least > 0 && o.graph.height % least) o.graph.height = o.graph.width = 2 * least;
    CHECK_STATUS(model_build(&g, model_find(name), &o), OK);
    return g;
}

static const GraphNode *find_node(const Graph *g, const char *name)
{
    for (int i = 0; i < graph_node_count(g); i++)
        if (strcmp(graph_node(g, i)->name, name) == 0) return graph_node(g, i);
    return NULL;
}

/* Inputs come from earlier nodes, outputs have one producer, forward comes before backward. */
static void check_order(const Graph *g)
{
    bool *produced = mem_calloc((size_t)graph_tensor_count(g), sizeof *produced);
    Phase phase = PHASE_FORWARD;
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        CHECK(n->phase >= phase);
        phase = n->phase;
        for (int k = 0; k < OP_MAX_INPUTS; k++) {
            if (n->in[k] == TENSOR_NONE) continue;
            const GraphTensor *t = graph_tensor(g, n->in[k]);
            CHECK(t->producer < i && (t->producer == -1 || produced[n->in[k]]));
            if (t->role == ROLE_ACTIVATION) CHECK(t->producer >= 0);
        }
        for (int k = 0; k < OP_MAX_OUTPUTS; k++) {
            if (n->out[k] == TENSOR_NONE) continue;
            CHECK(!produced[n->out[k]] && graph_tensor(g, n->out[k])->producer == i);
            produced[n->out[k]] = true;
        }
    }
    mem_free(produced);
}

/* Each parameter has one gradient of its shape, made by one backward node, and no other tensor
 * claims it. */
static void check_gradients(const Graph *g)
{
    int params = 0, grads = 0;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        const GraphTensor *t = graph_tensor(g, id);
        grads += t->role == ROLE_GRAD;
        if (t->role != ROLE_PARAM || (t->frozen && t->grad == TENSOR_NONE)) continue;
        params++;
        CHECK(t->grad != TENSOR_NONE);
        const GraphTensor *d = graph_tensor(g, t->grad);
        CHECK(d->role == ROLE_GRAD && d->grad_of == id && tensor_same_shape(&d->desc, &t->desc));
        CHECK(graph_node(g, d->producer)->phase == PHASE_BACKWARD);
        CHECK(strncmp(d->name, "grad:", 5) == 0 && strcmp(d->name + 5, t->name) == 0);
    }
    CHECK(params > 0 && params == grads);
}

TEST(every_network_has_one_gradient_per_parameter)
{
    for (int i = 0; i < model_count(); i++) {
        Graph *g = tiny(model_at(i)->name);
        check_order(g);
        check_gradients(g);
        const FuseOptions on = { .add_into_batchnorm_bwd = true };
        CHECK_STATUS(graph_fuse(g, &on), OK);
        check_order(g);
        check_gradients(g);
        graph_destroy(g);
    }
}

TEST(images_get_no_gradient)
{
    static const char *const first[][2] = { { "resnet18", "conv1" },
                                            { "resnet20", "conv1" },
                                            { "mlp", "fc1" } };
    for (int i = 0; i < 3; i++) {
        Graph *g = tiny(first[i][0]);
        char name[64];
        snprintf(name, sizeof name, "%s.bwd_weights", first[i][1]);
        CHECK(find_node(g, name) != NULL);
        snprintf(name, sizeof name, "%s.bwd_data", first[i][1]);
        CHECK(find_node(g, name) == NULL);
        graph_destroy(g);
    }
    Graph *g = tiny("resnet18");
    CHECK(find_node(g, "layer1.0.conv1.bwd_data") != NULL);
    graph_destroy(g);
}

TEST(weight_gradients_come_before_data_gradients)
{
    Graph *g = tiny("resnet50");
    const GraphNode *weights = find_node(g, "layer2.0.conv2.bwd_weights"),
                    *data = find_node(g, "layer2.0.conv2.bwd_data");
    CHECK(weights && data && weights < data);
    graph_destroy(g);
}

TEST(batchnorm_asks_only_for_what_it_needs)
{
    Graph *g = tiny("resnet18");
    const GraphNode *inner = find_node(g, "layer1.0.bn1.bwd"),
                    *last = find_node(g, "layer1.0.bn2.bwd");
    const GraphNode *projection = find_node(g, "layer2.0.downsample.1.bwd");
    CHECK(inner && last && projection);
    CHECK(inner->in[BN_BWD_IN_Y] == TENSOR_NONE && inner->out[BN_BWD_OUT_DRESIDUAL] == TENSOR_NONE);
    CHECK(last->in[BN_BWD_IN_Y] != TENSOR_NONE && last->out[BN_BWD_OUT_DRESIDUAL] != TENSOR_NONE);
    CHECK(projection->in[BN_BWD_IN_Y] == TENSOR_NONE);
    graph_destroy(g);
}

/* A block's input is read twice, and with the CIFAR stem a batch norm made it: so each sum of
 * gradients goes into one.
 */
TEST(fusion_removes_every_sum_of_a_residual_network)
{
    static const char *const names[] = { "resnet18", "resnet50", "resnet20" };
    for (int m = 0; m < 3; m++) {
        Graph *g = tiny(names[m]);
        const FuseOptions on = { .add_into_batchnorm_bwd = true };
        int before = 0, after = 0;
        for (int i = 0; i < graph_node_count(g); i++) before += graph_node(g, i)->kind == OP_ADD;
        CHECK_STATUS(graph_fuse(g, &on), OK);
        for (int i = 0; i < graph_node_count(g); i++) after += graph_node(g, i)->kind == OP_ADD;
        CHECK(before > 0 && after == 0);
        graph_destroy(g);
    }
}

static Graph *bare(bool training)
{
    Graph *g = NULL;
    GraphOptions o = tiny_options().graph;
    o.training = training;
    CHECK_STATUS(graph_create(&g), OK);
    graph_set_options(g, &o);
    return g;
}

TEST(evaluation_graph_and_missing_loss_are_refused)
{
    Graph *g = bare(false);
    graph_softmax_xent(g, graph_linear(g, "fc", graph_images(g, graph_options(g)), 10));
    CHECK_STATUS(graph_append_backward(g), ERR_INTERNAL);
    graph_destroy(g);
    g = bare(true);
    graph_linear(g, "fc", graph_images(g, graph_options(g)), 10);
    CHECK_STATUS(graph_append_backward(g), ERR_INTERNAL);
    graph_destroy(g);
}

TEST(backward_is_appended_once)
{
    Graph *g = tiny("mlp");
    CHECK_STATUS(graph_append_backward(g), ERR_INTERNAL);
    graph_destroy(g);
}

TEST(a_parameter_that_does_not_reach_the_loss_is_named)
{
    Graph *g = bare(true);
    TensorId x = graph_images(g, graph_options(g));
    graph_linear(g, "lost", x, 4);
    graph_softmax_xent(g, graph_linear(g, "fc", x, 10));
    CHECK_STATUS(graph_append_backward(g), ERR_INTERNAL);
    CHECK(strstr(status_message(), "lost.weight") != NULL);
    graph_destroy(g);
}

/* x + x: both shares are the same tensor and are summed once. */
TEST(a_tensor_added_to_itself_gets_twice_the_gradient)
{
    Graph *g = bare(true);
    TensorId x = graph_linear(g, "fc1", graph_images(g, graph_options(g)), 6);
    const TensorId in[OP_MAX_INPUTS] = { x, x };
    const int sum = graph_add_node(g, OP_ADD, PHASE_FORWARD, "sum", NULL, in, NULL, NULL);
    CHECK(sum >= 0);
    graph_softmax_xent(g, graph_linear(g, "fc2", graph_node(g, sum)->out[0], 10));
    CHECK_STATUS(graph_append_backward(g), OK);
    const GraphNode *twice = find_node(g, "fc1.grad_sum");
    CHECK(twice && twice->kind == OP_ADD && twice->in[0] == twice->in[1]);
    check_order(g);
    check_gradients(g);
    graph_destroy(g);
}
