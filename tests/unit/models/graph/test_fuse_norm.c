/* test_fuse_norm.c - batch norms in parts: what the rewritten graph looks like, and that it
 * computes the same. */
#include "base/mem.h"
#include "kernels/fuse_choice.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include "tests/tools/graph_look.h"
#include "tests/tools/network.h"
#include "tests/tools/plan_check.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the graph ---- */

enum { NAMES = 4, KEPT_FUSIONS = 256 };

/* Takes fusions whose names begin with one of the list; counts what it is asked, and keeps what it
 * was told of those of the last name, if there is room. */
typedef struct Taker {
    const char *names[NAMES];
    int asked, taken;
    Fusion *kept; /* [KEPT_FUSIONS], or NULL */
    int kept_count;
} Taker;

static bool take(void *cookie, const Fusion *f)
{
    Taker *t = cookie;
    t->asked++;
    for (int i = 0; i < NAMES && t->names[i]; i++) {
        if (strncmp(f->name, t->names[i], strlen(t->names[i])) != 0) continue;
        const bool last = i + 1 == NAMES || !t->names[i + 1];
        if (t->kept && last && t->kept_count < KEPT_FUSIONS) t->kept[t->kept_count++] = *f;
        return ++t->taken;
    }
    return false;
}

static Graph *fused(const char *model, Taker *taker)
{
    Graph *g = NULL;
    const ModelOptions o = network_narrow(2, 32);
    const FuseOptions fuse = { .add_into_batchnorm_bwd = true, .takes = take, .cookie = taker };
    CHECK_OK(model_build(&g, model_find(model), &o));
    CHECK_OK(graph_fuse(g, &fuse));
    return g;
}

/* As graph_check_order(), and no parameter has lost its gradient. */
static void check_training(const Graph *g)
{
    int grads = 0, params = 0;
    graph_check_order(g);
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        grads += graph_tensor(g, id)->role == ROLE_GRAD && graph_tensor(g, id)->producer >= 0;
        params += graph_tensor(g, id)->role == ROLE_PARAM;
    }
    CHECK_INT(grads, params);
}

TEST(every_norm_of_a_residual_network_is_taken_apart)
{
    Taker all = { .names = { "" } };
    Graph *g = fused("resnet50", &all);
    check_training(g);
    CHECK_INT(graph_count_kind(g, OP_BATCHNORM), 0);
    CHECK_INT(graph_count_kind(g, OP_CONV2D), 0);
    CHECK_INT(graph_count_kind(g, OP_CONV2D_STATS), 53);
    CHECK_INT(graph_count_kind(g, OP_BN_FINALIZE), 53);
    /* Left are the stem, before the pooling, and the last block, before the average. */
    CHECK_INT(graph_count_kind(g, OP_BN_APPLY), 2);
    /* two inside each of 16 blocks */
    CHECK_INT(graph_count_kind(g, OP_CONV2D_BWD_WEIGHTS_NORM), 32);
    /* those and the ends of all blocks but the last, four with the norm of a shortcut */
    CHECK_INT(graph_count_kind(g, OP_CONV2D_BWD_DATA_NORM), 32 + 15);
    CHECK_INT(graph_count_kind(g, OP_BN_BWD_APPLY), 32 + 15 + 4);
    CHECK_INT(graph_count_kind(g, OP_BATCHNORM_BWD), 1);
    CHECK_INT(graph_count_kind(g, OP_BN_POOL_BWD), 1); /* the stem's */
    graph_destroy(g);
}

TEST(fusions_change_no_product)
{
    Taker all = { .names = { "" } }, none = { .names = { NULL } };
    Graph *fast = fused("resnet50", &all), *plain = fused("resnet50", &none);
    CHECK(graph_product_flops(plain) > 1e6);
    CHECK_NEAR(graph_product_flops(fast), graph_product_flops(plain), 0);
    graph_destroy(fast);
    graph_destroy(plain);
}

TEST(a_fusion_that_is_refused_leaves_its_nodes)
{
    Taker none = { .names = { NULL } }, statistics = { .names = { "statistics" } },
          gradient = { .names = { "gradient" } };
    Graph *g = fused("resnet50", &none);
    CHECK_INT(graph_count_kind(g, OP_BATCHNORM), 53);
    CHECK_INT(graph_count_kind(g, OP_BATCHNORM_BWD), 53);
    CHECK_INT(none.asked, 53 + 32 + 15 + 2 + 16);
    graph_destroy(g);
    g = fused("resnet50", &statistics);
    check_training(g);
    CHECK_INT(graph_count_kind(g, OP_BN_APPLY), 53);
    CHECK_INT(graph_count_kind(g, OP_CONV2D_BWD_WEIGHTS_NORM), 0);
    CHECK_INT(statistics.asked,
              /* 15 ends of blocks, four of them first asked with a shortcut */
              53 + 32 + 15 + 4 + 32 + 15 +
                  /* the stem is taken apart, its gradient is not */
                  1);
    graph_destroy(g);
    g = fused("resnet50", &gradient);
    check_training(g);
    CHECK_INT(graph_count_kind(g, OP_BATCHNORM), 53);
    CHECK_INT(graph_count_kind(g, OP_BN_BWD_APPLY), 32);
    graph_destroy(g);
}

/* Of each network: ends of blocks whose residual the next convolution's own gradient has too. */
TEST(residuals_are_not_kept_for_their_gradients_alone)
{
    static const struct {
        const char *model, *forward[2]; /* as it is, or writing the residuals of norms no more */
        int ends;
    } cases[] = { { "resnet50", { NULL, NULL }, 11 },
                  { "resnet50", { "statistics", "block end" }, 11 },
                  { "resnet18", { NULL, NULL }, 4 },
                  { "resnet20", { NULL, NULL }, 6 } };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        Taker t = { .names = { "residual gradient", cases[c].forward[0], cases[c].forward[1] } };
        Graph *g = fused(cases[c].model, &t);
        check_training(g);
        CHECK_INT(graph_count_kind(g, OP_CONV2D_BWD_DATA_NORM), cases[c].ends);
        for (int i = 0; i < graph_node_count(g); i++) {
            const GraphNode *n = graph_node(g, i);
            if (n->kind != OP_CONV2D_BWD_DATA_NORM) continue;
            const TensorId kept = n->in[CONV_BWD_DATA_NORM_IN_RESIDUAL];
            bool weights = false;
            for (int k = 0; k < graph_node_count(g); k++)
                weights = weights || (graph_node(g, k)->kind == OP_CONV2D_BWD_WEIGHTS &&
                                      graph_node(g, k)->in[CONV_BWD_WEIGHTS_IN_X] == kept);
            CHECK(weights);
        }
        graph_destroy(g);
    }
}

TEST(every_fusion_that_is_offered_can_be_named)
{
    static const char *const models[] = { "resnet50", "resnet18", "resnet20", "efficientnet_b0" };
    static Fusion kept[KEPT_FUSIONS];
    for (int m = 0; m < 4; m++) {
        Taker all = { .names = { "" }, .kept = kept };
        graph_destroy(fused(models[m], &all));
        CHECK(all.kept_count > 0 || m == 3); /* whose activation no convolution takes along */
        for (int i = 0; i < all.kept_count; i++) CHECK(fuse_choice_bit(kept[i].name) != 0);
    }
    CHECK(fuse_choice_bit("epilogue") != 0);
    CHECK_INT(fuse_choice_bit("gradients"), 0);
}

static bool same_tensor(const Graph *g, TensorId id, const TensorDesc *told)
{
    if (id == TENSOR_NONE) return told->rank == 0;
    const TensorDesc *d = &graph_tensor(g, id)->desc;
    return d->dtype == told->dtype && tensor_same_shape(d, told);
}

static bool is_as_told(const Graph *g, const GraphNode *n, const OpShape *told)
{
    bool same = n->kind == told->kind && !n->attr == !told->attr; /* told->attr is gone by now */
    for (int k = 0; k < OP_MAX_INPUTS; k++) same = same && same_tensor(g, n->in[k], &told->in[k]);
    for (int k = 0; k < OP_MAX_OUTPUTS; k++)
        same = same && same_tensor(g, n->out[k], &told->out[k]);
    return same;
}

/* The backend chooses by the shapes of what would stand in the graph: they have to be those that do
 * when it has said yes. */
TEST(a_backend_is_told_what_the_graph_will_have)
{
    static Fusion kept[KEPT_FUSIONS];
    static const struct {
        const char *names[NAMES];
        int taken;
    } cases[] = { { { "statistics" }, 53 },
                  { { "statistics", "prologue" }, 32 },
                  { { "statistics", "block end" }, 15 },
                  { { "gradient" }, 32 },
                  { { "residual gradient" }, 11 },
                  { { "shortcut gradient" }, 4 },
                  { { "pool" }, 2 },
                  { { "signs" }, 16 },
                  /* the block before takes what the one behind it leaves */
                  { { "statistics", "block end", "residual gradient", "shortcut gradient" }, 4 } };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        Taker taker = { .kept = kept };
        memcpy(taker.names, cases[c].names, sizeof taker.names);
        Graph *g = fused("resnet50", &taker);
        CHECK_INT(taker.kept_count, cases[c].taken);
        for (int i = 0; i < taker.kept_count; i++)
            for (int k = 0; k < kept[i].after_count; k++) {
                bool there = false;
                for (int n = 0; n < graph_node_count(g); n++)
                    there = there || is_as_told(g, graph_node(g, n), &kept[i].after[k]);
                if (!test_check(there, __FILE__, __LINE__, "no node is as was told"))
                    printf("    %s: %s\n", kept[i].name, op_name(kept[i].after[k].kind));
            }
        graph_destroy(g);
    }
}

TEST(frozen_norms_and_evaluation_are_left_alone)
{
    Taker all = { .names = { "" } };
    const FuseOptions fuse = { .takes = take, .cookie = &all };
    Graph *g = NULL;
    ModelOptions o = network_narrow(2, 32);
    o.graph.bn_frozen = true;
    REQUIRE_OK(model_build(&g, model_find("resnet18"), &o));
    CHECK_OK(graph_fuse(g, &fuse));
    CHECK_INT(all.asked, 0);
    graph_destroy(g);
}

/* The order of gradients, and with it that of parameters and buckets, is that of the graph as it
 * was. */
TEST(gradients_keep_their_order)
{
    Taker all = { .names = { "" } }, none = { .names = { NULL } };
    Graph *a = fused("resnet18", &all), *b = fused("resnet18", &none);
    const char *names[2][128];
    int counts[2] = { 0, 0 };
    for (int w = 0; w < 2; w++) {
        const Graph *g = w ? b : a;
        for (int i = 0; i < graph_node_count(g); i++)
            for (int k = 0; k < OP_MAX_OUTPUTS; k++) {
                const TensorId id = graph_node(g, i)->out[k];
                if (id == TENSOR_NONE || graph_tensor(g, id)->role != ROLE_GRAD) continue;
                REQUIRE(counts[w] < 128);
                names[w][counts[w]++] = graph_tensor(g, id)->name;
            }
    }
    CHECK_INT(counts[0], 62);
    CHECK_INT(counts[1], 62);
    for (int i = 0; i < 62; i++) CHECK_STR(names[0][i], names[1][i]);
    graph_destroy(a);
    graph_destroy(b);
}

/* ---- the numbers ---- */

static double difference(const Network *a, const Network *b, const GraphTensor *t, TensorId id,
                         bool gradient)
{
    const Graph *h = program_graph(b->program);
    const TensorId other = graph_find(h, t->name);
    double *x = NULL, *y = NULL, error = 0, size = 0;
    int64_t count = 0;
    CHECK_OK(network_read(a, gradient ? t->grad : id, &x, &count));
    CHECK_OK(network_read(b, gradient ? graph_tensor(h, other)->grad : other, &y, &count));
    for (int64_t i = 0; x && y && i < count; i++) {
        error += (x[i] - y[i]) * (x[i] - y[i]);
        size += y[i] * y[i];
    }
    mem_free(x);
    mem_free(y);
    return sqrt(error / (size + 1e-30));
}

/* Gradients of all parameters and the running statistics of a and b, by the size of b's; the
 * largest and the mean. */
static double compare(const Network *a, const Network *b, double tolerance, double *mean)
{
    const Graph *g = program_graph(a->program);
    double worst = 0, sum = 0;
    int counted = 0;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        const GraphTensor *t = graph_tensor(g, id);
        if (t->role != ROLE_PARAM && t->role != ROLE_BUFFER) continue;
        const double one = difference(a, b, t, id, t->role == ROLE_PARAM);
        if (!test_check(one <= tolerance, __FILE__, __LINE__, t->name))
            printf("    relative error %.3g\n", one);
        if (one > worst) worst = one;
        sum += one;
        counted++;
    }
    *mean = sum / counted;
    return worst;
}

static void open_and_run(Network *n, NetworkBackend backend, const char *model,
                         const ModelOptions *o, double *loss)
{
    REQUIRE_OK(network_open(n, backend, model, o));
    REQUIRE_OK(network_fill(n));
    REQUIRE_OK(network_run(n, 1, loss));
}

static void check_reference(const char *model, const ModelOptions *o)
{
    Network plain, fused_network;
    double a = 0, b = 0, mean;
    open_and_run(&plain, NETWORK_REF, model, o, &a);
    open_and_run(&fused_network, NETWORK_REF_FUSED, model, o, &b);
    CHECK(fabs(a - b) <= 1e-9 * fabs(a));
    compare(&fused_network, &plain, 1e-6, &mean); /* read as float */
    CHECK_OK(plan_check(program_plan(fused_network.program), program_graph(fused_network.program)));
    network_close(&plain);
    network_close(&fused_network);
}

TEST(the_reference_computes_the_same_of_basic_blocks)
{
    const ModelOptions o = network_narrow(4, 32);
    check_reference("resnet18", &o);
}

TEST(the_reference_computes_the_same_of_bottlenecks)
{
    const ModelOptions o = network_narrow(4, 32);
    check_reference("resnet50", &o);
}

TEST(the_reference_computes_the_same_without_parameters_in_shortcuts)
{
    ModelOptions o = network_narrow(4, 16);
    o.width = 1;
    check_reference("resnet20", &o);
}

#if CONVOY_CUDA
/* On a device, in fp16: as close to float64 as without fusions, about. */
static void check_device(const char *model, const ModelOptions *o, double tolerance)
{
    Network exact, plain, fused_network;
    double loss[3], mean[2];
    if (!cuda_is_there()) return;
    open_and_run(&exact, NETWORK_REF, model, o, &loss[0]);
    open_and_run(&plain, NETWORK_CUDA_FP16, model, o, &loss[1]);
    open_and_run(&fused_network, NETWORK_CUDA_FP16_FUSED, model, o, &loss[2]);
    const Graph *g = program_graph(fused_network.program);
    CHECK(graph_count_kind(g, OP_CONV2D_STATS) > 0 && graph_count_kind(g, OP_BN_BWD_APPLY) > 0);
    CHECK_INT(graph_count_kind(program_graph(plain.program), OP_CONV2D_STATS), 0);
    CHECK(fabs(loss[2] - loss[0]) <= 0.01 * fabs(loss[0]));
    const double apart = compare(&plain, &exact, tolerance, &mean[0]),
                 together = compare(&fused_network, &exact, tolerance, &mean[1]);
    printf("    %s: gradients are off by %.4f on average, %.4f at most; fused %.4f, %.4f\n", model,
           mean[0], apart, mean[1], together);
    CHECK(mean[1] <= 2 * mean[0] + 1e-3);
    network_close(&exact);
    network_close(&plain);
    network_close(&fused_network);
}

TEST(cuda_fused_basic_blocks_are_as_close_as_unfused)
{
    ModelOptions o = network_narrow(8, 16);
    o.width = 0.5;
    check_device("resnet20", &o, 0.2);
}

TEST(cuda_fused_bottlenecks_are_as_close_as_unfused)
{
    ModelOptions o = network_narrow(8, 16);
    o.stem = STEM_CIFAR;
    check_device("resnet50", &o, 3); /* 53 norms blow rounding up: what is left is the mean */
}
#endif
