/* test_device_rates.c - data sheets of GPUs by the name that a backend tells. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "tests/test.h"
#include "trainer/engine/session/device_rates.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(a_name_is_one_gpu)
{
    const DeviceRates *r = device_rates_find("NVIDIA H200, sm_90, bf16, cuDNN 9", PRECISION_BF16);
    REQUIRE(r != NULL);
    CHECK_NEAR(r->flops[PRECISION_BF16], 989.4, 0);
    CHECK(device_rates_find("NVIDIA H200 (only described), sm_90", PRECISION_FP16) == r);
    CHECK(device_rates_find("NVIDIA H200 NVL, sm_90", PRECISION_BF16) == NULL);
    CHECK(device_rates_find("NVIDIA L40S, sm_89", PRECISION_BF16) !=
          device_rates_find("NVIDIA L4, sm_89", PRECISION_BF16));
    CHECK(device_rates_find("Tesla V100-SXM2-16GB, sm_70", PRECISION_BF16) == NULL);
    r = device_rates_find("Tesla V100-SXM2-16GB, sm_70", PRECISION_FP16);
    REQUIRE(r != NULL);
    CHECK_NEAR(r->flops[PRECISION_FP16], 125, 0);
    CHECK(device_rates_find("", PRECISION_FP32) == NULL);
}

static double number(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? strtod(at + strlen(key), NULL) : 0;
}

/* Every GPU that is described has its rates, and its peak in fp32 is one fused product and sum of
 * each core in each cycle: 64 cores a multiprocessor up to A100, then 128. */
TEST(gpus_of_the_configs_are_known)
{
    static const char *const files[] = { "a100", "a10g", "b200", "h100", "h200",
                                         "l4",   "l40s", "t4",   "v100" };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[64], name[80];
        uint8_t *text = NULL;
        size_t bytes;
        snprintf(path, sizeof path, "configs/gpus/%s.json", files[i]);
        REQUIRE_OK(fs_read_file(path, &text, &bytes));
        const char *at = strstr((const char *)text, "\"deviceName\": \"");
        REQUIRE(at && sscanf(at, "\"deviceName\": \"%63[^\"]", name) == 1);
        snprintf(name + strlen(name), 8, ", sm");
        const DeviceRates *r = device_rates_find(name, PRECISION_FP16);
        REQUIRE(r != NULL);
        const char *json = (const char *)text;
        const double cores = number(json, "\"deviceVer\": ") <= 800 ? 64 : 128,
                     peak = number(json, "\"multiProcessorCount\": ") *
                            number(json, "\"smClockRateKHz\": ") * cores * 2e-9;
        CHECK_NEAR(r->flops[PRECISION_FP32], peak, 0.02 * peak);
        mem_free(text);
    }
}
