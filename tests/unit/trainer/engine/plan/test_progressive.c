/* test_progressive.c - progressive resizing as arithmetic: which step has which image size, where
 * stages end. */
#include "models/models.h"
#include "tests/test.h"
#include "trainer/engine/plan/progressive.h"

static Config *load(const char *sizes, const char *until)
{
    Config *c = NULL;
    const char *sets[] = { sizes, until, "data.image_size=32" };
    CHECK_OK(config_load(&c, NULL, sets, 3));
    return c;
}

TEST(stages_of_a_run_without_them)
{
    Config *c = load("data.progressive_sizes=[]", "data.progressive_until=[]");
    const TrainPlan p = { .images = 100, .global_batch = 8, .total_steps = 30 };
    if (!c) return;
    CHECK_INT(progressive_stage_count(c), 1);
    CHECK_INT(progressive_image_size(c, 0), 32);
    CHECK_INT(progressive_largest_size(c), 32);
    CHECK_INT(progressive_stage_at(c, &p, 0), 0);
    CHECK_INT(progressive_stage_at(c, &p, 29), 0);
    CHECK_INT(progressive_stage_end(c, &p, 0), 30);
    config_destroy(c);
}

/* 100 images in batches of 8: an epoch is complete within its 13th step, the second with the
 * 25th. */
TEST(stages_end_where_their_epochs_are_complete)
{
    Config *c = load("data.progressive_sizes=40, 24", "data.progressive_until=1, 2");
    const TrainPlan p = { .images = 100, .global_batch = 8, .total_steps = 38 };
    if (!c) return;
    CHECK_INT(progressive_stage_count(c), 3);
    CHECK_INT(progressive_largest_size(c), 40);
    CHECK_INT(progressive_stage_end(c, &p, 0), 13);
    CHECK_INT(progressive_stage_end(c, &p, 1), 25);
    CHECK_INT(progressive_stage_end(c, &p, 2), 38);
    for (int64_t step = 0; step < p.total_steps; step++) {
        int stage = step < 13 ? 0 : step < 25 ? 1 : 2;
        CHECK_INT(progressive_stage_at(c, &p, step), stage);
        CHECK_INT(progressive_image_size(c, stage), stage == 0 ? 40 : stage == 1 ? 24 : 32);
    }
    config_destroy(c);
}

/* Sizes end in that of training; evaluation is not of their business. */
TEST(stages_end_in_the_size_of_training)
{
    const char *sets[] = { "data.progressive_sizes=16, 20", "data.progressive_until=1, 2",
                           "data.image_size=32", "data.train_size=24" };
    Config *c = NULL;
    REQUIRE_OK(config_load(&c, NULL, sets, 4));
    CHECK_INT(progressive_image_size(c, 1), 20);
    CHECK_INT(progressive_image_size(c, 2), 24);
    CHECK_INT(progressive_largest_size(c), 24);
    CHECK_INT(c->data.image_size, 32);
    config_destroy(c);
    REQUIRE_OK(config_load(&c, NULL, &sets[2], 2));
    CHECK_INT(progressive_stage_count(c), 1);
    CHECK_INT(progressive_image_size(c, 0), 24);
    config_destroy(c);
}

/* A run that ends before a size does. */
TEST(stages_of_a_short_run)
{
    Config *c = load("data.progressive_sizes=16, 24", "data.progressive_until=1, 9");
    const TrainPlan p = { .images = 100, .global_batch = 10, .total_steps = 20 };
    if (!c) return;
    CHECK_INT(progressive_stage_end(c, &p, 0), 10);
    CHECK_INT(progressive_stage_end(c, &p, 1), 20);
    CHECK_INT(progressive_stage_end(c, &p, 2), 20);
    CHECK_INT(progressive_stage_at(c, &p, 19), 1);
    config_destroy(c);
}

/* ---- networks that have one size ---- */

static Graph *build(const ModelDef *def, int64_t size)
{
    Graph *g = NULL;
    ModelOptions o = { .graph = { .batch = 1,
                                  .channels = 3,
                                  .height = size,
                                  .width = size,
                                  .classes = 7,
                                  .std = { 1, 1, 1 } },
                       .width = 0.125,
                       .stochastic_depth = -1,
                       .dropout = -1 };
    CHECK_OK(model_build(&g, def, &o));
    return g;
}

static bool same_parameters(const Graph *a, const Graph *b)
{
    bool same = graph_parameter_elements(a) == graph_parameter_elements(b);
    for (TensorId t = 0; t < graph_tensor_count(a) && same; t++) {
        const GraphTensor *one = graph_tensor(a, t);
        if (one->role != ROLE_PARAM && one->role != ROLE_BUFFER) continue;
        const TensorId other = graph_find(b, one->name);
        same = other != TENSOR_NONE && tensor_same_shape(&one->desc, &graph_tensor(b, other)->desc);
    }
    return same;
}

/* data.train_size and data.progressive_sizes go by it. */
TEST(networks_whose_weights_depend_on_the_image_size_say_so)
{
    for (int i = 0; i < model_count(); i++) {
        if (model_at(i)->text) continue;
        Graph *large = build(model_at(i), 448), *small = build(model_at(i), 224);
        CHECK_STR(same_parameters(large, small) == model_at(i)->one_size ? model_at(i)->name : "",
                  "");
        graph_destroy(large);
        graph_destroy(small);
    }
}
