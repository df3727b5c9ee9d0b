/* device_rates.c - see device_rates.h. */
#include "trainer/engine/session/device_rates.h"

#include "base/str.h"
#include <string.h>

/* of memory; of fp32, tf32, bf16, fp16 */
static const DeviceRates gpus[] = {
    { "NVIDIA B200", 8.0, { 75, 1125, 2250, 2250 } },
    { "NVIDIA H200", 4.8, { 67, 494.7, 989.4, 989.4 } },
    { "NVIDIA H100 80GB HBM3", 3.35, { 67, 494.7, 989.4, 989.4 } },
    { "NVIDIA H100 PCIe", 2.0, { 51, 378, 756, 756 } },
    { "NVIDIA A100-SXM4-40GB", 1.555, { 19.5, 156, 312, 312 } },
    { "NVIDIA A100-SXM4-80GB", 2.039, { 19.5, 156, 312, 312 } },
    { "NVIDIA A10G", 0.6, { 35, 35, 70, 70 } },
    { "NVIDIA L40S", 0.864, { 91.6, 183, 362, 362 } },
    { "NVIDIA L4", 0.3, { 30.3, 60.5, 121, 121 } },
    { "Tesla V100-SXM2-16GB", 0.9, { 15.7, 0, 0, 125 } },
    { "Tesla V100-SXM2-32GB", 0.9, { 15.7, 0, 0, 125 } },
    { "Tesla T4", 0.32, { 8.1, 0, 0, 65 } },
};

const DeviceRates *device_rates_find(const char *description, Precision precision)
{
    for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
        const size_t length = strlen(gpus[i].name);
        if (strncmp(description, gpus[i].name, length) != 0) continue;
        const char *behind = description + length; /* "NVIDIA H200 NVL" is another one */
        if ((behind[0] == ',' || str_starts_with(behind, " (")) && gpus[i].flops[precision] > 0)
            return &gpus[i];
    }
    return NULL;
}
