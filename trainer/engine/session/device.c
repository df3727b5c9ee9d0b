/* device.c - see device.h. Where c->device.properties is set, the device is the one described there
 * and need not be here. */
#include "trainer/engine/session/device.h"
#include "kernels/fuse_choice.h"
#include "trainer/engine/comm/device_comm.h"
#include "trainer/engine/session/precision.h"
#include <stdio.h>
#include <string.h>

#define MEBIBYTE ((size_t)1 << 20)

/* ---- which device ---- */

static Status choose_index(DeviceChoice *out, const Config *c, int local_rank, int devices)
{
    out->cuda = true;
    out->index = c->device.index >= 0 ? (int)c->device.index : local_rank % devices;
    if (out->index < devices) return OK;
    return fail(ERR_USAGE, "device.index is %d; this machine has %d CUDA device%s, counted from 0",
                out->index, devices, devices == 1 ? "" : "s");
}

static Status choose_backend(DeviceChoice *out, const Config *c, int local_rank, char *why,
                             size_t why_bytes)
{
    char missing[256] = "";
    if (c->device.properties) {
        out->cuda = true;
        out->index = 0;
        snprintf(why, why_bytes, "device properties from a file");
        return OK;
    }
    if (c->device.backend == BACKEND_CPU) {
        snprintf(why, why_bytes, "device.backend is cpu");
        return OK;
    }
    int devices = backend_cuda_devices(missing, sizeof missing);
    bool wanted = c->device.backend == BACKEND_CUDA;
    if (devices < 1 && wanted) return fail(ERR_ENV, "device.backend is cuda, but %s", missing);
    if (devices < 1) snprintf(why, why_bytes, "device.backend is auto and %s", missing);
    else if (wanted) snprintf(why, why_bytes, "device.backend is cuda");
    else snprintf(why, why_bytes, "device.backend is auto and this machine has a CUDA device");
    return devices < 1 ? OK : choose_index(out, c, local_rank, devices);
}

/* ---- in which precision ---- */

static CudaOptions cuda_options(const DeviceChoice *choice, const Config *c)
{
    return (CudaOptions){ .device = choice->index,
                          .batchnorm = (KernelMode)c->device.batchnorm,
                          .depthwise = (KernelMode)c->device.depthwise,
                          .attention = (KernelMode)c->device.attention,
                          .precision = choice->precision,
                          .workspace_limit = (size_t)c->device.workspace_mb * MEBIBYTE,
                          .plan_cache = choice->plan_cache[0] ? choice->plan_cache : NULL,
                          .properties = c->device.properties };
}

static Status choose_precision(DeviceChoice *out, const Config *c, CpuBf16 cpu,
                               PrecisionChoice *choice)
{
    PrecisionFacts f = { .wanted = c->train.precision,
                         .kept = c->train.precision_auto,
                         .cuda = out->cuda,
                         .emulate = c->device.emulate,
                         .cpu = cpu,
                         .other_rank = !out->cuda && backend_cpu_bf16() > cpu };
    const CudaOptions o = cuda_options(out, c);
    if (out->cuda) TRY(backend_cuda_capability(&o, &f.capability));
    else if (cpu >= CPU_BF16_AMD) TRY(precision_network_share(&f.amx_share, c));
    return precision_choose(choice, &f);
}

/* ---- where its plans are kept ---- */

/* "plan-cache" in the folder that holds the run folder, so that the runs of a project share it. */
static void choose_plan_cache(DeviceChoice *out, const Config *c)
{
    const char *dir = c->run.dir, *slash = strrchr(dir, '/');
    size_t bytes = sizeof out->plan_cache;
    if (!out->cuda || c->device.properties || strcmp(c->device.plan_cache, "none") == 0) return;
    if (c->device.plan_cache[0]) snprintf(out->plan_cache, bytes, "%s", c->device.plan_cache);
    else if (slash && slash[1])
        snprintf(out->plan_cache, bytes, "%.*s/plan-cache", (int)(slash - dir), dir);
    else if (dir[0])
        snprintf(out->plan_cache, bytes, "%s%splan-cache", slash ? dir : "", slash ? "../" : "");
}

Status device_choose(DeviceChoice *out, const Config *c, int local_rank, CpuBf16 cpu)
{
    char why[384] = "";
    PrecisionChoice p;
    *out = (DeviceChoice){ .index = -1, .sharers = 1 };
    TRY(choose_backend(out, c, local_rank, why, sizeof why));
    choose_plan_cache(out, c);
    TRY(choose_precision(out, c, cpu, &p));
    if (out->cuda && c->device.attention == KERNELS_CUDNN &&
        (p.precision == PRECISION_FP32 || p.precision == PRECISION_TF32))
        return fail(ERR_USAGE,
                    "device.attention: cudnn does not support the precision of this run: %s (%s)",
                    precision_names[p.precision], p.why);
    out->precision = p.precision;
    out->warning = p.warning;
    snprintf(out->reason, sizeof out->reason, "%s in %s: %s%s", out->cuda ? "cuda" : "cpu",
             precision_names[p.precision], why, p.why);
    return OK;
}

CpuBf16 device_cpu_bf16(Comm *comm)
{
    int64_t least = backend_cpu_bf16();
    comm_allreduce(comm, &least, 1, COMM_I64, COMM_MIN, "what CPUs have for bf16");
    return (CpuBf16)least;
}

void device_settle(Comm *comm, Config *c)
{
    DeviceChoice d;
    if (c->train.precision != CONFIG_OTHER || c->train.precision_auto != CONFIG_OTHER) return;
    const CpuBf16 cpu = device_cpu_bf16(comm);
    if (comm_agree(comm, device_choose(&d, c, comm->local_rank, cpu)) == OK)
        c->train.precision_auto = (int)d.precision;
}

Status device_query(DeviceChoice *choice, const Config *c, Comm *comm)
{
    bool here = choice->cuda && !c->device.properties;
    TRY(comm_agree(comm, here ? backend_cuda_free_memory(choice->index, &choice->free_bytes) : OK));
    return device_comm_sharers(&choice->sharers, comm, here ? choice->index : -1);
}

Status device_open(Backend **out, const DeviceChoice *choice, const Config *c, int threads)
{
    FuseChoice fuse;
    TRY(fuse_choice_parse(&fuse, c->device.fuse));
    if (!choice->cuda) {
        const bool here = !fuse.only || (fuse.only & fuse_choice_bit("epilogue"));
        return backend_cpu_create(
            out, &(CpuOptions){ .threads = threads,
                                .fuse = here ? fuse.mode : FUSE_NONE,
                                .precision = choice->precision,
                                .winograd = c->device.winograd ? CPU_USE_FAST : CPU_USE_NONE });
    }
    CudaOptions o = cuda_options(choice, c);
    o.fuse = fuse.mode;
    o.fuse_only = fuse.only;
    return backend_cuda_create(out, &o);
}
