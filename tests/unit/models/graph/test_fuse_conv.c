/* test_fuse_conv.c - batch norms of an evaluation inside convolutions: what the rewritten graph
 * looks like, that it computes the same, and what the CPU backend takes. */
#include "base/mem.h"
#include "base/str.h"
#include "tests/test.h"
#include "tests/tools/graph_look.h"
#include "tests/tools/network.h"
#include "tests/tools/plan_check.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the graph ---- */

typedef struct Taker {
    bool takes;
    int asked;
} Taker;

static bool take(void *cookie, const Fusion *f)
{
    Taker *t = cookie;
    t->asked++;
    CHECK_STR(f->name, "epilogue");
    return t->takes;
}

static ModelOptions evaluation(int64_t batch, int64_t size)
{
    ModelOptions o = network_narrow(batch, size);
    o.graph.training = false;
    return o;
}

static Graph *fused(const char *model, const ModelOptions *o, Taker *taker)
{
    Graph *g = NULL;
    const FuseOptions fuse = { .add_into_batchnorm_bwd = true, .takes = take, .cookie = taker };
    CHECK_OK(model_build(&g, model_find(model), o));
    CHECK_OK(graph_fuse(g, &fuse));
    return g;
}

TEST(norms_of_an_evaluation_go_into_the_convolutions_before_them)
{
    static const struct {
        const char *model;
        int convolutions, residuals;
    } rows[] = { { "resnet50", 53, 16 }, { "resnet20", 19, 9 }, { "efficientnet_b0", 49, 9 } };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        ModelOptions o = evaluation(2, 32);
        o.width = 1;
        Taker all = { .takes = true }, none = { 0 };
        Graph *g = fused(rows[r].model, &o, &all), *apart = fused(rows[r].model, &o, &none);
        int residuals = 0;
        graph_check_order(g);
        CHECK_INT(all.asked, rows[r].convolutions);
        CHECK_INT(none.asked, rows[r].convolutions);
        CHECK_INT(graph_count_kind(g, OP_CONV2D_BN), rows[r].convolutions);
        CHECK_INT(graph_count_kind(g, OP_BATCHNORM), 0);
        CHECK_INT(graph_count_kind(g, OP_CONV2D), 0);
        CHECK_INT(graph_count_kind(apart, OP_CONV2D_BN), 0);
        CHECK_INT(graph_count_kind(apart, OP_BATCHNORM), rows[r].convolutions);
        for (int i = 0; i < graph_node_count(g); i++)
            residuals += graph_node(g, i)->kind == OP_CONV2D_BN &&
                         graph_node(g, i)->in[CONV_BN_IN_RESIDUAL] >= 0;
        CHECK_INT(residuals, rows[r].residuals);
        CHECK(graph_flops(g, PHASE_FORWARD) == graph_flops(apart, PHASE_FORWARD));
        graph_destroy(g);
        graph_destroy(apart);
    }
}

TEST(tables_show_what_the_node_does)
{
    const ModelOptions o = evaluation(2, 32);
    Taker all = { .takes = true };
    Graph *g = fused("resnet18", &o, &all);
    StrBuf text = { 0 };
    CHECK_OK(graph_dump_table(g, &text));
    CHECK_CONTAINS(text.text, "layer1.0.conv1");
    CHECK_CONTAINS(text.text, "conv2d_bn");
    CHECK_CONTAINS(text.text, "3x3/1 pad 1, eval relu");
    str_free(&text);
    graph_destroy(g);
}

TEST(a_training_graph_has_no_such_norms)
{
    for (int frozen = 0; frozen < 2; frozen++) {
        ModelOptions o = network_narrow(2, 32);
        Graph *g = NULL;
        o.graph.bn_frozen = frozen;
        CHECK_OK(model_build(&g, model_find("resnet18"), &o));
        for (int i = 0; i < graph_node_count(g); i++)
            if (graph_node(g, i)->kind == OP_BATCHNORM)
                CHECK(((const BatchNormAttr *)graph_node(g, i)->attr)->mode != BN_EVAL);
        graph_destroy(g);
    }
}

/* Where something else reads what the convolution leaves, it must be written. */
TEST(a_convolution_with_two_readers_stays)
{
    const GraphOptions o = {
        .batch = 2, .channels = 3, .height = 8, .width = 8, .classes = 4, .std = { 1, 1, 1 }
    };
    Taker all = { .takes = true };
    const FuseOptions fuse = { .takes = take, .cookie = &all };
    Graph *g = NULL;
    REQUIRE_OK(graph_create(&g));
    graph_set_options(g, &o);
    const TensorId y = graph_conv2d(g, "conv", graph_images(g, &o), 8, 3, 1, 1, 1);
    const TensorId z =
        graph_batchnorm(g, "bn", y, &(BnOptions){ .eps = 1e-5f, .momentum = 0.1f, .residual = y });
    graph_softmax_xent(g, graph_linear(g, "fc", graph_global_avgpool(g, "pool", z), 4));
    CHECK_OK(graph_fuse(g, &fuse));
    CHECK_INT(all.asked, 0);
    CHECK_INT(graph_count_kind(g, OP_CONV2D), 1);
    graph_destroy(g);
}

/* OP_CONV2D_BN has no place for a bias of the convolution's own. */
TEST(a_convolution_with_a_bias_stays)
{
    const GraphOptions o = {
        .batch = 2, .channels = 3, .height = 8, .width = 8, .classes = 4, .std = { 1, 1, 1 }
    };
    const Conv2dAttr attr = { .stride_h = 1, .stride_w = 1, .groups = 1 };
    Taker all = { .takes = true };
    const FuseOptions fuse = { .takes = take, .cookie = &all };
    Graph *g = NULL;
    REQUIRE_OK(graph_create(&g));
    graph_set_options(g, &o);
    const TensorId y = graph_conv2d_biased(g, "conv", graph_images(g, &o), 8, 3, &attr);
    const TensorId z = graph_batchnorm(
        g, "bn", y, &(BnOptions){ .eps = 1e-5f, .momentum = 0.1f, .residual = TENSOR_NONE });
    graph_softmax_xent(g, graph_linear(g, "fc", graph_global_avgpool(g, "pool", z), 4));
    CHECK_OK(graph_fuse(g, &fuse));
    CHECK_INT(all.asked, 0);
    CHECK_INT(graph_count_kind(g, OP_CONV2D), 1);
    graph_destroy(g);
}

/* ---- the numbers ---- */

static double *logits_of(NetworkBackend backend, const char *model, const ModelOptions *o,
                         int64_t *count)
{
    Network n;
    double *out = NULL;
    CHECK_OK(network_open(&n, backend, model, o));
    CHECK_OK(network_fill(&n));
    CHECK_OK(network_run(&n, 1, NULL));
    CHECK_OK(network_read(&n, graph_logits(program_graph(n.program)), &out, count));
    CHECK_OK(plan_check(program_plan(n.program), program_graph(n.program)));
    network_close(&n);
    return out;
}

static void check_same(NetworkBackend a, NetworkBackend b, const char *model, const ModelOptions *o,
                       double tolerance)
{
    int64_t count = 0;
    double *x = logits_of(a, model, o, &count), *y = logits_of(b, model, o, &count), worst = 0,
           largest = 0;
    for (int64_t i = 0; x && y && i < count; i++) {
        worst = fmax(worst, fabs(x[i] - y[i]));
        largest = fmax(largest, fabs(y[i]));
    }
    if (!test_check(worst <= tolerance * largest, __FILE__, __LINE__, model))
        printf("    off by %.3g of %.3g\n", worst, largest);
    CHECK(largest > 0);
    mem_free(x);
    mem_free(y);
}

static const char *const models[] = { "resnet18", "resnet50", "resnet20", "efficientnet_b0" };

TEST(the_reference_computes_the_same)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        const ModelOptions o = evaluation(2, 32);
        check_same(NETWORK_REF_FUSED, NETWORK_REF, models[i], &o, 1e-6); /* read as float */
    }
}

TEST(the_cpu_computes_the_same_fused_and_apart)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        const ModelOptions o = evaluation(3, 64);
        check_same(NETWORK_CPU_FUSED, NETWORK_CPU, models[i], &o, 1e-5);
    }
}

/* ---- what the CPU takes ---- */

static int fused_on_cpu(FuseMode mode, int64_t batch)
{
    Backend *b = NULL;
    Graph *g = NULL;
    ModelOptions o = evaluation(batch, 64);
    o.width = 0.5;
    CHECK_OK(backend_cpu_create(&b, &(CpuOptions){ .threads = 1, .fuse = mode }));
    const FuseOptions fuse = { .takes = b->v->fusion.takes, .cookie = b };
    CHECK_OK(model_build(&g, model_find("resnet18"), &o));
    CHECK_OK(graph_fuse(g, &fuse));
    const int count = graph_count_kind(g, OP_CONV2D_BN);
    graph_destroy(g);
    backend_destroy(b);
    return count;
}

/* oneDNN has two implementations for AVX, one with what follows and one without. */
static bool is_avx_alone(void)
{
    Backend *b = NULL;
    char text[128] = "";
    CHECK_OK(backend_cpu_create(&b, &(CpuOptions){ .threads = 1 }));
    if (b) b->v->describe(b, text, sizeof text);
    backend_destroy(b);
    return strstr(text, " AVX,") != NULL;
}

TEST(the_cpu_fuses_as_the_mode_says_whatever_the_batch)
{
    const int some = fused_on_cpu(FUSE_AUTO, 1);
    CHECK_INT(fused_on_cpu(FUSE_NONE, 1), 0);
    CHECK(some > 0 && some < 20);
    CHECK_INT(fused_on_cpu(FUSE_AUTO, 64), some);
    if (is_avx_alone()) CHECK(fused_on_cpu(FUSE_ALL, 1) >= some);
    else CHECK_INT(fused_on_cpu(FUSE_ALL, 1), 20);
}
