/* build_info.c - see build_info.h. */
#include "trainer/engine/session/build_info.h"

#include "base/version.h"
#include "data/decode/decoder.h"
#include "kernels/backend_cuda.h"
#include "trainer/engine/comm/device_comm.h"
#include "trainer/engine/comm/mpi_library.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/place/topology.h"

#ifndef CONVOY_CUDA
#define CONVOY_CUDA 0
#endif

static void print_cpu(StrBuf *text)
{
    char cpu[256];
    Backend *backend;
    if (backend_cpu_create(&backend, &(CpuOptions){ .threads = 0 }) != OK) {
        str_printf(text, "backend cpu: %s\n", status_message());
        return;
    }
    backend->v->describe(backend, cpu, sizeof cpu);
    const CpuBf16 has = backend_cpu_bf16();
    str_printf(text, "backend cpu: %s; bf16: %s%s\n", cpu, cpu_bf16_names[has],
               has == CPU_BF16_EMULATED || has == CPU_BF16_AVX512 ? ", slower than fp32" : "");
    backend_destroy(backend);
}

static void print_cuda(StrBuf *text)
{
    char versions[1024], why[512], nccl[512];
    backend_cuda_versions(versions, sizeof versions);
    str_printf(text, "backend cuda: %s\n", versions);
    if (!CONVOY_CUDA) return;
    int devices = backend_cuda_devices(why, sizeof why);
    if (devices) str_printf(text, "cuda devices: %d\n", devices);
    else str_printf(text, "cuda devices: none: %s\n", why);
    device_comm_version(nccl, sizeof nccl);
    str_printf(text, "%s\n", nccl);
}

const char *build_info_kind(void)
{
    return CONVOY_CUDA ? "with CUDA" : "without CUDA";
}

void build_info_describe(StrBuf *out)
{
    str_printf(out, "convoy %s\n", version_text());
    print_cpu(out);
    print_cuda(out);
    str_add(out, "MPI: ");
    mpi_library_describe(out);
    str_printf(out, "\n%s\nlibyaml %s\n", decoder_libraries(), config_yaml_version());
    str_printf(out, "%s\n", topology_library());
}
