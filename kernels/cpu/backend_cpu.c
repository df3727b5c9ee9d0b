/* backend_cpu.c - the CPU backend: its table of ops, its memory, and oneDNN's engine and stream.
 *
 * oneDNN runs on OpenMP here, so its primitives and our own kernels use one team of threads, whose
 * size is set once when the backend is made; OpenMP keeps that size per thread, so the thread that
 * makes the backend is the one that prepares and runs ops. A CPU stream runs each op when it is
 * given; waiting for it costs nothing. */
#include "base/mem.h"
#include "base/thread.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/layout.h"
#include <omp.h>
#include <stdio.h>
#include <string.h>

/* Of the fused ops those of training have no engines in oneDNN. */
#define CPU_FUSED_NOT(impl)         &impl
#define CPU_FUSED_TRAINING(impl)    NULL
#define CPU_FUSED_EVALUATION(impl)  &impl
#define CPU_IMPL(kind, name, fused) [kind] = CPU_##fused(cpu_##name),
static const OpImpl *const ops[OP_COUNT] = { OP_LIST(CPU_IMPL) };

static void cpu_stream_destroy(Backend *b, Stream *s)
{
    (void)b;
    if (!s) return;
    if (s->stream) dnnl_stream_destroy(s->stream);
    mem_free(s);
}

static Status cpu_stream_create(Backend *backend, Lane lane, Stream **out)
{
    CpuBackend *b = (CpuBackend *)backend;
    (void)lane;
    *out = NULL;
    Stream *s = mem_calloc(1, sizeof *s);
    if (!s) return ERR_MEMORY;
    Status st = cpu_dnnl_status(
        dnnl_stream_create(&s->stream, b->engine->engine, dnnl_stream_default_flags), "stream");
    if (st != OK) {
        cpu_stream_destroy(backend, s);
        return st;
    }
    *out = s;
    return OK;
}

static Status cpu_stream_wait(Backend *b, Stream *s)
{
    (void)b;
    TRY_DNNL(dnnl_stream_wait(s->stream));
    return OK;
}

static void cpu_destroy(Backend *backend)
{
    CpuBackend *b = (CpuBackend *)backend;
    cpu_layout_destroy_all(b);
    if (b->engine && b->engine->engine) dnnl_engine_destroy(b->engine->engine);
    mem_free(b->engine);
    mem_free(b);
}

/* What oneDNN calls instruction sets, and what each has for bf16. Every set is a mask of bits that
 * holds those of the sets it builds upon; the last row that this CPU has is its own. */
static const struct IsaRow {
    unsigned isa; /* of dnnl_cpu_isa_t */
    const char *name;
    CpuBf16 bf16;
} isa_rows[] = {
    { 0, "portable", CPU_BF16_NONE },
    { dnnl_cpu_isa_sse41, "SSE4.1", CPU_BF16_NONE },
    { dnnl_cpu_isa_avx, "AVX", CPU_BF16_NONE },
    { dnnl_cpu_isa_avx2, "AVX2", CPU_BF16_NONE },
    { dnnl_cpu_isa_avx2_vnni, "AVX2 VNNI", CPU_BF16_NONE },
    { dnnl_cpu_isa_avx512_core, "AVX-512", CPU_BF16_EMULATED },
    { dnnl_cpu_isa_avx512_core_vnni, "AVX-512 VNNI", CPU_BF16_EMULATED },
    { dnnl_cpu_isa_avx512_core_bf16, "AVX-512 BF16", CPU_BF16_AVX512 },
    { dnnl_cpu_isa_avx512_core_amx, "AMX", CPU_BF16_AMX },
};

static bool has_isa(unsigned isa)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & isa) == isa;
}

static const struct IsaRow *isa_row(void)
{
    const struct IsaRow *row = isa_rows;
    for (size_t i = 0; i < sizeof isa_rows / sizeof isa_rows[0]; i++)
        if (has_isa(isa_rows[i].isa)) row = &isa_rows[i];
    return row;
}

CpuBf16 backend_cpu_bf16(void)
{
    const CpuBf16 has = isa_row()->bf16;
#if defined(__x86_64__)
    if (has == CPU_BF16_AVX512 && __builtin_cpu_is("amd")) return CPU_BF16_AMD;
#endif
    return has;
}

static void cpu_describe(const Backend *backend, char *out, size_t bytes)
{
    const CpuBackend *b = (const CpuBackend *)backend;
    const dnnl_version_t *v = dnnl_version();
    snprintf(out, bytes, "oneDNN %d.%d.%d, %s, blocks of %d, %d thread%s", v->major, v->minor,
             v->patch, isa_row()->name, b->block, b->threads, b->threads == 1 ? "" : "s");
}

static uint32_t cpu_fingerprint(const Backend *backend)
{
    const dnnl_version_t *v = dnnl_version();
    (void)backend; /* instruction sets may differ, and numbers of threads */
    return (uint32_t)(v->major << 20 | v->minor << 10 | v->patch);
}

static const BackendVTable vtable = {
    .name = "cpu",
    .ops = ops,
    .fusion = { .add_into_batchnorm_bwd = true, .takes = cpu_fusion_takes },
    .alignment = MEM_ALIGN,
    .alloc = backend_host_alloc,
    .free = backend_host_free,
    .export_tensor = cpu_transfer_export,
    .import_tensor = cpu_transfer_import,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .stream_wait = cpu_stream_wait,
    .destroy = cpu_destroy,
    .describe = cpu_describe,
    .fingerprint = cpu_fingerprint,
    .layout_key = cpu_layout_key,
};

/* With TBB or a pool, oneDNN's threads are not ours; with SYCL results come later, which nothing
 * here waits for. */
static Status check_runtime(void)
{
    const dnnl_version_t *v = dnnl_version();
    if (v->cpu_runtime == DNNL_RUNTIME_OMP) return OK;
    return fail(ERR_ENV,
                "oneDNN %d.%d.%d is not built for OpenMP, which Convoy requires; Debian's libdnnl "
                "is, and what scripts/setup.sh --onednn3 fetches",
                v->major, v->minor, v->patch);
}

Status backend_cpu_create(Backend **out, const CpuOptions *o)
{
    *out = NULL;
    TRY(check_runtime());
    ASSERT(o->precision == PRECISION_FP32 || o->precision == PRECISION_BF16);
    CpuBackend *b = mem_calloc(1, sizeof *b);
    if (!b) return ERR_MEMORY;
    b->base.v = &vtable;
    b->threads = o->threads > 0 ? o->threads : thread_allowed_cpus();
    b->block = has_isa(dnnl_cpu_isa_avx512_core) ? 16 : 8;
    b->compute = o->precision == PRECISION_BF16 ? DTYPE_BF16 : DTYPE_F32;
    b->fuse = o->fuse;
    b->products = o->products;
    b->winograd = o->winograd;
    b->fast_bf16 = backend_cpu_bf16() >= CPU_BF16_AMD;
    omp_set_num_threads(b->threads);
    Status st = OK;
    if (!(b->engine = mem_calloc(1, sizeof *b->engine))) {
        st = ERR_MEMORY;
    } else {
        st = cpu_dnnl_status(dnnl_engine_create(&b->engine->engine, dnnl_cpu, 0), "engine");
    }
    if (st != OK) {
        cpu_destroy(&b->base);
        return st;
    }
    *out = &b->base;
    return OK;
}
