/* test_words.c - graphs of words: their inputs and tables, what is picked of a canvas, and a table
 * that is a head's weights too. */
#include "models/graph/graph.h"
#include "tests/test.h"
#include "tests/tools/graph_look.h"

static const EmbedOptions tables = {
    .words = "words", .positions = "positions", .width = 16, .position_rows = 14, .offset = 2
};

static Graph *new_graph(const GraphOptions *o)
{
    Graph *g = NULL;
    CHECK_OK(graph_create(&g));
    graph_set_options(g, o);
    return g;
}

static void check_input(const Graph *g, const char *name, const char *want)
{
    const TensorId id = graph_input(g, name);
    char text[96] = "none";
    if (id != TENSOR_NONE) tensor_format(&graph_tensor(g, id)->desc, text, sizeof text);
    CHECK_STR(text, want);
}

static const GraphNode *last_node(const Graph *g)
{
    return graph_node(g, graph_node_count(g) - 1);
}

TEST(a_masked_model_has_rows_and_an_order)
{
    const GraphOptions o = {
        .batch = 3, .tokens = 12, .classes = 20, .masked = 5, .segments = true, .training = true
    };
    EmbedOptions e = tables;
    Graph *g = new_graph(&o);
    e.segments = "segments";
    e.segment_rows = 2;
    TensorId x = graph_embed(g, "embed", &e);
    x = graph_pick(g, "pick", graph_linear_positions(g, "dense", x, 16), graph_input(g, "rows"));
    graph_softmax_xent(g, graph_linear(g, "head", x, 20));
    CHECK_OK(graph_append_backward(g));
    check_input(g, "ids", "i32[36]");
    check_input(g, "where", "i32[36,2]");
    check_input(g, "starts", "i32[4]");
    check_input(g, "order", "i32[36]");
    check_input(g, "segments", "i32[36]");
    check_input(g, "rows", "i32[5]");
    check_input(g, "labels", "i32[5]");
    const GraphNode *bwd = last_node(g);
    CHECK_INT(bwd->kind, OP_EMBED_BWD);
    CHECK(bwd->in[EMBED_BWD_IN_ORDER] == graph_input(g, "order"));
    CHECK(bwd->in[EMBED_BWD_IN_SO_FAR] == TENSOR_NONE);
    static const char *const names[] = { "words", "positions", "segments" };
    for (int i = 0; i < 3; i++) {
        const GraphTensor *t = graph_tensor(g, graph_find(g, names[i]));
        CHECK(t->grad == bwd->out[i] && t->decay && t->init == INIT_NORMAL && t->fan == 50);
    }
    graph_destroy(g);
}

TEST(a_classifier_picks_the_first_words)
{
    const GraphOptions o = { .batch = 3, .tokens = 12, .classes = 4, .words = 20 };
    Graph *g = new_graph(&o);
    const TensorId x = graph_embed(g, "embed", &tables);
    const TensorId first = graph_pick(g, "pick", x, graph_input(g, "starts"));
    graph_softmax_xent(g, graph_linear(g, "head", first, 4));
    CHECK_OK(graph_status(g));
    CHECK_INT(graph_tensor(g, graph_find(g, "words"))->desc.dims[0], 20);
    CHECK_INT(graph_tensor(g, first)->desc.dims[0], 3);
    check_input(g, "labels", "i32[3]");
    check_input(g, "order", "none");
    check_input(g, "rows", "none");
    graph_destroy(g);
}

/* What the head gives the table is there first. */
TEST(a_heads_gradient_of_the_words_is_gone_on_in)
{
    const GraphOptions o = {
        .batch = 3, .tokens = 12, .classes = 20, .masked = 5, .training = true
    };
    Graph *g = new_graph(&o);
    const TensorId x = graph_embed(g, "embed", &tables);
    const TensorId in[OP_MAX_INPUTS] = { [LINEAR_IN_X] =
                                             graph_pick(g, "pick", x, graph_input(g, "rows")),
                                         [LINEAR_IN_W] = graph_find(g, "words"),
                                         [LINEAR_IN_B] = TENSOR_NONE };
    const int head = graph_add_node(g, OP_LINEAR, PHASE_FORWARD, "head", NULL, in, NULL, NULL);
    REQUIRE(head >= 0);
    graph_softmax_xent(g, graph_node(g, head)->out[LINEAR_OUT_Y]);
    CHECK_OK(graph_append_backward(g));
    const GraphTensor *words = graph_tensor(g, graph_find(g, "words"));
    const GraphNode *bwd = last_node(g);
    CHECK_INT(bwd->kind, OP_EMBED_BWD);
    CHECK(bwd->in[EMBED_BWD_IN_SO_FAR] == words->grad && words->grad != TENSOR_NONE);
    CHECK(bwd->out[EMBED_BWD_OUT_DWORDS] == TENSOR_NONE);
    CHECK_INT(graph_node(g, graph_tensor(g, words->grad)->producer)->kind, OP_LINEAR_BWD_WEIGHTS);
    CHECK_INT(graph_count_kind(g, OP_PICK_BWD), 1);
    graph_destroy(g);
}

TEST(positions_must_reach_the_longest_sequence)
{
    const GraphOptions o = { .batch = 3, .tokens = 13, .classes = 20 };
    Graph *g = new_graph(&o);
    CHECK_INT(graph_embed(g, "embed", &tables), TENSOR_NONE);
    CHECK_STATUS(graph_status(g), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "14 positions from 2 on");
    graph_destroy(g);
}
