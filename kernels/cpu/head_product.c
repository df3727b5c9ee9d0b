/* head_product.c - see head_product.h: oneDNN's matrix product, made for one thread. */
#include "kernels/cpu/head_product.h"
#include "base/mem.h"
#include "kernels/cpu/layout.h"
#include <omp.h>
#include <string.h>

enum { HEAD_SCRATCH = HEAD_MATRICES, HEAD_MEMORIES };

static bool accept_brgemm(const char *info)
{
    return strncmp(info, "brg", 3) == 0;
}

static Status make_memories(CpuBackend *b, HeadProduct *p, const Layout *const *layouts)
{
    p->threads = b->threads;
    p->memories = mem_calloc((size_t)(p->threads * HEAD_MEMORIES), sizeof *p->memories);
    if (!p->memories) return ERR_MEMORY;
    for (int i = 0; i < p->threads * HEAD_MEMORIES; i++)
        TRY_DNNL(dnnl_memory_create(&p->memories[i],
                                    dnnl_compat_desc_ref(&layouts[i % HEAD_MEMORIES]->desc),
                                    b->engine->engine, DNNL_MEMORY_NONE));
    return OK;
}

static Status make_primitive(CpuBackend *b, HeadProduct *p, const Layout **layouts, bool *found)
{
    dnnl_primitive_desc_t pd = NULL;
    const dnnl_status_t st = dnnl_compat_matmul_create(
        &pd, b->engine->engine, &layouts[HEAD_LEFT]->desc, &layouts[HEAD_RIGHT]->desc,
        &layouts[HEAD_OUT]->desc, accept_brgemm);
    *found = st == dnnl_success;
    if (st == dnnl_unimplemented) return OK;
    TRY(cpu_dnnl_status(st, "matrix product"));
    Status made = cpu_layout_of_primitive(b, &layouts[HEAD_SCRATCH], pd, dnnl_query_scratchpad_md);
    if (made == OK)
        made = cpu_dnnl_status(dnnl_primitive_create(&p->primitive, pd), "matrix product");
    dnnl_primitive_desc_destroy(pd);
    if (made == OK) p->scratch_bytes = layouts[HEAD_SCRATCH]->bytes;
    return made;
}

Status cpu_head_product_make(CpuBackend *b, HeadProduct *out, const HeadMatrix *of, bool *found)
{
    const Layout *layouts[HEAD_MEMORIES];
    *found = false;
    if (b->compute != DTYPE_BF16 || b->products == CPU_USE_NONE ||
        (b->products == CPU_USE_FAST && !b->fast_bf16))
        return OK;
    for (int i = 0; i < HEAD_MATRICES; i++)
        TRY(cpu_layout_make(b, &layouts[i], of[i].type, 2, (int64_t[]){ of[i].rows, of[i].columns },
                            of[i].transposed ? dnnl_ba : dnnl_ab));
    /* what oneDNN deals out to a team it deals out when it makes a primitive */
    omp_set_num_threads(1);
    Status made = make_primitive(b, out, layouts, found);
    omp_set_num_threads(b->threads);
    TRY(made);
    return *found ? make_memories(b, out, layouts) : OK;
}

Status cpu_head_product_run(const HeadProduct *p, Stream *stream, int thread, const void *left,
                            const void *right, void *out, void *scratch)
{
    static const int ids[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD };
    void *const data[] = { (void *)(uintptr_t)left, (void *)(uintptr_t)right, out, scratch };
    const dnnl_memory_t *memories = p->memories + thread * HEAD_MEMORIES;
    const int count = p->scratch_bytes ? HEAD_MEMORIES : HEAD_MATRICES;
    dnnl_exec_arg_t args[HEAD_MEMORIES];
    for (int i = 0; i < count; i++) {
        args[i] = (dnnl_exec_arg_t){ ids[i], memories[i] };
        TRY_DNNL(dnnl_memory_set_data_handle(memories[i], data[i]));
    }
    TRY_DNNL(dnnl_primitive_execute(p->primitive, stream->stream, count, args));
    return OK;
}

void cpu_head_product_free(HeadProduct *p)
{
    for (int i = 0; p->memories && i < p->threads * HEAD_MEMORIES; i++)
        if (p->memories[i]) dnnl_memory_destroy(p->memories[i]);
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    mem_free(p->memories);
    *p = (HeadProduct){ 0 };
}
