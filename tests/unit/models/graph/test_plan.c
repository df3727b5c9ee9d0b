/* test_plan.c - memory plans of random and of real networks, gradient buckets, and that the check
 * notices what it should. */
#include "base/mem.h"
#include "base/rng.h"
#include "models/graph/plan.h"
#include "models/models.h"
#include "tests/test.h"
#include "tests/tools/plan_check.h"
#include <stdio.h>
#include <string.h>

static GraphOptions small_options(bool training)
{
    GraphOptions o = {
        .batch = 2, .channels = 3, .height = 6, .width = 6, .classes = 4, .training = training
    };
    for (int i = 0; i < OP_MAX_IMAGE_CHANNELS; i++) o.std[i] = 1;
    return o;
}

static TensorId add_two(Graph *g, TensorId a, TensorId b)
{
    const TensorId in[OP_MAX_INPUTS] = { a, b };
    const int node = graph_add_node(g, OP_ADD, PHASE_FORWARD, "sum", NULL, in, NULL, NULL);
    return node < 0 ? TENSOR_NONE : graph_node(g, node)->out[0];
}

/* A random op over random earlier tensors, all of one shape. */
static TensorId add_random(Graph *g, Rng *rng, const TensorId *made, int count, bool *used)
{
    const int a = (int)rng_below(rng, (uint64_t)count), b = (int)rng_below(rng, (uint64_t)count);
    char name[32];
    snprintf(name, sizeof name, "node%d", count);
    used[a] = true;
    const BnOptions bn = { .eps = 1e-5F,
                           .momentum = 0.1F,
                           .act = rng_below(rng, 2) ? ACT_RELU : ACT_NONE,
                           .residual = rng_below(rng, 2) ? made[b] : TENSOR_NONE };
    switch (rng_below(rng, 4)) {
    case 0:
        return graph_conv2d(g, name, made[a], 8, 3, 1, 1, 1);
    case 1:
        return graph_activation(g, name, made[a], ACT_RELU);
    case 2:
        used[b] = true;
        return add_two(g, made[a], made[b]);
    default:
        if (bn.residual != TENSOR_NONE) used[b] = true;
        return graph_batchnorm(g, name, made[a], &bn);
    }
}

static Graph *random_graph(uint64_t seed, bool training, bool fuse)
{
    enum { NODES = 24 };
    Rng rng = rng_at(seed, RNG_TEST, 1, 0);
    Graph *g = NULL;
    const GraphOptions o = small_options(training);
    CHECK_STATUS(graph_create(&g), OK);
    graph_set_options(g, &o);
    TensorId made[NODES];
    bool used[NODES] = { false };
    made[0] = graph_conv2d(g, "stem", graph_images(g, &o), 8, 3, 1, 1, 1);
    for (int i = 1; i < NODES; i++) made[i] = add_random(g, &rng, made, i, used);
    TensorId x = made[NODES - 1];
    for (int i = 0; i < NODES - 1; i++)
        if (!used[i]) x = add_two(g, x, made[i]); /* every branch must reach the loss */
    graph_softmax_xent(g, graph_linear(g, "fc", graph_global_avgpool(g, "avgpool", x), 4));
    CHECK_STATUS(graph_status(g), OK);
    if (training) CHECK_STATUS(graph_append_backward(g), OK);
    const FuseOptions f = { .add_into_batchnorm_bwd = fuse };
    CHECK_STATUS(graph_fuse(g, &f), OK);
    return g;
}

typedef struct Sizes {
    size_t *tensors, *nodes;
    PlanInputs inputs;
} Sizes;

/* Plain sizes; with rng some tensors that are no gradients or parameters are padded, as layouts
 * would. */
static Sizes sizes_of(const Graph *g, size_t alignment, Rng *rng)
{
    Sizes s = { .tensors = mem_calloc((size_t)graph_tensor_count(g), sizeof(size_t)),
                .nodes = mem_calloc((size_t)graph_node_count(g), sizeof(size_t)) };
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        s.tensors[id] = tensor_plain_bytes(&graph_tensor(g, id)->desc);
        if (rng && graph_tensor(g, id)->role == ROLE_ACTIVATION && rng_below(rng, 4) == 0)
            s.tensors[id] += (size_t)rng_below(rng, 500);
    }
    for (int i = 0; i < graph_node_count(g); i++) s.nodes[i] = (size_t)i;
    s.inputs = (PlanInputs){ .tensor_bytes = s.tensors,
                             .node_workspace = s.nodes,
                             .alignment = alignment };
    return s;
}

static void free_sizes(Sizes *s)
{
    mem_free(s->tensors);
    mem_free(s->nodes);
}

static Plan *plan_of(const Graph *g)
{
    Sizes s = sizes_of(g, 64, NULL);
    Plan *p = NULL;
    CHECK_STATUS(plan_create(&p, g, &s.inputs), OK);
    free_sizes(&s);
    return p;
}

TEST(random_graphs_never_overlap)
{
    int in_place = 0, shared = 0;
    for (uint64_t seed = 0; seed < 120; seed++) {
        const bool training = seed % 3 != 0;
        Graph *g = random_graph(seed, training, seed % 2);
        Rng rng = rng_at(seed, RNG_TEST, 2, 0);
        const size_t alignments[] = { 1, 64, 256 };
        Sizes s = sizes_of(g, alignments[seed % 3], seed % 5 ? &rng : NULL);
        Plan *p = NULL;
        CHECK_STATUS(plan_create(&p, g, &s.inputs), OK);
        CHECK_STATUS(plan_check(p, g), OK);
        CHECK(p->slab_bytes[SLAB_ACTIVATION] <= p->naive_activation_bytes);
        shared += p->slab_bytes[SLAB_ACTIVATION] < p->naive_activation_bytes;
        CHECK(p->workspace_bytes[PLAN_MAIN] == (size_t)graph_node_count(g) - 1);
        for (TensorId id = 0; id < graph_tensor_count(g); id++) {
            in_place += p->entries[id].over != TENSOR_NONE;
            CHECK(p->entries[id].offset % s.inputs.alignment == 0);
        }
        plan_destroy(p);
        free_sizes(&s);
        graph_destroy(g);
    }
    CHECK(in_place > 100 && shared == 120); /* else the test would prove little */
}

TEST(the_same_graph_gives_the_same_plan)
{
    Graph *a = random_graph(5, true, true), *b = random_graph(5, true, true);
    Plan *p = plan_of(a), *q = plan_of(b);
    for (TensorId id = 0; id < graph_tensor_count(a); id++)
        CHECK(p->entries[id].offset == q->entries[id].offset &&
              p->entries[id].over == q->entries[id].over);
    plan_destroy(p);
    plan_destroy(q);
    graph_destroy(a);
    graph_destroy(b);
}

TEST(outputs_lie_apart_where_their_ops_say_so)
{
    Graph *g = random_graph(5, true, true);
    Sizes s = sizes_of(g, 64, NULL);
    unsigned *no_alias = mem_calloc((size_t)graph_node_count(g), sizeof *no_alias);
    for (int i = 0; i < graph_node_count(g); i += 2) no_alias[i] = ~0u;
    int over[2] = { 0, 0 };
    Plan *p = NULL;
    s.inputs.node_no_alias = no_alias;
    REQUIRE_OK(plan_create(&p, g, &s.inputs));
    CHECK_OK(plan_check(p, g));
    for (TensorId id = 0; id < graph_tensor_count(g); id++)
        if (p->entries[id].over != TENSOR_NONE) over[graph_tensor(g, id)->producer % 2]++;
    CHECK_INT(over[0], 0);
    CHECK(over[1] > 0);
    plan_destroy(p);
    free_sizes(&s);
    mem_free(no_alias);
    graph_destroy(g);
}

/* Every way to break a plan that the executor would pay for is noticed. */
TEST(the_check_notices_a_broken_plan)
{
    Graph *g = random_graph(7, true, true);
    Plan *p = plan_of(g);
    CHECK_STATUS(plan_check(p, g), OK);
    int noticed = 0;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        PlanEntry *e = &p->entries[id], saved = *e;
        if (e->over == TENSOR_NONE) continue;
        e->over = TENSOR_NONE; /* lies over its input without saying so */
        CHECK_STATUS(plan_check(p, g), ERR_INTERNAL);
        *e = saved;
        noticed++;
    }
    CHECK(noticed > 0);
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        PlanEntry *e = &p->entries[id], saved = *e;
        if (e->slab == SLAB_EXTERNAL || e->bytes == 0) continue;
        e->offset = p->slab_bytes[e->slab];
        CHECK_STATUS(plan_check(p, g), ERR_INTERNAL);
        *e = saved;
    }
    const TensorId w = graph_find(g, "stem.weight"), fc = graph_find(g, "fc.weight");
    const size_t offset = p->entries[w].offset;
    p->entries[w].offset = p->entries[graph_tensor(g, w)->grad].offset = p->entries[fc].offset;
    CHECK_STATUS(plan_check(p, g), ERR_INTERNAL);
    p->entries[w].offset = p->entries[graph_tensor(g, w)->grad].offset = offset;
    CHECK_STATUS(plan_check(p, g), OK);
    plan_destroy(p);
    graph_destroy(g);
}

static Graph *model(const char *name, int64_t batch, int64_t size, int64_t classes, bool training)
{
    ModelOptions o = { .width = 1, .stem = STEM_IMAGENET };
    o.graph = (GraphOptions){ .batch = batch,
                              .channels = 3,
                              .height = size,
                              .width = size,
                              .classes = classes,
                              .training = training };
    for (int i = 0; i < OP_MAX_IMAGE_CHANNELS; i++) o.graph.std[i] = 1;
    Graph *g = NULL;
    CHECK_STATUS(model_build(&g, model_find(name), &o), OK);
    const FuseOptions f = { .add_into_batchnorm_bwd = true };
    CHECK_STATUS(graph_fuse(g, &f), OK);
    return g;
}

/* Largest sum of live activations over all nodes, an input and the output over it counted once: no
 * plan can be smaller.
 */
static size_t live_peak(const Plan *p, const Graph *g)
{
    size_t peak = 0;
    for (int i = 0; i < graph_node_count(g); i++) {
        size_t live = 0;
        for (TensorId id = 0; id < graph_tensor_count(g); id++) {
            const PlanEntry *e = &p->entries[id];
            const bool twice = e->over != TENSOR_NONE && e->first_node == i;
            if (e->slab == SLAB_ACTIVATION && e->first_node >= 0 && e->first_node <= i &&
                i <= e->last_node && !twice)
                live += e->bytes;
        }
        if (live > peak) peak = live;
    }
    return peak;
}

TEST(real_networks_are_planned_near_the_lower_bound)
{
    static const struct {
        const char *name;
        int64_t batch, size, classes;
        bool training;
        double of_naive; /* planned / naive must not exceed this */
    } rows[] = {
        { "resnet50", 32, 224, 1000, true, 0.45 }, { "resnet50", 32, 224, 1000, false, 0.12 },
        { "resnet18", 16, 224, 1000, true, 0.48 }, { "resnet20", 128, 32, 10, true, 0.48 },
        { "mlp", 128, 28, 10, true, 0.65 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Graph *g =
            model(rows[i].name, rows[i].batch, rows[i].size, rows[i].classes, rows[i].training);
        Plan *p = plan_of(g);
        CHECK_STATUS(plan_check(p, g), OK);
        const double planned = (double)p->slab_bytes[SLAB_ACTIVATION],
                     naive = (double)p->naive_activation_bytes;
        CHECK(planned >= (double)live_peak(p, g) &&
              planned <= 1.02 * (double)live_peak(p, g) + 4096);
        CHECK(planned <= rows[i].of_naive * naive);
        plan_destroy(p);
        graph_destroy(g);
    }
}

TEST(parameters_lie_in_backward_order_at_their_gradients_offsets)
{
    Graph *g = model("resnet18", 2, 64, 10, true);
    Plan *p = plan_of(g);
    const char **names = NULL;
    int count = 0, last_producer = -1;
    CHECK_STATUS(plan_param_order(p, g, &names, &count), OK);
    CHECK(count == 62);
    CHECK(strcmp(names[0], "fc.weight") == 0 && strcmp(names[1], "fc.bias") == 0 &&
          strcmp(names[count - 1], "conv1.weight") == 0);
    for (int i = 0; i < count; i++) {
        const TensorId id = graph_find(g, names[i]), grad = graph_tensor(g, id)->grad;
        CHECK(p->entries[id].offset == p->entries[grad].offset &&
              p->entries[id].bytes == p->entries[grad].bytes);
        CHECK(graph_tensor(g, grad)->producer >= last_producer);
        last_producer = graph_tensor(g, grad)->producer;
    }
    CHECK(p->slab_bytes[SLAB_PARAM] == p->slab_bytes[SLAB_GRAD]);
    mem_free(names);
    plan_destroy(p);
    graph_destroy(g);
}

TEST(programs_share_parameter_offsets)
{
    Graph *train = model("resnet18", 2, 64, 10, true), *eval = model("resnet18", 5, 96, 10, false);
    Plan *p = plan_of(train), *q = NULL;
    const char **names = NULL;
    int count = 0;
    CHECK_STATUS(plan_param_order(p, train, &names, &count), OK);
    Sizes s = sizes_of(eval, 64, NULL);
    s.inputs.param_order = names;
    s.inputs.param_count = count;
    CHECK_STATUS(plan_create(&q, eval, &s.inputs), OK);
    CHECK_STATUS(plan_check(q, eval), OK);
    for (TensorId id = 0; id < graph_tensor_count(eval); id++) {
        const GraphTensor *t = graph_tensor(eval, id);
        if (t->role != ROLE_PARAM && t->role != ROLE_BUFFER) continue;
        CHECK(q->entries[id].offset == p->entries[graph_find(train, t->name)].offset);
    }
    CHECK(q->slab_bytes[SLAB_PARAM] == p->slab_bytes[SLAB_PARAM] &&
          q->slab_bytes[SLAB_BUFFER] == p->slab_bytes[SLAB_BUFFER]);
    CHECK(q->slab_bytes[SLAB_GRAD] == 0);
    plan_destroy(q);
    names[3] = names[4];
    CHECK_STATUS(plan_create(&q, eval, &s.inputs), ERR_INTERNAL);
    names[3] = "bn1.running_mean";
    CHECK_STATUS(plan_create(&q, eval, &s.inputs), ERR_INTERNAL);
    s.inputs.param_count = count - 1;
    CHECK_STATUS(plan_create(&q, eval, &s.inputs), ERR_INTERNAL);
    CHECK(q == NULL);
    free_sizes(&s);
    mem_free(names);
    plan_destroy(p);
    graph_destroy(train);
    graph_destroy(eval);
}

TEST(sizes_that_were_not_decided_are_refused)
{
    static const char *const names[] = { "stem.weight", NULL };
    for (int i = 0; i < 2; i++) {
        Graph *g = random_graph(3, true, false);
        Sizes s = sizes_of(g, 64, NULL);
        Plan *p = NULL;
        s.tensors[names[i] ? graph_find(g, names[i]) : graph_logits(g)] = 0;
        CHECK_STATUS(plan_create(&p, g, &s.inputs), ERR_INTERNAL);
        CHECK(p == NULL);
        free_sizes(&s);
        graph_destroy(g);
    }
}

/* Buckets tile the slab, keep their caps, and are ready exactly when their last gradient is. */
static void check_buckets(const Plan *p, const Graph *g, size_t cap, size_t first_cap, int *count)
{
    Bucket *b = NULL;
    CHECK_STATUS(plan_buckets(p, g, cap, first_cap, &b, count), OK);
    size_t at = 0;
    for (int i = 0; i < *count; i++) {
        int tensors = 0, ready = -1;
        CHECK(b[i].offset == at && b[i].bytes > 0);
        at += b[i].bytes;
        for (TensorId id = 0; id < graph_tensor_count(g); id++) {
            const PlanEntry *e = &p->entries[id];
            if (graph_tensor(g, id)->role != ROLE_GRAD || e->offset < b[i].offset ||
                e->offset >= at)
                continue;
            CHECK(e->offset + e->bytes <= at);
            tensors++;
            if (graph_tensor(g, id)->producer > ready) ready = graph_tensor(g, id)->producer;
        }
        CHECK(tensors >= 1 && b[i].ready_after == ready);
        CHECK(tensors == 1 || b[i].bytes <= (i ? cap : first_cap));
        CHECK(i == 0 || b[i].ready_after >= b[i - 1].ready_after);
    }
    CHECK(at == p->slab_bytes[SLAB_GRAD]);
    mem_free(b);
}

TEST(buckets_tile_the_gradients)
{
    Graph *g = model("resnet18", 1, 32, 1000, true);
    Plan *p = plan_of(g);
    int count = 0;
    check_buckets(p, g, (size_t)8 << 20, (size_t)1 << 20, &count);
    CHECK(count >= 6 && count <= 14);
    check_buckets(p, g, (size_t)8 << 20, (size_t)8 << 20, &count);
    check_buckets(p, g, (size_t)1 << 40, (size_t)1 << 40, &count);
    CHECK(count == 1);
    check_buckets(p, g, 1, 1, &count);
    CHECK(count == 62);
    plan_destroy(p);
    graph_destroy(g);
}

TEST(running_out_of_memory_is_reported)
{
    Graph *g = random_graph(11, true, true);
    Sizes s = sizes_of(g, 64, NULL);
    Status status = ERR_MEMORY;
    for (int k = 1; k < 40 && status != OK; k++) {
        Plan *p = NULL;
        mem_fail_at(k);
        status = plan_create(&p, g, &s.inputs);
        mem_fail_at(0);
        CHECK(status == OK || (status == ERR_MEMORY && p == NULL));
        plan_destroy(p);
    }
    CHECK_STATUS(status, OK);
    free_sizes(&s);
    graph_destroy(g);
}
