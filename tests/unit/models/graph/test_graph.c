/* test_graph.c - builder, look-up, dumps and the fusion of graphs. */
#include "base/mem.h"
#include "base/str.h"
#include "models/graph/graph.h"
#include "tests/test.h"
#include "tests/tools/graph_look.h"
#include <stdio.h>
#include <string.h>

static GraphOptions small_options(bool training)
{
    GraphOptions o = {
        .batch = 2, .channels = 3, .height = 8, .width = 8, .classes = 5, .training = training
    };
    for (int i = 0; i < OP_MAX_IMAGE_CHANNELS; i++) o.std[i] = 1;
    return o;
}

static Graph *new_graph(bool training)
{
    Graph *g = NULL;
    const GraphOptions o = small_options(training);
    CHECK_STATUS(graph_create(&g), OK);
    graph_set_options(g, &o);
    return g;
}

static TensorId plain_bn(Graph *g, const char *name, TensorId x, TensorId residual)
{
    const BnOptions bn = { .eps = 1e-5F, .momentum = 0.1F, .act = ACT_RELU, .residual = residual };
    return graph_batchnorm(g, name, x, &bn);
}

/* images - conv - bn - (conv - bn with residual) - mean - fc - loss: two convolutions of 8
 * filters. */
static Graph *residual_graph(bool training)
{
    Graph *g = new_graph(training);
    TensorId x = graph_images(g, graph_options(g));
    x = plain_bn(g, "bn1", graph_conv2d(g, "conv1", x, 8, 3, 1, 1, 1), TENSOR_NONE);
    x = plain_bn(g, "bn2", graph_conv2d(g, "conv2", x, 8, 3, 1, 1, 1), x);
    x = graph_linear(g, "fc", graph_global_avgpool(g, "avgpool", x), 5);
    graph_softmax_xent(g, x);
    CHECK_STATUS(graph_status(g), OK);
    return g;
}

TEST(names_shapes_and_init_of_weights)
{
    Graph *g = residual_graph(true);
    const GraphTensor *w = graph_tensor(g, graph_find(g, "conv1.weight"));
    CHECK(w->role == ROLE_PARAM && w->init == INIT_HE_FAN_OUT && w->fan == 8 * 9 && w->decay &&
          w->producer == -1);
    CHECK(w->desc.dims[0] == 8 && w->desc.dims[1] == 3 && w->desc.dims[2] == 3 &&
          w->desc.dims[3] == 3);
    const GraphTensor *gamma = graph_tensor(g, graph_find(g, "bn1.weight")),
                      *mean = graph_tensor(g, graph_find(g, "bn1.running_mean"));
    CHECK(gamma->init == INIT_ONE && !gamma->decay && gamma->desc.dims[0] == 8);
    CHECK(mean->role == ROLE_BUFFER && mean->init == INIT_ZERO);
    CHECK(graph_tensor(g, graph_find(g, "bn1.running_var"))->init == INIT_ONE);
    const GraphTensor *bias = graph_tensor(g, graph_find(g, "fc.bias"));
    CHECK(bias->init == INIT_UNIFORM_FAN && bias->fan == 8 && !bias->decay);
    CHECK(graph_find(g, "fc.wait") == TENSOR_NONE && graph_find(g, "images") == TENSOR_NONE);
    CHECK(graph_parameter_elements(g) == 8 * 3 * 9 + 8 * 8 * 9 + 4 * 8 + 8 * 5 + 5);
    graph_destroy(g);
}

TEST(inputs_and_outputs_are_found_by_name)
{
    Graph *g = residual_graph(false);
    CHECK(graph_tensor(g, graph_input(g, "images"))->desc.dtype == DTYPE_U8);
    CHECK(graph_tensor(g, graph_input(g, "labels"))->desc.dtype == DTYPE_I32);
    CHECK(graph_tensor(g, graph_input(g, "scalars"))->desc.dims[0] == SCALAR_COUNT);
    CHECK(graph_tensor(g, graph_input(g, "stats"))->role == ROLE_OUTPUT);
    CHECK(graph_tensor(g, graph_logits(g))->desc.dims[1] == 5);
    CHECK(graph_input(g, "conv1.weight") == TENSOR_NONE);
    graph_destroy(g);
}

TEST(evaluation_keeps_nothing_for_backward)
{
    const bool modes[] = { true, false };
    for (int m = 0; m < 2; m++) {
        Graph *g = new_graph(modes[m]);
        const Pool2dAttr pool = { .kind = POOL_MAX,
                                  .kernel_h = 3,
                                  .kernel_w = 3,
                                  .stride_h = 2,
                                  .stride_w = 2,
                                  .pad_h = 1,
                                  .pad_w = 1 };
        TensorId x = graph_pool2d(
            g, "pool",
            plain_bn(g, "bn",
                     graph_conv2d(g, "conv", graph_images(g, graph_options(g)), 8, 3, 1, 1, 1),
                     TENSOR_NONE),
            &pool);
        graph_softmax_xent(g, graph_linear(g, "fc", x, 5));
        CHECK_STATUS(graph_status(g), OK);
        for (int i = 0; i < graph_node_count(g); i++) {
            const GraphNode *n = graph_node(g, i);
            if (n->kind == OP_BATCHNORM) CHECK((n->out[BN_OUT_SAVED] != TENSOR_NONE) == modes[m]);
            if (n->kind == OP_POOL2D) CHECK((n->out[POOL_OUT_INDEX] != TENSOR_NONE) == modes[m]);
            if (n->kind == OP_SOFTMAX_XENT)
                CHECK((n->out[XENT_OUT_DLOGITS] != TENSOR_NONE) == modes[m]);
        }
        graph_destroy(g);
    }
}

TEST(first_error_sticks_and_tells_the_layer)
{
    Graph *g = new_graph(true);
    TensorId x = graph_images(g, graph_options(g));
    CHECK(graph_conv2d(g, "broken", x, 7, 3, 1, 1, 2) == TENSOR_NONE);
    CHECK(graph_conv2d(g, "later", x, 8, 3, 1, 1, 1) == TENSOR_NONE);
    CHECK(graph_find(g, "later.weight") == TENSOR_NONE);
    CHECK_STATUS(graph_status(g), ERR_INTERNAL);
    CHECK(strstr(status_message(), "broken") != NULL);
    CHECK_STATUS(graph_append_backward(g), ERR_INTERNAL);
    graph_destroy(g);
}

TEST(a_name_may_be_taken_once)
{
    Graph *g = new_graph(true);
    TensorId x = graph_images(g, graph_options(g));
    x = graph_conv2d(g, "conv", x, 8, 3, 1, 1, 1);
    CHECK(x != TENSOR_NONE);
    CHECK(graph_conv2d(g, "conv", x, 8, 3, 1, 1, 1) == TENSOR_NONE);
    CHECK_STATUS(graph_status(g), ERR_INTERNAL);
    CHECK(strstr(status_message(), "conv.weight") != NULL);
    graph_destroy(g);
}

TEST(too_many_image_channels_is_a_user_error)
{
    GraphOptions o = small_options(true);
    o.channels = OP_MAX_IMAGE_CHANNELS + 1;
    Graph *g = NULL;
    CHECK_STATUS(graph_create(&g), OK);
    CHECK(graph_images(g, &o) == TENSOR_NONE);
    CHECK_STATUS(graph_status(g), ERR_USAGE);
    graph_destroy(g);
}

TEST(missing_input_and_unknown_tensor_are_refused)
{
    const TensorId missing[OP_MAX_INPUTS] = { TENSOR_NONE, TENSOR_NONE },
                   unknown[OP_MAX_INPUTS] = { 999, 999 };
    const TensorId *const cases[] = { missing, unknown };
    for (int i = 0; i < 2; i++) {
        Graph *g = new_graph(true);
        CHECK(graph_add_node(g, OP_ADD, PHASE_FORWARD, "sum", NULL, cases[i], NULL, NULL) == -1);
        CHECK_STATUS(graph_status(g), ERR_INTERNAL);
        graph_destroy(g);
    }
}

/* Every failed allocation on the way must come out as ERR_MEMORY, never as a crash. */
TEST(running_out_of_memory_is_reported)
{
    for (int k = 1; k < 64; k++) {
        Graph *g = NULL;
        const GraphOptions o = small_options(true);
        mem_fail_at(k);
        Status status = graph_create(&g);
        if (status == OK) {
            graph_set_options(g, &o);
            TensorId x = graph_images(g, &o);
            for (int i = 0; i < 70; i++) x = graph_activation(g, "relu", x, ACT_RELU);
            graph_softmax_xent(g, graph_linear(g, "fc", x, 5));
            status = graph_append_backward(g);
        }
        mem_fail_at(0);
        graph_destroy(g);
        if (status == OK) return; /* k was past the last allocation */
        CHECK_STATUS(status, ERR_MEMORY);
    }
    CHECK(!"more allocations than this test expects");
}

TEST(fusion_moves_the_sum_into_batchnorm)
{
    Graph *g = residual_graph(true);
    CHECK_STATUS(graph_append_backward(g), OK);
    const FuseOptions off = { .add_into_batchnorm_bwd = false },
                      on = { .add_into_batchnorm_bwd = true };
    const int nodes = graph_node_count(g);
    CHECK(graph_count_kind(g, OP_ADD) == 1);
    CHECK_STATUS(graph_fuse(g, &off), OK);
    CHECK(graph_node_count(g) == nodes);
    CHECK_STATUS(graph_fuse(g, &on), OK);
    CHECK(graph_node_count(g) == nodes - 1 && graph_count_kind(g, OP_ADD) == 0);
    int fused = 0;
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        for (int k = 0; k < OP_MAX_OUTPUTS; k++)
            if (n->out[k] != TENSOR_NONE) CHECK(graph_tensor(g, n->out[k])->producer == i);
        for (int k = 0; k < OP_MAX_INPUTS; k++)
            if (n->in[k] != TENSOR_NONE) CHECK(graph_tensor(g, n->in[k])->producer < i);
        if (n->kind != OP_BATCHNORM_BWD || n->in[BN_BWD_IN_DY2] == TENSOR_NONE) continue;
        fused++;
        CHECK(strcmp(n->name, "bn1.bwd") == 0);
        CHECK(strcmp(graph_tensor(g, n->in[BN_BWD_IN_DY])->name, "bn2.bwd") == 0);
        CHECK(strcmp(graph_tensor(g, n->in[BN_BWD_IN_DY2])->name, "conv2.bwd_data") == 0);
    }
    CHECK(fused == 1);
    graph_destroy(g);
}

/* A sum that somebody else reads too must stay. Here activation feeds two batch norms, and their
 * gradients' sum goes into activation_bwd. */
TEST(fusion_leaves_other_sums_alone)
{
    Graph *g = new_graph(true);
    TensorId x = graph_conv2d(g, "conv", graph_images(g, graph_options(g)), 8, 3, 1, 1, 1);
    x = graph_activation(g, "relu", x, ACT_RELU);
    TensorId a = plain_bn(g, "bn1", x, TENSOR_NONE), b = plain_bn(g, "bn2", x, a);
    graph_softmax_xent(g, graph_linear(g, "fc", b, 5));
    CHECK_STATUS(graph_append_backward(g), OK);
    const FuseOptions on = { .add_into_batchnorm_bwd = true };
    const int sums = graph_count_kind(g, OP_ADD);
    CHECK(sums == 1);
    CHECK_STATUS(graph_fuse(g, &on), OK);
    CHECK(graph_count_kind(g, OP_ADD) == sums);
    graph_destroy(g);
}

TEST(table_has_layers_and_totals)
{
    Graph *g = residual_graph(true);
    CHECK_STATUS(graph_append_backward(g), OK);
    StrBuf out = { 0 };
    CHECK_STATUS(graph_dump_table(g, &out), OK);
    CHECK(strstr(out.text, "conv2") != NULL && strstr(out.text, "bwd") == NULL);
    CHECK(strstr(out.text, "f32[2,8,8,8]") != NULL);
    CHECK(strstr(out.text, "\nparameters 869\n") != NULL); /* 216 + 576 + 32 + 45 */
    CHECK(strstr(out.text, "\nbuffers 32\n") != NULL);
    CHECK(strstr(out.text, "\nbackward_gflops ") != NULL);
    CHECK(strstr(out.text, " \n") == NULL);
    /* Columns are aligned: every layer's op begins where the title's does. */
    const char *title = strstr(out.text, "op");
    const char *row = strstr(out.text, "\nconv1");
    CHECK(title && row && strncmp(row + 1 + (title - out.text), "conv2d", 6) == 0);
    str_free(&out);
    graph_destroy(g);
}

TEST(dot_names_every_node)
{
    Graph *g = residual_graph(true);
    CHECK_STATUS(graph_append_backward(g), OK);
    StrBuf out = { 0 };
    CHECK_STATUS(graph_dump_dot(g, &out), OK);
    int labels = 0, arrows = 0;
    for (const char *s = out.text; (s = strstr(s, "[label=")); s++) labels++;
    for (const char *s = out.text; (s = strstr(s, " -> ")); s++) arrows++;
    CHECK(labels == graph_node_count(g));
    CHECK(arrows >= graph_node_count(g) - 1);
    for (int i = 0; i < graph_node_count(g); i++) {
        const GraphNode *n = graph_node(g, i);
        char line[256];
        snprintf(line, sizeof line, "  n%d [label=\"%s | %s ", i, n->name, op_name(n->kind));
        CHECK_CONTAINS(out.text, line);
        for (int k = 0; k < OP_MAX_INPUTS; k++) {
            if (n->in[k] == TENSOR_NONE || graph_tensor(g, n->in[k])->producer < 0) continue;
            snprintf(line, sizeof line, "\n  n%d -> n%d;\n", graph_tensor(g, n->in[k])->producer,
                     i);
            CHECK_CONTAINS(out.text, line);
        }
    }
    CHECK(str_starts_with(out.text, "digraph") && strcmp(out.text + out.length - 2, "}\n") == 0);
    str_free(&out);
    graph_destroy(g);
}

TEST(flops_of_a_convolution_are_counted)
{
    Graph *g = new_graph(false);
    graph_conv2d(g, "conv", graph_images(g, graph_options(g)), 8, 3, 1, 1, 1);
    const double conv = 2.0 * 2 * 8 * 8 * 8 * 3 * 9;
    CHECK(graph_flops(g, PHASE_FORWARD) >= conv && graph_flops(g, PHASE_FORWARD) < 1.2 * conv);
    CHECK(graph_flops(g, PHASE_BACKWARD) == 0);
    graph_destroy(g);
}
