/* test_cuda_network.c - whole networks on the CUDA backend: loss and every parameter's gradient of
 * a training pass against the CPU backend's, in every precision, and twice the same bits. Runs on
 * the test double (EMU=1) and on a GPU; where there is neither, that is said and nothing is
 * tested. */
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
static const struct {
    NetworkBackend backend;
    const char *name;
    double of_tensor, of_all, of_loss;
} rows[] = {
    { NETWORK_CUDA_FP32, "fp32", 2e-4, 5e-5, 1e-5 },
    { NETWORK_CUDA_TF32, "tf32", 0.1, 0.04, 2e-3 },
    { NETWORK_CUDA_BF16, "bf16", 0.35, 0.12, 0.02 },
    { NETWORK_CUDA_FP16, "fp16", 0.1, 0.04, 2e-3 },
};

typedef struct Sums {
    double error, size;
} Sums;

static Sums compare(const double *got, const double *want, int64_t count)
{
    Sums s = { 0, 0 };
    for (int64_t i = 0; i < count; i++) {
        s.error += (got[i] - want[i]) * (got[i] - want[i]);
        s.size += want[i] * want[i];
    }
    return s;
}

static double relative(Sums s)
{
    return sqrt(s.error / s.size);
}

/* Gradients of all parameters. */
static void compare_gradients(const Network *cpu, const Network *device, double of_tensor,
                              double of_all)
{
    const Graph *g = program_graph(cpu->program), *h = program_graph(device->program);
    Sums all = { 0, 0 };
    double worst = 0;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        const GraphTensor *t = graph_tensor(g, id);
        double *want = NULL, *got = NULL;
        int64_t count = 0;
        if (t->role != ROLE_PARAM) continue;
        REQUIRE_OK(network_read(cpu, t->grad, &want, &count));
        REQUIRE_OK(
            network_read(device, graph_tensor(h, graph_find(h, t->name))->grad, &got, &count));
        Sums s = compare(got, want, count);
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

static void check_network(const char *model, const ModelOptions *o, double slack)
{
    Network cpu, device;
    double want = 0, got = 0;
    if (!cuda_is_there()) return;
    REQUIRE_OK(network_open(&cpu, NETWORK_CPU, model, o));
    REQUIRE_OK(network_fill(&cpu));
    REQUIRE_OK(network_run(&cpu, 0.125f, &want));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        REQUIRE_OK(network_open(&device, rows[i].backend, model, o));
        REQUIRE_OK(network_fill(&device));
        REQUIRE_OK(network_run(&device, 0.125f, &got));
        printf("    %s in %s: loss %.6f, on the CPU %.6f\n", model, rows[i].name, got, want);
        CHECK_NEAR(got, want, rows[i].of_loss * want);
        compare_gradients(&cpu, &device, fmin(0.6, slack * rows[i].of_tensor),
                          slack * rows[i].of_all);
        check_repeats(&device);
        network_close(&device);
    }
    network_close(&cpu);
}

TEST(gradients_of_resnet18_are_the_cpus)
{
    ModelOptions o = network_narrow(8, 32);
    o.graph.bn_frozen = true;
    check_network("resnet18", &o, 1);
}

/* Statistics of the batch pass rounding on to every image. */
TEST(gradients_of_resnet20_are_the_cpus)
{
    ModelOptions o = network_narrow(8, 16);
    o.width = 1;
    check_network("resnet20", &o, 3);
}

/* Depthwise convolutions, squeeze and excitation, SiLU; nothing is dropped. */
TEST(gradients_of_efficientnet_are_the_cpus)
{
    ModelOptions o = network_narrow(4, 32);
    o.graph.bn_frozen = true;
    check_network("efficientnet_b0", &o, 1.5);
}
