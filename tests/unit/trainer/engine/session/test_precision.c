/* test_precision.c - in which precision a run computes: the table of choices, with AMX and GPUs
 * that need not be here, and what of a network AMX takes. */
#include "models/models.h"
#include "tests/test.h"
#include "trainer/engine/session/precision.h"
#include <stdio.h>
#include <string.h>

enum { AUTO = CONFIG_OTHER, REFUSED = PRECISION_COUNT };

typedef struct Row {
    PrecisionFacts facts;
    int precision;    /* or REFUSED */
    const char *text; /* in the error, the warning or else the reason; "": there is none of them */
} Row;

static void check_rows(const Row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const Row *row = &rows[i];
        PrecisionChoice c = { .why = "" };
        char got[640], want[640];
        const Status status = precision_choose(&c, &row->facts);
        const char *said = status != OK ? status_message() : c.warning ? c.warning : c.why;
        const bool right = row->text[0] ? strstr(said, row->text) != NULL : said[0] == '\0';
        CHECK_STATUS(status, row->precision == REFUSED ? ERR_ENV : OK);
        snprintf(got, sizeof got, "row %zu: %s: %s", i,
                 status == OK ? precision_names[c.precision] : "refused", said);
        snprintf(want, sizeof want, "row %zu: %s: %s", i,
                 row->precision == REFUSED ? "refused" : precision_names[row->precision],
                 right ? said : row->text);
        CHECK_STR(got, want);
    }
}

#define CPU(wanted_, has, ...)                                                                     \
    {                                                                                              \
        .wanted = wanted_, .kept = AUTO, .cpu = has, __VA_ARGS__                                   \
    }
#define KEPT(kept_, has, ...)                                                                      \
    {                                                                                              \
        .wanted = AUTO, .kept = kept_, .cpu = has, __VA_ARGS__                                     \
    }
#define GPU(wanted_, kept_, capability_)                                                           \
    {                                                                                              \
        .wanted = wanted_, .kept = kept_, .cuda = true, .capability = capability_                  \
    }

TEST(auto_takes_bf16_where_amx_gains)
{
    static const Row rows[] = {
        { CPU(AUTO, CPU_BF16_AMX, .amx_share = 0.962), PRECISION_BF16,
          ", train.precision is auto: AMX takes 96 % of the work" },
        { CPU(AUTO, CPU_BF16_AMX, .amx_share = 0.5), PRECISION_BF16, "AMX takes 50 %" },
        { CPU(AUTO, CPU_BF16_AMX, .amx_share = 0.49), PRECISION_FP32,
          "AMX would take 49 % of the work, too little" },
        { CPU(AUTO, CPU_BF16_AMD, .amx_share = 0.25), PRECISION_BF16, "AVX-512 takes 25 %" },
        { CPU(AUTO, CPU_BF16_AMD, .amx_share = 0.24), PRECISION_FP32,
          "AVX-512 would take 24 % of the work, too little" },
        { CPU(AUTO, CPU_BF16_AVX512, .amx_share = 0.962), PRECISION_FP32,
          "this CPU has no fast bf16" },
        { CPU(AUTO, CPU_BF16_EMULATED, .amx_share = 1), PRECISION_FP32,
          "this CPU has no fast bf16" },
        { CPU(AUTO, CPU_BF16_NONE, .amx_share = 1), PRECISION_FP32, "this CPU has no fast bf16" },
        { CPU(AUTO, CPU_BF16_NONE, .emulate = true), PRECISION_FP32, "this CPU has no fast bf16" },
        { CPU(AUTO, CPU_BF16_EMULATED, .amx_share = 1, .other_rank = true), PRECISION_FP32,
          "another rank's CPU has no fast bf16" },
    };
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

TEST(what_is_named_is_taken_or_refused)
{
    static const Row rows[] = {
        { CPU(PRECISION_FP32, CPU_BF16_AMX, .amx_share = 1), PRECISION_FP32, "" },
        { CPU(PRECISION_BF16, CPU_BF16_AMX, .amx_share = 0), PRECISION_BF16, "" },
        { CPU(PRECISION_BF16, CPU_BF16_AMD, .amx_share = 0), PRECISION_BF16, "" },
        { CPU(PRECISION_BF16, CPU_BF16_AVX512, .amx_share = 0), PRECISION_BF16,
          "bf16 is slower than fp32" },
        { CPU(PRECISION_BF16, CPU_BF16_EMULATED, .emulate = true), PRECISION_BF16,
          "bf16 is slower than fp32" },
        { CPU(PRECISION_BF16, CPU_BF16_NONE, .amx_share = 0), REFUSED,
          "train.precision: bf16 is not supported by this CPU" },
        { CPU(PRECISION_BF16, CPU_BF16_NONE, .other_rank = true), REFUSED, "another rank's CPU" },
        { CPU(PRECISION_BF16, CPU_BF16_NONE, .emulate = true), PRECISION_BF16,
          ", device.emulate: slow, for tests" },
        { CPU(PRECISION_FP16, CPU_BF16_AMX, .emulate = true), REFUSED, "train.precision: fp16" },
        { CPU(PRECISION_TF32, CPU_BF16_AMX, .emulate = true), REFUSED, "train.precision: tf32" },
        { GPU(AUTO, AUTO, 90), PRECISION_BF16, ", train.precision is auto" },
        { GPU(AUTO, AUTO, 75), PRECISION_FP16, ", train.precision is auto" },
        { GPU(PRECISION_FP32, AUTO, 75), PRECISION_FP32, "" },
        { GPU(PRECISION_TF32, AUTO, 80), PRECISION_TF32, "" },
        { GPU(PRECISION_TF32, AUTO, 75), REFUSED, "train.precision: tf32" },
        { GPU(PRECISION_BF16, AUTO, 70), REFUSED, "compute capability 7.0" },
    };
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

TEST(a_run_goes_on_as_it_began)
{
    static const Row rows[] = {
        { KEPT(PRECISION_FP32, CPU_BF16_AMX, .amx_share = 1), PRECISION_FP32,
          ", train.precision is auto, as when this run started" },
        { KEPT(PRECISION_BF16, CPU_BF16_AMX, .amx_share = 1), PRECISION_BF16, "AMX takes 100 %" },
        { KEPT(PRECISION_BF16, CPU_BF16_AMX, .amx_share = 0), PRECISION_BF16,
          "as when this run started" },
        { KEPT(PRECISION_BF16, CPU_BF16_EMULATED, .amx_share = 1), PRECISION_BF16,
          "bf16 is slower than fp32" },
        { KEPT(PRECISION_BF16, CPU_BF16_NONE, .amx_share = 1), REFUSED,
          "this run started with it (train.precision_auto): train.precision: bf16 is not supported "
          "by this CPU" },
        { KEPT(PRECISION_FP16, CPU_BF16_AMX, .amx_share = 1), REFUSED,
          "this run started with it (train.precision_auto): train.precision: fp16" },
        { GPU(AUTO, PRECISION_FP32, 90), PRECISION_FP32, "as when this run started" },
        { GPU(AUTO, PRECISION_BF16, 75), REFUSED, "this run started with it" },
        { GPU(PRECISION_FP32, PRECISION_BF16, 75), PRECISION_FP32, "" },
    };
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static double share(const char *model, double width, int64_t size)
{
    ModelOptions o = { .width = width, .stem = STEM_IMAGENET };
    o.graph = (GraphOptions){
        .batch = 1, .channels = 3, .height = size, .width = size, .classes = 10, .std = { 1, 1, 1 }
    };
    Graph *g = NULL;
    if (!test_check_status(model_build(&g, model_find(model), &o), OK, __FILE__, __LINE__, model))
        return -1;
    const double s = precision_amx_share(g);
    graph_destroy(g);
    return s;
}

/* Of ResNet-20 with 8, 8 and 16 channels only the last stage is wide enough. Half of
 * EfficientNet-B0 is norms with SiLU and gates; a perceptron has no convolution at all. */
TEST(amx_takes_attention_and_wide_convolutions_without_groups)
{
    CHECK_NEAR(share("resnet20", 1, 32), 0.81, 0.01);
    CHECK_NEAR(share("resnet20", 0.25, 32), 0.08, 0.01);
    CHECK_NEAR(share("efficientnet_b0", 1, 224), 0.42, 0.01);
    CHECK_NEAR(share("deit_small_patch16_224", 1, 224), 0.92, 0.01); /* 0.85 without attention */
    CHECK(share("mlp", 1, 28) == 0);
    CHECK(share("resnext50_32x4d", 1, 64) < share("resnet50", 1, 64));
    Config *c = NULL;
    double of_config = 0;
    const char *sets[] = { "model.name=resnet20", "model.classes=10", "data.image_size=32" };
    REQUIRE_OK(config_load(&c, NULL, sets, 3));
    CHECK_OK(precision_network_share(&of_config, c));
    CHECK_NEAR(of_config, share("resnet20", 1, 32), 1e-9);
    config_destroy(c);
}
