/* dnnl.c - oneDNN's status in our words. */
#include "kernels/cpu/dnnl.h"
#include <oneapi/dnnl/dnnl_debug.h>

Status cpu_dnnl_status(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success) return OK;
    return fail(status == dnnl_out_of_memory ? ERR_MEMORY : ERR_INTERNAL, "oneDNN: %s: %s", what,
                dnnl_status2str(status));
}

Status cpu_dnnl_reorder_create(CpuBackend *b, dnnl_primitive_desc_t *out, const Layout *from,
                               const Layout *to)
{
    dnnl_primitive_attr_t attr = NULL;
    *out = NULL;
    TRY_DNNL(dnnl_primitive_attr_create(&attr));
    dnnl_status_t st = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (st == dnnl_success)
        st = dnnl_reorder_primitive_desc_create(out, dnnl_compat_desc_ref(&from->desc),
                                                b->engine->engine, dnnl_compat_desc_ref(&to->desc),
                                                b->engine->engine, attr);
    dnnl_primitive_attr_destroy(attr);
    return cpu_dnnl_status(st, "reorder");
}
