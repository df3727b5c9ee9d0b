/* utilization.c - see utilization.h. */
#include "trainer/engine/session/utilization.h"

#include "trainer/engine/session/device_rates.h"

double utilization_image_flops(const Session *s)
{
    const Graph *g = program_graph(s->first);
    return graph_product_flops(g) / (double)graph_options(g)->batch;
}

double utilization_peak_flops(const Session *s, const char **source)
{
    char device[256];
    const double devices = (double)s->comm->world / s->device.sharers;
    const double given = s->config->device.peak_tflops;
    const char *by = "device.peak_tflops";
    s->backend->v->describe(s->backend, device, sizeof device);
    const DeviceRates *rates =
        s->device.cuda ? device_rates_find(device, s->device.precision) : NULL;
    if (given <= 0) by = rates ? rates->name : "";
    if (source) *source = by;
    return 1e12 * devices * (given > 0 ? given : rates ? rates->flops[s->device.precision] : 0);
}
