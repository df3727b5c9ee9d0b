/* test_gradients.c - backward against what it is the derivative of: central differences of the
 * forward loss in float64 (reference backend), for every parameter tensor of a narrow ResNet, along
 * a random direction and at eight elements; then the CPU backend against the reference. */
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/network.h"
#include <math.h>
#include <stdio.h>

#define ELEMENTS 8
/* along unit vectors: short enough that a kink of ReLU or max pooling hardly ever lies between the
 * two ends */
#define STEP 1e-6

/* The reference keeps parameters as plain doubles, so a test can move them by less than a float
 * could show. */
static double loss_at(Network *n, double *p, const double *base, const double *direction,
                      int64_t count, double step)
{
    double loss = 0;
    for (int64_t i = 0; i < count; i++) p[i] = base[i] + step * direction[i];
    CHECK_OK(network_run(n, 1, &loss));
    return loss;
}

static double difference(Network *n, double *p, const double *base, const double *direction,
                         int64_t count)
{
    double up = loss_at(n, p, base, direction, count, STEP),
           down = loss_at(n, p, base, direction, count, -STEP);
    for (int64_t i = 0; i < count; i++) p[i] = base[i];
    return (up - down) / (2 * STEP);
}

typedef struct Probe { /* scratch for one tensor */
    double *base, *direction, *gradient;
    int64_t count;
} Probe;

/* The difference along v must be <gradient, v>. */
static void check_along(Network *n, double *p, const Probe *s, const char *name, double scale)
{
    double got = 0, want = difference(n, p, s->base, s->direction, s->count);
    for (int64_t i = 0; i < s->count; i++) got += s->gradient[i] * s->direction[i];
    if (!test_check(fabs(got - want) <= 1e-5 * scale + 1e-8, __FILE__, __LINE__, name))
        printf("    backward %.9g, differences %.9g\n", got, want);
}

static void check_parameter(Network *n, const GraphTensor *t, TensorId id, uint32_t stream)
{
    double *p = program_tensor(n->program, id)->data;
    const double *grad = program_tensor(n->program, t->grad)->data;
    int64_t count = tensor_elements(&t->desc);
    Probe s = { .base = mem_alloc((size_t)count * sizeof(double)),
                .direction = mem_calloc((size_t)count, sizeof(double)),
                .gradient = mem_alloc((size_t)count * sizeof(double)),
                .count = count };
    REQUIRE(s.base && s.direction && s.gradient);
    double norm = 0;
    for (int64_t i = 0; i < count; i++) {
        s.base[i] = p[i];
        s.gradient[i] = grad[i]; /* of the unmoved parameters: later runs overwrite it */
        norm += grad[i] * grad[i];
    }
    norm = sqrt(norm);
    for (int64_t i = 0; i < count; i++)
        s.direction[i] = (2 * network_uniform(stream, (uint32_t)i) - 1) / sqrt((double)count / 3);
    check_along(n, p, &s, t->name, norm);
    for (int64_t i = 0; i < count; i++) s.direction[i] = 0;
    for (int k = 0; k < ELEMENTS; k++) {
        int64_t at = ((int64_t)k * 7919 + 13) % count;
        s.direction[at] = 1;
        check_along(n, p, &s, t->name, norm);
        s.direction[at] = 0;
    }
    /* gradients of the unmoved parameters again, for the next tensor */
    CHECK_OK(network_run(n, 1, NULL));
    mem_free(s.base);
    mem_free(s.direction);
    mem_free(s.gradient);
}

TEST(reference_gradients_are_derivatives)
{
    Network n;
    ModelOptions o = network_narrow(4, 16);
    REQUIRE_OK(network_open(&n, NETWORK_REF, "resnet18", &o));
    REQUIRE_OK(network_fill(&n));
    REQUIRE_OK(network_run(&n, 1, NULL));
    const Graph *g = program_graph(n.program);
    int checked = 0;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        if (graph_tensor(g, id)->role != ROLE_PARAM) continue;
        check_parameter(&n, graph_tensor(g, id), id, 7000 + (uint32_t)checked++);
    }
    CHECK_INT(checked, 62);
    network_close(&n);
}

/* With squeeze-and-excitation, dropout and stochastic depth, for some of its many tensors. */
TEST(reference_gradients_of_efficientnet_are_derivatives)
{
    Network n;
    ModelOptions o = network_narrow(2, 16);
    o.graph.bn_frozen = true;
    o.stochastic_depth = 0.5;
    o.dropout = 0.3;
    REQUIRE_OK(network_open(&n, NETWORK_REF, "efficientnet_b0", &o));
    REQUIRE_OK(network_fill(&n));
    REQUIRE_OK(network_run(&n, 1, NULL));
    const Graph *g = program_graph(n.program);
    int seen = 0, checked = 0;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        if (graph_tensor(g, id)->role != ROLE_PARAM || seen++ % 40 != 3) continue;
        check_parameter(&n, graph_tensor(g, id), id, 7000 + (uint32_t)seen);
        checked++;
    }
    CHECK_INT(seen, 213);
    CHECK_INT(checked, 6);
    network_close(&n);
}

/* A ResNet with both, and a blur before and behind convolutions: of every fifth tensor. */
static void check_recipe(const char *model, BlurPool blurpool)
{
    Network n;
    ModelOptions o = network_narrow(2, 32);
    o.graph.bn_frozen = true;
    o.width = 0.25;
    o.stochastic_depth = 0.5;
    o.dropout = 0.3;
    o.blurpool = blurpool;
    REQUIRE_OK(network_open(&n, NETWORK_REF, model, &o));
    REQUIRE_OK(network_fill(&n));
    REQUIRE_OK(network_run(&n, 1, NULL));
    const Graph *g = program_graph(n.program);
    int seen = 0;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        if (graph_tensor(g, id)->role != ROLE_PARAM || seen++ % 11 != 3) continue;
        check_parameter(&n, graph_tensor(g, id), id, 7000 + (uint32_t)seen);
    }
    CHECK(seen > 50);
    network_close(&n);
}

TEST(reference_gradients_of_a_dropped_blurred_resnet_are_derivatives)
{
    check_recipe("resnet18", BLURPOOL_TIMM);
}

TEST(reference_gradients_of_a_dropped_blurred_resnet_for_cifar_are_derivatives)
{
    check_recipe("resnet20", BLURPOOL_COMPOSER);
}

/* tolerance: of the relative error of a tensor */
static void compare_within(const char *model, const ModelOptions *o, double tolerance)
{
    Network cpu, ref;
    REQUIRE_OK(network_open(&cpu, NETWORK_CPU, model, o));
    REQUIRE_OK(network_open(&ref, NETWORK_REF, model, o));
    REQUIRE_OK(network_fill(&cpu));
    REQUIRE_OK(network_fill(&ref));
    REQUIRE_OK(network_run(&cpu, 1, NULL));
    REQUIRE_OK(network_run(&ref, 1, NULL));
    const Graph *g = program_graph(cpu.program), *h = program_graph(ref.program);
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        const GraphTensor *t = graph_tensor(g, id);
        if (t->role != ROLE_PARAM) continue;
        double *a = NULL, *b = NULL, error = 0, size = 0;
        int64_t count = 0;
        REQUIRE_OK(network_read(&cpu, t->grad, &a, &count));
        REQUIRE_OK(network_read(&ref, graph_tensor(h, graph_find(h, t->name))->grad, &b, &count));
        for (int64_t i = 0; i < count; i++) {
            error += (a[i] - b[i]) * (a[i] - b[i]);
            size += b[i] * b[i];
        }
        if (!test_check(error <= tolerance * tolerance * size, __FILE__, __LINE__, t->name))
            printf("    relative error %.3g\n", sqrt(error / size));
        mem_free(a);
        mem_free(b);
    }
    network_close(&cpu);
    network_close(&ref);
}

static void compare_backends(const char *model, const ModelOptions *o)
{
    compare_within(model, o, 1e-4);
}

TEST(cpu_gradients_are_the_references)
{
    ModelOptions o = network_narrow(8, 32);
    compare_backends("resnet18", &o);
}

TEST(cpu_gradients_with_frozen_batch_norm)
{
    ModelOptions o = network_narrow(8, 32);
    o.graph.bn_frozen = true;
    compare_backends("resnet18", &o);
}

TEST(cpu_gradients_of_bottlenecks)
{
    ModelOptions o = network_narrow(4, 64);
    /* 53 batch norms over so few values would amplify rounding a thousandfold */
    o.graph.bn_frozen = true;
    compare_backends("resnet50", &o);
}

/* With every blur. */
static void compare_recipes(const char *model)
{
    for (int blurpool = 0; blurpool < BLURPOOL_COUNT; blurpool++) {
        ModelOptions o = network_narrow(4, 64);
        o.graph.bn_frozen = true;
        o.width = 0.25;
        o.stochastic_depth = 0.5;
        o.dropout = 0.3;
        o.blurpool = (BlurPool)blurpool;
        compare_backends(model, &o);
    }
}

TEST(cpu_gradients_of_dropped_blurred_resnets)
{
    compare_recipes("resnet18");
}

TEST(cpu_gradients_of_dropped_blurred_bottlenecks)
{
    compare_recipes("resnext50_32x4d");
}

TEST(cpu_gradients_of_the_perceptron)
{
    ModelOptions o = network_narrow(8, 32);
    compare_backends("mlp", &o);
}

/* At a size where the paddings differ, with what training drops; gates of squeezed channels amplify
 * rounding. */
static void compare_efficientnet(const char *model)
{
    ModelOptions o = network_narrow(2, 49);
    o.graph.bn_frozen = true;
    o.stochastic_depth = 0.5;
    o.dropout = 0.3;
    compare_within(model, &o, 1e-3);
}

TEST(cpu_gradients_of_efficientnet)
{
    compare_efficientnet("efficientnet_b0");
}

TEST(cpu_gradients_of_efficientnet_in_tensorflows_padding)
{
    compare_efficientnet("tf_efficientnet_b0");
}

TEST(cpu_gradients_of_grouped_bottlenecks)
{
    ModelOptions o = network_narrow(4, 64);
    o.graph.bn_frozen = true;
    compare_backends("resnext50_32x4d", &o);
}
