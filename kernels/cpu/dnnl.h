/* dnnl.h - oneDNN's engine and stream, and its status as ours. */
#ifndef CONVOY_KERNELS_CPU_DNNL_H
#define CONVOY_KERNELS_CPU_DNNL_H
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dnnl_compat.h"

struct CpuEngine {
    dnnl_engine_t engine;
    bool warned_slow; /* that a convolution had to take a reference implementation: said once */
};

struct Stream {
    dnnl_stream_t stream;
};

/* Translates status; what names the call for the message. */
Status cpu_dnnl_status(dnnl_status_t status, const char *what);
#define TRY_DNNL(call) TRY(cpu_dnnl_status((call), #call))
#endif
