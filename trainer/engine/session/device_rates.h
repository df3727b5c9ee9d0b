/* device_rates.h - what GPUs can do at most, as their data sheets say. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_DEVICE_RATES_H
#define CONVOY_TRAINER_ENGINE_SESSION_DEVICE_RATES_H
#include "kernels/backend.h"

typedef struct DeviceRates {
    const char *name;                     /* as Backend.describe begins */
    double bytes, flops[PRECISION_COUNT]; /* of memory; of dense products, 0: not that type; T/s */
} DeviceRates;

/* description: of Backend.describe. NULL: no GPU of that name is known that computes in that
 * precision. */
const DeviceRates *device_rates_find(const char *description, Precision precision);
#endif
