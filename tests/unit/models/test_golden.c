/* test_golden.c - whole networks against PyTorch: files made by scripts/golden/make_golden.py hold
 * float64 results for weights of a formula. */
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/golden.h"
#include "tests/tools/network.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As scripts/golden/make_golden.py fills them: deep networks that excite have calmer norms, else
 * their sums grow without end and float32 PyTorch too is far from float64. */
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
    REQUIRE_OK(golden_fill(&n, file, gamma_of(model)));
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

/* Those of timm that differ from others in numbers alone; DeiT is ViT. */
TEST(logits_of_timms_vision_transformers)
{
    check_logits("timm_vit_base_patch16_224", "vit_base_patch16_224", 1);
    check_logits("timm_vit_base_patch16_224", "deit_base_patch16_224", 1);
    check_logits("timm_vit_base_patch14_dinov2", "vit_base_patch14_dinov2", 1);
}
TEST(logits_of_timms_vit_large)
{
    check_logits("timm_vit_large_patch16_224", "vit_large_patch16_224", 1);
}

TEST(logits_of_timms_convnext_v2)
{
    check_logits("timm_convnextv2_atto", "convnextv2_atto", 1);
    check_logits("timm_convnextv2_nano", "convnextv2_nano", 1);
    check_logits("timm_convnextv2_tiny", "convnextv2_tiny", 1);
    check_logits("timm_convnextv2_base", "convnextv2_base", 1);
}

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
    check_logits("resnet18_narrow_timm", "resnet18", 0.125);
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

/* ---- gradients ---- */

/* No bound may be so wide that an error of PLANTED in one tensor passes. */
#define PLANTED 1e-3

/* A golden gradient: float32 PyTorch's error, the worst of several orders of sums; norm; projection
 * on a direction of the formula; elements. total: the norm of all gradients. */
typedef struct Golden {
    double values[GOLDEN_VALUES], total;
    int elements;
    uint32_t direction;
} Golden;

static bool is_zero(const Golden *w) /* of a shift in front of a norm, which takes it away again */
{
    return w->values[1] < 1e-9 * w->total;
}

/* Both errors of one tensor are a draw of roundings: among some 2,000 tensors and a dozen CPUs one
 * was 1.14 times twice float32 PyTorch's. Of a tensor four times is allowed, of a whole network's
 * mean what was allowed of each (check_training). check_notices says that this finds PLANTED. */
static double bound_of(const Golden *w)
{
    return 4 * w->values[0] + 8e-7;
}

/* How many times the bound a gradient is off: by the root mean square of the stored elements'
 * errors, beside that of the whole gradient, by its norm or by its projection, whose direction has
 * elements of size 1/sqrt(3). Of a gradient that is 0 its share of all gradients counts. */
static double excess_of(const double *got, int64_t count, const Golden *w)
{
    const double *want = w->values, bound = bound_of(w) * (is_zero(w) ? w->total : want[1]);
    double error = 0, norm = 0, projection = 0;
    for (int i = 0; i < w->elements; i++)
        error += pow(got[((int64_t)i * 7919 + 13) % count] - want[3 + i], 2);
    for (int64_t i = 0; i < count; i++) {
        norm += got[i] * got[i];
        projection += got[i] * (2 * network_uniform(w->direction, (uint32_t)i) - 1);
    }
    if (is_zero(w)) return sqrt(norm) / bound;
    const double whole = sqrt(error * (double)count / w->elements);
    return fmax(fmax(whole, fabs(sqrt(norm) - want[1])), fabs(projection - want[2]) / 3) / bound;
}

/* The check itself: all of a tensor too large by PLANTED, or each element off by that much of their
 * root mean square, to one side or the other. */
static void check_notices(const char *name, const double *got, int64_t count, const Golden *w)
{
    const double size = (is_zero(w) ? w->total : w->values[1]) / sqrt((double)count);
    double *scaled = mem_alloc((size_t)count * sizeof *scaled),
           *moved = mem_alloc((size_t)count * sizeof *moved);
    REQUIRE(scaled && moved);
    for (int64_t i = 0; i < count; i++) {
        const double up = network_uniform(w->direction + 1, (uint32_t)i) < 0.5 ? -1 : 1;
        moved[i] = got[i] + up * PLANTED * size;
        scaled[i] = is_zero(w) ? got[i] + PLANTED * size : got[i] * (1 + PLANTED);
    }
    test_check(excess_of(scaled, count, w) > 1, __FILE__, __LINE__, name);
    test_check(excess_of(moved, count, w) > 1, __FILE__, __LINE__, name);
    mem_free(scaled);
    mem_free(moved);
}

/* Returns how many times its bound the gradient is off. */
static double check_gradient(const char *file, const Network *n, const GraphTensor *t, double total)
{
    Golden w = { .total = total, .direction = network_stream(t->name) + 1 };
    double *got = NULL, excess = 0;
    char name[200];
    int64_t count = 0;
    snprintf(name, sizeof name, "grad.%s", t->name);
    w.elements = golden_read(file, name, w.values) - 3;
    if (!test_check(w.elements >= 16, __FILE__, __LINE__, name) ||
        !test_check_status(network_read(n, t->grad, &got, &count), OK, __FILE__, __LINE__, name))
        return 0;
    excess = excess_of(got, count, &w);
    if (!test_check(excess <= 1, __FILE__, __LINE__, t->name))
        printf("    off by %.3g, float32 PyTorch by %.3g\n", excess * bound_of(&w), w.values[0]);
    check_notices(t->name, got, count, &w);
    mem_free(got);
    return excess;
}

/* Weights and images are such that no order of sums takes a ReLU to the other side of its kink
 * (scripts/golden/golden_margins.py). least: parameters that there are at least. */
static void check_training(const char *file, const char *model, double width, int least)
{
    double want[GOLDEN_VALUES], loss = 0, sum = 0, worst = 0;
    Network n;
    ModelOptions o = golden_options(file, true, width);
    REQUIRE_OK(network_open(&n, NETWORK_CPU, model, &o));
    REQUIRE_OK(golden_fill(&n, file, 1));
    REQUIRE_OK(network_run(&n, 1.0f / (float)o.graph.batch, &loss));
    REQUIRE(golden_read(file, "loss", want) == 3);
    CHECK_NEAR(loss / (double)o.graph.batch, want[0], 2 * want[1] + 1e-6 * want[0]);
    const Graph *g = program_graph(n.program);
    int checked = 0;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        if (graph_tensor(g, id)->role != ROLE_PARAM || graph_tensor(g, id)->frozen) continue;
        const double excess = check_gradient(file, &n, graph_tensor(g, id), want[2]);
        worst = fmax(worst, excess);
        sum += excess;
        checked++;
    }
    printf("    %s: off by %.3g of the bound, at most %.3g\n", file, sum / checked, worst);
    CHECK(checked >= least);
    CHECK(sum <= 0.375 * checked);
    network_close(&n);
}

TEST(gradients_of_narrow_resnet18)
{
    check_training("resnet18_narrow", "resnet18", 0.125, 59);
}
TEST(gradients_of_resnets_with_blurs)
{
    check_training("resnet18_narrow_ffcv", "resnet18", 0.125, 59);
    check_training("resnet18_narrow_composer", "resnet18", 0.125, 59);
    check_training("resnet18_narrow_timm", "resnet18", 0.125, 59);
}
TEST(gradients_of_resnet50)
{
    check_training("resnet50_narrow", "resnet50", 0.25, 161);
}
TEST(gradients_of_efficientnet_b0)
{
    check_training("efficientnet_b0_64", "efficientnet_b0", 1, 59);
}
TEST(gradients_of_narrow_convnext_tiny)
{
    check_training("convnext_tiny_narrow", "convnext_tiny", 0.125, 182);
}
TEST(gradients_of_narrow_convnext_v2_atto)
{
    check_training("convnextv2_atto_narrow", "convnextv2_atto", 0.125, 124);
}
TEST(gradients_of_narrow_efficientnet_v2_s)
{
    check_training("efficientnet_v2_s_narrow", "efficientnet_v2_s", 0.5, 59);
}
/* ReLU6; hard swish and hard gates; groups and gates */
TEST(gradients_of_narrow_mobilenet_v2)
{
    check_training("mobilenet_v2_narrow", "mobilenet_v2", 0.25, 59);
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
    check_training("seresnet50_narrow", "seresnet50", 0.25, 225);
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
