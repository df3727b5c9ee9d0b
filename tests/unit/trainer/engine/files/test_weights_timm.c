/* test_weights_timm.c - files of timm: with its names and shapes they give its logits in every
 * family (tests/golden/timm_NAME.txt), and none goes into a network that computes something
 * else. */
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/golden.h"
#include "tests/tools/network.h"
#include "trainer/engine/files/weights.h"
#include <math.h>
#include <stdio.h>

enum { PATH_BYTES = 1200 };

static const char *weights_path(void)
{
    static char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/timm.safetensors", test_scratch());
    return path;
}

/* What timm would save of a network that make_golden.py filled. */
static void write_file(const Network *n, const ModelDef *def, ModelNames names, double gamma)
{
    WeightList list;
    REQUIRE_OK(weights_list(&list, program_graph(n->program), def, names));
    SafeTensor *tensors = mem_calloc((size_t)list.count, sizeof *tensors);
    REQUIRE(tensors);
    for (int i = 0; i < list.count; i++) {
        const Weight *w = &list.items[i];
        float *values = mem_alloc(tensor_plain_bytes(&w->desc));
        REQUIRE(values);
        for (int64_t k = 0, count = tensor_elements(&w->desc); k < count; k++)
            values[k] = network_value(&w->desc, w->other, gamma, k);
        tensors[i] = (SafeTensor){ .name = w->other, .desc = w->desc, .data = values };
    }
    CHECK_OK(safetensors_write(weights_path(), tensors, list.count, NULL, 0));
    for (int i = 0; i < list.count; i++) mem_free((void *)(uintptr_t)tensors[i].data);
    mem_free(tensors);
    weights_free(&list);
}

static Status load_file(Network *n, const ModelDef *def)
{
    SafeFile *file = NULL;
    TRY(safetensors_open(&file, weights_path()));
    const Status status =
        weights_restore(n->executor, program_graph(n->program), def, file, weights_path(), NULL);
    safetensors_close(file);
    return status;
}

static void check_logits(const Network *n, const char *golden)
{
    static double want[GOLDEN_VALUES];
    double *got = NULL, worst = 0, largest = 0;
    int64_t count = 0;
    REQUIRE_OK(network_read(n, graph_logits(program_graph(n->program)), &got, &count));
    REQUIRE(golden_read(golden, "logits", want) == count);
    for (int64_t i = 0; i < count; i++) {
        worst = fmax(worst, fabs(got[i] - want[i]));
        largest = fmax(largest, fabs(want[i]));
    }
    if (!test_check(worst <= 1e-4 * largest, __FILE__, __LINE__, golden))
        printf("    off by %.3g of %.3g\n", worst, largest);
    CHECK(largest > 0.1);
    mem_free(got);
}

static void check_file(const char *theirs, const char *ours, double gamma)
{
    char golden[64];
    Network n;
    const ModelDef *def = model_find(ours);
    REQUIRE(def);
    snprintf(golden, sizeof golden, "timm_%s", theirs);
    const ModelOptions o = golden_options(golden, false, 1);
    REQUIRE_OK(network_open(&n, NETWORK_CPU_FUSED, ours, &o));
    write_file(&n, def, MODEL_NAMES_TIMM, gamma);
    REQUIRE_OK(load_file(&n, def));
    REQUIRE_OK(network_run(&n, 1, NULL));
    check_logits(&n, golden);
    network_close(&n);
}

#define TIMM(theirs, ours, gamma)                                                                  \
    TEST(files_of_timms_##theirs##_give_its_logits_in_##ours)                                      \
    {                                                                                              \
        check_file(#theirs, #ours, gamma);                                                         \
    }
TIMM(convnext_tiny, convnext_tiny, 1)
TIMM(convnextv2_atto, convnextv2_atto, 1)
TIMM(convnextv2_tiny, convnextv2_tiny, 1)
TIMM(mobilenetv2_100, mobilenet_v2, 1)
TIMM(mobilenetv3_large_100, mobilenetv3_large_100, 1)
TIMM(mobilenetv3_small_100, mobilenetv3_small_100, 1)
TIMM(regnetx_004_tv, regnet_x_400mf, 1)
TIMM(regnety_004, regnet_y_400mf, 0.5)
TIMM(efficientnet_b0, efficientnet_b0, 1)
TIMM(resnet18, resnet18, 1)
TIMM(vit_tiny_patch16_224, vit_tiny_patch16_224, 1)
TIMM(vit_small_patch16_224, vit_small_patch16_224, 1)
TIMM(vit_base_patch16_224, vit_b_16, 1)
TIMM(vit_base_patch32_224, vit_b_32, 1)
TIMM(vit_small_patch14_dinov2, vit_small_patch14_dinov2, 1)

/* The same tensors, in the other's shapes and under its names: but its norms divide by another
 * epsilon, or it pads otherwise. */
TEST(files_of_a_network_that_computes_something_else_are_refused)
{
    static const struct {
        const char *of, *into;
        ModelNames names;
    } rows[] = { { "mobilenet_v3_small", "mobilenetv3_small_100", MODEL_NAMES_TORCHVISION },
                 { "mobilenetv3_small_100", "mobilenet_v3_small", MODEL_NAMES_TIMM },
                 { "efficientnet_b0", "tf_efficientnet_b0", MODEL_NAMES_TORCHVISION },
                 { "tf_efficientnet_b5", "efficientnet_b5", MODEL_NAMES_TIMM } };
    ModelOptions o = golden_options("timm_resnet18", false, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char words[160];
        Network n;
        REQUIRE_OK(network_open(&n, NETWORK_CPU, rows[i].into, &o));
        write_file(&n, model_find(rows[i].into), rows[i].names, 1);
        CHECK_STATUS(load_file(&n, model_find(rows[i].into)), ERR_DATA);
        snprintf(words, sizeof words, "these are weights of %s (model.name=%s); %s has the same",
                 rows[i].of, rows[i].of, rows[i].into);
        CHECK_CONTAINS(status_message(), words);
        network_close(&n);
    }
}
