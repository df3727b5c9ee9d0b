/* test_network_gradients.c - whole networks: loss and every parameter's gradient of a training pass
 * on one backend against another's, and twice the same bits. The CPU in bf16 against the CPU in
 * fp32; CUDA in every precision against the CPU in fp32, and in bf16 against the CPU in bf16, which
 * rounds in the same places. What is CUDA's runs on the test double (EMU=1) and on a GPU; where
 * there is neither, that is said and not tested. */
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include "tests/tools/network.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Relative L2 errors. In 16 bits what decides is the rounding of activations and of their
 * gradients: layer after layer adds some, so the first layers' gradients are the least exact. About
 * twice what the plain loops of the test double have. */
typedef struct Row {
    NetworkBackend backend, against;
    const char *name;
    double of_tensor, of_all, of_loss;
} Row;
static const Row cpu_rows[] = {
    { NETWORK_CPU_BF16, NETWORK_CPU, "bf16", 0.35, 0.12, 0.02 },
};
static const Row cuda_rows[] = {
    { NETWORK_CUDA_FP32, NETWORK_CPU, "cuda fp32", 2e-4, 5e-5, 1e-5 },
    { NETWORK_CUDA_TF32, NETWORK_CPU, "cuda tf32", 0.1, 0.04, 2e-3 },
    { NETWORK_CUDA_BF16, NETWORK_CPU, "cuda bf16", 0.35, 0.12, 0.02 },
    { NETWORK_CUDA_FP16, NETWORK_CPU, "cuda fp16", 0.1, 0.04, 2e-3 },
    { NETWORK_CUDA_BF16, NETWORK_CPU_BF16, "cuda bf16 beside the CPU's", 0.35, 0.12, 0.02 },
};

typedef struct Totals {
    double error, size;
} Totals;

static Totals compare(const double *got, const double *want, int64_t count)
{
    Totals s = { 0, 0 };
    for (int64_t i = 0; i < count; i++) {
        s.error += (got[i] - want[i]) * (got[i] - want[i]);
        s.size += want[i] * want[i];
    }
    return s;
}

static double relative(Totals s)
{
    return sqrt(s.error / s.size);
}

/* Gradients of all parameters. */
static void compare_gradients(const Network *base, const Network *other, double of_tensor,
                              double of_all)
{
    const Graph *g = program_graph(base->program), *h = program_graph(other->program);
    Totals all = { 0, 0 };
    double worst = 0;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        const GraphTensor *t = graph_tensor(g, id);
        double *want = NULL, *got = NULL;
        int64_t count = 0;
        if (t->role != ROLE_PARAM) continue;
        REQUIRE_OK(network_read(base, t->grad, &want, &count));
        REQUIRE_OK(
            network_read(other, graph_tensor(h, graph_find(h, t->name))->grad, &got, &count));
        Totals s = compare(got, want, count);
        if (!test_check(relative(s) <= of_tensor, __FILE__, __LINE__, t->name))
            printf("    relative error %.3g\n", relative(s));
        worst = fmax(worst, relative(s));
        all.error += s.error;
        all.size += s.size;
        mem_free(want);
        mem_free(got);
    }
    CHECK(relative(all) <= of_all);
    printf("    gradients: relative error %.3g, at most %.3g of one tensor\n", relative(all),
           worst);
}

/* The second run starts from other running statistics, which training does not read. */
static void check_repeats(Network *n)
{
    const Executor *x = n->executor;
    const int64_t count = (int64_t)(executor_slab_bytes(x, SLAB_GRAD) / sizeof(float));
    OpTensor grads = { .desc = tensor_desc(DTYPE_F32, 1, &count),
                       .bytes = (size_t)count * sizeof(float),
                       .data = executor_slab(x, SLAB_GRAD) };
    float *first = mem_alloc(grads.bytes), *second = mem_alloc(grads.bytes);
    REQUIRE(first && second);
    CHECK_OK(n->backend->v->export_tensor(n->backend, &grads, first));
    CHECK_OK(network_run(n, 0.125f, NULL));
    CHECK_OK(n->backend->v->export_tensor(n->backend, &grads, second));
    CHECK(memcmp(first, second, grads.bytes) == 0);
    mem_free(first);
    mem_free(second);
}

static void check_row(const Row *row, const char *model, const ModelOptions *o, double slack)
{
    Network base, other;
    double want = 0, got = 0;
    REQUIRE_OK(network_open(&base, row->against, model, o));
    REQUIRE_OK(network_fill(&base));
    REQUIRE_OK(network_run(&base, 0.125f, &want));
    REQUIRE_OK(network_open(&other, row->backend, model, o));
    REQUIRE_OK(network_fill(&other));
    REQUIRE_OK(network_run(&other, 0.125f, &got));
    printf("    %s in %s: loss %.6f, should be near %.6f\n", model, row->name, got, want);
    CHECK_NEAR(got, want, row->of_loss * want);
    compare_gradients(&base, &other, fmin(0.6, slack * row->of_tensor), slack * row->of_all);
    check_repeats(&other);
    network_close(&other);
    network_close(&base);
}

static ModelOptions resnet18_options(void)
{
    ModelOptions o = network_narrow(8, 32);
    o.graph.bn_frozen = true;
    return o;
}

/* Few values: of 400,000 before ReLUs one lay so near 0 that two orders of summing disagreed about
 * its sign (AVX2 and the test double), and one of them moves gradients by 2 %. */
static ModelOptions resnet20_options(void)
{
    ModelOptions o = network_narrow(4, 8);
    o.width = 1;
    return o;
}

static ModelOptions efficientnet_options(void)
{
    ModelOptions o = network_narrow(4, 32);
    o.graph.bn_frozen = true;
    return o;
}

static ModelOptions convnext_options(void)
{
    return network_narrow(4, 32);
}

static ModelOptions deit_options(void)
{
    return network_narrow(4, 48);
}

static ModelOptions deit_that_drops_options(void)
{
    ModelOptions o = deit_options();
    o.attention_dropout = 0.2;
    return o;
}

/* Slack: statistics of the batch pass rounding on to every image (ResNet-20); depthwise
 * convolutions, squeeze and excitation, SiLU or hard swish (EfficientNet and MobileNet, of which
 * nothing is dropped). */
static const struct {
    const char *model;
    ModelOptions (*options)(void);
    double slack;
} networks[] = { { "resnet18", resnet18_options, 1 },
                 { "resnet20", resnet20_options, 3 },
                 { "efficientnet_b0", efficientnet_options, 1.5 },
                 { "convnext_tiny", convnext_options, 1 },
                 { "mobilenet_v3_small", efficientnet_options, 1.5 },
                 { "deit_tiny_patch16_224", deit_options, 1 },
                 { "convnextv2_atto", convnext_options, 1 },
                 { "deit_tiny_patch16_224", deit_that_drops_options, 1 } };

static void check_rows(int network, const Row *rows, size_t count)
{
    const ModelOptions o = networks[network].options();
    for (size_t i = 0; i < count; i++)
        check_row(&rows[i], networks[network].model, &o, networks[network].slack);
}

#define GRADIENTS(network, index)                                                                  \
    TEST(of_##network##_in_bf16_are_near_fp32s)                                                    \
    {                                                                                              \
        check_rows(index, cpu_rows, sizeof cpu_rows / sizeof cpu_rows[0]);                         \
    }                                                                                              \
    TEST(of_##network##_on_cuda_are_the_cpus)                                                      \
    {                                                                                              \
        if (!cuda_is_there()) return;                                                              \
        check_rows(index, cuda_rows, sizeof cuda_rows / sizeof cuda_rows[0]);                      \
    }
GRADIENTS(resnet18, 0)
GRADIENTS(resnet20, 1)
GRADIENTS(efficientnet_b0, 2)
GRADIENTS(convnext_tiny, 3)
GRADIENTS(mobilenet_v3_small, 4)
GRADIENTS(deit_tiny, 5)
GRADIENTS(convnextv2_atto, 6)

TEST(of_deit_tiny_with_cudnns_attention_are_the_cpus)
{
    static const Row rows[] = {
        { NETWORK_CUDA_BF16_FUSED, NETWORK_CPU, "cuda bf16, cuDNN's attention", 0.35, 0.12, 0.02 },
        { NETWORK_CUDA_FP16_FUSED, NETWORK_CPU, "cuda fp16, cuDNN's attention", 0.1, 0.04, 2e-3 },
    };
    if (!cuda_is_there()) return;
    check_rows(5, rows, sizeof rows / sizeof rows[0]);
    check_rows(7, rows, sizeof rows / sizeof rows[0]);
}
