/* test_sequences.c - in a graph of a canvas attention, dropout and their gradients read where its
 * sequences lie; in one of images they do not. */
#include "models/graph/graph.h"
#include "tests/test.h"

enum { SEQUENCES = 3, LONGEST = 5, WIDTH = 16, HEADS = 2 };

static const GraphNode *node_of(const Graph *g, OpKind kind)
{
    for (int i = 0; i < graph_node_count(g); i++)
        if (graph_node(g, i)->kind == kind) return graph_node(g, i);
    return NULL;
}

static TensorId attend(Graph *g, TensorId x)
{
    const TensorId qkv = graph_linear_packed(g, "attention", x, 3 * WIDTH),
                   y = graph_attention(g, "attention", qkv, HEADS, 0.1f);
    return graph_drop(g, "drop", y, 0.1f, false, x);
}

static void check_slots(const Graph *g, TensorId starts, TensorId where)
{
    CHECK_INT(node_of(g, OP_ATTENTION)->in[ATTENTION_IN_STARTS], starts);
    CHECK_INT(node_of(g, OP_ATTENTION_BWD)->in[ATTENTION_BWD_IN_STARTS], starts);
    CHECK_INT(node_of(g, OP_DROP)->in[DROP_IN_WHERE], where);
    CHECK_INT(node_of(g, OP_DROP_BWD)->in[DROP_BWD_IN_WHERE], where);
}

TEST(a_canvas_is_attended_and_dropped_by_its_sequences)
{
    static const EmbedOptions embed = {
        .words = "words", .positions = "positions", .width = WIDTH, .position_rows = LONGEST
    };
    const GraphOptions o = {
        .batch = SEQUENCES, .tokens = LONGEST, .classes = 7, .training = true
    };
    Graph *g;
    REQUIRE_OK(graph_create(&g));
    graph_set_options(g, &o);
    const TensorId x = attend(g, graph_embed(g, "embed", &embed));
    graph_softmax_xent(
        g, graph_linear(g, "fc", graph_pick(g, "pick", x, graph_input(g, "starts")), o.classes));
    REQUIRE_OK(graph_append_backward(g));
    const AttentionAttr *a = node_of(g, OP_ATTENTION)->attr;
    CHECK_INT(a->longest, LONGEST);
    CHECK(graph_input(g, "starts") != TENSOR_NONE && graph_input(g, "where") != TENSOR_NONE);
    check_slots(g, graph_input(g, "starts"), graph_input(g, "where"));
    graph_destroy(g);
}

TEST(images_are_sequences_each)
{
    GraphOptions o = {
        .batch = 2, .channels = 1, .height = 3, .width = 3, .classes = 7, .training = true
    };
    Graph *g;
    o.std[0] = 1;
    REQUIRE_OK(graph_create(&g));
    graph_set_options(g, &o);
    const TensorId x = attend(g, graph_linear_positions(g, "in", graph_images(g, &o), WIDTH));
    graph_softmax_xent(g, graph_linear(g, "fc", graph_global_avgpool(g, "pool", x), o.classes));
    REQUIRE_OK(graph_append_backward(g));
    CHECK_INT(((const AttentionAttr *)node_of(g, OP_ATTENTION)->attr)->longest, 0);
    check_slots(g, TENSOR_NONE, TENSOR_NONE);
    graph_destroy(g);
}
