/* test_device.c - which backend and precision a configuration means, on whatever machine this
 * is. */
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include "tests/tools/graph_look.h"
#include "tests/tools/network.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/session/device.h"
#include "trainer/engine/session/session.h"
#include <stdio.h>
#include <string.h>

static DeviceChoice choice;

static Status choose(const char *const *sets, int count, int local_rank)
{
    Config *c = NULL;
    TRY(config_load(&c, NULL, sets, count));
    Status status = device_choose(&choice, c, local_rank, CPU_BF16_NONE);
    config_destroy(c);
    return status;
}

static int devices(void)
{
    char why[256];
    return backend_cuda_devices(why, sizeof why);
}

TEST(the_cpu_computes_in_fp32_unless_it_has_amx)
{
    const char *cpu[] = { "device.backend=cpu" };
    REQUIRE_OK(choose(cpu, 1, 0));
    CHECK(!choice.cuda && choice.precision == PRECISION_FP32 && choice.index == -1 &&
          choice.sharers == 1);
    CHECK(choice.plan_cache[0] == '\0' && !choice.warning);
    CHECK_CONTAINS(choice.reason, "cpu in fp32: device.backend is cpu, train.precision is auto: ");
    CHECK_CONTAINS(choice.reason, " CPU has no fast bf16");
    Config *c = NULL;
    REQUIRE_OK(config_load(&c, NULL, cpu, 1)); /* ResNet-50 */
    REQUIRE_OK(device_choose(&choice, c, 0, CPU_BF16_AMX));
    CHECK(choice.precision == PRECISION_BF16 && !choice.warning);
    CHECK_STR(choice.reason, "cpu in bf16: device.backend is cpu, train.precision is auto: AMX "
                             "takes 86 % of the work");
    /* A run goes on as it began. */
    c->train.precision_auto = PRECISION_FP32;
    REQUIRE_OK(device_choose(&choice, c, 0, CPU_BF16_AMX));
    CHECK_STR(choice.reason,
              "cpu in fp32: device.backend is cpu, train.precision is auto, as when this "
              "run started");
    c->train.precision_auto = PRECISION_BF16;
    REQUIRE_OK(device_choose(&choice, c, 0, CPU_BF16_AVX512));
    CHECK(choice.precision == PRECISION_BF16 && choice.warning);
    CHECK_STATUS(device_choose(&choice, c, 0, CPU_BF16_NONE), ERR_ENV);
    CHECK(strstr(status_message(), "train.precision") != NULL);
    c->train.precision_auto = CONFIG_OTHER; /* evaluation */
    REQUIRE_OK(device_choose(&choice, c, 0, CPU_BF16_NONE));
    CHECK(choice.precision == PRECISION_FP32);
    config_destroy(c);
}

/* Convolutions that evaluation gives their batch norm to on the CPU; -1: a failure. */
static int fused_on_the_cpu(const char *fuse)
{
    const char *sets[] = { "device.backend=cpu", fuse };
    Config *c = NULL;
    Backend *b = NULL;
    Graph *g = NULL;
    ModelOptions o = network_narrow(2, 32);
    o.graph.training = false;
    CHECK_OK(config_load(&c, NULL, sets, 2));
    CHECK_OK(device_choose(&choice, c, 0, CPU_BF16_NONE));
    Status st = device_open(&b, &choice, c, 1);
    if (st == OK) st = model_build(&g, model_find("resnet18"), &o);
    const FuseOptions all = { .takes = st == OK ? b->v->fusion.takes : NULL, .cookie = b };
    if (st == OK) st = graph_fuse(g, &all);
    const int count = st == OK ? graph_count_kind(g, OP_CONV2D_BN) : -1;
    graph_destroy(g);
    backend_destroy(b);
    config_destroy(c);
    return count;
}

TEST(the_cpu_fuses_what_the_list_names)
{
    const int all = fused_on_the_cpu("device.fuse=all");
    CHECK(all > 0);
    CHECK_INT(fused_on_the_cpu("device.fuse=statistics, epilogue"), all);
    CHECK_INT(fused_on_the_cpu("device.fuse=statistics"), 0);
    CHECK_INT(fused_on_the_cpu("device.fuse=none"), 0);
}

TEST(auto_takes_cuda_where_there_is_a_gpu)
{
    REQUIRE_OK(choose(NULL, 0, 0));
    CHECK(choice.cuda == (devices() > 0));
    CHECK(strstr(choice.reason, "device.backend is auto and ") != NULL);
    const char *cuda[] = { "device.backend=cuda", "run.dir=runs/one" };
    Status status = choose(cuda, 2, 0);
    if (devices() > 0) {
        CHECK(status == OK && choice.cuda && choice.index == 0);
        CHECK_STR(choice.plan_cache, "runs/plan-cache");
    } else {
        CHECK(status == ERR_ENV &&
              strstr(status_message(), "device.backend is cuda, but ") != NULL);
    }
}

TEST(cuda_devices_are_shared_out_by_local_rank)
{
    const int count = devices();
    if (!cuda_is_there()) return;
    int ranks[64] = { 0 };
    for (int rank = 0; rank < 2 * count + 1; rank++) {
        REQUIRE_OK(choose(NULL, 0, rank));
        CHECK_INT(choice.index, rank % count);
        ranks[choice.index]++;
    }
    CHECK(ranks[0] == 3);
    const char *first[] = { "device.index=0" };
    REQUIRE_OK(choose(first, 1, 1));
    CHECK(choice.index == 0);
    const char *last[] = { "device.index=1000" };
    CHECK_STATUS(choose(last, 1, 0), ERR_USAGE);
    CHECK(strstr(status_message(), "device.index is 1000") != NULL);
}

/* A device that is only described; without CUDA nothing can be said of it. */
TEST(precision_follows_the_described_gpu)
{
    static const struct {
        const char *text;
        Precision precision;
    } rows[] = { { "{\"deviceVer\": 900}", PRECISION_BF16 },
                 { "{\"deviceVer\": 800}", PRECISION_BF16 },
                 { "{\"deviceVer\": 750}", PRECISION_FP16 } };
    const CudaOptions any = { .properties = rows[0].text };
    int capability = 0;
    if (backend_cuda_capability(&any, &capability) == ERR_ENV) {
        test_skip(status_message());
        return;
    }
    CHECK_INT(capability, 90);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Config *c = NULL;
        REQUIRE_OK(config_load(&c, NULL, NULL, 0));
        c->device.properties = rows[i].text;
        REQUIRE_OK(device_choose(&choice, c, 0, CPU_BF16_NONE));
        CHECK(choice.cuda && choice.precision == rows[i].precision && choice.plan_cache[0] == '\0');
        c->train.precision = PRECISION_BF16;
        CHECK_STATUS(device_choose(&choice, c, 0, CPU_BF16_NONE), i == 2 ? ERR_ENV : OK);
        config_destroy(c);
    }
}

TEST(a_description_without_a_version_is_refused)
{
    const CudaOptions bad = { .properties = "{\"deviceVer\": \"9.0\"}" };
    int capability = 90;
    Status status = backend_cuda_capability(&bad, &capability);
    CHECK_INT(capability, 0);
    if (status == ERR_ENV) {
        test_skip(status_message());
        return;
    }
    CHECK_STATUS(status, ERR_DATA);
    CHECK(strstr(status_message(), "deviceVer") != NULL);
}

/* ---- what gradients are summed in ---- */

TEST(gradients_are_summed_in_16_bits_where_asked_or_where_they_are_computed_so)
{
    static const struct {
        int wanted;
        Precision precision;
        int world;
        bool cuda;
        DType sum;
    } rows[] = { { GRAD_DTYPE_AUTO, PRECISION_BF16, 2, true, DTYPE_BF16 },
                 { GRAD_DTYPE_AUTO, PRECISION_FP16, 16, true, DTYPE_BF16 },
                 { GRAD_DTYPE_AUTO, PRECISION_BF16, 17, true, DTYPE_F32 },
                 { GRAD_DTYPE_AUTO, PRECISION_TF32, 2, true, DTYPE_F32 },
                 { GRAD_DTYPE_FP32, PRECISION_BF16, 2, true, DTYPE_F32 },
                 { GRAD_DTYPE_BF16, PRECISION_FP32, 64, true, DTYPE_BF16 },
                 { GRAD_DTYPE_BF16, PRECISION_BF16, 1, true, DTYPE_F32 },
                 { GRAD_DTYPE_BF16, PRECISION_BF16, 2, false, DTYPE_F32 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const Config config = { .comm = { .grad_dtype = rows[i].wanted } };
        Comm comm = { .world = rows[i].world };
        const Session s = { .config = &config,
                            .comm = &comm,
                            .device = { .cuda = rows[i].cuda, .precision = rows[i].precision } };
        CHECK_INT(session_allreduce_dtype(&s), rows[i].sum);
        CHECK_INT(session_allreduce_bytes(&s, 400), rows[i].sum == DTYPE_BF16 ? 200 : 0);
    }
}

static Status load_attention(const char *mode, const char *other)
{
    const char *sets[] = { mode, other };
    Config *c = NULL;
    const Status st = config_load(&c, NULL, sets, 2);
    config_destroy(c);
    return st;
}

TEST(cudnns_attention_is_for_16_bits)
{
    static const char *const others[] = { "train.precision=fp32", "train.precision=tf32" };
    for (int i = 0; i < 2; i++) {
        CHECK_OK(load_attention("device.attention=auto", others[i]));
        CHECK_OK(load_attention("device.attention=own", others[i]));
        CHECK_STATUS(load_attention("device.attention=cudnn", others[i]), ERR_USAGE);
        CHECK_CONTAINS(status_message(), "device.attention: cudnn");
    }
    CHECK_OK(load_attention("device.attention=cudnn", "train.precision=bf16"));
    CHECK_OK(load_attention("device.attention=cudnn", "model.attention_dropout=0.1"));
}
