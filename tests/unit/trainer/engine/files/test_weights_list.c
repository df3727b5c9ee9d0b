/* The tensors of a network under the names of files. */
#include "base/str.h"
#include "tests/test.h"
#include "trainer/engine/files/weights.h"

/* What a library's users cut off with the last layer. */
TEST(the_rest_of_the_head_may_be_missing_with_the_last_layer)
{
    WeightList list;
    Graph *g = NULL;
    ModelOptions o = { .width = 1 };
    int above = 0;
    o.graph = (GraphOptions){ .batch = 1, .channels = 3, .height = 32, .width = 32, .classes = 5 };
    for (int i = 0; i < 3; i++) o.graph.std[i] = 1;
    REQUIRE_OK(model_build(&g, model_find("convnext_tiny"), &o));
    REQUIRE_OK(weights_list(&list, g, model_find("convnext_tiny"), MODEL_NAMES_TORCHVISION));
    for (int i = 0; i < list.count; i++) {
        const Weight *w = &list.items[i];
        CHECK(w->head == str_starts_with(w->other, "classifier.2."));
        CHECK(w->above == str_starts_with(w->other, "classifier.0."));
        above += w->above;
    }
    CHECK_INT(above, 2);
    weights_free(&list);
    graph_destroy(g);
}
