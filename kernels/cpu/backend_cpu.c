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

static Status cpu_alloc(Backend *b, size_t bytes, void **out)
{
    (void)b;
    *out = mem_alloc_aligned(bytes, MEM_ALIGN);
    if (!*out) return ERR_MEMORY;
    memset(*out, 0, bytes);
    return OK;
}

static void cpu_free(Backend *b, void *p)
{
    (void)b;
    mem_free(p);
}

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

/* The instruction set's name and the channel block that suits it, by the names oneDNN prints for
 * its kernels. */
static const struct IsaRow {
    dnnl_cpu_isa_t isa;
    const char *name;
} isa_names[] = {
    { dnnl_cpu_isa_sse41, "SSE4.1" },
    { dnnl_cpu_isa_avx, "AVX" },
    { dnnl_cpu_isa_avx2, "AVX2" },
    { dnnl_cpu_isa_avx2_vnni, "AVX2 VNNI" },
    { dnnl_cpu_isa_avx512_core, "AVX-512" },
    { dnnl_cpu_isa_avx512_core_vnni, "AVX-512 VNNI" },
    { dnnl_cpu_isa_avx512_core_bf16, "AVX-512 BF16" },
};

/* Instruction sets are bit masks; each one that includes AVX-512's bits has registers of 16
 * floats. */
static int block_of_isa(void)
{
    unsigned isa = (unsigned)dnnl_get_effective_cpu_isa(),
             wide = (unsigned)dnnl_cpu_isa_avx512_core;
    return (isa & wide) == wide ? 16 : 8;
}

static void cpu_describe(const Backend *backend, char *out, size_t bytes)
{
    const CpuBackend *b = (const CpuBackend *)backend;
    const dnnl_version_t *v = dnnl_version();
    const char *name = b->block == 16 ? "AVX-512 or newer" : "portable";
    for (size_t i = 0; i < sizeof isa_names / sizeof isa_names[0]; i++)
        if (dnnl_get_effective_cpu_isa() == isa_names[i].isa) name = isa_names[i].name;
    snprintf(out, bytes, "oneDNN %d.%d.%d, %s, blocks of %d, %d thread%s", v->major, v->minor,
             v->patch, name, b->block, b->threads, b->threads == 1 ? "" : "s");
}

static const BackendVTable vtable = {
    .name = "cpu",
    .ops = ops,
    .fusion = { .add_into_batchnorm_bwd = true, .takes = cpu_fusion_takes },
    .alignment = MEM_ALIGN,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .export_tensor = cpu_transfer_export,
    .import_tensor = cpu_transfer_import,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .stream_wait = cpu_stream_wait,
    .destroy = cpu_destroy,
    .describe = cpu_describe,
};

Status backend_cpu_create(Backend **out, const CpuOptions *o)
{
    *out = NULL;
    ASSERT(o->precision == PRECISION_FP32 || o->precision == PRECISION_BF16);
    CpuBackend *b = mem_calloc(1, sizeof *b);
    if (!b) return ERR_MEMORY;
    b->base.v = &vtable;
    b->threads = o->threads > 0 ? o->threads : thread_allowed_cpus();
    b->block = block_of_isa();
    b->compute = o->precision == PRECISION_BF16 ? DTYPE_BF16 : DTYPE_F32;
    b->fuse = o->fuse;
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
