/* test_golden.c - whole networks against PyTorch: files made by scripts/make_golden.py hold float64
 * results for weights of a formula. */
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/golden.h"
#include "tests/tools/network.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As scripts/make_golden.py fills them: deep networks that excite have calmer norms, else their
 * sums grow without end and float32 PyTorch too is far from float64. */
static double gamma_of(const char *model)
{
    const size_t length = strlen(model);
    static const char *const deep[] = { "efficientnet_v2_", "regnet_y_", "seresnet50" };
    for (size_t i = 0; i < sizeof deep / sizeof deep[0]; i++)
        if (strncmp(model, deep[i], strlen(deep[i])) == 0) return 0.5;
    return length > 2 && model[length - 2] == 'b' && model[length - 1] >= '2' ? 0.5 : 1;
}

static void check_logits_on(NetworkBackend backend, const char *file, const char *model,
                            double width)
{
    static double want[GOLDEN_VALUES];
    double *got = NULL, worst = 0, largest = 0;
    int64_t count = 0;
    Network n;
    ModelOptions o = golden_options(file, false, width);
    REQUIRE_OK(network_open(&n, backend, model, &o));
    REQUIRE_OK(network_fill_gamma(&n, gamma_of(model)));
    REQUIRE_OK(network_run(&n, 1, NULL));
    REQUIRE_OK(network_read(&n, graph_logits(program_graph(n.program)), &got, &count));
    REQUIRE(golden_read(file, "logits", want) == count);
    for (int64_t i = 0; i < count; i++) {
        worst = fmax(worst, fabs(got[i] - want[i]));
        largest = fmax(largest, fabs(want[i]));
    }
    if (!test_check(worst <= 1e-4 * largest, __FILE__, __LINE__, model))
        printf("    off by %.3g of %.3g\n", worst, largest);
    CHECK(largest > 0.1);
    mem_free(got);
    network_close(&n);
}

static void check_logits(const char *file, const char *model, double width)
{
    check_logits_on(NETWORK_CPU_FUSED, file, model, width);
}

TEST(logits_are_the_same_without_fusions)
{
    check_logits_on(NETWORK_CPU, "resnet18", "resnet18", 1);
    check_logits_on(NETWORK_CPU, "efficientnet_b0", "efficientnet_b0", 1);
}
TEST(logits_of_resnet18_are_torchvisions)
{
    check_logits("resnet18", "resnet18", 1);
}
TEST(logits_of_resnet50_are_torchvisions)
{
    check_logits("resnet50", "resnet50", 1);
}
/* Every other variant but the largest, at the size that it was published with. */
#define LOGITS(name)                                                                               \
    TEST(logits_of_##name)                                                                         \
    {                                                                                              \
        check_logits(#name, #name, 1);                                                             \
    }
LOGITS(resnet34)
LOGITS(resnet101)
LOGITS(resnet152)
LOGITS(resnext50_32x4d)
LOGITS(resnext101_32x8d)
LOGITS(resnext101_64x4d)
LOGITS(wide_resnet50_2)
LOGITS(wide_resnet101_2)
LOGITS(convnext_tiny)
LOGITS(convnext_small)
LOGITS(convnext_base)
LOGITS(convnext_large)
LOGITS(vit_b_16)
LOGITS(vit_b_32)
LOGITS(vit_l_16)
LOGITS(deit_tiny_patch16_224)
LOGITS(deit_small_patch16_224)
LOGITS(efficientnet_b0)
LOGITS(efficientnet_b1)
LOGITS(efficientnet_b2)
LOGITS(efficientnet_b3)
LOGITS(efficientnet_b4)
LOGITS(efficientnet_b5)
LOGITS(efficientnet_b6)
LOGITS(efficientnet_b7)
LOGITS(tf_efficientnet_b0)
LOGITS(tf_efficientnet_b1)
LOGITS(tf_efficientnet_b2)
LOGITS(tf_efficientnet_b3)
LOGITS(tf_efficientnet_b4)
LOGITS(tf_efficientnet_b5)
LOGITS(tf_efficientnet_b6)
LOGITS(tf_efficientnet_b7)
LOGITS(efficientnet_v2_s)
LOGITS(efficientnet_v2_m)
LOGITS(mobilenet_v2)
LOGITS(mobilenet_v3_large)
LOGITS(mobilenet_v3_small)
LOGITS(regnet_x_400mf)
LOGITS(regnet_x_800mf)
LOGITS(regnet_x_1_6gf)
LOGITS(regnet_x_3_2gf)
LOGITS(regnet_x_8gf)
LOGITS(regnet_y_400mf)
LOGITS(regnet_y_800mf)
LOGITS(regnet_y_1_6gf)
LOGITS(regnet_y_3_2gf)
LOGITS(regnet_y_8gf)

/* Odd sizes: TensorFlow's padding is uneven there. */
TEST(logits_of_efficientnet_b0_at_97_pixels)
{
    check_logits("efficientnet_b0_97", "efficientnet_b0", 1);
}
TEST(logits_of_tf_efficientnet_b0_at_97_pixels)
{
    check_logits("tf_efficientnet_b0_97", "tf_efficientnet_b0", 1);
}

TEST(logits_of_narrow_resnet18)
{
    check_logits("resnet18_narrow", "resnet18", 0.125);
}
/* Blurs of others: FFCV's of convolutions of 16 channels and more alone, which the narrow network
 * has on both sides of that. */
TEST(logits_of_resnets_with_blurs)
{
    check_logits("resnet18_narrow_ffcv", "resnet18", 0.125);
    check_logits("resnet18_narrow_composer", "resnet18", 0.125);
    check_logits("resnet18_timm", "resnet18", 1);
    check_logits("resnet50_timm", "resnet50", 1);
}
/* timm's; in the narrow one odd numbers of pixels are halved */
TEST(logits_of_seresnet50)
{
    check_logits("seresnet50", "seresnet50", 1);
}
TEST(logits_of_resnet50d)
{
    check_logits("resnet50d", "resnet50d", 1);
    check_logits("resnet50d_narrow", "resnet50d", 0.25);
}
TEST(logits_of_resnet20)
{
    check_logits("resnet20", "resnet20", 1);
}
TEST(logits_of_narrow_airbench94)
{
    check_logits("airbench94_narrow", "airbench94", 0.25);
}

/* Our error on the stored elements against float32 PyTorch's, the worst of several orders of
 * summation: at most so many times, with a floor of a few roundings. *share: how many times, for
 * the network's mean. */
static void check_gradient(const char *file, const Network *n, const GraphTensor *t, double times,
                           double *share)
{
    double want[GOLDEN_VALUES], *got = NULL, error = 0, size = 0, norm = 0, projection = 0;
    char name[200];
    int64_t count = 0;
    snprintf(name, sizeof name, "grad.%s", t->name);
    const int picks = golden_read(file, name, want) - 3;
    REQUIRE(picks >= 16);
    REQUIRE_OK(network_read(n, t->grad, &got, &count));
    for (int i = 0; i < picks; i++) {
        double w = want[3 + i], d = got[((int64_t)i * 7919 + 13) % count] - w;
        error += d * d;
        size += w * w;
    }
    for (int64_t i = 0; i < count; i++) {
        norm += got[i] * got[i];
        projection += got[i] * (2 * network_uniform(network_stream(t->name) + 1, (uint32_t)i) - 1);
    }
    const double bound = times * want[0] + 4e-7, relative = sqrt(error / size);
    *share = relative / (want[0] + 2e-7);
    if (!test_check(relative <= bound, __FILE__, __LINE__, t->name)) {
        printf("    relative error %.3g, float32 PyTorch %.3g\n", relative, want[0]);
    }
    CHECK_NEAR(sqrt(norm), want[1], bound * want[1]);
    /* the direction's elements are of size 1/sqrt(3) */
    CHECK_NEAR(projection, want[2], 3 * bound * want[1]);
    mem_free(got);
}

/* least: parameters that there are at least. */
static void check_training_within(double times, const char *file, const char *model, double width,
                                  int least)
{
    double want[GOLDEN_VALUES], loss = 0, share = 0, shares = 0;
    Network n;
    ModelOptions o = golden_options(file, true, width);
    REQUIRE_OK(network_open(&n, NETWORK_CPU, model, &o));
    REQUIRE_OK(network_fill(&n));
    REQUIRE_OK(network_run(&n, 1.0f / (float)o.graph.batch, &loss));
    REQUIRE(golden_read(file, "loss", want) == 2);
    CHECK_NEAR(loss / (double)o.graph.batch, want[0], 2 * want[1] + 1e-6 * want[0]);
    const Graph *g = program_graph(n.program);
    int checked = 0;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        if (graph_tensor(g, id)->role != ROLE_PARAM || graph_tensor(g, id)->frozen) continue;
        check_gradient(file, &n, graph_tensor(g, id), times, &share);
        shares += share;
        checked++;
    }
    CHECK(checked >= least);
    CHECK(shares <= 1.5 * checked);
    network_close(&n);
}

/* Three times are for networks of which a ReLU is so close to its kink that orders of summation
 * take it to either side, AVX-512's among them. */
static void check_training(const char *file, const char *model, double width, int least)
{
    check_training_within(2, file, model, width, least);
}

TEST(gradients_of_narrow_resnet18)
{
    check_training("resnet18_narrow", "resnet18", 0.125, 59);
}
TEST(gradients_of_resnets_with_blurs)
{
    check_training("resnet18_narrow_ffcv", "resnet18", 0.125, 59);
    check_training("resnet18_narrow_composer", "resnet18", 0.125, 59);
    check_training("resnet18_timm", "resnet18", 1, 59);
}
TEST(gradients_of_resnet50)
{
    check_training("resnet50_64", "resnet50", 1, 59);
}
TEST(gradients_of_efficientnet_b0)
{
    check_training("efficientnet_b0_64", "efficientnet_b0", 1, 59);
}
TEST(gradients_of_narrow_convnext_tiny)
{
    check_training("convnext_tiny_narrow", "convnext_tiny", 0.125, 182);
}
TEST(gradients_of_narrow_efficientnet_v2_s)
{
    check_training("efficientnet_v2_s_narrow", "efficientnet_v2_s", 0.5, 59);
}
/* ReLU6; hard swish and hard gates; groups and gates */
TEST(gradients_of_narrow_mobilenet_v2)
{
    check_training_within(3, "mobilenet_v2_narrow", "mobilenet_v2", 0.25, 59);
}
TEST(gradients_of_mobilenet_v3_small)
{
    check_training("mobilenet_v3_small_96", "mobilenet_v3_small", 1, 59);
}
TEST(gradients_of_regnet_y_400mf)
{
    check_training("regnet_y_400mf_64", "regnet_y_400mf", 1, 59);
}
TEST(gradients_of_seresnet50)
{
    check_training_within(3, "seresnet50_64", "seresnet50", 1, 59);
}
TEST(gradients_of_narrow_resnet50d)
{
    check_training("resnet50d_narrow", "resnet50d", 0.25, 59);
}
TEST(gradients_of_narrow_vit_b_16)
{
    check_training("vit_b_16_narrow", "vit_b_16", 0.125, 152);
}
TEST(gradients_of_resnet20)
{
    check_training("resnet20", "resnet20", 1, 59);
}
TEST(gradients_of_airbench94)
{
    check_training("airbench94_narrow", "airbench94", 0.25, 14);
}
